/* Synchronized BatchNorm: two halves of a batch, whose sums are all-reduced, against the kernels'
 * result for the whole batch. Used for all devices: the including test defines how floats are
 * copied to a device and back. */
#ifndef SS_TESTS_NORM_HALVES_H
#define SS_TESTS_NORM_HALVES_H

#include "core/rng.h"
#include "kernels/kernels.h"

#include "tests/assert.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct halves {
    const struct ss_kernels *k;
    struct ss_device *device;
    double bound; /* of the relative error (Euclidean norm) */
    void *(*put)(struct ss_device *d, const float *values, size_t count); /* activations */
    void (*get)(struct ss_device *d, const void *data, float *values, size_t count);
    void (*drop)(void *data); /* frees put()'s result; NULL: nothing to free */
};

enum { HALVES_RANKS = 2 };

/* Allocates `bytes` of device memory; copies them from the host unless `from` is NULL. */
static void *halves_bytes(const struct halves *h, const void *from, size_t bytes)
{
    void *data;
    ck_assert_int_eq(h->k->alloc(h->device, bytes, "a test", &data), SS_OK);
    if (from)
        ck_assert_int_eq(h->k->copy(h->device, data, from, bytes), SS_OK);
    return data;
}

static float *halves_random(size_t count, uint32_t stream, float shift)
{
    float *x = malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = shift + (float)(ss_mix64(stream, i) >> 40) / (float)(1 << 23) - 1;
    return x;
}

static double halves_distance(const float *a, const float *b, size_t count)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)a[i] - (double)b[i], 2);
        norm += pow((double)b[i], 2);
    }
    return sqrt(error / norm);
}

/* Outputs of one batch, on one rank or split over ranks. */
struct halves_out {
    float *y, *dz, *ds, *saved, *running, *dgamma, *dbeta; /* dgamma, dbeta: sums over ranks */
};

struct halves_batch {
    struct ss_norm_act op;
    float *z, *r, *dy[2], *gamma, *beta, *running;
    size_t elements, channels;
};

/* The rank's tensors on the device. */
struct halves_rank {
    void *z, *r, *y, *ds, *dy[2];
    float *gamma, *beta, *saved, *running, *dgamma, *dbeta;
    uint8_t *mask;
    double *sums, *backward_sums;
    struct ss_norm_act_grad g;
};

static void halves_open(const struct halves *h, const struct halves_batch *b, size_t first,
                        size_t count, struct halves_rank *out)
{
    const size_t c = b->channels, floats = c * sizeof(float);
    *out = (struct halves_rank){
        .z = h->put(h->device, b->z + first, count),
        .r = h->put(h->device, b->r + first, count),
        .y = h->put(h->device, b->z + first, count),
        .ds = h->put(h->device, b->z + first, count),
        .dy = {h->put(h->device, b->dy[0] + first, count),
               h->put(h->device, b->dy[1] + first, count)},
        .gamma = halves_bytes(h, b->gamma, floats),
        .beta = halves_bytes(h, b->beta, floats),
        .saved = halves_bytes(h, NULL, 2 * floats),
        .running = halves_bytes(h, b->running, 2 * floats),
        .dgamma = halves_bytes(h, NULL, floats),
        .dbeta = halves_bytes(h, NULL, floats),
        .mask = halves_bytes(h, NULL, count),
        .sums = halves_bytes(h, NULL, 2 * c * sizeof(double)),
        .backward_sums = halves_bytes(h, NULL, 4 * c * sizeof(double)),
    };
    out->g = (struct ss_norm_act_grad){.dy = {out->dy[0], out->dy[1]},
                                       .ndy = 2,
                                       .ds = out->ds,
                                       .y = out->y,
                                       .workspace = out->mask,
                                       .z = out->z,
                                       .dz = out->z,
                                       .gamma = out->gamma,
                                       .beta = out->beta,
                                       .saved = out->saved,
                                       .dgamma = out->dgamma,
                                       .dbeta = out->dbeta};
}

