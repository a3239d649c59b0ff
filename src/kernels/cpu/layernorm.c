/* layernorm.c: layer normalization over channels (contract in kernels/list.h).
 *
 * A thread processes `places` neighboring positions of an image at a time, few enough that all
 * passes but the first read them from a cache. Gradients of gamma and beta are summed in double
 * over parts, which depend only on shapes, and then over the parts in a fixed order.
 *
 * Backward, with g = gamma dy, xhat = (x - mean) invstd and means over channels:
 *   dx = invstd (g - mean(g) - xhat mean(g xhat))     dgamma = sum(dy xhat)     dbeta = sum(dy) */
#include "core/log.h"
#include "kernels/cpu/internal.h"

#include <string.h>

enum {
    CACHED = 65536, /* numbers of x at a time */
    PARTS = 64
};

struct layer {
    const struct ss_act *shape;
    size_t pixels;       /* of an image */
    size_t tiles, parts; /* pieces of `places` in an image; parts of all images' pieces */
    int places;
    struct ss_rows_layer f; /* fields common to all pieces */
};

static struct layer layer_of(const struct ss_act *s)
{
    struct layer l = {.shape = s, .pixels = (size_t)s->h * (size_t)s->w};
    const int places = CACHED / s->c / 8 * 8;
    const int nhwc = s->block == s->c && s->block != 1;
    l.places = places < 8 ? 8 : places > SS_LAYER_PLACES ? SS_LAYER_PLACES : places;
    l.tiles = (l.pixels + (size_t)l.places - 1) / (size_t)l.places;
    l.parts = ((size_t)s->n * l.tiles + 1) / 2;
    l.parts = l.parts < PARTS ? l.parts : PARTS;
    l.f.width = nhwc ? 16 : s->block;
    l.f.place = (size_t)s->block;
    l.f.chunk = nhwc ? 16 : l.pixels * (size_t)s->block;
    l.f.chunks = (s->c + l.f.width - 1) / l.f.width;
    l.f.last = s->c - (l.f.chunks - 1) * l.f.width;
    l.f.padded = !nhwc;
    return l;
}

static size_t partial_bytes(const struct layer *l)
{
    return l->parts * 2 * (size_t)l->shape->c * sizeof(double);
}

enum ss_status ss_cpu_layernorm_reserve(struct ss_device *cpu, const struct ss_act *shape)
{
    SS_TRY(ss_act_check(shape, "layer normalisation"));
    const struct layer l = layer_of(shape);
    return ss_cpu_reserve(cpu, partial_bytes(&l));
}

/* Return piece i of all images. *at: the offset of its numbers. */
static struct ss_rows_layer piece(const struct layer *l, size_t i, float *saved, size_t *at)
{
    const struct ss_act *s = l->shape;
    const size_t n = i / l->tiles, first = i % l->tiles * (size_t)l->places;
    const size_t image = ss_act_elements(s) / (size_t)s->n, rest = l->pixels - first;
    struct ss_rows_layer f = l->f;
    f.places = rest < (size_t)l->places ? (int)rest : l->places;
    f.mean = saved + n * l->pixels + first;
    f.invstd = f.mean + (size_t)s->n * l->pixels;
    *at = n * image + first * f.place;
    return f;
}

enum ss_status ss_cpu_layernorm_forward(struct ss_device *cpu, const struct ss_act *shape,
                                        float eps, const void *x, const float *gamma,
                                        const float *beta, float *saved, void *y)
{
    SS_TRY(ss_act_check(shape, "layer normalisation"));
    const struct layer l = layer_of(shape);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t i = 0; i < (size_t)shape->n * l.tiles; i++) {
        size_t at;
        struct ss_rows_layer f = piece(&l, i, saved, &at);
        f.x = ss_at(cpu, x, at);
        f.out = ss_at(cpu, y, at);
        f.gamma = gamma;
        f.beta = beta;
        f.eps = eps;
        cpu->rows->layer_forward(&f);
    }
    return SS_OK;
}

static void add_parts(const struct layer *l, const double *partial, float *dgamma, float *dbeta)
{
    const size_t c = (size_t)l->shape->c;
    for (size_t i = 0; i < c; i++) {
        double sums[2] = {0, 0};
        for (size_t k = 0; k < l->parts; k++) {
            sums[0] += partial[2 * k * c + i];
            sums[1] += partial[(2 * k + 1) * c + i];
        }
        dgamma[i] = (float)sums[0];
        dbeta[i] = (float)sums[1];
    }
}

enum ss_status ss_cpu_layernorm_backward(struct ss_device *cpu, const struct ss_act *shape,
                                         const void *dy, const void *x, const float *gamma,
                                         const float *saved, void *dx, float *dgamma, float *dbeta)
{
    SS_TRY(ss_act_check(shape, "layer normalisation"));
    const struct layer l = layer_of(shape);
    const size_t c = (size_t)shape->c, pieces = (size_t)shape->n * l.tiles;
    double *partial = ss_cpu_scratch(cpu);
    if (cpu->scratch_bytes < partial_bytes(&l))
        return ss_fail(SS_ERR_INVALID, "layer normalisation: call layernorm_reserve first");
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (size_t k = 0; k < l.parts; k++) {
        double *sums = partial + 2 * k * c;
        memset(sums, 0, 2 * c * sizeof *sums);
        for (size_t i = k * pieces / l.parts; i < (k + 1) * pieces / l.parts; i++) {
            size_t at;
            struct ss_rows_layer f = piece(&l, i, (float *)(uintptr_t)saved, &at);
            f.x = ss_at(cpu, x, at);
            f.dy = ss_at(cpu, dy, at);
            f.out = ss_at(cpu, dx, at);
            f.gamma = gamma;
            f.dgamma = sums;
            f.dbeta = sums + c;
            cpu->rows->layer_backward(&f);
        }
    }
    add_parts(&l, partial, dgamma, dbeta);
    return SS_OK;
}
