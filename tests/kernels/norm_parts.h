/* Normalization and activation of channel views against separate tensors: results are
 * bit-identical, and channels beside the views are unchanged. Used for all devices, like
 * norm_halves.h. */
#ifndef SS_TESTS_NORM_PARTS_H
#define SS_TESTS_NORM_PARTS_H

#include "tests/kernels/norm_halves.h"

/* A view: channels from `at` of a tensor with `of` channels; of 0: a separate tensor. */
struct lying {
    int at, of;
};

struct parts {
    const struct halves *h;
    size_t element; /* bytes on the device */
    const struct ss_norm_act *op;
    struct lying z, y;
    int ndy, adds, halves; /* halves: two calls, as with synchronized BatchNorm */
    int nhwc;
};

static size_t parts_index(const struct parts *t, int channels, int n, int c, int pixel)
{
    const struct ss_act *a = &t->op->shape;
    const int block = t->nhwc ? channels : a->block;
    const int blocks = (channels + block - 1) / block;
    return (((size_t)n * (size_t)blocks + (size_t)(c / block)) * (size_t)(a->h * a->w) +
            (size_t)pixel) *
               (size_t)block +
           (size_t)(c % block);
}

static size_t parts_elements(const struct parts *t, const struct lying *l)
{
    return parts_index(t, l->of ? l->of : t->op->shape.c, t->op->shape.n, 0, 0);
}

/* Returns a whole tensor: `own` in the view, `around` elsewhere. Free with free(). */
static float *parts_lay(const struct parts *t, const struct lying *l, const float *own,
                        const float *around)
{
    const struct ss_act *a = &t->op->shape;
    const size_t count = parts_elements(t, l);
    float *out = malloc(count * sizeof *out);
    memcpy(out, l->of ? around : own, count * sizeof *out);
    for (int n = 0; l->of && n < a->n; n++)
        for (int c = 0; c < (a->c + a->block - 1) / a->block * a->block; c++)
            for (int p = 0; p < a->h * a->w; p++)
                out[parts_index(t, l->of, n, l->at + c, p)] = own[parts_index(t, a->c, n, c, p)];
    return out;
}

struct parts_tensor {
    void *whole, *data;
};

static struct parts_tensor parts_put(const struct parts *t, const struct lying *l, const float *own,
                                     uint32_t stream)
{
    const size_t count = parts_elements(t, l);
    float *around = halves_random(count, 100 + stream, 0.25f), *all = parts_lay(t, l, own, around);
    struct parts_tensor out = {.whole = t->h->put(t->h->device, all, count)};
    out.data = (char *)out.whole + (l->of ? parts_index(t, l->of, 0, l->at, 0) * t->element : 0);
    free(around), free(all);
    return out;
}

