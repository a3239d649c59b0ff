/* linear.c: products of plain (N, C*H*W) rows with a weight that is stored so that all three passes read it in place:
 * (vectors of W outputs, features, W), a right operand of product.h with panels of one vector, and a left one too.
 *
 *   forward           y (N, outputs)          = x (N, features) weight' (features, outputs)
 *   weight gradient   weight' of the gradient = x' dy
 *   data gradient     dx' (features, N)       = weight' (features, outputs) dy' (outputs, N), then turned
 *
 * A job has one vector of outputs, or some features: bits do not depend on the number of threads. */
#include "core/log.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/product.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 112 }; /* of a job of the data gradient */

struct ss_linear_kernel {
    struct ss_device *cpu;
    int bias, training;
    struct ss_act x;
    size_t n, features, outputs;
    size_t w, vectors; /* W; of outputs */
    size_t pitch;      /* of x's rows; 0: they are no plain ones */
};

/* Scratch: [x's or dx's rows, where these are not in place | x as a left operand, or dx' | y or dy as vectors, or dy']. */
static size_t rows_floats(const struct ss_linear_kernel *l)
{
    return l->pitch ? 0 : ss_product_round(l->n * l->features);
}
static size_t left_room(const struct ss_linear_kernel *l)
{
    const size_t left = ss_product_left_floats(l->n, l->features),
                 turned = ss_product_round(l->n) * l->features;
    return left > turned ? left : turned;
}
static size_t outputs_floats(const struct ss_linear_kernel *l)
{
    return ss_product_round(l->n) * l->vectors * l->w;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum ss_status ss_cpu_linear_create(struct ss_device *cpu, const struct ss_act *x, int outputs,
                                    int bias, int training, struct ss_linear_kernel **out)
{
    SS_TRY(ss_act_check(x, "linear layer's input"));
    if (outputs < 1)
        return ss_fail(SS_ERR_SHAPE, "linear layer: %d outputs; at least 1 is needed", outputs);
    struct ss_linear_kernel *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("linear layer", sizeof *l);
    const size_t plane = (size_t)x->h * (size_t)x->w, w = ss_product_lanes();
    *l = (struct ss_linear_kernel){.cpu = cpu,
                                   .bias = bias,
                                   .training = training,
                                   .x = *x,
                                   .n = (size_t)x->n,
                                   .features = (size_t)x->c * plane,
                                   .outputs = (size_t)outputs,
                                   .w = w,
                                   .vectors = ss_product_round((size_t)outputs) / w};
    if (plane == 1 || x->block == 1)
        l->pitch = ss_act_image(x, 0);
    const enum ss_status status =
        ss_cpu_reserve(cpu, (rows_floats(l) + left_room(l) + outputs_floats(l)) * sizeof(float));
    if (status != SS_OK) {
        ss_cpu_linear_destroy(l);
        return status;
    }
    *out = l;
    return SS_OK;
}

void ss_cpu_linear_destroy(struct ss_linear_kernel *l)
{
    free(l);
}

size_t ss_cpu_linear_weight_bytes(const struct ss_linear_kernel *l)
{
    return l->vectors * l->w * l->features * sizeof(float);
}

/* ---- between plain rows and vectors ---- */

/* The weight, (outputs, features), from or to its vectors; the padding is zero. */
static void move_weight(const struct ss_linear_kernel *l, float *plain, float *native, int back)
{
#pragma omp parallel for schedule(static) num_threads(l->cpu->threads)
    for (size_t j = 0; j < l->vectors; j++)
        for (size_t lane = 0; lane < l->w; lane++) {
            const size_t o = j * l->w + lane;
            float *at = native + j * l->features * l->w + lane, *row = plain + o * l->features;
            for (size_t f = 0; f < l->features; f++, at += l->w)
                if (!back)
                    *at = o < l->outputs ? row[f] : 0;
                else if (o < l->outputs)
                    row[f] = *at;
        }
}

enum ss_status ss_cpu_linear_import(struct ss_linear_kernel *l, const float *plain, float *native)
{
    move_weight(l, (float *)(uintptr_t)plain, native, 0);
    return SS_OK;
}

enum ss_status ss_cpu_linear_export(struct ss_linear_kernel *l, const float *native, float *plain)
{
    move_weight(l, plain, (float *)(uintptr_t)native, 1);
    return SS_OK;
}

static float *rows_of(const struct ss_linear_kernel *l)
{
    return ss_cpu_scratch(l->cpu);
}
static float *left_of(const struct ss_linear_kernel *l)
{
    return rows_of(l) + rows_floats(l);
}
static float *outputs_of(const struct ss_linear_kernel *l)
{
    return left_of(l) + left_room(l);
}

/* x of blocks as plain rows, in the order (C,H,W), or back. */
static void move_rows(const struct ss_linear_kernel *l, float *x, int back)
{
    const size_t plane = (size_t)l->x.h * (size_t)l->x.w, block = (size_t)l->x.block;
    const size_t c = (size_t)l->x.c, blocks = (size_t)ss_act_blocks(&l->x);
#pragma omp parallel for schedule(static) num_threads(l->cpu->threads)
    for (size_t i = 0; i < l->n * blocks; i++) {
        const size_t first = i % blocks * block;
        float *rows = rows_of(l) + i / blocks * l->features + first * plane,
              *piece = x + i * plane * block;
        for (size_t lane = 0; lane < block; lane++)
            for (size_t p = 0; p < plane; p++)
                if (back)
                    piece[p * block + lane] = first + lane < c ? rows[lane * plane + p] : 0;
                else if (first + lane < c)
                    rows[lane * plane + p] = piece[p * block + lane];
    }
}

static void pack_x(const struct ss_linear_kernel *l, const void *x)
{
    const float *rows = x;
    size_t pitch = l->pitch;
    if (!pitch) {
        move_rows(l, (float *)(uintptr_t)x, 0);
        rows = rows_of(l);
        pitch = l->features;
    }
#pragma omp parallel for schedule(static) num_threads(l->cpu->threads)
    for (size_t f = 0; f < l->features; f += l->w)
        ss_product_pack_left(0, l->n, smaller(l->w, l->features - f), rows + f, pitch,
                             left_of(l) + f * l->n);
}

/* Of vector j of (N, outputs) the lanes that exist. */
static size_t lanes_of(const struct ss_linear_kernel *l, size_t j)
{
    return smaller(l->w, l->outputs - j * l->w);
}

/* ---- passes ---- */

/* Vectors first .. end - 1 of the outputs. */
static void forward_part(const struct ss_linear_kernel *l, const float *weight, const float *bias,
                         float *y, size_t first, size_t end)
{
    const size_t vector = l->n * l->w;
    float *m = outputs_of(l);
    for (size_t j = first; j < end; j++)
        for (size_t n = 0; bias && n < l->n; n++)
            memcpy(m + j * vector + n * l->w, bias + j * l->w, lanes_of(l, j) * sizeof *m);
    ss_product_run(&(struct ss_product){.rows = l->n,
                                        .k = l->features,
                                        .columns = (end - first) * l->w,
                                        .wide = 1,
                                        .left = left_of(l),
                                        .right = weight + first * l->features * l->w,
                                        .left_block = vector,
                                        .to = m + first * vector,
                                        .vector = vector,
                                        .row = l->w,
                                        .adds = bias != NULL});
    for (size_t j = first; j < end; j++)
        for (size_t n = 0; n < l->n; n++)
            memcpy(y + n * l->outputs + j * l->w, m + j * vector + n * l->w,
                   lanes_of(l, j) * sizeof *y);
}

enum ss_status ss_cpu_linear_forward(struct ss_linear_kernel *l, const void *x, const void *weight,
                                     const float *bias, void *y)
{
    const size_t parts = smaller((size_t)l->cpu->threads, l->vectors);
    SS_TRY(ss_bias_check("linear layer", l->bias, bias));
    pack_x(l, x);
#pragma omp parallel for schedule(static) num_threads(l->cpu->threads)
    for (size_t i = 0; i < parts; i++)
        forward_part(l, weight, bias, y, i * l->vectors / parts, (i + 1) * l->vectors / parts);
    return SS_OK;
}

static enum ss_status check_training(const struct ss_linear_kernel *l)
{
    if (!l->training)
        return ss_fail(SS_ERR_INVALID,
                       "linear layer: backward pass, but it was made without training");
    return SS_OK;
}

/* Features first .. first + count - 1 of dx. */
static void data_part(const struct ss_linear_kernel *l, const float *weight, float *dx,
                      size_t pitch, size_t first, size_t count)
{
    const size_t vector = l->features * l->w;
    float *turned = left_of(l) + first * l->w;
    ss_product_run(&(struct ss_product){.rows = count,
                                        .k = l->outputs,
                                        .columns = l->n,
                                        .wide = 2,
                                        .left = weight + first * l->w,
                                        .right = outputs_of(l),
                                        .left_block = vector,
                                        .to = turned,
                                        .vector = vector,
                                        .row = l->w});
    for (size_t n = 0; n < l->n; n++) {
        const float *from = turned + n / l->w * vector + n % l->w;
        for (size_t f = 0; f < count; f++)
            dx[n * pitch + first + f] = from[f * l->w];
    }
}

enum ss_status ss_cpu_linear_backward_data(struct ss_linear_kernel *l, const void *dy,
                                           const void *weight, void *dx)
{
    SS_TRY(check_training(l));
    float *rows = l->pitch ? dx : rows_of(l);
    const size_t pitch = l->pitch ? l->pitch : l->features;
    ss_product_pack_right(1, l->outputs, l->n, dy, l->outputs, outputs_of(l));
#pragma omp parallel for schedule(static) num_threads(l->cpu->threads)
    for (size_t f = 0; f < l->features; f += FEATURES)
        data_part(l, weight, rows, pitch, f, smaller(FEATURES, l->features - f));
    for (size_t n = 0; n < l->n && pitch > l->features; n++)
        memset(rows + n * pitch + l->features, 0, (pitch - l->features) * sizeof *rows);
    if (!l->pitch)
        move_rows(l, dx, 1);
    return SS_OK;
}

static void gradient_part(const struct ss_linear_kernel *l, const float *dy, float *dweight,
                          float *dbias, size_t first, size_t end)
{
    const size_t vector = l->n * l->w;
    float *d = outputs_of(l);
    for (size_t j = first; j < end; j++) {
        double sums[16] = {0};
        for (size_t n = 0; n < l->n; n++) {
            float *to = d + j * vector + n * l->w;
            memset(to, 0, l->w * sizeof *to);
            memcpy(to, dy + n * l->outputs + j * l->w, lanes_of(l, j) * sizeof *to);
            for (size_t lane = 0; lane < l->w; lane++)
                sums[lane] += (double)to[lane];
        }
        for (size_t lane = 0; dbias && lane < lanes_of(l, j); lane++)
            dbias[j * l->w + lane] = (float)sums[lane];
    }
    ss_product_outer(&(struct ss_product_outer){.rows = l->n,
                                                .k = l->features,
                                                .all = l->features,
                                                .columns = (end - first) * l->w,
                                                .wide = 1,
                                                .left = left_of(l),
                                                .d = d + first * vector,
                                                .left_block = vector,
                                                .d_vector = vector,
                                                .to = dweight + first * l->features * l->w});
}

enum ss_status ss_cpu_linear_backward_weights(struct ss_linear_kernel *l, const void *x,
                                              const void *dy, float *dweight, float *dbias)
{
    const size_t parts = smaller((size_t)l->cpu->threads, l->vectors);
    SS_TRY(check_training(l));
    SS_TRY(ss_bias_check("linear layer", l->bias, dbias));
    pack_x(l, x);
#pragma omp parallel for schedule(static) num_threads(l->cpu->threads)
    for (size_t i = 0; i < parts; i++)
        gradient_part(l, dy, dweight, dbias, i * l->vectors / parts, (i + 1) * l->vectors / parts);
    return SS_OK;
}
