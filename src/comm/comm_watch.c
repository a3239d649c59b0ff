/* comm_watch.c: the watchdog's decisions (contract in comm_watch.h). */
#include "comm/comm_watch.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/clock.h"

enum { MAX_NAMED = 4 }; /* ranks named in one message */

struct text {
    char *at;
    size_t room;
};

static void add(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text->at, text->room, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < text->room) {
        text->at += n;
        text->room -= (size_t)n;
    } else if (n > 0 && text->room > 0) {
        text->at += text->room - 1;
        text->room = 1;
    }
}

static void add_place(struct text *text, const struct ss_beat *beat)
{
    if (beat->what[0])
        add(text, "%s", beat->what);
    else if (beat->bucket >= 0)
        add(text, "step %llu, bucket %d", (unsigned long long)beat->step, beat->bucket);
    else
        add(text, "step %llu, metrics", (unsigned long long)beat->step);
}

/* A rank counts as silent, and not just late with a beat, after this. */
static double silence(double timeout_s)
{
    return timeout_s < 6 ? timeout_s / 2 : 3;
}

static void add_silent(struct text *text, int rank, const struct ss_watch_rank *r, double age_s)
{
    add(text, "rank %d (%s), whose last sign of life was %.1f s ago", rank, r->host, age_s);
}

static void add_behind(struct text *text, int rank, const struct ss_watch_rank *r)
{
    add(text, "rank %d (%s), which answers but has not started it", rank, r->host);
    if (r->beat.started > 0) {
        add(text, " (it is at ");
        add_place(text, &r->beat);
        add(text, ")");
    }
}

/* Name every rank that keeps `seq` from ending; 0 if none does. */
static int add_suspects(struct text *text, const struct ss_watch_rank *ranks, int size,
                        double now_s, double timeout_s, uint64_t seq)
{
    int found = 0;
    for (int r = 0; r < size; r++) {
        double age = now_s - ranks[r].heard_s;
        int silent = age > silence(timeout_s), behind = ranks[r].beat.started < seq;
        if (!silent && !behind)
            continue;
        if (++found > MAX_NAMED)
            continue;
        add(text, found > 1 ? "; " : "");
        if (silent)
            add_silent(text, r, &ranks[r], age);
        else
            add_behind(text, r, &ranks[r]);
    }
    if (found > MAX_NAMED)
        add(text, "; and %d more", found - MAX_NAMED);
    return found;
}

int ss_watch_verdict(const struct ss_watch_rank *ranks, int size, double now_s, double timeout_s,
                     char *buffer, size_t room)
{
    struct text text = {buffer, room};
    int waiter = -1, silent = 0;
    for (int r = 0; r < size; r++) {
        const struct ss_beat *beat = &ranks[r].beat;
        if (now_s - ranks[r].heard_s > timeout_s)
            silent = 1;
        else if (beat->waiting_seq && beat->waited_s > timeout_s && waiter < 0)
            waiter = r;
    }
    if (waiter < 0 && !silent)
        return 0;
    /* With a silent rank and nobody past the deadline: say who waits, if anybody does. */
    for (int r = 0; r < size && waiter < 0; r++)
        if (ranks[r].beat.waiting_seq && now_s - ranks[r].heard_s <= silence(timeout_s))
            waiter = r;
    uint64_t seq = 0;
    if (waiter >= 0) {
        const struct ss_beat *beat = &ranks[waiter].beat;
        seq = beat->waiting_seq;
        add_place(&text, beat);
        if (waiter > 0)
            add(&text, ": rank %d waited %.1f s for ", waiter, beat->waited_s);
        else
            add(&text, ": waited %.1f s for ", beat->waited_s);
    } else {
        add(&text, "waited for ");
    }
    if (add_suspects(&text, ranks, size, now_s, timeout_s, seq) == 0)
        add(&text, "a collective that every rank has started; the network or its library is stuck");
    add(&text, "; ending all ranks");
    return 1;
}

int ss_watch_root_verdict(const struct ss_watch_rank *root, const struct ss_beat *own, int rank,
                          double now_s, double timeout_s, char *buffer, size_t room)
{
    struct text text = {buffer, room};
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
    else if (own->waiting_seq && root->beat.started < own->waiting_seq)
        add_behind(&text, 0, root);
    else
        add(&text, "a rank that rank 0 (%s), which still answers, has not named", root->host);
    add(&text, "; ending all ranks");
    return 1;
}

void ss_watch_lost(const struct ss_watch_rank *lost, int rank, const struct ss_beat *own,
                   double now_s, const char *why, char *buffer, size_t room)
{
    struct text text = {buffer, room};
    if (own->waiting_seq) {
        add_place(&text, own);
        add(&text, ": waited %.1f s for ", own->waited_s);
    } else {
        add(&text, "lost ");
    }
    add_silent(&text, rank, lost, now_s - lost->heard_s);
    add(&text, ": %s; ending all ranks", why);
}

void ss_watch_clock_advance(struct ss_watch_clock *clock)
{
    uint64_t now = ss_now_ns();
    double passed = 1e-9 * (double)(now - clock->ns);
    clock->now_s += passed < 1 ? passed : 1;
    clock->ns = now;
}

double ss_watch_period(double timeout_s)
{
    return timeout_s < 5 ? timeout_s / 10 : 0.5;
}

struct ss_beat ss_watch_describe(uint64_t started, struct ss_comm_tag last,
                                 const struct ss_comm_request *oldest, uint64_t seq,
                                 double waited_s)
{
    struct ss_beat beat = {.started = started, .step = last.step, .bucket = last.bucket};
    if (oldest) {
        beat.waiting_seq = seq;
        beat.waited_s = waited_s;
        beat.step = oldest->tag.step;
        beat.bucket = oldest->tag.bucket;
        beat.kind = (int32_t)oldest->kind;
        beat.root = oldest->root;
        beat.count = oldest->count;
        if (oldest->what)
            snprintf(beat.what, sizeof(beat.what), "%s", oldest->what);
    }
    return beat;
}

int ss_watch_look(const struct ss_comm *comm, struct ss_watch_rank *ranks,
                  const struct ss_beat *own, double now_s, char *text, size_t room)
{
    if (comm->rank != 0)
        return ss_watch_root_verdict(&ranks[0], own, comm->rank, now_s, comm->timeout_s, text,
                                     room);
    ranks[0].beat = *own;
    ranks[0].heard_s = now_s;
    return ss_watch_verdict(ranks, comm->size, now_s, comm->timeout_s, text, room);
}
