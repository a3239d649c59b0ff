/* norm_act.c: normalization and activation (contract in shapes.h). A slice is the (H,W,B) piece of
 * one image and channel block. A job has the slices of one block, of several images if these are
 * small. The arithmetic is in simd_norm.h.
 *
 * Backward, with M = N H W, g the gradient of u and zc = z - mean (Ioffe and Szegedy 2015,
 * section 3):
 *   dbeta = sum(g)          dgamma = invstd sum(g zc)
 *   dz = gamma invstd (g - sum(g) / M - zc invstd^2 sum(g zc) / M)
 * Pass 1 computes the sums. Pass 2 recomputes g, which is cheaper than storing it, and writes
 * dz. */
#include "kernels/cpu/norm_act.h"

#include "core/log.h"
#include "core/rng.h"
#include "core/round.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    COEFFICIENTS = 6,
    TILE_FLOATS = 16384,
    TILE_MAX_PIXELS = 1024,
    TILE_MIN_PIXELS = 16,
    JOB_PIXELS = 64
};

/* The scratch of a call. */
struct scratch {
    int blocks, padded;               /* CB, CB*B */
    size_t pixels, slice, tile;       /* slice: elements; tile: pixels summed in fp32 */
    size_t images, jobs;              /* images of a job, perhaps fewer in the last; jobs */
    size_t z_image, y_image;          /* elements from one image to the next */
    double *partial;                  /* [jobs][2*B] */
    double *total;                    /* [CB][2*B] */
    float *coefficient[COEFFICIENTS]; /* [CB*B] each */
};

static size_t layout(const struct ss_norm_act *op, struct scratch *scratch, char *base)
{
    const struct ss_act *s = &op->shape;
    scratch->blocks = ss_act_blocks(s);
    scratch->padded = scratch->blocks * s->block;
    scratch->pixels = (size_t)s->h * (size_t)s->w;
    scratch->images = scratch->pixels < JOB_PIXELS ? JOB_PIXELS / scratch->pixels : 1;
    scratch->jobs = ss_divide_up((size_t)s->n, scratch->images) * (size_t)scratch->blocks;
    scratch->slice = scratch->pixels * (size_t)s->block;
    scratch->z_image = ss_act_image(s, op->z_pitch);
    scratch->y_image = ss_act_image(s, op->y_pitch);
    scratch->tile = TILE_FLOATS / (size_t)s->block;
    if (scratch->tile < TILE_MIN_PIXELS)
        scratch->tile = TILE_MIN_PIXELS;
    if (scratch->tile > TILE_MAX_PIXELS)
        scratch->tile = TILE_MAX_PIXELS;
    size_t coefficients = ss_round_up((size_t)scratch->padded * sizeof(float), 64);
    size_t at = 0;
    for (int i = 0; i < COEFFICIENTS; i++, at += coefficients)
        scratch->coefficient[i] = base ? (float *)(base + at) : NULL;
    scratch->total = base ? (double *)(base + at) : NULL;
    at += 2 * coefficients * (sizeof(double) / sizeof(float));
    scratch->partial = base ? (double *)(base + at) : NULL;
    return at + scratch->jobs * 2 * (size_t)s->block * sizeof(double);
}

/* Return the first slice of a job. */
static size_t slice_of(const struct scratch *scratch, size_t job)
{
    const size_t blocks = (size_t)scratch->blocks;
    return job / blocks * blocks * scratch->images + job % blocks;
}

/* Return the offset of slice i in a tensor with `image` elements per image. */
static size_t begin_of(const struct scratch *scratch, size_t image, size_t i)
{
    return i / (size_t)scratch->blocks * image + i % (size_t)scratch->blocks * scratch->slice;
}

enum ss_status ss_cpu_norm_act_reserve(struct ss_device *cpu, const struct ss_norm_act *op)
{
    struct scratch scratch;
    return ss_cpu_reserve(cpu, layout(op, &scratch, NULL));
}

