#include "data/jpeg_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <jerror.h>

enum {
    ALIGN = 64,             /* of every piece; libjpeg-turbo's SIMD code requires 32 */
    ROW_ALIGN = 128,        /* the SIMD code writes whole vectors past the end of a row */
    FIRST_BLOCK = 256 << 10 /* bytes; enough for an image of a few hundred pixels a side */
};

struct ss_jpeg_block {
    struct ss_jpeg_block *next;
    size_t size; /* usable bytes, after a header of ALIGN bytes */
};

/* Declared by libjpeg and defined by the memory manager. The whole array is in memory. */
struct jvirt_sarray_control {
    JSAMPARRAY rows;
};
struct jvirt_barray_control {
    JBLOCKARRAY rows;
};

static struct ss_jpeg_memory *memory_of(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

static struct ss_jpeg_block *add_block(struct ss_jpeg_memory *m, size_t size)
{
    struct ss_jpeg_block *b = aligned_alloc(ALIGN, ALIGN + size);
    if (!b)
        return NULL;
    b->next = m->blocks;
    b->size = size;
    m->blocks = b;
    m->used = 0;
    m->total += size;
    return b;
}

static void *take(j_common_ptr cinfo, size_t size)
{
    struct ss_jpeg_memory *m = memory_of(cinfo);
    if (size > m->limit)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    struct ss_jpeg_block *b = m->blocks;
    if (!b || size > b->size - m->used) {
        /* Double the total, so that an image needs few blocks. */
        size_t want = m->total > FIRST_BLOCK ? m->total : FIRST_BLOCK;
        if (want > m->limit - m->total)
            want = m->limit - m->total;
        if (want < size)
            want = size;
        if (want > m->limit - m->total)
            ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 1);
        b = add_block(m, want / ALIGN * ALIGN);
        if (!b)
            ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 2);
    }
    void *piece = (char *)b + ALIGN + m->used;
    m->used += size;
    return piece;
}

static void *alloc_piece(j_common_ptr cinfo, int pool, size_t size)
{
    (void)pool;
    return take(cinfo, size);
}

/* Allocate `count` rows of row_bytes each, and the pointers to them. */
static void *take_rows(j_common_ptr cinfo, size_t row_bytes, JDIMENSION count)
{
    if (count && row_bytes > memory_of(cinfo)->limit / count)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 3);
    char **rows = take(cinfo, count * sizeof *rows);
    char *data = take(cinfo, row_bytes * count);
    for (JDIMENSION i = 0; i < count; i++)
        rows[i] = data + row_bytes * i;
    return rows;
}

static JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int pool, JDIMENSION width, JDIMENSION count)
{
    (void)pool;
    size_t row = ((size_t)width * sizeof(JSAMPLE) + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    return take_rows(cinfo, row, count);
}

static JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int pool, JDIMENSION width, JDIMENSION count)
{
    (void)pool;
    return take_rows(cinfo, (size_t)width * sizeof(JBLOCK), count);
}

static jvirt_sarray_ptr request_sarray(j_common_ptr cinfo, int pool, boolean zero, JDIMENSION width,
                                       JDIMENSION count, JDIMENSION at_once)
{
    (void)at_once;
    jvirt_sarray_ptr a = take(cinfo, sizeof *a);
    a->rows = alloc_sarray(cinfo, pool, width, count);
    for (JDIMENSION i = 0; zero && i < count; i++)
        memset(a->rows[i], 0, (size_t)width * sizeof(JSAMPLE));
    return a;
}

static jvirt_barray_ptr request_barray(j_common_ptr cinfo, int pool, boolean zero, JDIMENSION width,
                                       JDIMENSION count, JDIMENSION at_once)
{
    (void)at_once;
    jvirt_barray_ptr a = take(cinfo, sizeof *a);
    a->rows = alloc_barray(cinfo, pool, width, count);
    for (JDIMENSION i = 0; zero && i < count; i++)
        memset(a->rows[i], 0, (size_t)width * sizeof(JBLOCK));
    return a;
}

static void realize_arrays(j_common_ptr cinfo)
{
    (void)cinfo;
}

static JSAMPARRAY access_sarray(j_common_ptr cinfo, jvirt_sarray_ptr a, JDIMENSION start,
                                JDIMENSION count, boolean writable)
{
    (void)cinfo;
    (void)count;
    (void)writable;
    return a->rows + start;
}

static JBLOCKARRAY access_barray(j_common_ptr cinfo, jvirt_barray_ptr a, JDIMENSION start,
                                 JDIMENSION count, boolean writable)
{
    (void)cinfo;
    (void)count;
    (void)writable;
    return a->rows + start;
}

static void free_pool(j_common_ptr cinfo, int pool)
{
    (void)cinfo;
    (void)pool;
}

void ss_jpeg_memory_install(j_common_ptr cinfo)
{
    struct jpeg_memory_mgr *mem = cinfo->mem;
    mem->alloc_small = alloc_piece;
    mem->alloc_large = alloc_piece;
    mem->alloc_sarray = alloc_sarray;
    mem->alloc_barray = alloc_barray;
    mem->request_virt_sarray = request_sarray;
    mem->request_virt_barray = request_barray;
    mem->realize_virt_arrays = realize_arrays;
    mem->access_virt_sarray = access_sarray;
    mem->access_virt_barray = access_barray;
    mem->free_pool = free_pool;
}

void ss_jpeg_memory_close(struct ss_jpeg_memory *m)
{
    while (m->blocks) {
        struct ss_jpeg_block *next = m->blocks->next;
        free(m->blocks);
        m->blocks = next;
    }
    m->used = m->total = 0;
}

void ss_jpeg_memory_reset(struct ss_jpeg_memory *m)
{
    m->used = 0;
    if (m->blocks && !m->blocks->next && m->total <= m->keep)
        return;
    size_t total = m->total;
    ss_jpeg_memory_close(m);
    /* If malloc fails here, the next image allocates again and reports a failure. */
    if (total && total <= m->keep)
        add_block(m, total);
}
