/* comm_watch.c: the watchdog's decisions and messages (contract in comm_watch.h). */
#include "comm/comm_watch.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_NAMED = 4 }; /* ranks named in one message */

struct text {
    char *at;
    size_t capacity;
};

static void add(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text->at, text->capacity, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < text->capacity) {
        text->at += n;
        text->capacity -= (size_t)n;
    } else if (n > 0 && text->capacity > 0) {
        text->at += text->capacity - 1;
        text->capacity = 1;
    }
}

void ss_watch_place(const char *what, struct ss_comm_tag tag, char *text, size_t capacity)
{
    if (what && what[0] && tag.step)
        snprintf(text, capacity, "step %llu, %s", (unsigned long long)tag.step, what);
    else if (what && what[0])
        snprintf(text, capacity, "%s", what);
    else if (tag.bucket >= SS_COMM_GATHERED)
        snprintf(text, capacity, "step %llu, gather of bucket %d", (unsigned long long)tag.step,
                 tag.bucket - SS_COMM_GATHERED);
    else if (tag.bucket >= 0)
        snprintf(text, capacity, "step %llu, bucket %d", (unsigned long long)tag.step, tag.bucket);
    else
        snprintf(text, capacity, "step %llu, metrics", (unsigned long long)tag.step);
}

static void add_place(struct text *text, const struct ss_heartbeat *heartbeat)
{
    char place[SS_WATCH_WHAT + 32];
    ss_watch_place(heartbeat->what, (struct ss_comm_tag){heartbeat->step, heartbeat->bucket}, place,
                   sizeof place);
    add(text, "%s", place);
}

/* Seconds after which a rank counts as silent, not just late with a heartbeat. */
static double silence(double timeout_s)
{
    return timeout_s < 6 ? timeout_s / 2 : 3;
}

static void add_silent(struct text *text, int rank, const struct ss_watch_rank *r, double age_s)
{
    add(text, "rank %d (%s), whose last message was %.1f s ago", rank, r->host, age_s);
}

static void add_behind(struct text *text, int rank, const struct ss_watch_rank *r)
{
    add(text, "rank %d (%s), which answers but has not started it", rank, r->host);
    if (r->heartbeat.started > 0) {
        add(text, r->heartbeat.waiting_seq ? " (it is at " : " (it is past ");
        add_place(text, &r->heartbeat);
        add(text, ")");
    }
}

static int not_reached(const struct ss_heartbeat *heartbeat, uint64_t seq)
{
    return heartbeat->waiting_seq == seq && seq > 0 && heartbeat->not_reached;
}

static void add_not_reached(struct text *text, int rank, const struct ss_watch_rank *r)
{
    add(text, "rank %d (%s), whose GPU has not reached it", rank, r->host);
}

/* Whether a rank, by its last heartbeat, delays others in `seq` without waiting itself. */
static int is_cause(const struct ss_watch_rank *r, double now_s, double timeout_s, uint64_t seq)
{
    return now_s - r->heard_s > silence(timeout_s) ||
           (r->heartbeat.started < seq && !r->heartbeat.waiting_seq) ||
           not_reached(&r->heartbeat, seq);
}

/* Name every rank that delays `seq`; 0 if there is none. Ranks that wait in an earlier collective
 * are named only if there is no better reason. */
static int add_suspects(struct text *text, const struct ss_watch_rank *ranks, int size,
                        double now_s, double timeout_s, uint64_t seq)
{
    int found = 0, causes = 0;
    for (int r = 0; r < size; r++)
        causes += is_cause(&ranks[r], now_s, timeout_s, seq);
    for (int r = 0; r < size; r++) {
        double age = now_s - ranks[r].heard_s;
        int silent = age > silence(timeout_s), behind = ranks[r].heartbeat.started < seq;
        if (causes > 0 ? !is_cause(&ranks[r], now_s, timeout_s, seq) : !behind)
            continue;
        if (++found > MAX_NAMED)
            continue;
        add(text, found > 1 ? "; " : "");
        if (silent)
            add_silent(text, r, &ranks[r], age);
        else if (behind)
            add_behind(text, r, &ranks[r]);
        else
            add_not_reached(text, r, &ranks[r]);
    }
    if (found > MAX_NAMED)
        add(text, "; and %d more", found - MAX_NAMED);
    return found;
}

