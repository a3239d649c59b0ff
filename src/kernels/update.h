/* An optimizer's update of a bucket. Each rule is implemented once, here, for all devices: the
 * terms common to all elements of a step, in double precision, and the update of one element. */
#ifndef SS_KERNELS_UPDATE_H
#define SS_KERNELS_UPDATE_H

#include "kernels/any_device.h"
#include "kernels/shapes.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum ss_rule {
    SS_RULE_SGD,          /* no state; hyper: as the next one, the first unused */
    SS_RULE_SGD_MOMENTUM, /* state: v below; hyper: momentum, weight decay */
    SS_RULE_SGD_NESTEROV, /* likewise */
    SS_RULE_SGD_DAMPENED, /* likewise, and dampening */
    SS_RULE_LARS,         /* likewise, and trust */
    SS_RULE_ADAM,         /* states: m, v below; hyper: beta1, beta2, eps, weight decay */
    SS_RULE_ADAMW,        /* likewise */
    SS_RULE_LAMB,         /* likewise */
};
enum {
    SS_UPDATE_STATES = 2,
    SS_UPDATE_HYPER = 4,
    SS_UPDATE_CHUNK = 4096 /* elements; a multiple of every vector length */
};

/* Runs a call with RULE as a constant, so that loops are specialized for each rule. */
#define SS_RULE_CASE(rule, ...)                                                                    \
case rule: {                                                                                       \
    const enum ss_rule RULE = rule;                                                                \
    __VA_ARGS__;                                                                                   \
    break;                                                                                         \
}
#define SS_RULE_DISPATCH(rule, ...)                                                                \
    do {                                                                                           \
        switch (rule) {                                                                            \
            SS_RULE_CASE(SS_RULE_SGD, __VA_ARGS__)                                                 \
            SS_RULE_CASE(SS_RULE_SGD_MOMENTUM, __VA_ARGS__)                                        \
            SS_RULE_CASE(SS_RULE_SGD_NESTEROV, __VA_ARGS__)                                        \
            SS_RULE_CASE(SS_RULE_SGD_DAMPENED, __VA_ARGS__)                                        \
            SS_RULE_CASE(SS_RULE_LARS, __VA_ARGS__)                                                \
            SS_RULE_CASE(SS_RULE_ADAM, __VA_ARGS__)                                                \
            SS_RULE_CASE(SS_RULE_ADAMW, __VA_ARGS__)                                               \
            SS_RULE_CASE(SS_RULE_LAMB, __VA_ARGS__)                                                \
        }                                                                                          \
    } while (0)

SS_ANY_DEVICE static inline int ss_rule_states(enum ss_rule rule)
{
    return rule == SS_RULE_SGD ? 0 : rule < SS_RULE_ADAM ? 1 : 2;
}

/* Returns whether a step depends on the norms of each parameter and its gradient. */
SS_ANY_DEVICE static inline int ss_rule_has_norms(enum ss_rule rule)
{
    return rule == SS_RULE_LARS || rule == SS_RULE_LAMB;
}

/* Consecutive elements of a bucket with the same factors: parameters with their padding; for a
 * rule with norms a single parameter. Spans cover the bucket, and are divided into chunks. */
struct ss_span {
    size_t begin, count;    /* on a GPU multiples of 16 */
    double lr, decay;       /* factors of the learning rate and of the weight decay */
    uint32_t chunk, chunks; /* the first one, and their number */
    int adapt;              /* 0: norms are not used */
};
struct ss_chunk {
    size_t begin;
    uint32_t count, span; /* count: at most SS_UPDATE_CHUNK */
};
/* The spans of a bucket, in the device's memory. */
struct ss_spans {
    uint32_t nspans, nchunks;
    const struct ss_span *span;
    const struct ss_chunk *chunk;
};

