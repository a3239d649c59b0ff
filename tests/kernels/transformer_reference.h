/* transformer_reference.h: layer normalization and attention in double precision on plain (N,C,S)
 * tensors, for CPU and GPU tests. */
#ifndef SS_TESTS_TRANSFORMER_REFERENCE_H
#define SS_TESTS_TRANSFORMER_REFERENCE_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

struct layernorm_reference {
    int n, c, pixels;
    double eps;
    const double *x, *dy, *gamma, *beta;
    double *y, *dx, *dgamma, *dbeta; /* out */
};

/* Computes the position whose first channel is element `at`. */
static inline void layernorm_reference_place(struct layernorm_reference *r, size_t at)
{
    const size_t step = (size_t)r->pixels;
    double mean = 0, var = 0, sum = 0, sum_x = 0;
    for (int c = 0; c < r->c; c++)
        mean += r->x[at + (size_t)c * step] / r->c;
    for (int c = 0; c < r->c; c++)
        var += pow(r->x[at + (size_t)c * step] - mean, 2) / r->c;
    const double invstd = 1 / sqrt(var + r->eps);
    for (int c = 0; c < r->c; c++) {
        const size_t i = at + (size_t)c * step;
        const double xhat = (r->x[i] - mean) * invstd;
        r->y[i] = r->gamma[c] * xhat + r->beta[c];
        r->dgamma[c] += r->dy[i] * xhat;
        r->dbeta[c] += r->dy[i];
        sum += r->gamma[c] * r->dy[i] / r->c;
        sum_x += r->gamma[c] * r->dy[i] * xhat / r->c;
    }
    for (int c = 0; c < r->c; c++) {
        const size_t i = at + (size_t)c * step;
        r->dx[i] = invstd * (r->gamma[c] * r->dy[i] - sum - (r->x[i] - mean) * invstd * sum_x);
    }
}

static inline void layernorm_reference(struct layernorm_reference *r)
{
    for (int c = 0; c < r->c; c++)
        r->dgamma[c] = r->dbeta[c] = 0;
    for (int n = 0; n < r->n; n++)
        for (int p = 0; p < r->pixels; p++)
            layernorm_reference_place(r, (size_t)(n * r->c * r->pixels + p));
}

struct attention_reference {
    int n, e, heads, s;
    const double *x, *dy; /* (N,3E,S), (N,E,S) */
    double *y, *dx;       /* out */
};

/* Computes the probabilities p (S) of query i; q and k are (D,S). */
static inline void attention_reference_query(const struct attention_reference *r, const double *q,
                                             const double *k, int i, double *p)
{
    const int d = r->e / r->heads;
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < r->s; j++) {
        p[j] = 0;
        for (int c = 0; c < d; c++)
            p[j] += q[c * r->s + i] * k[c * r->s + j] / sqrt(d);
        most = fmax(most, p[j]);
    }
    for (int j = 0; j < r->s; j++)
        sum += p[j] = exp(p[j] - most);
    for (int j = 0; j < r->s; j++)
        p[j] /= sum;
}

static inline void attention_reference_head(struct attention_reference *r, int n, int head)
{
    const int d = r->e / r->heads, s = r->s;
    const size_t at = (size_t)((n * 3 * r->e + head * d) * s), part = (size_t)(r->e * s);
    const double *q = r->x + at, *k = q + part, *v = k + part;
    const double *dy = r->dy + (size_t)((n * r->e + head * d) * s);
    double *y = r->y + (size_t)((n * r->e + head * d) * s);
    double *dq = r->dx + at, *dk = dq + part, *dv = dk + part;
    double *p = malloc((size_t)s * sizeof *p), *dp = malloc((size_t)s * sizeof *dp);
    for (int i = 0; i < d * s; i++)
        y[i] = dq[i] = dk[i] = dv[i] = 0;
    for (int i = 0; i < s; i++) {
        double sum = 0;
        attention_reference_query(r, q, k, i, p);
        for (int j = 0; j < s; j++) {
            dp[j] = 0;
            for (int c = 0; c < d; c++) {
                y[c * s + i] += p[j] * v[c * s + j];
                dv[c * s + j] += p[j] * dy[c * s + i];
                dp[j] += dy[c * s + i] * v[c * s + j];
            }
            sum += p[j] * dp[j];
        }
        for (int j = 0; j < s; j++) {
            const double ds = p[j] * (dp[j] - sum) / sqrt(d);
            for (int c = 0; c < d; c++) {
                dq[c * s + i] += ds * k[c * s + j];
                dk[c * s + j] += ds * q[c * s + i];
            }
        }
    }
    free(p), free(dp);
}

static inline void attention_reference(struct attention_reference *r)
{
    for (int i = 0; i < r->n * r->heads; i++)
        attention_reference_head(r, i / r->heads, i % r->heads);
}

/* Channels that do not fill a block or vector, one position, and more positions than a chunk. */
static const struct {
    int n, c, h, w;
} layernorm_cases[] = {
    {2, 12, 5, 1}, {3, 20, 17, 1}, {2, 24, 10, 5}, {1, 48, 7, 7}, {2, 768, 50, 1},
    {5, 3, 1, 1},  {2, 8, 9, 15},  {3, 32, 1, 1},  {2, 7, 3, 3},
};
enum { LAYERNORM_CASES = sizeof layernorm_cases / sizeof *layernorm_cases };

static const struct {
    int n, e, heads, s;
} attention_cases[] = {
    {2, 12, 3, 5}, {2, 20, 2, 17},  {1, 24, 4, 50}, {3, 48, 3, 17},
    {1, 64, 1, 5}, {2, 32, 2, 197}, {2, 7, 7, 1},   {1, 128, 2, 130},
};
enum { ATTENTION_CASES = sizeof attention_cases / sizeof *attention_cases };

#endif