static void halves_close(const struct halves *h, const struct halves_rank *r)
{
    void *const put[] = {r->z, r->r, r->y, r->ds, r->dy[0], r->dy[1]};
    void *const own[] = {r->gamma, r->beta, r->saved, r->running,      r->dgamma,
                         r->dbeta, r->mask, r->sums,  r->backward_sums};
    for (size_t i = 0; h->drop && i < sizeof put / sizeof *put; i++)
        h->drop(put[i]);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        h->k->free(own[i]);
}

/* All-reduces the first `count` numbers of each rank's sums. */
static void halves_add(const struct halves *h, double *const *sums, int ranks, size_t count)
{
    double *total = calloc(count, sizeof *total), *one = malloc(count * sizeof *one);
    for (int r = 0; r < ranks; r++) {
        ck_assert_int_eq(h->k->copy(h->device, one, sums[r], count * sizeof *one), SS_OK);
        for (size_t i = 0; i < count; i++)
            total[i] += one[i];
    }
    for (int r = 0; r < ranks; r++)
        ck_assert_int_eq(h->k->copy(h->device, sums[r], total, count * sizeof *one), SS_OK);
    free(total);
    free(one);
}

static void halves_take(const struct halves *h, const struct halves_batch *b,
                        const struct halves_rank *r, size_t first, size_t count,
                        struct halves_out *out)
{
    const size_t c = b->channels;
    float *grads = malloc(2 * c * sizeof *grads);
    h->get(h->device, r->y, out->y + first, count);
    h->get(h->device, r->z, out->dz + first, count);
    h->get(h->device, r->ds, out->ds + first, count);
    ck_assert_int_eq(h->k->copy(h->device, out->saved, r->saved, 2 * c * sizeof(float)), SS_OK);
    ck_assert_int_eq(h->k->copy(h->device, out->running, r->running, 2 * c * sizeof(float)), SS_OK);
    ck_assert_int_eq(h->k->copy(h->device, grads, r->dgamma, c * sizeof(float)), SS_OK);
    ck_assert_int_eq(h->k->copy(h->device, grads + c, r->dbeta, c * sizeof(float)), SS_OK);
    for (size_t i = 0; i < c; i++) {
        out->dgamma[i] += grads[i];
        out->dbeta[i] += grads[c + i];
    }
    free(grads);
}

static struct halves_out halves_run(const struct halves *h, const struct halves_batch *b, int ranks,
                                    int add)
{
    const size_t part = b->elements / (size_t)ranks;
    struct ss_norm_act op = b->op;
    struct halves_rank rank[HALVES_RANKS];
    double *sums[2][HALVES_RANKS];
    const struct ss_kernels *k = h->k;
    struct halves_out out = {.y = malloc(b->elements * sizeof(float)),
                             .dz = malloc(b->elements * sizeof(float)),
                             .ds = malloc(b->elements * sizeof(float)),
                             .saved = calloc(2 * b->channels, sizeof(float)),
                             .running = calloc(2 * b->channels, sizeof(float)),
                             .dgamma = calloc(b->channels, sizeof(float)),
                             .dbeta = calloc(b->channels, sizeof(float))};
    op.shape.n /= ranks;
    op.ranks = add ? ranks : 1;
    ck_assert_int_eq(k->norm_act_reserve(h->device, &op), SS_OK);
    for (int r = 0; r < ranks; r++) {
        halves_open(h, b, (size_t)r * part, part, &rank[r]);
        sums[0][r] = rank[r].sums;
        sums[1][r] = rank[r].backward_sums;
        if (ranks == 1)
            ck_assert_int_eq(
                k->norm_act_stats(h->device, &op, rank[r].z, rank[r].saved, rank[r].running),
                SS_OK);
        else
            ck_assert_int_eq(k->norm_act_sums(h->device, &op, rank[r].z, rank[r].sums), SS_OK);
    }
    if (add)
        halves_add(h, sums[0], ranks, 2 * b->channels);
    for (int r = 0; r < ranks; r++) {
        const struct halves_rank *x = &rank[r];
        if (ranks > 1)
            ck_assert_int_eq(
                k->norm_act_stats_of_sums(h->device, &op, x->sums, x->saved, x->running), SS_OK);
        ck_assert_int_eq(k->norm_act_forward(h->device, &op, x->z, x->gamma, x->beta, x->saved,
                                             x->r, x->y, x->mask, 1, NULL),
                         SS_OK);
        ck_assert_int_eq(ranks == 1
                             ? k->norm_act_backward(h->device, &op, &x->g)
                             : k->norm_act_backward_sums(h->device, &op, &x->g, x->backward_sums),
                         SS_OK);
    }
    if (add)
        halves_add(h, sums[1], ranks, 2 * b->channels);
    for (int r = 0; r < ranks; r++) {
        if (ranks > 1)
            ck_assert_int_eq(
                k->norm_act_backward_apply(h->device, &op, &rank[r].g, rank[r].backward_sums),
                SS_OK);
        halves_take(h, b, &rank[r], (size_t)r * part, part, &out);
        halves_close(h, &rank[r]);
    }
    return out;
}

