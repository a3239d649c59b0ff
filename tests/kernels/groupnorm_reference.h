/* groupnorm_reference.h: group normalization in double precision on plain (N,C,H,W) tensors, for
 * CPU and GPU tests. */
#ifndef SS_TESTS_GROUPNORM_REFERENCE_H
#define SS_TESTS_GROUPNORM_REFERENCE_H

#include "tests/kernels/activation_reference.h"

#include <stddef.h>

struct groupnorm_reference {
    int n, c, pixels, groups;
    enum ss_activation act;
    double eps;
    const double *x, *dy, *gamma, *beta;
    double *y, *dx, *dgamma, *dbeta; /* out */
};

static inline void groupnorm_reference_group(struct groupnorm_reference *r, int n, int group)
{
    const int channels = r->c / r->groups, count = channels * r->pixels;
    const size_t base = ((size_t)n * (size_t)r->c + (size_t)(group * channels)) * (size_t)r->pixels;
    double mean = 0, var = 0, sum = 0, sum_x = 0;
    for (int i = 0; i < count; i++)
        mean += r->x[base + (size_t)i] / count;
    for (int i = 0; i < count; i++)
        var += pow(r->x[base + (size_t)i] - mean, 2) / count;
    const double invstd = 1 / sqrt(var + r->eps);
    for (int i = 0; i < count; i++) {
        const int c = group * channels + i / r->pixels;
        const double xhat = (r->x[base + (size_t)i] - mean) * invstd;
        const double u = r->gamma[c] * xhat + r->beta[c];
        const double g = act_slope(r->act, u) * r->dy[base + (size_t)i];
        r->y[base + (size_t)i] = act_value(r->act, u);
        r->dx[base + (size_t)i] = g;
        r->dbeta[c] += g;
        r->dgamma[c] += g * xhat;
        sum += r->gamma[c] * g / count;
        sum_x += r->gamma[c] * g * xhat / count;
    }
    for (int i = 0; i < count; i++) {
        const double xhat = (r->x[base + (size_t)i] - mean) * invstd;
        double *dx = &r->dx[base + (size_t)i];
        *dx = invstd * (r->gamma[group * channels + i / r->pixels] * *dx - sum - xhat * sum_x);
    }
}

static inline void groupnorm_reference(struct groupnorm_reference *r)
{
    for (int c = 0; c < r->c; c++)
        r->dgamma[c] = r->dbeta[c] = 0;
    for (int i = 0; i < r->n * r->groups; i++)
        groupnorm_reference_group(r, i / r->groups, i % r->groups);
}

/* SS_ACT_SIGMOID does not map 0 to 0. */
static const enum ss_activation groupnorm_acts[] = {SS_ACT_NONE, SS_ACT_RELU, SS_ACT_SIGMOID};

/* Groups of one channel and of all, channels that do not fill a block or vector, maps of one
 * pixel and of more than a tile. */
static const struct {
    int n, c, h, w, groups;
} groupnorm_cases[] = {
    {2, 16, 5, 3, 4}, {3, 20, 4, 4, 5},  {2, 12, 3, 3, 12}, {1, 7, 6, 5, 1},
    {2, 40, 1, 1, 4}, {1, 8, 53, 47, 2}, {2, 64, 9, 8, 32}, {70, 24, 2, 2, 3},
};
enum { GROUPNORM_CASES = sizeof groupnorm_cases / sizeof *groupnorm_cases };

#endif