static enum ss_status check(const struct ss_norm_act *op)
{
    SS_TRY(ss_act_check_view(&op->shape, op->z_pitch, "normalisation"));
    SS_TRY(ss_act_check_view(&op->shape, op->y_pitch, "normalisation's output"));
    if (op->y_pitch && op->residual)
        return ss_fail(SS_ERR_INVALID,
                       "normalisation: the sum with a residual cannot be a view of a tensor");
    if (op->act >= SS_ACT_COUNT)
        return ss_fail(SS_ERR_INVALID, "normalisation: no activation %d", (int)op->act);
    if (!(op->dropout >= 0 && op->dropout < 1))
        return ss_fail(SS_ERR_INVALID, "dropout %g; it must be at least 0 and below 1",
                       (double)op->dropout);
    if (op->pool)
        return ss_fail(SS_ERR_INVALID, "normalisation: pooling is fused on GPUs only");
    if (op->has_bn && !(op->eps >= 0))
        return ss_fail(SS_ERR_INVALID, "BatchNorm: eps %g; it must not be negative",
                       (double)op->eps);
    return SS_OK;
}

static enum ss_status prepare(struct ss_device *cpu, const struct ss_norm_act *op,
                              struct scratch *scratch)
{
    SS_TRY(check(op));
    size_t bytes = layout(op, scratch, ss_cpu_scratch(cpu));
    if (cpu->scratch_bytes < bytes)
        return ss_fail(SS_ERR_INVALID,
                       "normalisation: %zu bytes of scratch are reserved, %zu are needed; call "
                       "ss_cpu_norm_act_reserve() first",
                       cpu->scratch_bytes, bytes);
    return SS_OK;
}

static void scale_and_shift(const struct ss_norm_act *op, const float *gamma, const float *beta,
                            const float *saved, float *a, float *b)
{
    const int channels = op->shape.c, padded = ss_act_blocks(&op->shape) * op->shape.block;
    for (int c = 0; c < padded; c++) {
        if (c >= channels) {
            a[c] = b[c] = 0;
        } else if (!op->has_bn) {
            a[c] = 1;
            b[c] = 0;
        } else {
            a[c] = gamma[c] * saved[channels + c];
            b[c] = beta[c] - saved[c] * a[c];
        }
    }
}

/* The index in dropout.h of slice i's first channel at a pixel, and its increments. */
static uint32_t dropout_step(const struct ss_norm_act *op)
{
    return op->drop == SS_DROP_ELEMENT ? (uint32_t)op->shape.c : 0;
}
static uint32_t dropout_image(const struct ss_norm_act *op)
{
    const struct ss_act *s = &op->shape;
    return op->drop == SS_DROP_ELEMENT ? (uint32_t)s->h * (uint32_t)s->w * (uint32_t)s->c
                                       : op->drop == SS_DROP_SAMPLE;
}
static uint32_t dropout_each(const struct ss_norm_act *op)
{
    return op->drop == SS_DROP_ELEMENT ? ~0u : 0;
}
static uint32_t dropout_index(const struct ss_norm_act *op, size_t i, size_t pixel)
{
    const struct ss_act *s = &op->shape;
    const size_t blocks = (size_t)ss_act_blocks(s), n = i / blocks, cb = i % blocks;
    if (op->drop != SS_DROP_ELEMENT)
        return op->drop == SS_DROP_SAMPLE ? (uint32_t)n : 0;
    return (uint32_t)((n * (size_t)s->h * (size_t)s->w + pixel) * (size_t)s->c +
                      cb * (size_t)s->block);
}

/* Return all pixels of the images of the job whose first slice is i. */
static struct ss_rows_extent extent_of(const struct ss_norm_act *op, const struct scratch *scratch,
                                       size_t i)
{
    const size_t images = (size_t)op->shape.n - i / (size_t)scratch->blocks;
    return (struct ss_rows_extent){.pixels = scratch->pixels,
                                   .images = images < scratch->images ? images : scratch->images,
                                   .z_image = scratch->z_image,
                                   .y_image = scratch->y_image,
                                   .index_image = dropout_image(op)};
}

