/* mul.c: products of tensors (contract in kernels/list.h) with the row functions of simd.h.
 *
 * With one factor per channel, a slice is the (H,W,B) piece of one image and channel block. Sums
 * are over a slice, in fp32 over TILE pixels and in double beyond; those of a parameter then over
 * images, in a fixed order regardless of the threads. */
#include "core/log.h"
#include "core/round.h"
#include "kernels/cpu/internal.h"

#include <string.h>

enum { TILE = 1024 };

_Static_assert((int)SS_SIMD_SOURCES == (int)SS_NORM_MAX_DY, "gradients that are added on the fly");

/* The scratch of a call: sums, and factors with padding. */
struct scratch {
    size_t pixels, slices, block, padded; /* CB*B */
    double *sums;                         /* [N*CB*B] */
    float *factors;                       /* [N*CB*B] */
};

static size_t layout(const struct ss_mul *op, struct scratch *scratch, char *base)
{
    scratch->block = (size_t)op->x.block;
    scratch->padded = (size_t)ss_act_blocks(&op->x) * scratch->block;
    scratch->pixels = (size_t)op->x.h * (size_t)op->x.w;
    scratch->slices = (size_t)op->x.n * (size_t)ss_act_blocks(&op->x);
    const size_t count = (size_t)op->x.n * scratch->padded;
    scratch->sums = (double *)base;
    scratch->factors = base ? (float *)(base + count * sizeof(double)) : NULL;
    return op->kind == SS_MUL_EQUAL ? 0 : count * (sizeof(double) + sizeof(float));
}

static enum ss_status check(struct ss_device *cpu, const struct ss_mul *op, int n,
                            struct scratch *scratch)
{
    SS_TRY(ss_mul_check(op, n));
    SS_TRY(ss_act_check(&op->x, "a product"));
    if (op->kind != SS_MUL_PARAM)
        SS_TRY(ss_act_check(&op->s, "a product's factor"));
    if (cpu->scratch_bytes < layout(op, scratch, ss_cpu_scratch(cpu)))
        return ss_fail(SS_ERR_INVALID, "a product: call mul_reserve first");
    return SS_OK;
}

enum ss_status ss_cpu_mul_reserve(struct ss_device *cpu, const struct ss_mul *op)
{
    struct scratch scratch;
    return ss_cpu_reserve(cpu, layout(op, &scratch, NULL));
}

/* Return the elements of an image's factors, which are contiguous because H and W are 1. */
static size_t factors_of(const struct ss_mul *op)
{
    return ss_act_image(&op->s, 0);
}

static void fill_factors(const struct ss_device *cpu, const struct ss_mul *op,
                         const struct scratch *scratch, const void *s)
{
    const size_t channels = (size_t)op->x.c, padding = scratch->padded - channels;
    for (int n = 0; n < op->x.n; n++) {
        float *to = scratch->factors + (size_t)n * scratch->padded;
        if (op->kind == SS_MUL_PARAM)
            memcpy(to, s, channels * sizeof *to);
        else
            cpu->rows->read(ss_at(cpu, s, (size_t)n * factors_of(op)), 0, to, 0, 1, channels);
        memset(to + channels, 0, padding * sizeof *to);
    }
}

enum ss_status ss_cpu_mul_forward(struct ss_device *cpu, const struct ss_mul *op, const void *x,
                                  const void *s, void *y)
{
    struct scratch scratch;
    SS_TRY(check(cpu, op, 1, &scratch));
    const size_t count = ss_act_elements(&op->x), slice = scratch.pixels * scratch.block;
    const size_t piece = op->kind == SS_MUL_EQUAL ? SS_SIMD_PIECE : slice;
    const size_t pieces = ss_divide_up(count, piece);
    if (op->kind != SS_MUL_EQUAL)
        fill_factors(cpu, op, &scratch, s);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (pieces > 1)
    for (size_t i = 0; i < pieces; i++) {
        const size_t at = i * piece, len = count - at < piece ? count - at : piece;
        const void *from = ss_at(cpu, x, at);
        void *to = ss_at(cpu, y, at);
        if (op->kind == SS_MUL_EQUAL)
            cpu->rows->product(from, ss_at(cpu, s, at), to, len);
        else
            cpu->rows->scale(from, scratch.factors + i * scratch.block, to, scratch.pixels,
                             op->x.block);
    }
    return SS_OK;
}

