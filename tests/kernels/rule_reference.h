/* The optimizers' rules in double precision, for the kernels' tests. In 5 steps of AdamW PyTorch's own
 * fp32 strays by 9e-8 of a tensor's norm. */
#ifndef SS_TESTS_RULE_REFERENCE_H
#define SS_TESTS_RULE_REFERENCE_H

#include "kernels/update.h"

#include <math.h>
#include <stddef.h>

static const double RULE_BOUND = 3e-7;

static const struct rule_case {
    enum ss_rule rule;
    double hyper[SS_UPDATE_HYPER];
} rule_cases[] = {
    {SS_RULE_SGD, {0.5, 5e-4}}, /* the first is not read */
    {SS_RULE_SGD_MOMENTUM, {0.9, 5e-4}},
    {SS_RULE_SGD_NESTEROV, {0.9, 5e-4}},
    {SS_RULE_SGD_DAMPENED, {0.9, 5e-4, 0.3}},
    {SS_RULE_ADAM, {0.9, 0.999, 1e-8, 0.05}},
    {SS_RULE_ADAMW, {0.9, 0.999, 1e-8, 0.05}},
};
enum { RULE_CASES = sizeof rule_cases / sizeof *rule_cases };

/* w, and the states m and v where the rule has them. */
static inline void rule_step(const struct rule_case *c, size_t count, int step, double lr,
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

#endif