/* total[cb] = sum over jobs k of partial[k][cb], in that order. */
static void add_partials(const struct ss_device *cpu, const struct ss_norm_act *op,
                         const struct scratch *scratch)
{
    const size_t blocks = (size_t)scratch->blocks;
    const int width = 2 * op->shape.block;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t cb = 0; cb < blocks; cb++) {
        double *total = scratch->total + cb * (size_t)width;
        for (int j = 0; j < width; j++)
            total[j] = 0;
        for (size_t job = cb; job < scratch->jobs; job += blocks) {
            const double *part = scratch->partial + job * (size_t)width;
            for (int j = 0; j < width; j++)
                total[j] += part[j];
        }
    }
}

/* Statistics over ranks exist only for BatchNorm. */
static enum ss_status check_half(const struct ss_norm_act *op, const double *sums)
{
    if (!op->has_bn || !sums)
        return ss_fail(SS_ERR_INVALID, "statistics over ranks: BatchNorm and sums are needed");
    return SS_OK;
}

/* Sum z - shift and its square into scratch->total, and return shift. The variance is computed
 * around each channel's first value, shift, because it would cancel around zero if the mean is
 * large. */
static const float *sum_shifted(struct ss_device *cpu, const struct ss_norm_act *op,
                                const struct scratch *scratch, const void *z)
{
    const int block = op->shape.block;
    float *shift = scratch->coefficient[0];
    for (int cb = 0; cb < scratch->blocks; cb++)
        cpu->rows->read(ss_at(cpu, z, (size_t)cb * scratch->slice), 0, shift + cb * block, 0, 1,
                        (size_t)block);

#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t job = 0; job < scratch->jobs; job++) {
        const size_t i = slice_of(scratch, job);
        double *sums = scratch->partial + job * 2 * (size_t)block;
        const size_t begin = begin_of(scratch, scratch->z_image, i);
        const float *c = shift + i % (size_t)scratch->blocks * (size_t)block;
        struct ss_rows_extent e = extent_of(op, scratch, i);
        memset(sums, 0, 2 * (size_t)block * sizeof(double));
        for (size_t p = 0; p < scratch->pixels; p += scratch->tile) {
            e.pixels = scratch->pixels - p < scratch->tile ? scratch->pixels - p : scratch->tile;
            cpu->rows->stats(&e, ss_at(cpu, z, begin + p * (size_t)block), block, c, sums);
        }
    }
    add_partials(cpu, op, scratch);
    return shift;
}

/* Store the statistics of channel c over m values. */
static void store_stats(const struct ss_norm_act *op, int c, double m, double mean, double var,
                        float *saved, float *running)
{
    const int channels = op->shape.c;
    if (var < 0)
        var = 0;
    saved[c] = (float)mean;
    saved[channels + c] = (float)(1 / sqrt(var + (double)op->eps));
    if (running) {
        const double k = (double)op->momentum;
        running[c] = (float)((1 - k) * (double)running[c] + k * mean);
        running[channels + c] =
            (float)((1 - k) * (double)running[channels + c] + k * var * (m / (m - 1)));
    }
}

enum ss_status ss_cpu_norm_act_stats(struct ss_device *cpu, const struct ss_norm_act *op,
                                     const void *z, float *saved, float *running)
{
    struct scratch scratch;
    SS_TRY(prepare(cpu, op, &scratch));
    const struct ss_act *s = &op->shape;
    const double m = (double)s->n * (double)scratch.pixels;
    if (m < 2)
        return ss_fail(SS_ERR_SHAPE,
                       "BatchNorm: one value per channel has no variance; use a larger batch");
    for (int c = 0; !z && c < s->c; c++) /* saved has mean and variance */
        store_stats(op, c, m, (double)saved[c], (double)saved[s->c + c], saved, running);
    if (!z)
        return SS_OK;
    const int block = s->block;
    const float *shift = sum_shifted(cpu, op, &scratch, z);
    for (int c = 0; c < s->c; c++) {
        const double *total = scratch.total + (size_t)(c / block) * 2 * (size_t)block;
        const double d = total[c % block] / m;
        store_stats(op, c, m, (double)shift[c] + d, total[block + c % block] / m - d * d, saved,
                    running);
    }
    return SS_OK;
}

