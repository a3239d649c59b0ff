/* mann_whitney.c: the Mann-Whitney U test (interface in tune.h). */
#include "apps/tune/tune.h"

#include <math.h>
#include <stdlib.h>

/* U: the number of pairs in which the value of a is larger. */
static double u_statistic(const double *a, size_t na, const double *b, size_t nb)
{
    double u = 0;
    for (size_t i = 0; i < na; i++)
        for (size_t k = 0; k < nb; k++)
            u += a[i] > b[k] ? 1 : a[i] == b[k] ? 0.5 : 0;
    return u;
}

/* P(U <= most) under the null hypothesis. p[k][u] is the probability of U = u for n values of a
 * and k of b: the largest one is from a with probability n / (n + k), and then exceeds all k of
 * b; otherwise it is from b. */
static double probability_up_to(size_t na, size_t nb, size_t most)
{
    const size_t values = na * nb + 1;
    double *p = calloc((nb + 1) * values, sizeof *p), sum = 0;
    if (!p)
        return 1;
    for (size_t k = 0; k <= nb; k++)
        p[k * values] = 1; /* n = 0 */
    for (size_t n = 1; n <= na; n++)
        for (size_t k = 0; k <= nb; k++)
            for (size_t u = values; u-- > 0;) {
                const double first = u >= k ? p[k * values + u - k] : 0;
                const double last = k ? p[(k - 1) * values + u] : 0;
                p[k * values + u] = ((double)n * first + (double)k * last) / (double)(n + k);
            }
    for (size_t u = 0; u <= most && u < values; u++)
        sum += p[nb * values + u];
    free(p);
    return sum;
}

double ss_tune_p_value(const double *a, size_t na, const double *b, size_t nb)
{
    if (!na || !nb)
        return 1;
    const double pairs = (double)(na * nb), u = u_statistic(a, na, b, nb);
    const double fewer = u < pairs - u ? u : pairs - u;
    return fmin(1, 2 * probability_up_to(na, nb, (size_t)ceil(fewer)));
}