/* A rank that has started `seq` (all have) has completed it, unless it waits in it or an earlier
 * one. */
static int has_ended(const struct ss_heartbeat *heartbeat, uint64_t seq)
{
    return heartbeat->waiting_seq == 0 || heartbeat->waiting_seq > seq;
}

/* List the ranks that have completed `seq`, or those that have not. */
static void add_ended(struct text *text, const struct ss_watch_rank *ranks, int size, uint64_t seq,
                      int ended)
{
    int found = 0;
    for (int r = 0; r < size; r++) {
        if (has_ended(&ranks[r].heartbeat, seq) != ended || ++found > MAX_NAMED)
            continue;
        add(text, "%srank %d (%s)", found > 1 ? ", " : "", r, ranks[r].host);
    }
    if (found > MAX_NAMED)
        add(text, " and %d more", found - MAX_NAMED);
}

/* Name the pairs of ranks between which data are missing. Ranks in the second half of an all-reduce
 * wait for those in the first, so only the latter are named. Returns their number. */
static int add_missing(struct text *text, const struct ss_watch_rank *ranks, int size, uint64_t seq)
{
    int half = 3, found = 0;
    for (int r = 0; r < size; r++) {
        const struct ss_heartbeat *heartbeat = &ranks[r].heartbeat;
        if (heartbeat->waiting_seq == seq && heartbeat->half > 0 && heartbeat->half < half)
            half = heartbeat->half;
    }
    for (int r = 0; r < size; r++) {
        const struct ss_heartbeat *heartbeat = &ranks[r].heartbeat;
        if (heartbeat->waiting_seq != seq || heartbeat->half != half || heartbeat->missing < 0 ||
            heartbeat->missing >= size || ++found > MAX_NAMED)
            continue;
        add(text, "; rank %d (%s) has not received data of rank %d (%s)", r, ranks[r].host,
            heartbeat->missing, ranks[heartbeat->missing].host);
    }
    return found;
}

/* Every rank responds and has started `seq`: the network or its library is stuck. */
static void add_stuck(struct text *text, const struct ss_watch_rank *ranks, int size, uint64_t seq)
{
    int ended = 0;
    for (int r = 0; r < size; r++)
        ended += has_ended(&ranks[r].heartbeat, seq);
    add(text, "a collective that every rank has started");
    if (ended > 0) {
        add(text, " and ");
        add_ended(text, ranks, size, seq, 1);
        add(text, ended > 1 ? " have ended, but not " : " has ended, but not ");
        add_ended(text, ranks, size, seq, 0);
    }
    if (add_missing(text, ranks, size, seq) == 0 && ended == 0) {
        add(text, " and no rank has ended: ");
        add_ended(text, ranks, size, seq, 0);
    }
    add(text, "; the network or its library is stuck");
}

/* Of the waiting ranks: the one in the oldest collective, which delays the others. */
static int find_waiter(const struct ss_watch_rank *ranks, int size, double now_s, double most_age_s,
                       double least_wait_s)
{
    int waiter = -1;
    for (int r = 0; r < size; r++) {
        const struct ss_heartbeat *heartbeat = &ranks[r].heartbeat;
        if (heartbeat->waiting_seq && heartbeat->waited_s > least_wait_s &&
            now_s - ranks[r].heard_s <= most_age_s &&
            (waiter < 0 || heartbeat->waiting_seq < ranks[waiter].heartbeat.waiting_seq))
            waiter = r;
    }
    return waiter;
}

