#include "data/cifar.h"
#include "data/class_names.h"
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

/* FNV-1a (Fowler, Noll, Vo) over 8-byte words instead of bytes. After each multiplication the high
 * half is folded into the low half, because FNV's prime alone never carries bits down. Every step
 * is a bijection of the state, so a single changed word always changes the result. */
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

static const char *first_file(const struct ss_cifar *cifar, int split)
{
    return cifar->files[split][0];
}

static int has_python_version(const struct ss_cifar *cifar, const char *dir)
{
    return ss_folder_has(dir, cifar->python) ||
           (ss_folder_has(dir, first_file(cifar, SS_SPLIT_TRAIN)) &&
            ss_folder_has(dir, first_file(cifar, SS_SPLIT_TEST)) &&
            ss_folder_has(dir, cifar->meta));
}

static enum ss_status fail_missing(const struct ss_cifar *cifar, const char *dir, const char *file)
{
    struct stat st;
    const char *name = cifar->name, *title = cifar->title;
    if (stat(dir, &st) != 0)
        return ss_fail(SS_ERR_IO,
                       "%s: %s; give a folder with %s's %s.bin and %s.bin, or make one: "
                       "starstep data fetch|make|convert %s",
                       dir, strerror(errno), title, first_file(cifar, SS_SPLIT_TRAIN),
                       first_file(cifar, SS_SPLIT_TEST), name);
    if (!S_ISDIR(st.st_mode))
        return ss_fail(SS_ERR_IO,
                       "%s: is not a folder; give the folder that holds %s.bin and %s.bin", dir,
                       first_file(cifar, SS_SPLIT_TRAIN), first_file(cifar, SS_SPLIT_TEST));
    if (has_python_version(cifar, dir))
        return ss_fail(SS_ERR_IO,
                       "%s/%s: missing, but the folder holds %s's Python version; convert it with: "
                       "starstep data convert %s --from %s --out %s",
                       dir, file, title, name, dir, dir);
    return ss_fail(SS_ERR_IO,
                   "%s/%s: missing; %s's binary version is %s.bin%s and %s.bin; get them with: "
                   "starstep data fetch %s --out %s (download), starstep data make %s --out %s "
                   "(small generated set), or starstep data convert %s --from PYTHON-VERSION "
                   "--out %s",
                   dir, file, title, first_file(cifar, SS_SPLIT_TRAIN),
                   cifar->files[SS_SPLIT_TRAIN][1] ? " and so on" : "",
                   first_file(cifar, SS_SPLIT_TEST), name, dir, name, dir, name, dir);
}

/* Find DIR/NAME.bin, else NAME.bin in the archive's folder inside DIR. */
static enum ss_status locate(const struct ss_cifar *cifar, const char *dir, const char *name,
                             char *path, size_t capacity)
{
    char file[32], sub[4096];
    snprintf(file, sizeof file, "%s.bin", name);
    SS_TRY(ss_folder_join(path, capacity, dir, file));
    if (ss_folder_has(dir, file))
        return SS_OK;
    SS_TRY(ss_folder_join(sub, sizeof sub, dir, cifar->binary));
    if (!ss_folder_has(sub, file))
        return fail_missing(cifar, dir, file);
    return ss_folder_join(path, capacity, sub, file);
}

/* Map the file instead of copying it, so that the ranks of a node share one copy in the page cache.
 * starstep replaces files only by rename, which leaves existing mappings valid. If another program
 * truncates the file during a run, the run dies with SIGBUS. */
