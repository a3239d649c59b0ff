/* An optimizer's update of a bucket. A rule is written once, here, for all devices: what the
 * elements of a step have in common, in double precision, and what happens to each of them. */
#ifndef SS_KERNELS_UPDATE_H
#define SS_KERNELS_UPDATE_H

#include "kernels/any_device.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum ss_rule {
    SS_RULE_SGD,          /* no state; hyper: as the next one, and not read the first */
    SS_RULE_SGD_MOMENTUM, /* state: v of below; hyper: momentum, weight decay */
    SS_RULE_SGD_NESTEROV, /* likewise */
    SS_RULE_SGD_DAMPENED, /* likewise, and dampening */
    SS_RULE_ADAM,         /* states: m, v of below; hyper: beta1, beta2, eps, weight decay */
    SS_RULE_ADAMW,        /* likewise */
};
enum { SS_UPDATE_STATES = 2, SS_UPDATE_HYPER = 4 };

/* Run a call with RULE, a constant, being the rule: so that loops are made once for each. */
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
            SS_RULE_CASE(SS_RULE_ADAM, __VA_ARGS__)                                                \
            SS_RULE_CASE(SS_RULE_ADAMW, __VA_ARGS__)                                               \
        }                                                                                          \
    } while (0)

SS_ANY_DEVICE static inline int ss_rule_states(enum ss_rule rule)
{
    return rule == SS_RULE_SGD ? 0 : rule < SS_RULE_ADAM ? 1 : 2;
}

struct ss_update {
    enum ss_rule rule;
    size_t count;                   /* elements of the bucket, a multiple of 16 */
    float *w;                       /* master weights, in place */
    float *state[SS_UPDATE_STATES]; /* those of the rule, in place; zero before the first step */
    const float *g;                 /* gradients, summed over ranks */
    float scale;                    /* of the gradients: 1 / world size */
    double lr, hyper[SS_UPDATE_HYPER];
    uint64_t step; /* from 1 */
    /* GPU: the weights in its dtype, written (NULL with fp32); and the loss scaling's state (NULL:
     * none). Gradients are divided by its scale; with scaler->found nothing is changed. */
    void *copy;
    const struct ss_scaler *scaler;
};

/* What all elements of a step have in common. */
struct ss_rule_terms {
    float lr, keep, decay;
    float take;                    /* Adam, AdamW, SGD with dampening */
    float keep2, take2, eps, root; /* Adam, AdamW */
};

/* base to the power n, by multiplications alone: the same on every device. */
SS_ANY_DEVICE static inline double ss_power(double base, uint64_t n)
{
    double power = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1)
            power *= base;
    return power;
}

/* step: of this update, from 1. Steps that loss scaling left out do not count, as torch.amp never
 * calls the optimizer for them. */
SS_ANY_DEVICE static inline struct ss_rule_terms ss_rule_begin(const struct ss_update *u,
                                                               uint64_t step)
{
    const double *h = u->hyper;
    struct ss_rule_terms t = {(float)u->lr, (float)h[0], (float)h[1], 0, 0, 0, 0, 0};
    if (u->rule == SS_RULE_SGD_DAMPENED)
        t.take = (float)(step == 1 ? 1 : 1 - h[2]);
    if (u->rule < SS_RULE_ADAM)
        return t;
    t.lr = (float)(u->lr / (1 - ss_power(h[0], step)));
    t.root = (float)sqrt(1 - ss_power(h[1], step));
    t.decay = (float)(u->rule == SS_RULE_ADAMW ? 1 - u->lr * h[3] : h[3]);
    t.take = (float)(1 - h[0]);
    t.keep2 = (float)h[1];
    t.take2 = (float)(1 - h[1]);
    t.eps = (float)h[2];
    return t;
}

/* A weight's new value from its old one, its gradient and its states, which change.
 *
 * SGD, as PyTorch's:
 *   d = g + weight_decay * w      v = momentum * v + d      w = w - lr * v
 * v starts as zero, which makes the first step PyTorch's (v = d). With dampening v is
 *   v = momentum * v + (1 - dampening) * d      but in the first step v = d
 * and with Nesterov's momentum w = w - lr * (d + momentum * v).
 *
 * Adam, as PyTorch's (no amsgrad; Kingma and Ba 2015, algorithm 1): as AdamW with d for g and
 * weight_decay 0.
 *
 * AdamW, as PyTorch's (no amsgrad; Loshchilov and Hutter 2019, algorithm 2), in step t:
 *   w = w - lr * weight_decay * w
 *   m = beta1 * m + (1 - beta1) * g      v = beta2 * v + (1 - beta2) * g * g
 *   w = w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps) */
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
    case SS_RULE_ADAM:
        state[0] += t->take * (d - state[0]);
        state[1] = t->keep2 * state[1] + t->take2 * d * d;
        return w - t->lr * (state[0] / (sqrtf(state[1]) / t->root + t->eps));
    case SS_RULE_ADAMW:
        state[0] += t->take * (g - state[0]);
        state[1] = t->keep2 * state[1] + t->take2 * g * g;
        return t->decay * w - t->lr * (state[0] / (sqrtf(state[1]) / t->root + t->eps));
    }
    return w;
}

#endif
