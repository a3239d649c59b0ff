#include "data/pack.h"
#include "core/folder.h"
#include "core/log.h"
#include "data/pack_format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct ss_pack {
    const struct ss_imagefolder *folder;
    char *path;
    const uint8_t *bytes; /* the mapped file */
    size_t size, corrupt;
    size_t page; /* page size in bytes, for madvise on each image; 0: no advice */
    const struct pack_entry *index;
    atomic_uint_fast32_t *checked; /* a bit per image, set after its checksum was verified */
};

enum ss_status ss_pack_path(char *out, size_t capacity, const char *cache_dir, enum ss_split split)
{
    return ss_folder_join(out, capacity, cache_dir,
                          split == SS_SPLIT_TRAIN ? "train.pack" : "val.pack");
}

/* Set the reason why a pack must be rebuilt. Returns 0. */
static int SS_PRINTF(3, 4) explain(char *why, size_t capacity, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, capacity, fmt, ap);
    va_end(ap);
    return 0;
}

static int check_header(const struct ss_pack *p, char *why, size_t capacity)
{
    const struct pack_header *h = (const void *)p->bytes;
    if (p->size < sizeof *h + sizeof(struct pack_trailer))
        return explain(why, capacity, "damaged: it has %zu bytes", p->size);
    if (memcmp(h->magic, PACK_MAGIC, sizeof h->magic) != 0)
        return explain(why, capacity, "damaged: it does not begin like a pack");
    if (h->version != PACK_VERSION)
        return explain(why, capacity, "of another version (%" PRIu32 ", not %d)", h->version,
                       PACK_VERSION);
    if (h->checksum != pack_checksum(h, offsetof(struct pack_header, checksum)) ||
        h->entry_bytes != sizeof(struct pack_entry))
        return explain(why, capacity, "damaged: the checksum of its header is wrong");
    if (h->count != p->folder->count)
        return explain(why, capacity, "made of %" PRIu64 " files, and there are %zu", h->count,
                       p->folder->count);
    if (h->fingerprint != p->folder->fingerprint)
        return explain(why, capacity, "made of other files");
    if (h->times != p->folder->times)
        return explain(why, capacity, "made before some file changed");
    return 1;
}

/* Check the trailer and the checksum of the index. Sets p->index and p->corrupt. */
static int check_trailer(struct ss_pack *p, char *why, size_t capacity)
{
    const struct pack_header *h = (const void *)p->bytes;
    const struct pack_trailer *t = (const void *)(p->bytes + (p->size - sizeof *t));
    if (p->size % PACK_ALIGN != 0 || memcmp(t->magic, PACK_END_MAGIC, sizeof t->magic) != 0)
        return explain(why, capacity, "damaged: it does not end like a pack (%zu bytes)", p->size);
    if (t->checksum != pack_checksum(t, offsetof(struct pack_trailer, checksum)) ||
        t->header_checksum != h->checksum)
        return explain(why, capacity, "damaged: the checksum of its end is wrong");
    /* No overflow: the count is that of the folder's files. */
    uint64_t bytes = pack_padded(p->folder->count * sizeof *p->index);
    if (t->file_bytes != p->size || p->size < sizeof *h + bytes + sizeof *t ||
        t->index_offset != p->size - sizeof *t - bytes)
        return explain(why, capacity, "damaged: it has %zu bytes and should have %" PRIu64, p->size,
                       t->file_bytes);
    if (t->index_checksum != pack_checksum(p->bytes + t->index_offset, bytes))
        return explain(why, capacity, "damaged: the checksum of its index is wrong");
    p->index = (const void *)(p->bytes + t->index_offset);
    p->corrupt = t->corrupt;
    return 1;
}

static uint64_t image_bytes(const struct pack_entry *e)
{
    return pack_padded(3 * (uint64_t)e->width * e->height);
}

/* Check that the images are contiguous from the header to the index. */
static int check_index(const struct ss_pack *p, char *why, size_t capacity)
{
    const uint64_t end = (uint64_t)((const uint8_t *)p->index - p->bytes);
    uint64_t offset = sizeof(struct pack_header);
    size_t corrupt = 0;
    for (size_t i = 0; i < p->folder->count; i++) {
        const struct pack_entry *e = &p->index[i];
        if (e->width == 0) {
            corrupt++;
            continue;
        }
        if (e->offset != offset || e->width > PACK_MAX_SIDE || e->height < 1 ||
            e->height > PACK_MAX_SIDE || image_bytes(e) > end - offset)
            return explain(why, capacity, "damaged: its index is inconsistent for %.200s",
                           ss_imagefolder_name(p->folder, i));
        offset += image_bytes(e);
    }
    if (offset != end || corrupt != p->corrupt)
        return explain(why, capacity, "damaged: its index is inconsistent");
    return 1;
}

