/* links_messages.c: measures messages to the next rank of the node, and to the rank of the same
 * local number on the next node. */
#include "core/log.h"
#include "apps/doctor/links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGE = 32 * SS_MIB, SMALL = 8, TIMES = 50 };

/* Expected GB/s from rank `from` to rank `to`. */
static double expected(const struct ss_links *l, int from, int to)
{
    if (l->place[from].node != l->place[to].node)
        return ss_links_network(l);
    return l->plane.gpus ? ss_links_nvlink(l->place[to].gpu) : -1;
}

static enum ss_status check_message(struct ss_links *l, const struct ss_links_work *w,
                                    struct ss_links_fault *fault)
{
    const size_t count = w->bytes / sizeof(float);
    const int size = ss_comm_size(l->comm);
    memset(l->host, 0xff, w->bytes); /* NaN */
    SS_TRY(l->plane.put(l->plane.state, SS_LINKS_RECEIVED, l->host, w->bytes));
    SS_TRY(ss_links_check(l, w));
    if (w->from < 0)
        return SS_OK;
    SS_TRY(l->plane.get(l->plane.state, SS_LINKS_RECEIVED, l->host, w->bytes));
    for (size_t i = 0; i < count; i++)
        ss_links_compare(fault, i, (double)l->host[i],
                         (double)ss_comm_check_value(SS_DTYPE_F32, size, w->from, i));
    return SS_OK;
}

/* Measure this rank's message while others send theirs. *small: seconds of a message of a few
 * bytes. */
static enum ss_status measure_messages(struct ss_links *l, struct ss_links_work *w, double budget,
                                       struct ss_links_result *own, double *small)
{
    struct ss_links_work few = *w;
    int times, mib;
    few.bytes = SMALL;
    SS_TRY(ss_links_time(l, &few, 2, small)); /* also connects */
    SS_TRY(ss_links_time(l, &few, 20, small));
    w->bytes = SS_MIB;
    SS_TRY(ss_links_time(l, w, 1, &own->seconds));
    SS_TRY(ss_links_time(l, w, 1, &own->seconds));
    SS_TRY(ss_links_largest(l, &own->seconds));
    SS_TRY(ss_links_agree(l, budget / 6, own->seconds, MOST_MESSAGE / SS_MIB, &mib));
    w->bytes = (size_t)(mib > 0 ? mib : 1) * SS_MIB;
    SS_TRY(check_message(l, w, &own->fault));
    SS_TRY(ss_links_agree(l, budget / 2, own->seconds * (double)w->bytes / SS_MIB, TIMES, &times));
    return ss_links_time(l, w, times > 0 ? times : 1, &own->seconds);
}

/* Report the messages: the sender, receiver and speed. */
static void report_messages(struct ss_links *l, const struct ss_links_result *all, const int *from,
                            int between)
{
    static const char *const checks[] = {"links.node", "links.between"};
    double least = INFINITY, most = 0, small = 0, want = -1;
    int slowest = -1;
    for (int r = 0; r < ss_comm_size(l->comm); r++) {
        if (from[r] < 0)
            continue;
        const double gb_s = all[r].bytes / all[r].seconds * 1e-9;
        small = all[r].small > small ? all[r].small : small;
        most = gb_s > most ? gb_s : most;
        if (gb_s < least) {
            least = gb_s;
            slowest = r;
            want = expected(l, from[r], r);
        }
        if (all[r].fault.wrong)
            ss_find(
                l->f, SS_BROKEN, checks[between],
                "do not train over this link: another node, or another version of NCCL, MPI or the "
                "network's libraries",
                "a message of %.0f KiB from rank %d on %s arrived at rank %d on %s with %llu wrong "
                "elements, the first %llu: %.9g instead of %.9g",
                all[r].bytes / 1024, from[r], l->place[from[r]].host, r, l->place[r].host,
                (unsigned long long)all[r].fault.wrong, (unsigned long long)all[r].fault.element,
                all[r].fault.got, all[r].fault.want);
    }
    if (slowest < 0)
        return;
    char text[SS_FINDING_TEXT];
    snprintf(
        text, sizeof text,
        "messages of %.0f KiB %s: %.3g to %.3g GB/s, the slowest from rank %d on %s to rank %d on "
        "%s; of %d bytes: up to %.3g us",
        all[slowest].bytes / 1024, between ? "between nodes" : "within a node", least, most,
        from[slowest], l->place[from[slowest]].host, slowest, l->place[slowest].host, SMALL,
        1e6 * small);
    if (want > 0 && least < want / 2)
        ss_find(l->f, SS_SLOW, checks[between], ss_links_advice(l, between),
                "%s; expected %.4g GB/s", text, want);
    else
        ss_find(l->f, SS_FINE, checks[between], NULL, "%s", text);
    ss_find_figure(l->f, least, want, "GB/s");
}

