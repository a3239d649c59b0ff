/* gather.c: selects channels of other tensors (contract in kernels/list.h), with the row
 * functions of simd.h.
 *
 * A slice of y is the (H,W,B) piece of one image and channel block. Its channels are cut into
 * runs that are adjacent in one block of one part. A run has len channels and the same place in
 * all images; it is copied pixel by pixel, or all at once if it fills the block of both tensors.
 * A shuffle's runs are single channels: several x are then summed first, for whole blocks.
 * Threads share slices of a few images and, for large maps, pieces of them. */
#include "core/log.h"
#include "core/round.h"
#include "kernels/cpu/internal.h"

#include <string.h>

enum {
    PIECE = 128, /* pixels; the rows of a few blocks stay in the L1 cache */
    SUMMED = 4,  /* cached blocks of sums */
    WIDEST = 16, /* channels of such a block, at most */
};

/* Sums of x's channel blocks, (images,pixels,block): sums[i] has block[i], or none if that is
 * -1. */
struct summed {
    int block[SUMMED];
    float sums[SUMMED][PIECE * WIDEST]; /* or as many elements of bf16 */
};

static enum ss_status check(const struct ss_gather *op, int n)
{
    SS_TRY(ss_gather_check(op, n));
    for (int k = 0; k < op->nparts; k++)
        SS_TRY(ss_act_check_view(&op->part[k].x, op->x_pitch, "channels of another tensor"));
    return ss_act_check_view(&op->y, op->y_pitch, "channels of other tensors");
}

/* Return the part with channel c of y', or NULL. *next: the end of the part's channels, or of
 * those without a part. */
static const struct ss_gather_part *part_of(const struct ss_gather *op, int c, int *next)
{
    *next = ss_act_blocks(&op->y) * op->y.block;
    for (int k = 0; k < op->nparts; k++) {
        const struct ss_gather_part *p = &op->part[k];
        if (c >= p->to && c < p->to + p->count) {
            *next = p->to + p->count;
            return p;
        }
        if (p->to > c && p->to < *next)
            *next = p->to;
    }
    return NULL;
}

static int min_of(int a, int b)
{
    return a < b ? a : b;
}

/* Replace the n x in f by their sum. They point to pixels of channel block `of`. */
static void sum_block(const struct ss_device *cpu, struct summed *s, int of, size_t block,
                      struct ss_rows_gather *f)
{
    const int at = of % SUMMED;
    const size_t count = f->pixels * block;
    if (s->block[at] != of)
        for (size_t i = 0; i < f->images; i++) {
            const void *x[SS_SIMD_SOURCES];
            for (int k = 0; k < f->n; k++)
                x[k] = ss_at(cpu, f->x[k], i * f->x_image);
            cpu->rows->combine(x, f->n, NULL, ss_at(cpu, s->sums[at], i * count), count);
        }
    s->block[at] = of;
    f->x[0] = s->sums[at];
    f->n = 1;
    f->x_image = count;
}

/* Copy `len` channels from `from` on. f describes y and the pixels from `first` on. */
static void copy_run(const struct ss_device *cpu, const struct ss_gather_part *p,
                     const void *const *x, int n, struct ss_rows_gather f, int from, size_t first,
                     struct summed *summed)
{
    const size_t block = (size_t)p->x.block, plane = (size_t)p->x.h * (size_t)p->x.w,
                 row = (size_t)from % block, of = (size_t)from / block;
    f.x_step = block;
    f.n = n;
    for (int k = 0; k < n; k++)
        f.x[k] = ss_at(cpu, x[k], (of * plane + first) * block);
    if (n > 1 && f.len == 1 && block > 1 && block <= WIDEST)
        sum_block(cpu, summed, (int)of, block, &f);
    for (int k = 0; k < f.n; k++)
        f.x[k] = ss_at(cpu, f.x[k], row);
    if ((size_t)f.len == block && f.y_step == block) {
        for (size_t i = 0; i < f.images; i++, f.y = ss_at(cpu, f.y, f.y_image)) {
            cpu->rows->combine(f.x, f.n, NULL, f.y, f.pixels * block);
            for (int k = 0; k < f.n; k++)
                f.x[k] = ss_at(cpu, f.x[k], f.x_image);
        }
        return;
    }
    if (f.len > 16) {
        cpu->rows->gather(&f);
        return;
    }
    for (int left = f.len, len = 16; left > 0; len /= 2)
        if (left >= len) {
            f.len = len;
            cpu->rows->gather(&f);
            for (int k = 0; k < f.n; k++)
                f.x[k] = ss_at(cpu, f.x[k], (size_t)len);
            f.y = ss_at(cpu, f.y, (size_t)len);
            left -= len;
        }
}

