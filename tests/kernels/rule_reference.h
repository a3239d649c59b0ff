/* Optimizer rules in double precision, for the kernel tests. For comparison: after 5 steps of
 * AdamW, PyTorch's fp32 result has an error of 9e-8 relative to a tensor's norm. */
#ifndef SS_TESTS_RULE_REFERENCE_H
#define SS_TESTS_RULE_REFERENCE_H

#include "kernels/update.h"

#include <math.h>
#include <stddef.h>

static const struct rule_case {
    enum ss_rule rule;
    double bound; /* of relative errors; Adam normalizes g + decay * w, which may nearly cancel */
    double hyper[SS_UPDATE_HYPER];
} rule_cases[] = {
    {SS_RULE_SGD, 3e-7, {0.5, 5e-4}}, /* the first one is unused */
    {SS_RULE_SGD_MOMENTUM, 3e-7, {0.9, 5e-4}},
    {SS_RULE_SGD_NESTEROV, 3e-7, {0.9, 5e-4}},
    {SS_RULE_SGD_DAMPENED, 3e-7, {0.9, 5e-4, 0.3}},
    {SS_RULE_ADAM, 2e-5, {0.9, 0.999, 1e-8, 0.05}},
    {SS_RULE_ADAMW, 3e-7, {0.9, 0.999, 1e-8, 0.05}},
    {SS_RULE_LARS, 3e-7, {0.9, 5e-4, 0.02}},
    {SS_RULE_LAMB, 3e-7, {0.9, 0.999, 1e-6, 0.05}},
};
enum { RULE_CASES = sizeof rule_cases / sizeof *rule_cases };

/* A bucket of several parameters, some longer than a chunk, with all kinds of spans. */
enum { RULE_SPANS = 5, RULE_CHUNKS = 9, RULE_COUNT = 16 + 6000 + 64 + 4096 + 8208 };
static struct ss_span rule_spans[RULE_SPANS] = {
    {.begin = 0, .count = 16, .lr = 1, .decay = 1, .adapt = 1},
    {.begin = 16, .count = 6000, .lr = 0.1, .decay = 1, .adapt = 1},
    {.begin = 6016, .count = 64, .lr = 1, .decay = 0, .adapt = 0},
    {.begin = 6080, .count = 4096, .lr = 10, .decay = 0, .adapt = 1},
    {.begin = 10176, .count = 8208, .lr = 1, .decay = 1, .adapt = 1},
};
static struct ss_chunk rule_chunks[RULE_CHUNKS];

/* Cuts the spans into chunks. Returns the number of chunks. */
static inline uint32_t rule_cut(void)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < RULE_SPANS; s++) {
        rule_spans[s].chunk = n;
        for (size_t at = 0; at < rule_spans[s].count; at += SS_UPDATE_CHUNK) {
            const size_t left = rule_spans[s].count - at;
            rule_chunks[n++] =
                (struct ss_chunk){rule_spans[s].begin + at,
                                  (uint32_t)(left < SS_UPDATE_CHUNK ? left : SS_UPDATE_CHUNK), s};
        }
        rule_spans[s].chunks = n - rule_spans[s].chunk;
    }
    return n;
}

static inline double rule_norm(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static inline void rule_lars(const struct rule_case *c, const struct ss_span *s, double lr,
                             const double *g, double *w, double *m)
{
    const double decay = c->hyper[1] * s->decay, wn = rule_norm(w, s->count),
                 gn = rule_norm(g, s->count);
    if (s->adapt && wn > 0 && gn > 0)
        lr *= c->hyper[2] * wn / (gn + decay * wn);
    for (size_t i = 0; i < s->count; i++) {
        m[i] = c->hyper[0] * m[i] + lr * s->lr * (g[i] + decay * w[i]);
        w[i] -= m[i];
    }
}

static inline void rule_lamb(const struct rule_case *c, const struct ss_span *s, int step,
                             double lr, const double *g, double *w, double *m, double *v)
{
    static double u[RULE_COUNT];
    const double *h = c->hyper;
    for (size_t i = 0; i < s->count; i++) {
        m[i] = h[0] * m[i] + (1 - h[0]) * g[i];
        v[i] = h[1] * v[i] + (1 - h[1]) * g[i] * g[i];
        u[i] = m[i] / (1 - pow(h[0], step)) / (sqrt(v[i] / (1 - pow(h[1], step))) + h[2]) +
               h[3] * s->decay * w[i];
    }
    const double wn = rule_norm(w, s->count), un = rule_norm(u, s->count);
    for (size_t i = 0; i < s->count; i++)
        w[i] -= lr * s->lr * (s->adapt && wn > 0 && un > 0 ? wn / un : 1) * u[i];
}

/* Updates w, and the states m and v if the rule has them. */
static inline void rule_step_plain(const struct rule_case *c, size_t count, int step, double lr,
                                   const double *g, double *w, double *m, double *v)
{
    const double *h = c->hyper;
    const int adam = c->rule == SS_RULE_ADAM || c->rule == SS_RULE_ADAMW;
    for (size_t i = 0; i < count && !adam; i++) {
        double d = g[i] + h[1] * w[i];
        const double damp = c->rule == SS_RULE_SGD_DAMPENED ? h[2] : 0;
        if (c->rule != SS_RULE_SGD) {
            m[i] = step == 1 ? d : h[0] * m[i] + (1 - damp) * d;
            d = c->rule == SS_RULE_SGD_NESTEROV ? d + h[0] * m[i] : m[i];
        }
        w[i] -= lr * d;
    }
    for (size_t i = 0; i < count && adam; i++) {
        const double d = c->rule == SS_RULE_ADAM ? g[i] + h[3] * w[i] : g[i];
        if (c->rule == SS_RULE_ADAMW)
            w[i] *= 1 - lr * h[3];
        m[i] = h[0] * m[i] + (1 - h[0]) * d;
        v[i] = h[1] * v[i] + (1 - h[1]) * d * d;
        w[i] -= lr * (m[i] / (1 - pow(h[0], step))) / (sqrt(v[i] / (1 - pow(h[1], step))) + h[2]);
    }
}

/* spans: use rule_spans; `count` must be RULE_COUNT. */
static inline void rule_step(const struct rule_case *c, int spans, size_t count, int step,
                             double lr, const double *g, double *w, double *m, double *v)
{
    if (!spans)
        rule_step_plain(c, count, step, lr, g, w, m, v);
    for (int k = 0; k < RULE_SPANS && spans; k++) {
        const struct ss_span *s = &rule_spans[k];
        struct rule_case scaled = *c;
        const size_t at = s->begin;
        scaled.hyper[c->rule < SS_RULE_ADAM ? 1 : 3] *= s->decay;
        if (c->rule == SS_RULE_LARS)
            rule_lars(c, s, lr, g + at, w + at, m + at);
        else if (c->rule == SS_RULE_LAMB)
            rule_lamb(c, s, step, lr, g + at, w + at, m + at, v + at);
        else
            rule_step_plain(&scaled, s->count, step, lr * s->lr, g + at, w + at, m + at, v + at);
    }
}

#endif