/* Schedule the messages in turns such that no rank has two simultaneously, as a slow link would
 * slow down its neighbor. turn: the turn of each message. Returns the number of turns. */
static int take_turns(const int *from, int size, int *turn)
{
    int turns = 0;
    for (int r = 0; r < size; r++) {
        int busy;
        turn[r] = -1;
        if (from[r] < 0)
            continue;
        do {
            busy = 0;
            turn[r]++;
            for (int s = 0; s < r; s++)
                busy |= from[s] >= 0 && turn[s] == turn[r] &&
                        (s == from[r] || from[s] == from[r] || from[s] == r);
        } while (busy);
        turns = turn[r] >= turns ? turn[r] + 1 : turns;
    }
    return turns;
}

/* Measure messages. from: per rank, the sender of its message; -1: none. turn: scratch for all
 * ranks. */
static enum ss_status probe_messages(struct ss_links *l, const int *from, int *turn, int between,
                                     double seconds)
{
    const int size = ss_comm_size(l->comm), rank = ss_comm_rank(l->comm);
    const int turns = take_turns(from, size, turn);
    const double budget = seconds / (turns > 0 ? turns : 1);
    struct ss_links_result own = {0};
    void *all;
    for (int t = 0; t < turns; t++) {
        struct ss_links_work w = {.to = -1, .from = turn[rank] == t ? from[rank] : -1};
        struct ss_links_result now = {0};
        double small = 0;
        for (int r = 0; r < size; r++)
            if (from[r] == rank && turn[r] == t)
                w.to = r;
        SS_TRY(measure_messages(l, &w, budget, &now, &small));
        if (w.from < 0)
            continue;
        own = now;
        own.bytes = (double)w.bytes;
        own.small = small;
    }
    SS_TRY(ss_comm_gather_alloc(l->comm, &own, sizeof own, &all, SS_LINKS));
    if (all)
        report_messages(l, all, from, between);
    free(all);
    return SS_OK;
}

/* The preceding rank in the ring of its node's ranks; -1: the only one there. */
static int beside(const struct ss_links *l, int rank)
{
    const int size = ss_comm_size(l->comm);
    for (int i = 1; i < size; i++) {
        const int r = (rank - i + size) % size;
        if (l->place[r].node == l->place[rank].node)
            return r;
    }
    return -1;
}

/* The preceding rank in the ring of ranks of the same local number on other nodes; -1: none. */
static int across(const struct ss_links *l, int rank)
{
    const int size = ss_comm_size(l->comm);
    for (int i = 1; i < size; i++) {
        const int r = (rank - i + size) % size;
        if (l->place[r].node != l->place[rank].node &&
            l->place[r].local_rank == l->place[rank].local_rank)
            return r;
    }
    return -1;
}

enum ss_status ss_links_messages(struct ss_links *l, double seconds)
{
    const int size = ss_comm_size(l->comm);
    int *from = calloc(2 * (size_t)size, sizeof *from);
    enum ss_status status = ss_comm_agree(
        l->comm, from ? SS_OK : ss_fail_memory(SS_LINKS, 2 * (size_t)size * sizeof *from),
        SS_LINKS);
    for (int between = 0; between < 2 && status == SS_OK; between++) {
        for (int r = 0; r < size; r++)
            from[r] = between ? across(l, r) : beside(l, r);
        status = probe_messages(l, from, from + size, between, seconds / 2);
    }
    free(from);
    return status;
}