int ss_watch_verdict(const struct ss_watch_rank *ranks, int size, double now_s, double timeout_s,
                     char *buffer, size_t capacity)
{
    struct text text = {buffer, capacity};
    int waiter = find_waiter(ranks, size, now_s, timeout_s, timeout_s), silent = 0;
    for (int r = 0; r < size; r++)
        silent |= now_s - ranks[r].heard_s > timeout_s;
    if (waiter < 0 && !silent)
        return 0;
    /* With a silent rank and no rank past the deadline: name a waiting rank, if there is one. */
    if (waiter < 0)
        waiter = find_waiter(ranks, size, now_s, silence(timeout_s), -1);
    uint64_t seq = 0;
    if (waiter >= 0) {
        const struct ss_heartbeat *heartbeat = &ranks[waiter].heartbeat;
        seq = heartbeat->waiting_seq;
        add_place(&text, heartbeat);
        if (waiter > 0)
            add(&text, ": rank %d waited %.1f s for ", waiter, heartbeat->waited_s);
        else
            add(&text, ": waited %.1f s for ", heartbeat->waited_s);
    } else {
        add(&text, "waited for ");
    }
    if (add_suspects(&text, ranks, size, now_s, timeout_s, seq) == 0)
        add_stuck(&text, ranks, size, seq);
    add(&text, "; ending all ranks");
    return 1;
}

int ss_watch_root_verdict(const struct ss_watch_rank *root, const struct ss_heartbeat *own,
                          int rank, double now_s, double timeout_s, char *buffer, size_t capacity)
{
    struct text text = {buffer, capacity};
    double late = 1.0 + 0.25 * (rank < 8 ? rank - 1 : 8), age = now_s - root->heard_s;
    int silent = age > timeout_s + late;
    if (!silent && !(own->waiting_seq && own->waited_s > timeout_s + 2 + late))
        return 0;
    if (own->waiting_seq) {
        add_place(&text, own);
        add(&text, ": waited %.1f s for ", own->waited_s);
    } else {
        add(&text, "waited for ");
    }
    if (age > silence(timeout_s))
        add_silent(&text, 0, root, age);
    else if (own->waiting_seq && root->heartbeat.started < own->waiting_seq)
        add_behind(&text, 0, root);
    else if (not_reached(&root->heartbeat, own->waiting_seq))
        add_not_reached(&text, 0, root);
    else
        add(&text, "a rank that rank 0 (%s), which still answers, has not reported", root->host);
    if (age <= silence(timeout_s) && own->half > 0)
        add(&text, "; data of rank %d has not arrived", own->missing);
    add(&text, "; ending all ranks");
    return 1;
}

/* A rank may be lost while nothing is waited for. */
static void add_when_lost(struct text *text, const struct ss_heartbeat *own)
{
    if (own->started > 0 && !own->waiting_seq)
        add(text, "after ");
    if (own->started > 0) {
        add_place(text, own);
        add(text, ": ");
    }
    if (own->waiting_seq)
        add(text, "waited %.1f s for ", own->waited_s);
    else
        add(text, "lost ");
}

void ss_watch_lost(const struct ss_watch_rank *lost, int rank, const struct ss_heartbeat *own,
                   double now_s, const char *why, char *buffer, size_t capacity)
{
    struct text text = {buffer, capacity};
    add_when_lost(&text, own);
    add_silent(&text, rank, lost, now_s - lost->heard_s);
    add(&text, ": %s; ending all ranks", why);
}

void ss_watch_died(int rank, const char *host, long pid, const struct ss_heartbeat *own,
                   char *buffer, size_t capacity)
{
    struct text text = {buffer, capacity};
    add_when_lost(&text, own);
    add(&text, "rank %d (%s), which has died (process %ld); ending all ranks", rank, host, pid);
}

int ss_watch_check(const struct ss_comm *comm, struct ss_watch_rank *ranks,
                   const struct ss_heartbeat *own, double now_s, char *text, size_t capacity)
{
    if (comm->rank != 0)
        return ss_watch_root_verdict(&ranks[0], own, comm->rank, now_s, comm->timeout_s, text,
                                     capacity);
    ranks[0].heartbeat = *own;
    ranks[0].heard_s = now_s;
    return ss_watch_verdict(ranks, comm->size, now_s, comm->timeout_s, text, capacity);
}
