/* groupnorm.c: group normalization (contract in kernels/list.h) with the row functions of simd.h.
 *
 * A slice is the (H,W,B) piece of one image and channel block. Sums are computed per channel, in
 * parallel over slices, and combined by image and group, or over images, in a fixed order.
 *
 * Backward, with M = H W C/groups, g the gradient of u and zc = x - mean (Wu and He 2018; as
 * norm_act.c, with sums over a group):
 *   dbeta = sum(g)     dgamma = sum(g zc invstd)          of a channel over images
 *   dx = invstd (gamma g - sum(gamma g) / M - zc invstd^2 sum(gamma g zc) / M) */
#include "core/log.h"
#include "kernels/cpu/norm_act.h"

#include <math.h>
#include <string.h>

enum { COEFFICIENTS = 6, TILE = 1024 /* pixels summed in fp32 */ };

/* The scratch of a call. */
struct scratch {
    size_t padded, pixels, slices, slice; /* CB*B; of a slice: pixels, elements */
    double *sums;                         /* [N*CB][2*B] */
    float *coefficient[COEFFICIENTS];     /* [N][CB*B] each */
};

static size_t layout(const struct ss_act *s, struct scratch *scratch, char *base)
{
    scratch->padded = (size_t)ss_act_blocks(s) * (size_t)s->block;
    scratch->pixels = (size_t)s->h * (size_t)s->w;
    scratch->slices = (size_t)s->n * (size_t)ss_act_blocks(s);
    scratch->slice = scratch->pixels * (size_t)s->block;
    size_t at = scratch->slices * 2 * (size_t)s->block * sizeof(double);
    scratch->sums = (double *)base;
    for (int i = 0; i < COEFFICIENTS; i++, at += (size_t)s->n * scratch->padded * sizeof(float))
        scratch->coefficient[i] = base ? (float *)(base + at) : NULL;
    return at;
}

static enum ss_status prepare(struct ss_device *cpu, const struct ss_norm_act *op, int groups,
                              struct scratch *scratch)
{
    SS_TRY(ss_act_check(&op->shape, "group normalisation"));
    if (groups < 1 || op->shape.c % groups)
        return ss_fail(SS_ERR_SHAPE, "group normalisation: %d channels are not %d equal groups",
                       op->shape.c, groups);
    if (cpu->scratch_bytes < layout(&op->shape, scratch, ss_cpu_scratch(cpu)))
        return ss_fail(SS_ERR_INVALID, "group normalisation: call groupnorm_reserve first");
    return SS_OK;
}

enum ss_status ss_cpu_groupnorm_reserve(struct ss_device *cpu, const struct ss_norm_act *op,
                                        int groups)
{
    struct scratch scratch;
    (void)groups;
    return ss_cpu_reserve(cpu, layout(&op->shape, &scratch, NULL));
}

/* Return the two sums of channel c of image n, B apart. */
static const double *sums_of(const struct ss_act *s, const struct scratch *scratch, int n, int c)
{
    size_t slice = (size_t)n * (size_t)ss_act_blocks(s) + (size_t)(c / s->block);
    return scratch->sums + slice * 2 * (size_t)s->block + c % s->block;
}

/* Compute the statistics of a group of image n, with m values per channel. The variance is taken
 * around each channel's first value, which the row function used; it would cancel otherwise if
 * the mean is large. */
static void group_statistics(const struct ss_norm_act *op, const struct scratch *scratch,
                             int groups, int n, int group, float *saved)
{
    const struct ss_act *s = &op->shape;
    const int channels = s->c / groups, first = group * channels;
    const float *shift = scratch->coefficient[0] + (size_t)n * scratch->padded;
    const double m = (double)scratch->pixels, base = (double)shift[first];
    double sum = 0, square = 0;
    for (int c = first; c < first + channels; c++) {
        const double *t = sums_of(s, scratch, n, c), d = (double)shift[c] - base;
        sum += t[0] + m * d;
        square += t[s->block] + 2 * d * t[0] + m * d * d;
    }
    const double mean = sum / (m * channels);
    double var = square / (m * channels) - mean * mean;
    if (var < 0)
        var = 0;
    saved[n * groups + group] = (float)(base + mean);
    saved[(s->n + n) * groups + group] = (float)(1 / sqrt(var + (double)op->eps));
}

/* Compute a, b of u = a x + b and the mean, for every image; all zero in padding channels. */
static void scale_and_shift(const struct ss_act *s, const struct scratch *scratch, int groups,
                            const float *gamma, const float *beta, const float *saved)
{
    float *const *k = scratch->coefficient;
    for (int n = 0; n < s->n; n++)
        for (int c = 0; c < (int)scratch->padded; c++) {
            const size_t i = (size_t)n * scratch->padded + (size_t)c;
            const int real = c < s->c, group = real ? c / (s->c / groups) : 0;
            k[2][i] = real ? saved[n * groups + group] : 0;
            k[0][i] = real ? gamma[c] * saved[(s->n + n) * groups + group] : 0;
            k[1][i] = real ? beta[c] - k[2][i] * k[0][i] : 0;
        }
}

