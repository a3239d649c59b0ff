/* stats.c: peak, mean and mode of a series. */
#include "core/log.h"
#include "apps/monitor/samples.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The mode of sorted whole numbers. */
static double most_frequent(const double *value, size_t count)
{
    double mode = value[0];
    size_t most = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && value[end] == value[begin]; end++)
            ;
        if (end - begin > most) {
            most = end - begin;
            mode = value[begin];
        }
    }
    return mode;
}

enum ss_status ss_sample_stats_of(const double *value, size_t count, struct ss_sample_stats *out)
{
    struct ss_sample_stats s = {0};
    double *whole = malloc((count ? count : 1) * sizeof *whole), sum = 0;
    if (!whole)
        return ss_fail_memory("values of samples", count * sizeof *whole);
    for (size_t i = 0; i < count; i++) {
        if (isnan(value[i]))
            continue;
        whole[s.count] = round(value[i]);
        s.peak = s.count ? fmax(s.peak, value[i]) : value[i];
        sum += value[i];
        s.count++;
    }
    if (s.count) {
        s.mean = sum / (double)s.count;
        qsort(whole, s.count, sizeof *whole, ascending);
        s.mode = most_frequent(whole, s.count);
    }
    free(whole);
    *out = s;
    return SS_OK;
}