static void equal_backward(struct ss_device *cpu, const struct ss_rows_product *all)
{
    const size_t pieces = ss_divide_up(all->count, SS_SIMD_PIECE);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (pieces > 1)
    for (size_t i = 0; i < pieces; i++) {
        const size_t at = i * SS_SIMD_PIECE;
        struct ss_rows_product f = *all;
        f.count = all->count - at < SS_SIMD_PIECE ? all->count - at : SS_SIMD_PIECE;
        for (int k = 0; k < f.n; k++)
            f.dy[k] = ss_at(cpu, f.dy[k], at);
        f.a = ss_at(cpu, f.a, at);
        f.b = ss_at(cpu, f.b, at);
        f.da = ss_at(cpu, f.da, at);
        f.db = ss_at(cpu, f.db, at);
        cpu->rows->product_gradients(&f);
    }
}

/* Store the sums of all slices in ds, with padding 0. Overwrites the factors, which are no longer
 * needed. */
static void store_sums(const struct ss_device *cpu, const struct ss_mul *op,
                       const struct scratch *scratch, void *ds)
{
    const int image = op->kind == SS_MUL_IMAGE, rows = image ? op->x.n : 1;
    if (image)
        memset(ds, 0, ss_act_elements(&op->s) * cpu->element);
    for (int n = 0; n < rows; n++) {
        float *row = image ? scratch->factors : ds;
        for (int c = 0; c < op->x.c; c++) {
            double sum = scratch->sums[(size_t)n * scratch->padded + (size_t)c];
            for (int m = 1; m < op->x.n && !image; m++)
                sum += scratch->sums[(size_t)m * scratch->padded + (size_t)c];
            row[c] = (float)sum;
        }
        if (image)
            cpu->rows->write(row, 0, ss_at(cpu, ds, (size_t)n * factors_of(op)), 0, 1,
                             (size_t)op->x.c);
    }
}

enum ss_status ss_cpu_mul_backward(struct ss_device *cpu, const struct ss_mul *op,
                                   const void *const *dy, int n, const void *x, const void *s,
                                   void *dx, void *ds)
{
    struct scratch scratch;
    SS_TRY(check(cpu, op, n, &scratch));
    if (op->kind == SS_MUL_EQUAL) {
        struct ss_rows_product f = {
            .a = x, .b = s, .n = n, .da = dx, .db = ds, .count = ss_act_elements(&op->x)};
        for (int k = 0; k < n; k++)
            f.dy[k] = dy[k];
        equal_backward(cpu, &f);
        return SS_OK;
    }
    fill_factors(cpu, op, &scratch, s);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < scratch.slices; i++) {
        double *sums = scratch.sums + i * scratch.block;
        memset(sums, 0, scratch.block * sizeof *sums);
        for (size_t p = 0; p < scratch.pixels; p += TILE) {
            const size_t at = (i * scratch.pixels + p) * scratch.block;
            struct ss_rows_scale f = {.x = ss_at(cpu, x, at),
                                      .s = scratch.factors + i * scratch.block,
                                      .n = n,
                                      .block = op->x.block,
                                      .pixels =
                                          scratch.pixels - p < TILE ? scratch.pixels - p : TILE,
                                      .dx = ss_at(cpu, dx, at),
                                      .sums = sums};
            for (int k = 0; k < n; k++)
                f.dy[k] = ss_at(cpu, dy[k], at);
            cpu->rows->scale_gradients(&f);
        }
    }
    if (ds)
        store_sums(cpu, op, &scratch, ds);
    return SS_OK;
}
