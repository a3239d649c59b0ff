/* join_reference.h: struct ss_gather and struct ss_mul in double precision on plain (N,C,H,W)
 * tensors, and test cases, for CPU and GPU tests. */
#ifndef SS_TESTS_JOIN_REFERENCE_H
#define SS_TESTS_JOIN_REFERENCE_H

#include "kernels/shapes.h"

/* Concatenations, slices and shuffles whose parts begin at multiples of blocks and vectors, or in
 * the middle of them. */
static const struct gather_case {
    int h, w, c, nparts;
    struct {
        int c, from, to, count, groups;
    } part[SS_GATHER_PARTS];
} gather_cases[] = {
    {5, 7, 48, 2, {{24, 0, 0, 24, 1}, {24, 0, 24, 24, 1}}},
    {3, 3, 32, 2, {{12, 0, 0, 12, 1}, {20, 0, 12, 20, 1}}},
    {4,
     4,
     3 + 8 + 1 + 17,
     4,
     {{3, 0, 0, 3, 1}, {8, 0, 3, 8, 1}, {1, 0, 11, 1, 1}, {17, 0, 12, 17, 1}}},
    {19, 17, 64, 2, {{48, 0, 0, 48, 1}, {16, 0, 48, 16, 1}}}, /* more than one chunk */
    {2, 3, 20, 1, {{48, 28, 0, 20, 1}}},                      /* a slice */
    {2, 3, 24, 1, {{48, 24, 0, 24, 1}}},
    {3, 2, 48, 1, {{20, 0, 28, 20, 1}}}, /* its gradient: 0 elsewhere */
    {3, 2, 40, 1, {{5, 0, 16, 5, 1}}},
    {4, 3, 48, 1, {{48, 0, 0, 48, 2}}}, /* shuffles */
    {1, 5, 60, 1, {{60, 0, 0, 60, 3}}},
    {1, 1, 100, 1, {{100, 0, 0, 100, 25}}},
    {6, 6, 3, 1, {{3, 0, 0, 3, 1}}}, /* layout conversion only */
    {2, 2, 40, 1, {{40, 0, 0, 40, 1}}},
};
enum { GATHER_CASES = sizeof gather_cases / sizeof *gather_cases, GATHER_IMAGES = 2 };

/* Makes the operation of case i; the caller sets the blocks. */
static inline struct ss_gather gather_make(int i)
{
    const struct gather_case *c = &gather_cases[i];
    struct ss_gather op = {.y = {GATHER_IMAGES, c->c, c->h, c->w, 1}, .nparts = c->nparts};
    for (int k = 0; k < c->nparts; k++)
        op.part[k] = (struct ss_gather_part){{GATHER_IMAGES, c->part[k].c, c->h, c->w, 1},
                                             c->part[k].from,
                                             c->part[k].to,
                                             c->part[k].count,
                                             c->part[k].groups};
    return op;
}

/* x[k] are plain; if op has one part, n tensors are summed. The shuffle is PyTorch's
 * channel_shuffle: view(groups, C / groups), transpose, so that channel g (C / groups) + k
 * becomes k groups + g. */
static inline void gather_reference(const struct ss_gather *op, const double *const *x, int n,
                                    double *y)
{
    const int plane = op->y.h * op->y.w;
    for (int i = 0; i < op->y.n * op->y.c * plane; i++)
        y[i] = 0;
    for (int t = 0; t < n; t++) {
        const struct ss_gather_part *p = &op->part[op->nparts > 1 ? t : 0];
        const int each = p->count / p->groups;
        for (int m = 0; m < op->y.n; m++)
            for (int g = 0; g < p->groups; g++)
                for (int k = 0; k < each; k++)
                    for (int i = 0; i < plane; i++)
                        y[(m * op->y.c + p->to + k * p->groups + g) * plane + i] +=
                            x[t][(m * p->x.c + p->from + g * each + k) * plane + i];
    }
}

static const struct mul_case {
    enum ss_mul_kind kind;
    int n, c, h, w;
} mul_cases[] = {
    {SS_MUL_EQUAL, 2, 20, 5, 3},   {SS_MUL_EQUAL, 3, 64, 17, 19}, {SS_MUL_IMAGE, 3, 20, 5, 3},
    {SS_MUL_IMAGE, 2, 48, 35, 33}, {SS_MUL_IMAGE, 5, 7, 1, 1},    {SS_MUL_PARAM, 3, 20, 5, 3},
    {SS_MUL_PARAM, 2, 96, 35, 33}, {SS_MUL_PARAM, 5, 7, 1, 1},    {SS_MUL_IMAGE, 2, 2048, 2, 2},
};
enum { MUL_CASES = sizeof mul_cases / sizeof *mul_cases };

/* Returns the number of elements of the factor. */
static inline size_t mul_factors(const struct mul_case *c)
{
    const size_t of_image = (size_t)c->c * (size_t)(c->kind == SS_MUL_EQUAL ? c->h * c->w : 1);
    return of_image * (size_t)(c->kind == SS_MUL_PARAM ? 1 : c->n);
}

/* Returns the index of the factor of element i of x. */
static inline size_t mul_factor_of(const struct mul_case *c, size_t i)
{
    const size_t plane = (size_t)(c->h * c->w), channels = (size_t)c->c;
    return c->kind == SS_MUL_EQUAL ? i : c->kind == SS_MUL_IMAGE ? i / plane : i / plane % channels;
}

/* Computes y, and the gradients for dy. ds must be initialized to zeros. */
static inline void mul_reference(const struct mul_case *c, const double *x, const double *s,
                                 const double *dy, double *y, double *dx, double *ds)
{
    for (size_t i = 0; i < (size_t)(c->n * c->c * c->h * c->w); i++) {
        const size_t k = mul_factor_of(c, i);
        y[i] = x[i] * s[k];
        dx[i] = dy[i] * s[k];
        ds[k] += dy[i] * x[i];
    }
}

#endif