static enum ss_status map_file(const struct ss_cifar *cifar, const char *path, void **bytes,
                               size_t *size)
{
    const int record = ss_cifar_record(cifar);
    /* O_NONBLOCK: a FIFO of that name must not hang the open. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    enum ss_status status = SS_OK;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        status = ss_fail(SS_ERR_IO, "%s: cannot stat: %s", path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        status = ss_fail(SS_ERR_IO, "%s: is a folder; a file is expected", path);
    } else if (!S_ISREG(st.st_mode)) {
        status = ss_fail(SS_ERR_IO, "%s: is not a regular file", path);
    } else if (st.st_size == 0) {
        status = ss_fail(SS_ERR_FORMAT,
                         "%s: the file is empty; it needs at least one record of %d "
                         "bytes",
                         path, record);
    } else if (st.st_size % record != 0) {
        status = ss_fail(SS_ERR_FORMAT,
                         "%s: %lld bytes left over after record %lld; a record is %d bytes; the "
                         "file is truncated or not %s's binary version",
                         path, (long long)(st.st_size % record), (long long)(st.st_size / record),
                         record, cifar->title);
    } else if (st.st_size / record > UINT32_MAX) {
        status = ss_fail(SS_ERR_FORMAT, "%s: %lld bytes; more than 2^32 records are not supported",
                         path, (long long)st.st_size);
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            status = ss_fail(SS_ERR_IO, "%s: cannot map %lld bytes: %s", path,
                             (long long)st.st_size, strerror(errno));
        } else {
            *bytes = p;
            *size = (size_t)st.st_size;
        }
    }
    close(fd);
    return status;
}

static enum ss_status check_labels(const struct ss_cifar *cifar, const char *path,
                                   const uint8_t *records, size_t size)
{
    const size_t record = (size_t)ss_cifar_record(cifar);
    for (size_t at = 0; at < size; at += record) {
        const uint8_t *r = records + at;
        const int coarse = cifar->coarse && r[0] >= cifar->coarse, label = r[cifar->coarse ? 1 : 0];
        if (!coarse && label < cifar->classes)
            continue;
        return ss_fail(SS_ERR_FORMAT,
                       "%s: record %zu (the first is 1; at byte %zu): %slabel %d; it must be below "
                       "%d; the file is damaged or not %s's binary version",
                       path, at / record + 1, at,
                       coarse          ? "coarse "
                       : cifar->coarse ? "fine "
                                       : "",
                       coarse ? r[0] : label, coarse ? cifar->coarse : cifar->classes,
                       cifar->title);
    }
    return SS_OK;
}

/* Concatenate several files into one anonymous mapping: the records must be contiguous. */
static enum ss_status join_files(struct ss_dataset *d, void *const *bytes, const size_t *sizes,
                                 int count)
{
    size_t total = 0, at = 0;
    for (int i = 0; i < count; i++)
        total += sizes[i];
    void *all = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return ss_fail_memory("a data set", total);
    for (int i = 0; i < count; i++) {
        memcpy((uint8_t *)all + at, bytes[i], sizes[i]);
        at += sizes[i];
    }
    d->mapping = all;
    d->mapping_bytes = total;
    return SS_OK;
}

/* Map, check and concatenate the files of a split. Stores the first file's name in d->path. */
static enum ss_status read_files(const struct ss_cifar *cifar, const char *dir, enum ss_split split,
                                 struct ss_dataset *d)
{
    void *bytes[SS_CIFAR_MAX_FILES];
    size_t sizes[SS_CIFAR_MAX_FILES];
    const char *const *files = cifar->files[split];
    int count = 0;
    enum ss_status status = SS_OK;
    while (status == SS_OK && files[count]) {
        char path[sizeof d->path];
        status = locate(cifar, dir, files[count], path, sizeof path);
        if (status == SS_OK)
            status = map_file(cifar, path, &bytes[count], &sizes[count]);
        if (status != SS_OK)
            break;
        if (count == 0)
            memcpy(d->path, path, sizeof path);
        status = check_labels(cifar, path, bytes[count], sizes[count]);
        count++;
    }
    if (status == SS_OK && count == 1) {
        d->mapping = bytes[0];
        d->mapping_bytes = sizes[0];
        return SS_OK;
    }
    if (status == SS_OK)
        status = join_files(d, bytes, sizes, count);
    while (count-- > 0)
        munmap(bytes[count], sizes[count]);
    return status;
}

const struct ss_cifar ss_cifar10 = {
    .name = "cifar10",
    .title = "CIFAR-10",
    .classes = 10,
    .files = {{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
              {"test_batch"}},
    .binary = "cifar-10-batches-bin",
    .python = "cifar-10-batches-py",
    .meta = "batches.meta",
    .names = "batches.meta.txt",
    .mean = {0.4914f, 0.4822f, 0.4465f},
    .std = {0.2470f, 0.2435f, 0.2616f},
};

const struct ss_cifar ss_cifar100 = {
    .name = "cifar100",
    .title = "CIFAR-100",
    .classes = SS_CIFAR100_CLASSES,
    .coarse = SS_CIFAR100_COARSE,
    .files = {{"train"}, {"test"}},
    .binary = "cifar-100-binary",
    .python = "cifar-100-python",
    .meta = "meta",
    .names = "fine_label_names.txt",
    .mean = {0.5071f, 0.4867f, 0.4408f},
    .std = {0.2675f, 0.2565f, 0.2761f},
};

/* Read the class names from the folder of the first record file. */
static char **read_names(const struct ss_cifar *cifar, const char *records)
{
    char path[4096];
    const char *slash = strrchr(records, '/');
    int n = snprintf(path, sizeof path, "%.*s/%s", slash ? (int)(slash - records) : 1,
                     slash ? records : ".", cifar->names);
    return n > 0 && (size_t)n < sizeof path ? ss_class_names_read(path, cifar->classes) : NULL;
}

enum ss_status ss_dataset_open_cifar(const struct ss_cifar *cifar, const char *dir,
                                     enum ss_split split, struct ss_dataset **out)
{
    struct ss_dataset *d = calloc(1, sizeof *d);
    if (!d)
        return ss_fail_memory("a data set", sizeof *d);
    *d = (struct ss_dataset){
        .ops = &ss_record_ops,
        .channels = 3,
        .height = SS_CIFAR_SIDE,
        .width = SS_CIFAR_SIDE,
        .least = {SS_CIFAR_SIDE, SS_CIFAR_SIDE},
        .classes = cifar->classes,
        .record_bytes = (size_t)ss_cifar_record(cifar),
        .label_offset = cifar->coarse ? 1 : 0,
        .image_offset = cifar->coarse ? 2 : 1,
    };
    snprintf(d->name, sizeof d->name, "%s", cifar->name);
    memcpy(d->mean, cifar->mean, sizeof d->mean);
    memcpy(d->std, cifar->std, sizeof d->std);
    enum ss_status status = read_files(cifar, dir, split, d);
    if (status != SS_OK) {
        ss_dataset_close(d);
        return status;
    }
    d->records = d->mapping;
    d->class_names = read_names(cifar, d->path);
    d->count = d->mapping_bytes / d->record_bytes;
    d->fingerprint = hash_bytes(d->records, d->mapping_bytes);
    ss_dataset_fill_table(d);
    *out = d;
    return SS_OK;
}

static int has_binary_version(const struct ss_cifar *cifar, const char *dir)
{
    for (int split = 0; split < 2; split++) {
        char file[32], inside[128];
        snprintf(file, sizeof file, "%s.bin", first_file(cifar, split));
        snprintf(inside, sizeof inside, "%s/%s", cifar->binary, file);
        if (ss_folder_has(dir, file) || ss_folder_has(dir, inside))
            return 1;
    }
    return 0;
}

enum ss_status ss_cifar_find(const char *dir, const struct ss_cifar **out)
{
    const int has_10 = has_binary_version(&ss_cifar10, dir),
              has_100 = has_binary_version(&ss_cifar100, dir);
    if (has_10 && has_100)
        return ss_fail(SS_ERR_INVALID,
                       "%s: contains both CIFAR-10 and CIFAR-100; give a folder with one of them",
                       dir);
    const int python_10 =
        has_python_version(&ss_cifar10, dir) && !has_python_version(&ss_cifar100, dir);
    *out = has_10 || (!has_100 && python_10) ? &ss_cifar10 : &ss_cifar100;
    return SS_OK;
}