enum ss_status ss_cpu_norm_act_sums(struct ss_device *cpu, const struct ss_norm_act *op,
                                    const void *z, double *sums)
{
    struct scratch scratch;
    SS_TRY(prepare(cpu, op, &scratch));
    SS_TRY(check_half(op, sums));
    const int channels = op->shape.c, block = op->shape.block;
    const double m = (double)op->shape.n * (double)scratch.pixels;
    const float *shift = sum_shifted(cpu, op, &scratch, z);
    for (int c = 0; c < channels; c++) {
        const double *total = scratch.total + (size_t)(c / block) * 2 * (size_t)block;
        const double k = (double)shift[c], d = total[c % block];
        sums[c] = m * k + d;
        sums[channels + c] = total[block + c % block] + k * (2 * d + m * k);
    }
    return SS_OK;
}

enum ss_status ss_cpu_norm_act_stats_of_sums(struct ss_device *cpu, const struct ss_norm_act *op,
                                             const double *sums, float *saved, float *running)
{
    (void)cpu;
    SS_TRY(check(op));
    SS_TRY(check_half(op, sums));
    const double m = ss_norm_values(op);
    for (int c = 0; c < op->shape.c; c++) {
        const double mean = sums[c] / m;
        store_stats(op, c, m, mean, sums[op->shape.c + c] / m - mean * mean, saved, running);
    }
    return SS_OK;
}

enum ss_status ss_cpu_norm_act_stats_eval(struct ss_device *cpu, const struct ss_norm_act *op,
                                          const float *running, float *saved)
{
    (void)cpu;
    SS_TRY(check(op));
    for (int c = 0; c < op->shape.c; c++) {
        saved[c] = running[c];
        saved[op->shape.c + c] =
            (float)(1 / sqrt((double)running[op->shape.c + c] + (double)op->eps));
    }
    return SS_OK;
}

static struct ss_dropout_draw draw_of(const struct ss_norm_act *op, const uint64_t *key)
{
    return ss_dropout_make(op->dropout, key ? *key : 0);
}

size_t ss_norm_pieces_floats(const struct ss_act *shape)
{
    return 2 * (size_t)(ss_act_blocks(shape) * shape->block);
}

struct ss_norm_pieces ss_norm_pieces_begin(const struct ss_device *cpu,
                                           const struct ss_norm_source *source, float *buffer)
{
    const struct ss_norm_act *op = &source->op;
    struct ss_norm_pieces p = {.cpu = cpu,
                               .op = op,
                               .a = buffer,
                               .b = buffer + ss_norm_pieces_floats(&op->shape) / 2,
                               .dropout = draw_of(op, source->dropout_key)};
    scale_and_shift(op, source->gamma, source->beta, source->saved, p.a, p.b);
    p.dropout.on = p.dropout.on && source->training;
    return p;
}

void ss_clear_padding(const struct ss_device *cpu, const struct ss_act *a, enum ss_activation act,
                      size_t i, const struct ss_rows_extent *e, void *y)
{
    const size_t block = (size_t)a->block, blocks = (size_t)ss_act_blocks(a);
    const size_t first = (size_t)a->c - (blocks - 1) * block;
    if (ss_act_keeps_zero(act) || i % blocks != blocks - 1 || first == block)
        return;
    for (size_t image = 0; image < e->images; image++)
        for (size_t p = 0; p < e->pixels; p++)
            memset(ss_at(cpu, y, image * e->y_image + p * block + first), 0,
                   (block - first) * cpu->element);
}