/* Map the file. The caller closes fd. */
static enum ss_status map_file(struct ss_pack *p, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return ss_fail(SS_ERR_IO, "%s: cannot stat: %s", p->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ss_fail(SS_ERR_IO, "%s: is not a regular file", p->path);
    if (st.st_size == 0)
        return SS_OK;
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return ss_fail(SS_ERR_IO, "%s: cannot map its %lld bytes: %s", p->path,
                       (long long)st.st_size, strerror(errno));
    p->bytes = bytes;
    p->size = (size_t)st.st_size;
    return SS_OK;
}

/* Disable the kernel's read-ahead for a pack larger than half of the memory: only requested images
 * should be read. A smaller pack is read once and stays in the page cache, so there read-ahead into
 * other images helps. */
static void advise(struct ss_pack *p)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0 && p->size / (size_t)page > (size_t)pages / 2 &&
        madvise((void *)(uintptr_t)p->bytes, p->size, MADV_RANDOM) == 0)
        p->page = (size_t)page;
}

static enum ss_status prepare(struct ss_pack *p)
{
    size_t words = p->folder->count / 32 + 1;
    p->checked = calloc(words, sizeof *p->checked);
    if (!p->checked)
        return ss_fail_memory("the flags of a pack", words * sizeof *p->checked);
    advise(p);
    return SS_OK;
}

enum ss_status ss_pack_open(const char *path, const struct ss_imagefolder *folder, char *why,
                            size_t capacity, struct ss_pack **out)
{
    explain(why, capacity, "%s", "");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        *out = NULL;
        return SS_OK;
    }
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct ss_pack *p = calloc(1, sizeof *p);
    enum ss_status status = SS_OK;
    if (p) {
        p->folder = folder;
        p->path = strdup(path);
    }
    if (!p || !p->path)
        status = ss_fail_memory("a pack", sizeof *p);
    if (status == SS_OK)
        status = map_file(p, fd);
    close(fd);
    int fits = status == SS_OK && check_header(p, why, capacity) &&
               check_trailer(p, why, capacity) && check_index(p, why, capacity);
    if (fits)
        status = prepare(p);
    if (!fits || status != SS_OK) {
        ss_pack_close(p);
        p = NULL;
    }
    if (status == SS_OK)
        *out = p;
    return status;
}

void ss_pack_close(struct ss_pack *p)
{
    if (!p)
        return;
    if (p->bytes)
        munmap((void *)(uintptr_t)p->bytes, p->size);
    free(p->checked);
    free(p->path);
    free(p);
}

/* Request all pages of an image together instead of one page fault at a time. Only a hint. */
static void read_ahead(const struct ss_pack *p, const struct pack_entry *e)
{
    if (!p->page)
        return;
    const size_t from = (size_t)e->offset / p->page * p->page;
    (void)madvise((void *)(uintptr_t)(p->bytes + from), (size_t)(e->offset + image_bytes(e)) - from,
                  MADV_WILLNEED);
}

static enum ss_status check_image(struct ss_pack *p, size_t i)
{
    const struct pack_entry *e = &p->index[i];
    const uint_fast32_t bit = (uint_fast32_t)1 << i % 32;
    /* Two threads may both verify the image, with the same result. */
    if (atomic_load_explicit(&p->checked[i / 32], memory_order_relaxed) & bit)
        return SS_OK;
    if (pack_checksum(p->bytes + e->offset, image_bytes(e)) != e->checksum)
        return ss_fail(SS_ERR_IO,
                       "%s: the pixels of %s are damaged; remove this file and build it again",
                       p->path, ss_imagefolder_name(p->folder, i));
    atomic_fetch_or_explicit(&p->checked[i / 32], bit, memory_order_relaxed);
    return SS_OK;
}

enum ss_status ss_pack_pixels(struct ss_pack *p, size_t i, struct ss_pixels *out)
{
    const struct pack_entry *e = &p->index[i];
    if (e->width == 0)
        return ss_fail(SS_ERR_FORMAT, "%s/%s: not a usable image, found when %s was built",
                       p->folder->root, ss_imagefolder_name(p->folder, i), p->path);
    read_ahead(p, e);
    SS_TRY(check_image(p, i));
    *out = (struct ss_pixels){.rgb = p->bytes + e->offset,
                              .stride = 3 * (size_t)e->width,
                              .area = {0, 0, (int)e->width, (int)e->height},
                              .scale = 1};
    return SS_OK;
}

size_t ss_pack_bytes(const struct ss_pack *p)
{
    return p->size;
}

size_t ss_pack_corrupt(const struct ss_pack *p)
{
    return p->corrupt;
}
