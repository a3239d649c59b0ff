/* links_all_reduce.c: measures all-reduces of gradient-like sizes.
 *
 * Bus bandwidth is defined as in nccl-tests: the bytes that an all-reduce must move over each
 * link of a ring, 2 (ranks - 1) / ranks of its bytes, divided by its time (nccl-tests,
 * doc/PERFORMANCE.md). */
#include "core/clock.h"
#include "core/log.h"
#include "apps/doctor/links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes from 512 KiB to 8 MiB are those that a fabric has occasionally corrupted
 * (comm/nccl_check.c); each is verified several times. */
static const size_t sizes[] = {SS_MIB / 16, SS_MIB / 2, SS_MIB,        2 * SS_MIB,
                               4 * SS_MIB,  8 * SS_MIB, SS_LINKS_BYTES};
enum { SIZES = sizeof sizes / sizeof *sizes, TIMES = 50, CHECKS = 8, JUDGED_NODES = 16 };

/* Expected bus bandwidth of all-reduces. NCCL's rings use all adapters of a node; with MPI every
 * rank sends its shares over its own adapter. */
static double expected_of_sums(const struct ss_links *l)
{
    if (ss_comm_nodes(l->comm) == 1)
        return l->plane.gpus ? ss_links_nvlink(l->place[0].gpu) : -1;
    return l->plane.gpus && ss_links_network(l) > 0
               ? ss_links_network(l) * ss_comm_local_size(l->comm)
               : ss_links_network(l);
}

static enum ss_status check_sum(struct ss_links *l, const struct ss_links_work *w,
                                struct ss_links_fault *fault)
{
    const size_t count = w->bytes / sizeof(float);
    const int size = ss_comm_size(l->comm);
    SS_TRY(ss_links_check(l, w));
    SS_TRY(l->plane.get(l->plane.state, SS_LINKS_DATA, l->host, w->bytes));
    for (size_t i = 0; i < count; i++)
        ss_links_compare(fault, i, (double)l->host[i],
                         (double)ss_comm_check_sum(SS_DTYPE_F32, size, i));
    return SS_OK;
}

static void report_faults(struct ss_links *l, const struct ss_links_result *all, size_t bytes,
                          int checks)
{
    for (int r = 0; r < ss_comm_size(l->comm); r++) {
        const struct ss_links_fault *fault = &all[r].fault;
        if (fault->wrong == 0)
            continue;
        ss_find(
            l->f, SS_BROKEN, "links.allreduce",
            "do not train over this network as it is: on GH200 with Slingshot NCCL_PROTO=^LL128 "
            "has helped (NCCL issue 2001)",
            "of %d all-reduces of %zu KiB over %d ranks, one or more gave rank %d on %s %llu wrong "
            "elements, the first %llu: %.9g instead of %.9g",
            checks, bytes / 1024, ss_comm_size(l->comm), r, l->place[r].host,
            (unsigned long long)fault->wrong, (unsigned long long)fault->element, fault->got,
            fault->want);
        return; /* report one rank only, to limit the number of findings */
    }
}

static void report_sum(struct ss_links *l, size_t bytes, double seconds, int checks)
{
    const int size = ss_comm_size(l->comm);
    const double gb_s = (double)bytes / seconds * 1e-9, bus = gb_s * 2 * (size - 1) / size;
    /* Small sizes, and very many ranks, are bound by latency. */
    const int judged = bytes == SS_LINKS_BYTES && ss_comm_nodes(l->comm) <= JUDGED_NODES;
    const double want = judged ? expected_of_sums(l) : -1;
    char text[SS_FINDING_TEXT];
    snprintf(text, sizeof text,
             "an all-reduce of %zu KiB over %d ranks (%s): %.3g ms, %.3g GB/s, bus bandwidth %.3g "
             "GB/s; checked "
             "%d times",
             bytes / 1024, size, l->plane.name, 1e3 * seconds, gb_s, bus, checks);
    if (want > 0 && bus < want / 2)
        ss_find(l->f, SS_SLOW, "links.allreduce", ss_links_advice(l, ss_comm_nodes(l->comm) > 1),
                "%s; expected %.4g GB/s", text, want);
    else
        ss_find(l->f, SS_FINE, "links.allreduce", NULL, "%s", text);
    ss_find_figure(l->f, bus, want, "GB/s");
}

/* Measure one size. The first pass also verifies the result. */
static enum ss_status probe_sums(struct ss_links *l, size_t bytes, double budget, double *seconds)
{
    const struct ss_links_work w = {.to = SS_LINKS_SUM, .from = SS_LINKS_SUM, .bytes = bytes};
    struct ss_links_result own = {0};
    int times, checks;
    void *all;
    SS_TRY(check_sum(l, &w, &own.fault)); /* also connects */
    const double begin = ss_seconds();
    SS_TRY(check_sum(l, &w, &own.fault));
    double whole = ss_seconds() - begin;
    SS_TRY(ss_links_agree(l, budget / 3, whole, CHECKS, &checks));
    for (int i = 0; i < checks; i++)
        SS_TRY(check_sum(l, &w, &own.fault));
    /* Repeated in-place all-reduces would overflow: zeros stay zeros. */
    memset(l->host, 0, bytes);
    SS_TRY(l->plane.put(l->plane.state, SS_LINKS_DATA, l->host, bytes));
    SS_TRY(ss_links_time(l, &w, 1, &own.seconds));
    SS_TRY(ss_links_agree(l, budget / 3, own.seconds, TIMES, &times));
    if (times > 1)
        SS_TRY(ss_links_time(l, &w, times, &own.seconds));
    *seconds = own.seconds;
    SS_TRY(ss_links_largest(l, seconds));
    SS_TRY(ss_comm_gather_alloc(l->comm, &own, sizeof own, &all, SS_LINKS));
    if (all) {
        report_faults(l, all, bytes, checks + 2);
        report_sum(l, bytes, *seconds, checks + 2);
    }
    free(all);
    return SS_OK;
}

/* Sizes that do not fit into the remaining time are skipped, which is reported. */
enum ss_status ss_links_all_reduce(struct ss_links *l, double seconds)
{
    const double end = ss_seconds() + seconds;
    double one = 0; /* of the preceding size */
    for (int i = 0; i < SIZES; i++) {
        const double left = end - ss_seconds();
        const double next = i > 0 ? one * (double)sizes[i] / (double)sizes[i - 1] : 0;
        int fits;
        /* Two checks and one timing. */
        SS_TRY(ss_links_agree(l, left, 3 * next, 1, &fits));
        if (i > 0 && !fits) {
            if (ss_comm_rank(l->comm) == 0)
                ss_find(l->f, SS_FINE, "links.allreduce", NULL,
                        "all-reduces of %zu KiB and more were skipped for lack of time (--seconds)",
                        sizes[i] / 1024);
            return SS_OK;
        }
        SS_TRY(probe_sums(l, sizes[i], seconds / SIZES, &one));
    }
    return SS_OK;
}