void ss_norm_piece(const struct ss_norm_pieces *p, size_t i, size_t pixel,
                   const struct ss_rows_extent *e, const void *z, const void *r, void *y)
{
    const struct ss_norm_act *op = p->op;
    const size_t channel = i % (size_t)ss_act_blocks(&op->shape) * (size_t)op->shape.block;
    p->cpu->rows->forward(&(struct ss_rows_forward){
        .extent = e,
        .z = z,
        .r = r,
        .y = y,
        .block = op->shape.block,
        .a = p->a + channel,
        .b = p->b + channel,
        .act = ss_act_terms_of(op->act, op->slope),
        .low_out = op->relu_out ? 0 : -INFINITY,
        .dropout = p->dropout,
        .index = dropout_index(op, i, pixel),
        .step = dropout_step(op),
        .each = dropout_each(op),
    });
    ss_clear_padding(p->cpu, &op->shape, op->act, i, e, y);
}

enum ss_status ss_cpu_norm_act_forward(struct ss_device *cpu, const struct ss_norm_act *op,
                                       const void *z, const float *gamma, const float *beta,
                                       const float *saved, const void *r, void *y,
                                       uint8_t *workspace, int training,
                                       const uint64_t *dropout_key)
{
    struct scratch scratch;
    (void)workspace; /* no pooling here, and backward reads y */
    SS_TRY(prepare(cpu, op, &scratch));
    if (op->residual != (r != NULL))
        return ss_fail(SS_ERR_INVALID,
                       "normalisation forward: residual input %s, but the layer has %s",
                       r ? "given" : "missing", op->residual ? "one" : "none");
    if (op->has_bn && (!gamma || !beta || !saved))
        return ss_fail(SS_ERR_INVALID,
                       "BatchNorm forward: gamma, beta and statistics are all needed");
    const struct ss_norm_source source = {*op, gamma, beta, saved, dropout_key, training};
    const struct ss_norm_pieces pieces = ss_norm_pieces_begin(cpu, &source, scratch.coefficient[0]);

#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t job = 0; job < scratch.jobs; job++) {
        const size_t i = slice_of(&scratch, job);
        const struct ss_rows_extent e = extent_of(op, &scratch, i);
        ss_norm_piece(&pieces, i, 0, &e, ss_at(cpu, z, begin_of(&scratch, scratch.z_image, i)),
                      ss_at(cpu, r, i * scratch.slice),
                      ss_at(cpu, y, begin_of(&scratch, scratch.y_image, i)));
    }
    return SS_OK;
}

static enum ss_status check_backward(const struct ss_norm_act *op, const struct ss_norm_act_grad *g)
{
    if (g->ndy < 1 || g->ndy > SS_NORM_MAX_DY)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: %d gradients; 1 to %d can be added",
                       g->ndy, SS_NORM_MAX_DY);
    if (g->ndy == 1 && !op->relu_out ? g->ds != g->dy[0] : !g->ds)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: ds must be %s here",
                       g->ds ? "dy[0]" : "given");
    if (op->relu_out && !g->y)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: the second ReLU needs y");
    return SS_OK;
}

/* sums: not NULL for pass 1 of BatchNorm alone. */
static enum ss_status check_parameters(const struct ss_norm_act *op,
                                       const struct ss_norm_act_grad *g, const double *sums)
{
    if (g->adds && g->dz == g->z)
        return ss_fail(SS_ERR_INVALID, "normalisation backward: dz cannot be added to z itself");
    if (op->has_bn && (!g->gamma || !g->beta || !g->saved || (!sums && (!g->dgamma || !g->dbeta))))
        return ss_fail(SS_ERR_INVALID, "BatchNorm backward: gamma, beta, statistics, dgamma and "
                                       "dbeta are all needed");
    return SS_OK;
}

/* State of both passes of backward. */
struct backward {
    struct ss_norm_act_grad g;
    struct scratch scratch;
    struct ss_rows_backward common;
    float *a, *b, *mean, *cg, *cz, *c1;
};

