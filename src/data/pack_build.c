#include "core/atomic_file.h"
#include "core/clock.h"
#include "core/folder.h"
#include "core/log.h"
#include "data/pack.h"
#include "data/pack_decode.h"
#include "data/pack_format.h"
#include "data/image_file.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 128, MAX_THREADS = 1024, PUSH_BYTES = 64 << 20 };

struct ss_pack_builder {
    const struct ss_imagefolder *folder;
    int skip_corrupt;
    struct ss_atomic_file *file;
    struct pack_decoders *decoders;
    struct pack_header header;
    struct pack_entry *index;
    size_t index_bytes; /* including the zero padding */
    uint64_t offset;    /* bytes written */
    uint64_t pushed;    /* bytes for which write-back was started */
    size_t next, corrupt;
    enum ss_status status; /* of the first error */
};

/* Write the folder of a file's path to out. Errors: SS_ERR_INVALID. */
static enum ss_status find_folder(const char *path, char *out, size_t capacity)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    int n = snprintf(out, capacity, "%.*s", (int)length, path);
    if (n < 0 || (size_t)n >= capacity)
        return ss_fail(SS_ERR_INVALID, "%.80s...: the name is too long", path);
    if (length == 0)
        strcpy(out, slash ? "/" : ".");
    return SS_OK;
}

/* Remove temporary packs of killed runs that were last written more than an hour ago, because packs
 * are large. A slow run that loses its file this way ends with an error. */
static void remove_leftovers(const char *path, const char *dir)
{
    enum { HOUR = 3600 };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t length = strlen(name);
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        int end = 0;
        char old[4096 + 256];
        struct stat st;
        if (strncmp(e->d_name, name, length) != 0 ||
            sscanf(e->d_name + length, ".tmp.%*[0-9]%n", &end) != 0 || end == 0 ||
            e->d_name[length + (size_t)end] != '\0')
            continue;
        snprintf(old, sizeof old, "%s/%s", dir, e->d_name);
        if (stat(old, &st) == 0 && S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > HOUR &&
            unlink(old) == 0)
            ss_note("%s: left by a run that was killed; removed", old);
    }
    if (d)
        closedir(d);
}

/* Estimate the bytes of all images from the sizes of a sample spread over the folder. Ignores
 * unreadable files, which are reported later when they are decoded. */
static enum ss_status estimate(const struct ss_imagefolder *folder, uint64_t *bytes)
{
    const size_t samples = folder->count < SAMPLES ? folder->count : SAMPLES;
    struct ss_image_file file = {.bytes = NULL};
    struct ss_decoder *decoder;
    char text[64];
    size_t known = 0;
    double sum = 0;
    SS_TRY(ss_decoder_open(&decoder));
    ss_log_capture(text, sizeof text);
    for (size_t k = 0; k < samples; k++) {
        int width, height;
        if (ss_imagefolder_read(folder, k * folder->count / samples, &file) != SS_OK ||
            ss_decoder_begin(decoder, "", file.bytes, file.size, &width, &height) != SS_OK)
            continue;
        sum += (double)pack_padded(3 * (uint64_t)width * (uint64_t)height);
        known++;
    }
    ss_log_capture(NULL, 0);
    ss_decoder_close(decoder);
    free(file.bytes);
    *bytes = known ? (uint64_t)(sum / (double)known * (double)folder->count) : 0;
    return SS_OK;
}

/* Check the free space, with a tolerance because the estimate may be too high. A full disk is also
 * detected while writing. */
static enum ss_status check_space(const char *path, const char *dir,
                                  const struct ss_imagefolder *folder)
{
    struct statvfs fs;
    uint64_t bytes;
    if (statvfs(dir, &fs) != 0)
        return SS_OK;
    SS_TRY(estimate(folder, &bytes));
    double need = (double)bytes, have = (double)fs.f_bavail * (double)fs.f_frsize;
    if (need * 0.75 <= have)
        return SS_OK;
    return ss_fail(SS_ERR_IO,
                   "%s: needs about %.0f MiB, but only %.0f MiB are free; free some space or "
                   "choose another folder",
                   path, need / 0x1p20, have / 0x1p20);
}

static enum ss_status write_header(struct ss_pack_builder *b)
{
    struct pack_header *h = &b->header;
    memcpy(h->magic, PACK_MAGIC, sizeof h->magic);
    h->version = PACK_VERSION;
    h->entry_bytes = sizeof(struct pack_entry);
    h->count = b->folder->count;
    h->fingerprint = b->folder->fingerprint;
    h->times = b->folder->times;
    h->checksum = pack_checksum(h, offsetof(struct pack_header, checksum));
    b->offset = sizeof *h;
    return ss_atomic_write(b->file, h, sizeof *h);
}