/* Results are bit-identical on CPU and GPU, except for rules with norms, which are sums. */
struct ss_update {
    enum ss_rule rule;
    size_t count;                   /* elements of the bucket, a multiple of 16 */
    float *w;                       /* master weights, updated in place */
    float *state[SS_UPDATE_STATES]; /* of the rule, updated in place; initially zero */
    const float *g;                 /* gradients, reduced (summed) over ranks */
    float scale;                    /* of the gradients: 1 / world size */
    double lr, hyper[SS_UPDATE_HYPER];
    uint64_t step; /* from 1 */
    /* Mixed precision: the weights in the device's dtype, written (NULL with fp32); and the state
     * of loss scaling (NULL: none). Gradients are divided by its scale; if scaler->found, nothing
     * is updated. */
    void *copy;
    const struct ss_scaler *scaler;
    /* nchunks 0: all factors are 1. Rules with norms require chunks, and update_reserve called
     * with as many. */
    struct ss_spans spans;
    /* Clipping: sum of the squares of all buckets' g, and the largest norm; NULL: none. */
    const double *squares;
    double clip;
    /* EMA of the weights, updated in place, and its decay per step; NULL: none. */
    float *ema;
    double ema_decay;
};

/* Returns the factor of the gradients, including clipping as torch.nn.utils.clip_grad_norm_:
 * min(1, clip / (norm + 1e-6)), with the 2-norm of all gradients. */
SS_ANY_DEVICE static inline float ss_update_scale(const struct ss_update *u)
{
    float scale = u->scale;
    if (u->scaler)
        scale /= u->scaler->scale;
    if (u->squares) {
        const double c = u->clip / (sqrt(*u->squares) * (double)scale + 1e-6);
        scale *= c > 1 ? 1.0f : (float)c; /* NaN stays */
    }
    return scale;
}

/* Terms common to all elements of a step. */
struct ss_rule_terms {
    float lr, keep, decay;
    float take;                    /* Adam, AdamW, SGD with dampening */
    float keep2, take2, eps, root; /* Adam, AdamW, LAMB */
    float unbias;                  /* LAMB */
    float average;                 /* weight of the new weights in the EMA */
};

/* Returns the step's number, not counting steps skipped by loss scaling. */
SS_ANY_DEVICE static inline uint64_t ss_update_made(const struct ss_update *u)
{
    return u->step - (u->scaler ? (uint64_t)u->scaler->skipped : 0);
}

/* Returns base to the power n by multiplications only: bit-identical on every device. */
SS_ANY_DEVICE static inline double ss_power(double base, uint64_t n)
{
    double power = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1)
            power *= base;
    return power;
}

/* Computes the terms of a step. span NULL: all factors are 1. step: the number of this update,
 * from 1. Steps skipped by loss scaling do not count, because torch.amp does not call the
 * optimizer for them. */
SS_ANY_DEVICE static inline struct ss_rule_terms
ss_rule_begin(const struct ss_update *u, const struct ss_span *span, uint64_t step)
{
    const double *h = u->hyper, lr = u->lr * (span ? span->lr : 1), keep = span ? span->decay : 1;
    const double average = step == 1 ? 1 : 1 - u->ema_decay;
    struct ss_rule_terms t = {(float)lr, (float)h[0], (float)(h[1] * keep), 0, 0, 0, 0,
                              0,         0,           (float)average};
    if (u->rule == SS_RULE_SGD_DAMPENED)
        t.take = (float)(step == 1 ? 1 : 1 - h[2]);
    if (u->rule < SS_RULE_ADAM)
        return t;
    const double unbias = 1 / (1 - ss_power(h[0], step)), decay = h[3] * keep;
    t.unbias = (float)unbias;
    if (u->rule != SS_RULE_LAMB)
        t.lr = (float)(lr / (1 - ss_power(h[0], step)));
    t.root = (float)sqrt(1 - ss_power(h[1], step));
    t.decay = (float)(u->rule == SS_RULE_ADAMW ? 1 - lr * decay : decay);
    t.take = (float)(1 - h[0]);
    t.keep2 = (float)h[1];
    t.take2 = (float)(1 - h[1]);
    t.eps = (float)h[2];
    return t;
}

