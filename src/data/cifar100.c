#include "data/cifar100.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* FNV-1a (Fowler, Noll, Vo) taken over 8-byte words instead of bytes, with a fold of the high half
 * after each multiplication, which FNV's prime alone never carries down. Every step is a bijection
 * of the state, so a single changed word always changes the result. */
static uint64_t hash_bytes(const uint8_t *bytes, size_t size)
{
    const uint64_t prime = 0x100000001B3u;
    uint64_t h = 0xCBF29CE484222325u;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        h = (h ^ word) * prime;
        h ^= h >> 32;
    }
    for (; i < size; i++)
        h = (h ^ bytes[i]) * prime;
    return ss_mix64(h, size);
}

static int has_python_version(const char *dir)
{
    return ss_folder_has(dir, "cifar-100-python") ||
           (ss_folder_has(dir, "train") && ss_folder_has(dir, "test") &&
            ss_folder_has(dir, "meta"));
}

static enum ss_status fail_missing(const char *dir, const char *file)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return ss_fail(
            SS_ERR_IO,
            "%s: %s; give a folder with CIFAR-100's train.bin and test.bin, or make one: "
            "starstep data fetch|make|convert cifar100",
            dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return ss_fail(SS_ERR_IO,
                       "%s: is not a folder; give the folder that holds train.bin and test.bin",
                       dir);
    if (has_python_version(dir))
        return ss_fail(
            SS_ERR_IO,
            "%s/%s: missing, but the folder holds CIFAR-100's Python version; convert it "
            "with: starstep data convert cifar100 --from %s --out %s",
            dir, file, dir, dir);
    return ss_fail(SS_ERR_IO,
                   "%s/%s: missing; CIFAR-100's binary version is train.bin and test.bin; get them "
                   "with: starstep data fetch cifar100 --out %s (download), starstep data make "
                   "cifar100 --out %s (small generated set), or starstep data convert cifar100 "
                   "--from PYTHON-VERSION --out %s",
                   dir, file, dir, dir, dir);
}

/* Find the file of a split: DIR/train.bin, else DIR/cifar-100-binary/train.bin. */
static enum ss_status locate(const char *dir, const char *file, char *path, size_t room)
{
    static const char *const inside = "cifar-100-binary";
    SS_TRY(ss_folder_join(path, room, dir, file));
    if (ss_folder_has(dir, file))
        return SS_OK;
    char sub[4096];
    SS_TRY(ss_folder_join(sub, sizeof sub, dir, inside));
    if (!ss_folder_has(sub, file))
        return fail_missing(dir, file);
    return ss_folder_join(path, room, sub, file);
}

/* The file is mapped, not copied, so that the ranks of a node share one copy in the page cache.
 * starstep itself replaces files by rename only, which a mapping survives; a file cut short by
 * somebody else while a run reads it ends that run with SIGBUS. */
static enum ss_status map_file(struct ss_dataset *d)
{
    /* O_NONBLOCK: a FIFO of that name must not hang the open. */
    int fd = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open: %s", d->path, strerror(errno));
    enum ss_status status = SS_OK;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        status = ss_fail(SS_ERR_IO, "%s: cannot stat: %s", d->path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        status = ss_fail(SS_ERR_IO, "%s: is a folder; a file is expected", d->path);
    } else if (!S_ISREG(st.st_mode)) {
        status = ss_fail(SS_ERR_IO, "%s: is not a regular file", d->path);
    } else if (st.st_size == 0) {
        status = ss_fail(SS_ERR_FORMAT,
                         "%s: the file is empty; it needs at least one record of %d "
                         "bytes",
                         d->path, SS_CIFAR100_RECORD);
    } else if (st.st_size % SS_CIFAR100_RECORD != 0) {
        status = ss_fail(SS_ERR_FORMAT,
                         "%s: %lld bytes left over after record %lld; a record is %d bytes; the "
                         "file is truncated or not CIFAR-100's binary version",
                         d->path, (long long)(st.st_size % SS_CIFAR100_RECORD),
                         (long long)(st.st_size / SS_CIFAR100_RECORD), SS_CIFAR100_RECORD);
    } else if ((uint64_t)st.st_size / SS_CIFAR100_RECORD > UINT32_MAX) {
        status = ss_fail(SS_ERR_FORMAT, "%s: %lld bytes; more than 2^32 records are not supported",
                         d->path, (long long)st.st_size);
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            status = ss_fail(SS_ERR_IO, "%s: cannot map %lld bytes: %s", d->path,
                             (long long)st.st_size, strerror(errno));
        } else {
            d->mapping = p;
            d->mapping_bytes = (size_t)st.st_size;
        }
    }
    close(fd);
    return status;
}

static enum ss_status check_labels(const struct ss_dataset *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const uint8_t *r = d->records + i * d->record_bytes;
        if (r[0] < SS_CIFAR100_COARSE && r[1] < SS_CIFAR100_CLASSES)
            continue;
        int fine = r[0] < SS_CIFAR100_COARSE;
        return ss_fail(
            SS_ERR_FORMAT,
            "%s: record %zu (the first is 1; at byte %zu): %s label %d; it must be below "
            "%d; the file is damaged or not CIFAR-100's binary version",
            d->path, i + 1, i * d->record_bytes, fine ? "fine" : "coarse", fine ? r[1] : r[0],
            fine ? SS_CIFAR100_CLASSES : SS_CIFAR100_COARSE);
    }
    return SS_OK;
}

enum ss_status ss_dataset_open_cifar100(const char *dir, enum ss_split split,
                                        struct ss_dataset **out)
{
    struct ss_dataset *d = calloc(1, sizeof *d);
    if (!d)
        return ss_fail_memory("a data set", sizeof *d);
    static const struct ss_dataset cifar100 = {
        .ops = &ss_record_ops,
        .name = "cifar100",
        .channels = 3,
        .height = SS_CIFAR100_SIDE,
        .width = SS_CIFAR100_SIDE,
        .classes = SS_CIFAR100_CLASSES,
        .mean = {0.5071f, 0.4867f, 0.4408f},
        .std = {0.2675f, 0.2565f, 0.2761f},
        .record_bytes = SS_CIFAR100_RECORD,
        .label_offset = 1,
        .image_offset = 2,
    };
    *d = cifar100;
    const char *file = split == SS_SPLIT_TRAIN ? "train.bin" : "test.bin";
    enum ss_status status = locate(dir, file, d->path, sizeof d->path);
    if (status == SS_OK)
        status = map_file(d);
    if (status == SS_OK) {
        d->records = d->mapping;
        d->count = d->mapping_bytes / d->record_bytes;
        status = check_labels(d);
    }
    if (status != SS_OK) {
        ss_dataset_close(d);
        return status;
    }
    d->fingerprint = hash_bytes(d->records, d->mapping_bytes);
    ss_dataset_fill_table(d);
    *out = d;
    return SS_OK;
}