static void zero_run(const struct ss_device *cpu, const struct ss_rows_gather *f)
{
    for (size_t i = 0; i < f->images; i++)
        for (size_t p = 0; p < f->pixels; p++)
            memset(ss_at(cpu, f->y, i * f->y_image + p * f->y_step), 0,
                   (size_t)f->len * cpu->element);
}

/* Return the images of a piece: several if maps are small, as a run has the same place in each. */
static size_t images_of_piece(const struct ss_act *y)
{
    const size_t plane = (size_t)y->h * (size_t)y->w;
    return plane < PIECE ? PIECE / plane : 1;
}

/* Fill pixels from `first` on of a channel block of y, in images from `image` on. */
static void gather_piece(const struct ss_device *cpu, const struct ss_gather *op,
                         const void *const *x, int n, void *y, size_t image, size_t slice,
                         size_t first)
{
    const int block = op->y.block, begin = (int)slice * block;
    const size_t plane = (size_t)op->y.h * (size_t)op->y.w, all = (size_t)op->y.n,
                 each = images_of_piece(&op->y);
    const struct ss_rows_gather whole = {.y_step = (size_t)block,
                                         .pixels = plane - first < PIECE ? plane - first : PIECE,
                                         .images = all - image < each ? all - image : each,
                                         .y_image = ss_act_image(&op->y, op->y_pitch),
                                         .y = ss_at(cpu, y,
                                                    image * ss_act_image(&op->y, op->y_pitch) +
                                                        (slice * plane + first) * (size_t)block)};
    struct summed summed;
    for (int i = 0; i < SUMMED; i++)
        summed.block[i] = -1;
    for (int c = begin, next; c < begin + block; c = next) {
        const int at = c < op->y.c ? ss_shuffled(c, op->y.c, op->groups) : c;
        const struct ss_gather_part *p = part_of(op, at, &next);
        next = at == c && op->groups <= 1 ? min_of(next, begin + block) : c + 1;
        struct ss_rows_gather f = whole;
        f.y = ss_at(cpu, f.y, (size_t)(c - begin));
        if (!p) {
            f.len = next - c;
            zero_run(cpu, &f);
            continue;
        }
        const int from = ss_shuffled(p->from + at - p->to, p->x.c, p->groups);
        f.len = p->groups > 1 ? 1 : min_of(next - c, p->x.block - from % p->x.block);
        next = c + f.len;
        f.x_image = ss_act_image(&p->x, op->x_pitch);
        const void *part[SS_GATHER_PARTS];
        const int parts = op->nparts > 1 ? 1 : n;
        for (int k = 0; k < parts; k++)
            part[k] = ss_at(cpu, x[op->nparts > 1 ? p - op->part : k], image * f.x_image);
        copy_run(cpu, p, part, parts, f, from, first, &summed);
    }
}

enum ss_status ss_cpu_gather(struct ss_device *cpu, const struct ss_gather *op,
                             const void *const *x, int n, void *y)
{
    SS_TRY(check(op, n));
    const size_t slices = (size_t)ss_act_blocks(&op->y), plane = (size_t)op->y.h * (size_t)op->y.w,
                 pieces = ss_divide_up(plane, PIECE), images = images_of_piece(&op->y),
                 jobs = slices * pieces * ss_divide_up((size_t)op->y.n, images);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (jobs > 1)
    for (size_t i = 0; i < jobs; i++)
        gather_piece(cpu, op, x, n, y, i / pieces / slices * images, i / pieces % slices,
                     i % pieces * PIECE);
    return SS_OK;
}
