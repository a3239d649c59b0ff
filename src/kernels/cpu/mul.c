/* mul.c: products (kernels/list.h), with the row functions of simd.h.
 *
 * With a factor for each channel a slice is the (H,W,B) piece of one image and channel block. Sums are
 * of one slice, fp32 over TILE pixels and double above, and of a parameter then over images in their
 * order: whatever the threads. */
#include "core/log.h"
#include "core/round.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/simd.h"

#include <string.h>

enum { TILE = 1024 };

_Static_assert((int)SS_SIMD_SOURCES == (int)SS_NORM_MAX_DY, "gradients that are added on the fly");

/* The scratch of a call: sums, and factors with their padding. */
struct room {
    size_t pixels, slices, block, padded; /* CB*B */
    double *sums;                         /* [N*CB*B] */
    float *factors;                       /* [N*CB*B] */
};

static size_t layout(const struct ss_mul *op, struct room *room, char *base)
{
    room->block = (size_t)op->x.block;
    room->padded = (size_t)ss_act_blocks(&op->x) * room->block;
    room->pixels = (size_t)op->x.h * (size_t)op->x.w;
    room->slices = (size_t)op->x.n * (size_t)ss_act_blocks(&op->x);
    const size_t count = (size_t)op->x.n * room->padded;
    room->sums = (double *)base;
    room->factors = base ? (float *)(base + count * sizeof(double)) : NULL;
    return op->kind == SS_MUL_EQUAL ? 0 : count * (sizeof(double) + sizeof(float));
}

static enum ss_status check(struct ss_device *cpu, const struct ss_mul *op, int n,
                            struct room *room)
{
    SS_TRY(ss_mul_check(op, n));
    SS_TRY(ss_act_check(&op->x, "a product"));
    if (op->kind != SS_MUL_PARAM)
        SS_TRY(ss_act_check(&op->s, "a product's factor"));
    if (cpu->scratch_bytes < layout(op, room, ss_cpu_scratch(cpu)))
        return ss_fail(SS_ERR_INVALID, "a product: call mul_reserve first");
    return SS_OK;
}

enum ss_status ss_cpu_mul_reserve(struct ss_device *cpu, const struct ss_mul *op)
{
    struct room room;
    return ss_cpu_reserve(cpu, layout(op, &room, NULL));
}

/* Where channel c of image n's factor is. */
static size_t factor_at(const struct ss_mul *op, int n, int c)
{
    if (op->kind == SS_MUL_PARAM)
        return (size_t)c;
    const struct ss_act *s = &op->s;
    return ((size_t)n * (size_t)ss_act_blocks(s) + (size_t)(c / s->block)) * (size_t)s->block +
           (size_t)(c % s->block);
}

static void fill_factors(const struct ss_mul *op, const struct room *room, const float *s)
{
    for (int n = 0; n < op->x.n; n++)
        for (int c = 0; c < (int)room->padded; c++)
            room->factors[(size_t)n * room->padded + (size_t)c] =
                c < op->x.c ? s[factor_at(op, n, c)] : 0;
}

enum ss_status ss_cpu_mul_forward(struct ss_device *cpu, const struct ss_mul *op, const void *x,
                                  const void *s, void *y)
{
    struct room room;
    SS_TRY(check(cpu, op, 1, &room));
    const struct ss_simd_rows *simd = ss_simd_table();
    const size_t count = ss_act_elements(&op->x), slice = room.pixels * room.block;
    const size_t piece = op->kind == SS_MUL_EQUAL ? SS_SIMD_PIECE : slice;
    const size_t pieces = ss_divide_up(count, piece);
    if (op->kind != SS_MUL_EQUAL)
        fill_factors(op, &room, s);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (pieces > 1)
    for (size_t i = 0; i < pieces; i++) {
        const size_t at = i * piece, len = count - at < piece ? count - at : piece;
        const float *from = (const float *)x + at;
        if (op->kind == SS_MUL_EQUAL)
            simd->product(from, (const float *)s + at, (float *)y + at, len);
        else
            simd->scale(from, room.factors + i * room.block, (float *)y + at, room.pixels,
                        op->x.block);
    }
    return SS_OK;
}

static void equal_backward(struct ss_device *cpu, const struct ss_rows_product *all)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    const size_t pieces = ss_divide_up(all->count, SS_SIMD_PIECE);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (pieces > 1)
    for (size_t i = 0; i < pieces; i++) {
        const size_t at = i * SS_SIMD_PIECE;
        struct ss_rows_product f = *all;
        f.count = all->count - at < SS_SIMD_PIECE ? all->count - at : SS_SIMD_PIECE;
        for (int k = 0; k < f.n; k++)
            f.dy[k] += at;
        f.a += at;
        f.b += at;
        f.da = f.da ? f.da + at : NULL;
        f.db = f.db ? f.db + at : NULL;
        simd->product_gradients(&f);
    }
}

/* The sums of all slices to ds, padding 0. */
static void store_sums(const struct ss_mul *op, const struct room *room, float *ds)
{
    const int image = op->kind == SS_MUL_IMAGE, rows = image ? op->x.n : 1;
    if (image)
        memset(ds, 0, ss_act_elements(&op->s) * sizeof *ds);
    for (int n = 0; n < rows; n++)
        for (int c = 0; c < op->x.c; c++) {
            double sum = room->sums[(size_t)n * room->padded + (size_t)c];
            for (int m = 1; m < op->x.n && !image; m++)
                sum += room->sums[(size_t)m * room->padded + (size_t)c];
            ds[factor_at(op, n, c)] = (float)sum;
        }
}

enum ss_status ss_cpu_mul_backward(struct ss_device *cpu, const struct ss_mul *op,
                                   const void *const *dy, int n, const void *x, const void *s,
                                   void *dx, void *ds)
{
    struct room room;
    SS_TRY(check(cpu, op, n, &room));
    if (op->kind == SS_MUL_EQUAL) {
        struct ss_rows_product f = {
            .a = x, .b = s, .n = n, .da = dx, .db = ds, .count = ss_act_elements(&op->x)};
        for (int k = 0; k < n; k++)
            f.dy[k] = dy[k];
        equal_backward(cpu, &f);
        return SS_OK;
    }
    const struct ss_simd_rows *simd = ss_simd_table();
    fill_factors(op, &room, s);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < room.slices; i++) {
        double *sums = room.sums + i * room.block;
        memset(sums, 0, room.block * sizeof *sums);
        for (size_t p = 0; p < room.pixels; p += TILE) {
            const size_t at = (i * room.pixels + p) * room.block;
            struct ss_rows_scale f = {.x = (const float *)x + at,
                                      .s = room.factors + i * room.block,
                                      .n = n,
                                      .block = op->x.block,
                                      .pixels = room.pixels - p < TILE ? room.pixels - p : TILE,
                                      .dx = dx ? (float *)dx + at : NULL,
                                      .sums = sums};
            for (int k = 0; k < n; k++)
                f.dy[k] = (const float *)dy[k] + at;
            simd->scale_gradients(&f);
        }
    }
    if (ds)
        store_sums(op, &room, ds);
    return SS_OK;
}