/* Checks that the view has `want`, and that the channels around it are unchanged. */
static void parts_check_tensor(const struct parts *t, const char *what, const struct lying *l,
                               const struct parts_tensor *got, const float *want, uint32_t stream)
{
    const struct halves *h = t->h;
    const size_t count = parts_elements(t, l);
    float *have = malloc(count * sizeof *have), *must = malloc(count * sizeof *must);
    h->get(h->device, got->whole, have, count);
    const struct parts_tensor expected = parts_put(t, l, want, stream);
    h->get(h->device, expected.whole, must, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(!memcmp(&have[i], &must[i], sizeof *have),
                      "%s: element %zu of %zu is %.9g instead of %.9g (z %d of %d, y %d of %d, %d "
                      "gradients, adds %d)",
                      what, i, count, (double)have[i], (double)must[i], t->z.at, t->z.of, t->y.at,
                      t->y.of, t->ndy, t->adds);
    if (h->drop)
        h->drop(expected.whole);
    free(have), free(must);
}

/* All outputs of forward and backward, as fp32. */
struct parts_out {
    float *y, *ds, *dz, *small; /* small: saved, running, dgamma, dbeta */
};

static void parts_call(const struct parts *t, const struct ss_norm_act *op, const void *z,
                       const void *r, void *y, uint8_t *mask, float *const *vector, double *sums,
                       struct ss_norm_act_grad *g)
{
    const struct halves *h = t->h;
    const struct ss_kernels *k = h->k;
    float *gamma = vector[0], *beta = vector[1], *saved = vector[2], *running = vector[3];
    if (op->has_bn && t->halves) {
        ck_assert_int_eq(k->norm_act_sums(h->device, op, z, sums), SS_OK);
        ck_assert_int_eq(k->norm_act_stats_of_sums(h->device, op, sums, saved, running), SS_OK);
    } else if (op->has_bn) {
        ck_assert_int_eq(k->norm_act_stats(h->device, op, z, saved, running), SS_OK);
    }
    ck_assert_int_eq(
        k->norm_act_forward(h->device, op, z, gamma, beta, saved, r, y, mask, 1, g->dropout_key),
        SS_OK);
    if (op->has_bn && t->halves) {
        ck_assert_int_eq(k->norm_act_backward_sums(h->device, op, g, sums), SS_OK);
        ck_assert_int_eq(k->norm_act_backward_apply(h->device, op, g, sums), SS_OK);
    } else {
        ck_assert_int_eq(k->norm_act_backward(h->device, op, g), SS_OK);
    }
}

/* Runs forward and backward. as_parts: uses views and compares the results with `want`; otherwise
 * returns the results. */
static struct parts_out parts_run(const struct parts *t, int as_parts, const struct parts_out *want)
{
    const struct halves *h = t->h;
    const struct lying own = {0, 0}, z_at = as_parts ? t->z : own, y_at = as_parts ? t->y : own;
    struct ss_norm_act op = *t->op;
    const struct ss_act *a = &op.shape;
    const size_t e = ss_act_elements(a), c = (size_t)a->c, floats = c * sizeof(float);
    op.z_pitch = z_at.of;
    op.y_pitch = y_at.of;
    float *random[4], *values[SS_NORM_MAX_DY];
    struct parts_tensor dy[SS_NORM_MAX_DY];
    for (uint32_t i = 0; i < 4; i++)
        random[i] = halves_random(e, 1 + i, i ? 0 : 0.5f);
    for (int k = 0; k < t->ndy; k++) {
        values[k] = halves_random(e, 10 + (uint32_t)k, 0.1f);
        dy[k] = parts_put(t, &y_at, values[k], 10 + (uint32_t)k);
    }
    const struct parts_tensor z = parts_put(t, &z_at, random[0], 0),
                              y = parts_put(t, &y_at, random[1], 1),
                              dz = parts_put(t, &z_at, random[2], 2),
                              r = parts_put(t, &own, random[3], 3);
    float *gammas = halves_random(c, 5, 2), *betas = halves_random(c, 6, 0);
    float *small = calloc(6 * c, sizeof *small), *vector[6];
    vector[0] = halves_bytes(h, gammas, floats);
    vector[1] = halves_bytes(h, betas, floats);
    vector[2] = halves_bytes(h, small, 2 * floats);
    vector[3] = halves_bytes(h, small, 2 * floats);
    vector[4] = halves_bytes(h, small, floats);
    vector[5] = halves_bytes(h, small, floats);
    double *sums = halves_bytes(h, NULL, 4 * c * sizeof(double));
    const uint64_t key = 5;
    uint8_t *mask = halves_bytes(h, NULL, e);
    struct ss_norm_act_grad g = {.ndy = t->ndy,
                                 .ds = dy[0].data,
                                 .y = op.relu_out ? y.data : NULL,
                                 .workspace = mask,
                                 .z = z.data,
                                 .dz = dz.data,
                                 .adds = as_parts && t->adds,
                                 .gamma = vector[0],
                                 .beta = vector[1],
                                 .saved = vector[2],
                                 .dgamma = op.has_bn ? vector[4] : NULL,
                                 .dbeta = op.has_bn ? vector[5] : NULL,
                                 .dropout_key = halves_bytes(h, &key, sizeof key)};
    for (int k = 0; k < t->ndy; k++)
        g.dy[k] = dy[k].data;
    ck_assert_int_eq(h->k->norm_act_reserve(h->device, &op), SS_OK);
    parts_call(t, &op, z.data, op.residual ? r.data : NULL, y.data, mask, vector, sums, &g);
    for (int k = 0, to = 0; k < 4; to += k < 2 ? 2 : 1, k++)
        ck_assert_int_eq(
            h->k->copy(h->device, small + (size_t)to * c, vector[2 + k], (k < 2 ? 2 : 1) * floats),
            SS_OK);
    struct parts_out out = {malloc(e * sizeof(float)), malloc(e * sizeof(float)),
                            malloc(e * sizeof(float)), small};
    if (!as_parts) {
        h->get(h->device, y.whole, out.y, e);
        h->get(h->device, dy[0].whole, out.ds, e);
        h->get(h->device, dz.whole, out.dz, e);
        /* Previous values, rounded as on the device. */
        const struct parts_tensor there = parts_put(t, &own, random[2], 2);
        h->get(h->device, there.whole, random[2], e);
        for (size_t i = 0; t->adds && i < e; i++)
            out.dz[i] = random[2][i] + out.dz[i];
        if (h->drop)
            h->drop(there.whole);
    } else {
        parts_check_tensor(t, "y", &y_at, &y, want->y, 1);
        parts_check_tensor(t, "ds", &y_at, &dy[0], want->ds, 10);
        parts_check_tensor(t, "dz", &z_at, &dz, want->dz, 2);
        parts_check_tensor(t, "z", &z_at, &z, random[0], 0);
        for (int k = 1; k < t->ndy; k++)
            parts_check_tensor(t, "dy", &y_at, &dy[k], values[k], 10 + (uint32_t)k);
        ck_assert_mem_eq(small, want->small, 6 * floats);
    }
    for (int k = 0; k < t->ndy; k++)
        free(values[k]);
    void *const put[] = {z.whole, y.whole, dz.whole, r.whole};
    for (int i = 0; h->drop && i < 4; i++)
        h->drop(put[i]);
    for (int k = 0; h->drop && k < t->ndy; k++)
        h->drop(dy[k].whole);
    for (int i = 0; i < 6; i++)
        h->k->free(vector[i]);
    h->k->free(sums), h->k->free(mask), h->k->free((void *)g.dropout_key);
    for (int i = 0; i < 4; i++)
        free(random[i]);
    free(gammas), free(betas);
    return out;
}

static void parts_free(struct parts_out *o)
{
    free(o->y), free(o->ds), free(o->dz), free(o->small);
}

static void parts_check(const struct parts *t)
{
    struct parts_out want = parts_run(t, 0, NULL), got = parts_run(t, 1, &want);
    parts_free(&want);
    parts_free(&got);
}

/* Checks `op` with z, y or both as views, from channel `at`, of tensors with `of` channels. */
static void parts_check_ways(const struct halves *h, size_t element, int nhwc,
                             const struct ss_norm_act *op, int at, int of)
{
    for (int way = 1; way < 4; way++)
        for (int ndy = 1; ndy <= SS_NORM_MAX_DY; ndy++)
            for (int adds = 0; adds < 2; adds++)
                for (int halves = 0; halves <= op->has_bn; halves++) {
                    struct ss_norm_act of_way = *op;
                    struct parts t = {h,
                                      element,
                                      &of_way,
                                      {way & 1 ? at : 0, way & 1 ? of : 0},
                                      {way & 2 ? at : 0, way & 2 ? of : 0},
                                      ndy,
                                      adds,
                                      halves,
                                      nhwc};
                    if (adds && !(way & 1))
                        continue;
                    if (way & 2)
                        of_way.residual = of_way.relu_out = 0;
                    parts_check(&t);
                }
}

#endif