static int usable_cores(void)
{
    cpu_set_t *set = CPU_ALLOC(8192);
    long n = 0;
    if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(8192), set) == 0)
        n = CPU_COUNT_S(CPU_ALLOC_SIZE(8192), set);
    CPU_FREE(set);
    if (n < 1)
        n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

static enum ss_status prepare(struct ss_pack_builder *b, const char *path, int threads)
{
    char dir[4096];
    SS_TRY(find_folder(path, dir, sizeof dir));
    SS_TRY(ss_folder_make(dir));
    remove_leftovers(path, dir);
    SS_TRY(check_space(path, dir, b->folder));
    b->index_bytes = (size_t)pack_padded(b->folder->count * sizeof *b->index);
    b->index = calloc(1, b->index_bytes);
    if (!b->index)
        return ss_fail_memory("the index of a pack", b->index_bytes);
    SS_TRY(ss_atomic_open(path, &b->file));
    SS_TRY(write_header(b));
    return pack_decoders_start(b->folder, threads, &b->decoders);
}

enum ss_status ss_pack_begin(const char *path, const struct ss_imagefolder *folder, int threads,
                             int skip_corrupt, struct ss_pack_builder **out)
{
    if (threads == 0)
        threads = usable_cores();
    if (threads < 1)
        return ss_fail(SS_ERR_INVALID, "%s: %d decoding threads; give at least 1", path, threads);
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    struct ss_pack_builder *b = calloc(1, sizeof *b);
    if (!b)
        return ss_fail_memory("a pack", sizeof *b);
    b->folder = folder;
    b->skip_corrupt = skip_corrupt;
    enum ss_status status = prepare(b, path, threads);
    if (status != SS_OK) {
        ss_pack_abort(b);
        return status;
    }
    *out = b;
    return SS_OK;
}

static enum ss_status put_image(struct ss_pack_builder *b, const struct pack_image *p)
{
    if (p->status == SS_ERR_FORMAT && b->skip_corrupt) {
        ss_warn("%s; skipped", p->text);
        b->corrupt++;
        return SS_OK; /* the entry of a corrupt file is all zeros */
    }
    if (p->status != SS_OK)
        return ss_fail(p->status, "%s", p->text);
    b->index[b->next] = (struct pack_entry){.offset = b->offset,
                                            .width = (uint32_t)p->width,
                                            .height = (uint32_t)p->height,
                                            .checksum = p->checksum};
    b->offset += p->size;
    SS_TRY(ss_atomic_write(b->file, p->bytes, p->size));
    if (b->offset - b->pushed < PUSH_BYTES)
        return SS_OK;
    b->pushed = b->offset;
    return ss_atomic_push(b->file);
}

enum ss_status ss_pack_continue(struct ss_pack_builder *b, double seconds, size_t *done)
{
    const double end = ss_seconds() + seconds;
    while (b->status == SS_OK && b->next < b->folder->count) {
        b->status = put_image(b, pack_decoders_next(b->decoders));
        pack_decoders_release(b->decoders);
        b->next++;
        if (ss_seconds() >= end)
            break;
    }
    if (b->status == SS_OK)
        *done = b->next;
    return b->status;
}

/* Write the index and the trailer. Write errors are also returned by the commit. */
static void write_end(struct ss_pack_builder *b)
{
    struct pack_trailer t = {.index_offset = b->offset,
                             .file_bytes = b->offset + b->index_bytes + sizeof t,
                             .corrupt = b->corrupt,
                             .header_checksum = b->header.checksum,
                             .index_checksum = pack_checksum(b->index, b->index_bytes)};
    memcpy(t.magic, PACK_END_MAGIC, sizeof t.magic);
    t.checksum = pack_checksum(&t, offsetof(struct pack_trailer, checksum));
    (void)ss_atomic_write(b->file, b->index, b->index_bytes);
    (void)ss_atomic_write(b->file, &t, sizeof t);
}

enum ss_status ss_pack_commit(struct ss_pack_builder *b)
{
    enum ss_status status = b->status;
    if (status == SS_OK && b->next < b->folder->count)
        status = ss_fail(SS_ERR_INVALID, "cannot commit a pack with %zu of %zu files", b->next,
                         b->folder->count);
    if (status == SS_OK) {
        write_end(b);
        status = ss_atomic_commit(b->file);
        b->file = NULL;
    }
    ss_pack_abort(b);
    return status;
}

void ss_pack_abort(struct ss_pack_builder *b)
{
    if (!b)
        return;
    pack_decoders_stop(b->decoders);
    ss_atomic_abort(b->file);
    free(b->index);
    free(b);
}