/* Returns a weight's new value from its old one, its gradient and its states, and updates the
 * states.
 *
 * SGD, as PyTorch's:
 *   d = g + weight_decay * w      v = momentum * v + d      w = w - lr * v
 * v starts as zero, so the first step equals PyTorch's (v = d). With dampening, v is
 *   v = momentum * v + (1 - dampening) * d      but in the first step v = d
 * and with Nesterov's momentum, w = w - lr * (d + momentum * v).
 *
 * Adam, as PyTorch's (no amsgrad; Kingma and Ba 2015, algorithm 1): as AdamW with d instead of g
 * and weight_decay 0.
 *
 * AdamW, as PyTorch's (no amsgrad; Loshchilov and Hutter 2019, algorithm 2), in step t:
 *   w = w - lr * weight_decay * w
 *   m = beta1 * m + (1 - beta1) * g      v = beta2 * v + (1 - beta2) * g * g
 *   w = w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * LARS, as MLPerf's ResNet reference (You, Gitman and Ginsburg 2017): SGD's d, and
 *   v = momentum * v + lr * ratio * d      w = w - v
 *
 * LAMB (You et al. 2020, algorithm 2): AdamW's m and v, and
 *   u = m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + eps) + weight_decay * w
 *   w = w - lr * ratio * u
 *
 * t->lr already includes the ratio (ss_rule_ratio). */
SS_ANY_DEVICE static inline float ss_rule_element(enum ss_rule rule, const struct ss_rule_terms *t,
                                                  float w, float g, float *state)
{
    const float d = g + t->decay * w;
    switch (rule) {
    case SS_RULE_SGD:
        return w - t->lr * d;
    case SS_RULE_SGD_MOMENTUM:
        state[0] = t->keep * state[0] + d;
        return w - t->lr * state[0];
    case SS_RULE_SGD_NESTEROV:
        state[0] = t->keep * state[0] + d;
        return w - t->lr * (d + t->keep * state[0]);
    case SS_RULE_SGD_DAMPENED:
        state[0] = t->keep * state[0] + t->take * d;
        return w - t->lr * state[0];
    case SS_RULE_LARS:
        state[0] = t->keep * state[0] + t->lr * d;
        return w - state[0];
    case SS_RULE_ADAM:
        state[0] += t->take * (d - state[0]);
        state[1] = t->keep2 * state[1] + t->take2 * d * d;
        return w - t->lr * (state[0] / (sqrtf(state[1]) / t->root + t->eps));
    case SS_RULE_ADAMW:
        state[0] += t->take * (g - state[0]);
        state[1] = t->keep2 * state[1] + t->take2 * g * g;
        return t->decay * w - t->lr * (state[0] / (sqrtf(state[1]) / t->root + t->eps));
    case SS_RULE_LAMB:
        state[0] += t->take * (g - state[0]);
        state[1] = t->keep2 * state[1] + t->take2 * g * g;
        return w -
               t->lr * (t->unbias * state[0] / (sqrtf(state[1]) / t->root + t->eps) + t->decay * w);
    }
    return w;
}

/* For a rule with norms: returns the element of the vector whose norm is compared with the
 * parameter's: LARS: the gradient, LAMB: u. */
SS_ANY_DEVICE static inline float ss_rule_direction(enum ss_rule rule,
                                                    const struct ss_rule_terms *t, float w, float g,
                                                    const float *state)
{
    if (rule != SS_RULE_LAMB)
        return g;
    const float m = state[0] + t->take * (g - state[0]), v = t->keep2 * state[1] + t->take2 * g * g;
    return t->unbias * m / (sqrtf(v) / t->root + t->eps) + t->decay * w;
}

/* Returns the ratio of a span, from the sums of squares of its parameter and of its direction:
 *   LARS: trust * |w| / (|g| + weight_decay * |w|)      LAMB: |w| / |u|
 * 1 if one of the norms is 0. */
SS_ANY_DEVICE static inline float ss_rule_ratio(const struct ss_update *u,
                                                const struct ss_span *span, double w2, double d2)
{
    const double w = sqrt(w2), d = sqrt(d2);
    if (!span->adapt || !(w > 0) || !(d > 0))
        return 1;
    if (u->rule == SS_RULE_LAMB)
        return (float)(w / d);
    return (float)(u->hyper[2] * w / (d + u->hyper[1] * span->decay * w));
}

/* As torch.lerp(ema, w, weight). */
SS_ANY_DEVICE static inline float ss_average(float ema, float w, float weight)
{
    return weight < 0.5f ? ema + weight * (w - ema) : w - (w - ema) * (1 - weight);
}

#endif
