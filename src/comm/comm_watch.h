/* Which rank is waited for: the watchdog's decisions, for any backend with other ranks.
 *
 * Every rank sends a heartbeat to rank 0 about twice a second, and rank 0 sends its own to every rank.
 * Rank 0 decides for all, because only it can tell who has not started a collective; the others
 * watch rank 0. Collectives are numbered from 1 in the order of starting, the same on all ranks. */
#ifndef SS_COMM_COMM_WATCH_H
#define SS_COMM_COMM_WATCH_H

#include "comm/comm_base.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_WATCH_HOST = 64, SS_WATCH_WHAT = 48 };

/* Sent as bytes between equal programs. */
struct ss_heartbeat {
    uint64_t started;     /* collectives started so far */
    uint64_t waiting_seq; /* the oldest one under way, 0 if none */
    double waited_s;      /* since it was started here */
    uint64_t step;        /* of the oldest under way, else of the last one */
    int32_t bucket;
    int32_t kind, root; /* of the oldest under way: what all ranks must agree on */
    uint64_t count;
    int32_t not_reached; /* work of this rank's device is still in front of the oldest under way */
    /* 0 unless the oldest under way is a sum in messages between ranks: then its half, 1 or 2, and
     * the first rank whose data has not come. */
    int32_t half, missing;
    char what[SS_WATCH_WHAT]; /* names what is no bucket and no metrics of a step, else "" */
};

/* The collective that was started last. */
struct ss_watch_last {
    struct ss_comm_tag tag;
    char what[SS_WATCH_WHAT];
};
void ss_watch_note(struct ss_watch_last *last, const struct ss_comm_request *request);

struct ss_watch_rank {
    struct ss_heartbeat heartbeat; /* the last one heard */
    double heard_s;      /* when, on the clock of `now_s` below */
    char host[SS_WATCH_HOST];
};

/* A communication thread's clock. Time in which the whole process was stopped counts as at most one
 * second, so that a rank that was stopped does not blame others. */
struct ss_watch_clock {
    double now_s; /* begins at 0 */
    uint64_t ns;  /* CLOCK_MONOTONIC at that moment; set it to ss_now_ns() at the start */
};
void ss_watch_clock_advance(struct ss_watch_clock *clock);

/* Name a collective for messages: by `what` where it has one, behind a step where that has one, else
 * by step and bucket. */
void ss_watch_place(const char *what, struct ss_comm_tag tag, char *text, size_t room);

/* Seconds between two heartbeats. */
double ss_watch_period(double timeout_s);

/* This rank's heartbeat. `oldest`, NULL if nothing is under way, has number seq and waited waited_s. The
 * caller sets not_reached, half and missing where it knows them. */
struct ss_heartbeat ss_watch_describe(uint64_t started, const struct ss_watch_last *last,
                                      const struct ss_comm_request *oldest, uint64_t seq,
                                      double waited_s);

/* Look at the deadline with this rank's own heartbeat and the clock's time: 1 when the run must end,
 * with the message in text. On rank 0 `ranks` has all ranks, elsewhere what is known of rank 0. */
int ss_watch_check(const struct ss_comm *comm, struct ss_watch_rank *ranks,
                   const struct ss_heartbeat *own, double now_s, char *text, size_t room);

/* Rank 0: 1 when the run must end, with the message in text. ranks[0] is itself, up to date. */
int ss_watch_verdict(const struct ss_watch_rank *ranks, int size, double now_s, double timeout_s,
                     char *text, size_t room);

/* Other ranks: the same from their own heartbeat and what was last heard of rank 0 (`root`). Later than
 * rank 0's own verdict, and later on higher ranks, so that one message is printed and not a
 * thousand. */
int ss_watch_root_verdict(const struct ss_watch_rank *root, const struct ss_heartbeat *own,
                          int rank, double now_s, double timeout_s, char *text, size_t room);

/* The message when a rank's connection is lost, which is news before any deadline. `why` says how
 * ("it closed the connection"). */
void ss_watch_lost(const struct ss_watch_rank *lost, int rank, const struct ss_heartbeat *own,
                   double now_s, const char *why, char *text, size_t room);

/* The message when a process is known to be dead. */
void ss_watch_died(int rank, const char *host, long pid, const struct ss_heartbeat *own, char *text,
                   size_t room);

#endif
