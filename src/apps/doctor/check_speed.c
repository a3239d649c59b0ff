/* check_speed.c: measures compute and memory speed of one core per rank, on all ranks
 * simultaneously, as in a step. */
#include "apps/doctor/doctor.h"
#include "apps/doctor/speed.h"

#include <stdlib.h>

/* Steps wait for the slowest rank. A speed below this share of the median is not noise. */
static const double least = 0.7;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Judge `values` of n ranks; sorts them. */
static void judge(const char *check, const char *does, const char *unit, double own, double *values,
                  int n, struct ss_findings *f)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    const double median = values[n / 2];
    if (own < least * median)
        ss_find(f, SS_SLOW, check,
                "check for other processes (top) and for a throttled processor (cpupower "
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

static enum ss_status compare(struct ss_comm *comm, struct ss_cpu_speed *all, struct ss_findings *f)
{
    static const char what[] = "the speed of a core";
    const int n = ss_comm_size(comm), self = ss_comm_rank(comm);
    struct ss_cpu_speed own = {0, 0};
    SS_TRY(ss_comm_agree(
        comm, all ? ss_cpu_measure(1, &own) : ss_fail_memory(what, (size_t)n * sizeof *all), what));
    SS_TRY(ss_comm_gather(comm, &own, sizeof own, self ? NULL : all, what));
    SS_TRY(ss_comm_bcast(comm, all, (size_t)n * sizeof *all, 0, what));
    return ss_speed_judge(all, n, self, f);
}

void ss_doctor_speed(const struct ss_doctor_options *o, struct ss_comm *comm, struct ss_findings *f)
{
    struct ss_cpu_speed *all = calloc((size_t)ss_comm_size(comm), sizeof *all);
    char why[SS_FINDING_TEXT];
    (void)o;
    ss_log_capture(why, sizeof why);
    const enum ss_status status = compare(comm, all, f);
    ss_log_capture(NULL, 0);
    if (status != SS_OK && *why)
        ss_find(f, SS_BROKEN, "cores.speed", "give the ranks more memory", "%s", why);
    free(all);
}