static enum ss_status backward_begin(struct ss_device *cpu, const struct ss_norm_act *op,
                                     const struct ss_norm_act_grad *grad, struct backward *w)
{
    SS_TRY(prepare(cpu, op, &w->scratch));
    float *const *coefficient = w->scratch.coefficient;
    w->g = *grad;
    w->a = coefficient[0];
    w->b = coefficient[1];
    w->mean = coefficient[2];
    w->cg = coefficient[3];
    w->cz = coefficient[4];
    w->c1 = coefficient[5];
    scale_and_shift(op, grad->gamma, grad->beta, grad->saved, w->a, w->b);
    for (int c = 0; c < w->scratch.padded; c++) {
        const int real = c < op->shape.c;
        w->mean[c] = op->has_bn && real ? grad->saved[c] : 0;
        w->cg[c] = real;
        w->cz[c] = w->c1[c] = 0;
    }
    w->common = (struct ss_rows_backward){
        .block = op->shape.block,
        .act = ss_act_terms_of(op->act, op->slope),
        .dropout = draw_of(op, grad->dropout_key),
        .step = dropout_step(op),
        .each = dropout_each(op),
    };
    return SS_OK;
}

/* Pass 1: compute ds tile by tile, so that the sums read it from the cache, and the sums in
 * scratch->total. */
static void backward_sums(struct ss_device *cpu, const struct ss_norm_act *op,
                          const struct backward *w)
{
    const struct scratch *scratch = &w->scratch;
    const struct ss_norm_act_grad *g = &w->g;
    const struct ss_act_rows *rows = cpu->rows;
    const int block = op->shape.block, combine = g->ndy > 1 || op->relu_out;
    if (!combine && !op->has_bn)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t job = 0; job < scratch->jobs; job++) {
        const size_t i = slice_of(scratch, job),
                     channel = i % (size_t)scratch->blocks * (size_t)block;
        double *sums = scratch->partial + job * 2 * (size_t)block;
        struct ss_rows_extent e = extent_of(op, scratch, i);
        memset(sums, 0, 2 * (size_t)block * sizeof(double));
        for (size_t p = 0; p < scratch->pixels; p += scratch->tile) {
            const size_t begin = begin_of(scratch, scratch->y_image, i) + p * (size_t)block;
            e.pixels = scratch->pixels - p < scratch->tile ? scratch->pixels - p : scratch->tile;
            for (size_t image = 0; combine && image < e.images; image++) {
                const size_t at = begin + image * e.y_image;
                const void *dy[SS_NORM_MAX_DY];
                for (int k = 0; k < g->ndy; k++)
                    dy[k] = ss_at(cpu, g->dy[k], at);
                rows->combine(dy, g->ndy, op->relu_out ? ss_at(cpu, g->y, at) : NULL,
                              ss_at(cpu, g->ds, at), e.pixels * (size_t)block);
            }
            if (op->has_bn) {
                struct ss_rows_backward f = w->common;
                f.extent = &e;
                f.g = ss_at(cpu, g->ds, begin);
                f.z = ss_at(cpu, g->z, begin_of(scratch, scratch->z_image, i) + p * (size_t)block);
                f.a = w->a + channel;
                f.b = w->b + channel;
                f.mean = w->mean + channel;
                f.index = dropout_index(op, i, p);
                rows->backward_sums(&f, sums);
            }
        }
    }
    if (op->has_bn)
        add_partials(cpu, op, scratch);
}

/* Pass 2: compute dz. */
static void backward_apply(struct ss_device *cpu, const struct ss_norm_act *op,
                           const struct backward *w)
{
    const struct scratch *scratch = &w->scratch;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t k = 0; k < scratch->jobs; k++) {
        /* In reverse order: the last data that pass 1 read is still in the cache. */
        const size_t i = slice_of(scratch, scratch->jobs - 1 - k);
        const size_t at = begin_of(scratch, scratch->z_image, i),
                     channel = i % (size_t)scratch->blocks * (size_t)op->shape.block;
        const struct ss_rows_extent e = extent_of(op, scratch, i);
        struct ss_rows_backward f = w->common;
        f.extent = &e;
        f.g = ss_at(cpu, w->g.ds, begin_of(scratch, scratch->y_image, i));
        f.z = ss_at(cpu, w->g.z, at);
        f.dz = ss_at(cpu, w->g.dz, at);
        f.adds = w->g.adds;
        f.a = w->a + channel;
        f.b = w->b + channel;
        f.mean = w->mean + channel;
        f.index = dropout_index(op, i, 0);
        f.cg = w->cg + channel;
        f.cz = w->cz + channel;
        f.c1 = w->c1 + channel;
        cpu->rows->backward_apply(&f);
    }
}

