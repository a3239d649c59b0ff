/* AdamW in double precision, for the kernels' tests: beta1 0.9, beta2 0.999, eps 1e-8. In 5 steps
 * PyTorch's own fp32 strays by 9e-8 of a tensor's norm. */
#ifndef SS_TESTS_ADAMW_REFERENCE_H
#define SS_TESTS_ADAMW_REFERENCE_H

#include <math.h>
#include <stddef.h>

static const double ADAMW_BOUND = 2e-7;
static const double ADAMW_HYPER[] = {0.9, 0.999, 1e-8, 0.05}; /* the last: weight decay */

static inline void adamw_step(size_t count, int step, double lr, const double *g, double *w,
                              double *m, double *v)
{
    for (size_t i = 0; i < count; i++) {
        w[i] *= 1 - lr * ADAMW_HYPER[3];
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
        w[i] -= lr * (m[i] / (1 - pow(0.9, step))) / (sqrt(v[i] / (1 - pow(0.999, step))) + 1e-8);
    }
}

#endif