enum ss_status ss_cpu_groupnorm_forward(struct ss_device *cpu, const struct ss_norm_act *op,
                                        int groups, const void *x, const float *gamma,
                                        const float *beta, float *saved, void *y)
{
    struct scratch scratch;
    SS_TRY(prepare(cpu, op, groups, &scratch));
    const struct ss_act *s = &op->shape;
    const size_t block = (size_t)s->block;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < scratch.slices; i++) {
        float *shift = scratch.coefficient[0] + i * block;
        double *sums = scratch.sums + i * 2 * block;
        cpu->rows->read(ss_at(cpu, x, i * scratch.slice), 0, shift, 0, 1, block);
        memset(sums, 0, 2 * block * sizeof *sums);
        for (size_t p = 0; p < scratch.pixels; p += TILE) {
            const struct ss_rows_extent e = {
                .pixels = scratch.pixels - p < TILE ? scratch.pixels - p : TILE, .images = 1};
            cpu->rows->stats(&e, ss_at(cpu, x, i * scratch.slice + p * block), s->block, shift,
                             sums);
        }
    }
    for (int i = 0; i < s->n * groups; i++)
        group_statistics(op, &scratch, groups, i / groups, i % groups, saved);
    scale_and_shift(s, &scratch, groups, gamma, beta, saved);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < scratch.slices; i++) {
        const struct ss_rows_extent e = {.pixels = scratch.pixels, .images = 1};
        cpu->rows->forward(&(struct ss_rows_forward){.extent = &e,
                                                     .z = ss_at(cpu, x, i * scratch.slice),
                                                     .y = ss_at(cpu, y, i * scratch.slice),
                                                     .block = s->block,
                                                     .a = scratch.coefficient[0] + i * block,
                                                     .b = scratch.coefficient[1] + i * block,
                                                     .act = ss_act_terms_of(op->act, op->slope),
                                                     .low_out = -INFINITY});
        ss_clear_padding(cpu, s, op->act, i, &e, ss_at(cpu, y, i * scratch.slice));
    }
    return SS_OK;
}

/* Compute cg, cz and c1 of image n from the sums of its channels. */
static void gradient_coefficients(const struct ss_act *s, const struct scratch *scratch, int groups,
                                  int n, const float *gamma, const float *saved)
{
    float *const *k = scratch->coefficient;
    const int channels = s->c / groups;
    const double m = (double)scratch->pixels * channels;
    for (int group = 0; group < groups; group++) {
        const double invstd = (double)saved[(s->n + n) * groups + group];
        double sum = 0, sum_z = 0;
        for (int c = group * channels; c < (group + 1) * channels; c++) {
            const double *t = sums_of(s, scratch, n, c);
            sum += (double)gamma[c] * t[0];
            sum_z += (double)gamma[c] * t[s->block];
        }
        for (int c = group * channels; c < (group + 1) * channels; c++) {
            const size_t i = (size_t)n * scratch->padded + (size_t)c;
            k[3][i] = (float)((double)gamma[c] * invstd);
            k[4][i] = (float)(-invstd * invstd * invstd * sum_z / m);
            k[5][i] = (float)(-invstd * sum / m);
        }
    }
    for (size_t c = (size_t)s->c; c < scratch->padded; c++)
        k[3][(size_t)n * scratch->padded + c] = k[4][(size_t)n * scratch->padded + c] =
            k[5][(size_t)n * scratch->padded + c] = 0;
}

static void parameter_gradients(const struct ss_act *s, const struct scratch *scratch, int groups,
                                const float *saved, float *dgamma, float *dbeta)
{
    for (int c = 0; c < s->c; c++) {
        double sum = 0, sum_z = 0;
        for (int n = 0; n < s->n; n++) {
            const double *t = sums_of(s, scratch, n, c);
            sum += t[0];
            sum_z += t[s->block] * (double)saved[(s->n + n) * groups + c / (s->c / groups)];
        }
        dbeta[c] = (float)sum;
        dgamma[c] = (float)sum_z;
    }
}

enum ss_status ss_cpu_groupnorm_backward(struct ss_device *cpu, const struct ss_norm_act *op,
                                         int groups, const void *dy, void *x, const float *gamma,
                                         const float *beta, const float *saved, float *dgamma,
                                         float *dbeta)
{
    struct scratch scratch;
    SS_TRY(prepare(cpu, op, groups, &scratch));
    const struct ss_act *s = &op->shape;
    const size_t block = (size_t)s->block;
    float *const *k = scratch.coefficient;
    scale_and_shift(s, &scratch, groups, gamma, beta, saved);
    /* Pass 0 computes sums; pass 1 overwrites x with dx. */
    for (int pass = 0; pass < 2; pass++) {
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
        for (size_t i = 0; i < scratch.slices; i++) {
            double *sums = scratch.sums + i * 2 * block;
            struct ss_rows_extent e = {.pixels = scratch.pixels, .images = 1};
            struct ss_rows_backward f = {.extent = &e,
                                         .dz = ss_at(cpu, x, i * scratch.slice),
                                         .block = s->block,
                                         .a = k[0] + i * block,
                                         .b = k[1] + i * block,
                                         .mean = k[2] + i * block,
                                         .act = ss_act_terms_of(op->act, op->slope),
                                         .cg = k[3] + i * block,
                                         .cz = k[4] + i * block,
                                         .c1 = k[5] + i * block};
            if (pass) {
                f.g = ss_at(cpu, dy, i * scratch.slice);
                f.z = f.dz;
                cpu->rows->backward_apply(&f);
                continue;
            }
            memset(sums, 0, 2 * block * sizeof *sums);
            for (size_t p = 0; p < scratch.pixels; p += TILE) {
                f.g = ss_at(cpu, dy, i * scratch.slice + p * block);
                f.z = ss_at(cpu, x, i * scratch.slice + p * block);
                e.pixels = scratch.pixels - p < TILE ? scratch.pixels - p : TILE;
                cpu->rows->backward_sums(&f, sums);
            }
        }
        for (int n = 0; n < s->n && !pass; n++)
            gradient_coefficients(s, &scratch, groups, n, gamma, saved);
    }
    parameter_gradients(s, &scratch, groups, saved, dgamma, dbeta);
    return SS_OK;
}