/* Compute the coefficients of channel c's dz from the sums over all m values. */
static void gradient_coefficients(const struct ss_norm_act *op, const struct backward *w, int c,
                                  double m, double sum, double sum_z)
{
    const double invstd = (double)w->g.saved[op->shape.c + c],
                 scale = (double)w->g.gamma[c] * invstd;
    w->cg[c] = (float)scale;
    w->cz[c] = (float)(-scale * invstd * invstd * sum_z / m);
    w->c1[c] = (float)(-scale * sum / m);
}

static void parameter_gradients(const struct ss_norm_act *op, const struct backward *w, int c,
                                double sum, double sum_z)
{
    w->g.dbeta[c] = (float)sum;
    w->g.dgamma[c] = (float)(sum_z * (double)w->g.saved[op->shape.c + c]);
}

enum ss_status ss_cpu_norm_act_backward(struct ss_device *cpu, const struct ss_norm_act *op,
                                        const struct ss_norm_act_grad *grad)
{
    struct backward w;
    SS_TRY(check_backward(op, grad));
    SS_TRY(check_parameters(op, grad, NULL));
    SS_TRY(backward_begin(cpu, op, grad, &w));
    backward_sums(cpu, op, &w);
    const int block = op->shape.block;
    const double m = (double)op->shape.n * (double)w.scratch.pixels;
    for (int c = 0; op->has_bn && c < op->shape.c; c++) {
        const double *total = w.scratch.total + (size_t)(c / block) * 2 * (size_t)block;
        const double sum = total[c % block], sum_z = total[block + c % block];
        parameter_gradients(op, &w, c, sum, sum_z);
        gradient_coefficients(op, &w, c, m, sum, sum_z);
    }
    backward_apply(cpu, op, &w);
    return SS_OK;
}

enum ss_status ss_cpu_norm_act_backward_sums(struct ss_device *cpu, const struct ss_norm_act *op,
                                             const struct ss_norm_act_grad *grad, double *sums)
{
    struct backward w;
    SS_TRY(check_half(op, sums));
    SS_TRY(check_backward(op, grad));
    SS_TRY(check_parameters(op, grad, sums));
    SS_TRY(backward_begin(cpu, op, grad, &w));
    backward_sums(cpu, op, &w);
    const int block = op->shape.block, channels = op->shape.c;
    for (int c = 0; c < channels; c++) {
        const double *total = w.scratch.total + (size_t)(c / block) * 2 * (size_t)block;
        sums[c] = sums[2 * channels + c] = total[c % block];
        sums[channels + c] = sums[3 * channels + c] = total[block + c % block];
    }
    return SS_OK;
}

enum ss_status ss_cpu_norm_act_backward_apply(struct ss_device *cpu, const struct ss_norm_act *op,
                                              const struct ss_norm_act_grad *grad,
                                              const double *sums)
{
    struct backward w;
    SS_TRY(check_half(op, sums));
    SS_TRY(check_parameters(op, grad, NULL));
    if (!grad->ds)
        return ss_fail(SS_ERR_INVALID, "BatchNorm backward: its second half needs ds");
    SS_TRY(backward_begin(cpu, op, grad, &w));
    const int channels = op->shape.c;
    for (int c = 0; c < channels; c++) {
        parameter_gradients(op, &w, c, sums[2 * channels + c], sums[3 * channels + c]);
        gradient_coefficients(op, &w, c, ss_norm_values(op), sums[c], sums[channels + c]);
    }
    backward_apply(cpu, op, &w);
    return SS_OK;
}
