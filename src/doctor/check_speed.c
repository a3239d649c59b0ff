/* check_speed.c: what one core of each rank computes and moves, all ranks at once, as in a step. */
#include "doctor/doctor.h"
#include "doctor/speed.h"

#include <stdlib.h>

/* Steps wait for the slowest rank. Less of the median than this is more than noise. */
static const double least = 0.7;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `values` of n ranks, which are sorted. */
static void judge(const char *check, const char *does, const char *unit, double own, double *values,
                  int n, struct ss_findings *f)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    const double median = values[n / 2];
    if (own < least * median)
        ss_find(
            f, SS_SLOW, check,
            "look for what else runs there (top) and for a processor that is throttled (cpupower "
            "frequency-info, sensors): all ranks wait for the slowest",
            "a core %s {} %s, of most ranks %.3g", does, unit, median);
    else
        ss_find(f, SS_FINE, check, NULL, "a core %s {} %s", does, unit);
    ss_find_figure(f, own, n > 1 ? median : -1, unit);
}

enum ss_status ss_speed_judge(const struct ss_cpu_speed *all, int n, int self,
                              struct ss_findings *f)
{
    double *values = calloc((size_t)n, sizeof *values);
    if (!values)
        return ss_fail_memory("speeds of ranks", (size_t)n * sizeof *values);
    for (int i = 0; i < n; i++)
        values[i] = all[i].flops / 1e9;
    judge("cores.speed", "computes", "GFLOP/s", all[self].flops / 1e9, values, n, f);
    for (int i = 0; i < n; i++)
        values[i] = all[i].bandwidth / 1e9;
    judge("memory.bandwidth", "moves", "GB/s", all[self].bandwidth / 1e9, values, n, f);
    free(values);
    return SS_OK;
}

void ss_doctor_speed(const struct ss_doctor_options *o, struct ss_comm *comm, struct ss_findings *f)
{
    (void)o;
    const int n = ss_comm_size(comm), self = ss_comm_rank(comm);
    struct ss_cpu_speed own = {0, 0}, *all = calloc((size_t)n, sizeof *all);
    enum ss_status status =
        all ? ss_cpu_measure(1, &own) : ss_fail_memory("speeds of ranks", (size_t)n * sizeof *all);
    if (ss_comm_agree(comm, status, "the speed of a core") == SS_OK &&
        ss_comm_gather(comm, &own, sizeof own, self ? NULL : all, "the speed of a core") == SS_OK &&
        ss_comm_bcast(comm, all, (size_t)n * sizeof *all, 0, "the speed of a core") == SS_OK)
        (void)ss_speed_judge(all, n, self, f);
    free(all);
}