static void halves_free(struct halves_out *o)
{
    float *const all[] = {o->y, o->dz, o->ds, o->saved, o->running, o->dgamma, o->dbeta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* op: of the whole batch, with relu_out and residual, but without dropout, because its mask
 * depends on the position in the batch. The mean of channel 0 is far from 0. */
static void halves_check(const struct halves *h, const struct ss_norm_act *op)
{
    struct halves_batch b = {
        .op = *op, .elements = ss_act_elements(&op->shape), .channels = (size_t)op->shape.c};
    const size_t e = b.elements, c = b.channels;
    b.z = halves_random(e, 1, 0.5f);
    b.r = halves_random(e, 2, 0);
    b.dy[0] = halves_random(e, 3, 0.2f);
    b.dy[1] = halves_random(e, 4, 0);
    b.gamma = halves_random(c, 5, 2);
    b.beta = halves_random(c, 6, 0);
    b.running = halves_random(2 * c, 7, 2);
    /* The statistics of the halves differ considerably. */
    for (size_t i = 0; i < e / 2; i++)
        b.z[i] = 3 * b.z[i] + (i % (size_t)op->shape.block == 0 ? 30 : 1);
    struct halves_out whole = halves_run(h, &b, 1, 0), halves = halves_run(h, &b, HALVES_RANKS, 1),
                      apart = halves_run(h, &b, HALVES_RANKS, 0);
    const struct {
        const char *what;
        const float *whole, *halves, *apart;
        size_t count;
        double bound;
    } all[] = {{"y", whole.y, halves.y, apart.y, e, h->bound},
               {"dz", whole.dz, halves.dz, apart.dz, e, h->bound},
               {"ds", whole.ds, halves.ds, apart.ds, e, h->bound},
               {"mean, invstd", whole.saved, halves.saved, apart.saved, 2 * c, 1e-6},
               {"running", whole.running, halves.running, apart.running, 2 * c, 1e-6},
               {"dgamma", whole.dgamma, halves.dgamma, apart.dgamma, c, h->bound},
               {"dbeta", whole.dbeta, halves.dbeta, apart.dbeta, c, h->bound}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double d = halves_distance(all[i].halves, all[i].whole, all[i].count);
        ck_assert_msg(d <= all[i].bound, "%s: differs by %g from the whole batch", all[i].what, d);
        d = halves_distance(all[i].apart, all[i].whole, all[i].count);
        ck_assert_msg(d > 1e-3, "%s: differs by only %g without all-reduce", all[i].what, d);
    }
    halves_free(&whole);
    halves_free(&halves);
    halves_free(&apart);
    float *const in[] = {b.z, b.r, b.dy[0], b.dy[1], b.gamma, b.beta, b.running};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        free(in[i]);
}

#endif
