/* The watchdog: decides which rank is waited for, for any backend with other ranks.
 *
 * Every rank sends a heartbeat to rank 0 about twice a second, and rank 0 sends its own to every
 * rank. Rank 0 decides for all, because only it receives every heartbeat and thus can determine
 * which ranks have not started a collective; the others watch rank 0. Collectives are numbered from
 * 1 in the order of starting, the same on all ranks. */
#ifndef SS_COMM_COMM_WATCH_H
#define SS_COMM_COMM_WATCH_H

#include "comm/comm_base.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_WATCH_HOST = 64, SS_WATCH_WHAT = 48 };

/* Sent as bytes between identical programs. */
struct ss_heartbeat {
    uint64_t started;     /* collectives started so far */
    uint64_t waiting_seq; /* the oldest one under way, 0 if none */
    double waited_s;      /* since it was started on this rank */
    uint64_t step;        /* of the oldest under way, else of the last one started */
    int32_t bucket;
    int32_t kind, root; /* of the oldest under way; with count, equal on all ranks */
    uint64_t count;
    int32_t not_reached; /* this rank's device has not reached the oldest under way */
    /* 0 unless the oldest under way is an all-reduce by point-to-point messages: then its half, 1
     * or 2, and the first rank whose data have not arrived. */
    int32_t half, missing;
    char what[SS_WATCH_WHAT]; /* name, if not a bucket or metrics of a step, else "" */
};

/* The collective started last. */
struct ss_watch_last {
    struct ss_comm_tag tag;
    char what[SS_WATCH_WHAT];
};
void ss_watch_note(struct ss_watch_last *last, const struct ss_comm_request *request);

struct ss_watch_rank {
    struct ss_heartbeat heartbeat; /* the last one received */
    double heard_s;                /* when, on the clock of `now_s` below */
    char host[SS_WATCH_HOST];
};

/* A communication thread's clock. Time during which the whole process was stopped counts as at most
 * one second, so that a stopped rank does not blame others. */
struct ss_watch_clock {
    double now_s; /* starts at 0 */
    uint64_t ns;  /* CLOCK_MONOTONIC at that time; initialize to ss_now_ns() */
};
void ss_watch_clock_advance(struct ss_watch_clock *clock);

/* Name a collective for messages: by `what`, if set, after the step, if set; else by step and
 * bucket. */
void ss_watch_place(const char *what, struct ss_comm_tag tag, char *text, size_t capacity);

/* Seconds between two heartbeats. */
double ss_watch_period(double timeout_s);

/* Fill in this rank's heartbeat. `oldest`, NULL if nothing is under way, has sequence number seq
 * and has waited waited_s. The caller sets not_reached, half and missing if known. */
struct ss_heartbeat ss_watch_describe(uint64_t started, const struct ss_watch_last *last,
                                      const struct ss_comm_request *oldest, uint64_t seq,
                                      double waited_s);

/* Check the deadline against this rank's own heartbeat and the current time: 1 if the run must end,
 * with the message in text. `ranks` holds all ranks on rank 0, elsewhere the state of rank 0. */
int ss_watch_check(const struct ss_comm *comm, struct ss_watch_rank *ranks,
                   const struct ss_heartbeat *own, double now_s, char *text, size_t capacity);

/* On rank 0: 1 if the run must end, with the message in text. ranks[0] is rank 0 itself, up to
 * date. */
int ss_watch_verdict(const struct ss_watch_rank *ranks, int size, double now_s, double timeout_s,
                     char *text, size_t capacity);

/* On other ranks: the same, from their own heartbeat and the last one received from rank 0
 * (`root`). Later than rank 0's own verdict, and later on higher ranks, so that one message is
 * printed instead of thousands. */
int ss_watch_root_verdict(const struct ss_watch_rank *root, const struct ss_heartbeat *own,
                          int rank, double now_s, double timeout_s, char *text, size_t capacity);

/* Format the message for a lost connection, possibly before any deadline. `why` is the cause ("its
 * connection was closed"). */
void ss_watch_lost(const struct ss_watch_rank *lost, int rank, const struct ss_heartbeat *own,
                   double now_s, const char *why, char *text, size_t capacity);

/* Format the message for a process known to be dead. */
void ss_watch_died(int rank, const char *host, long pid, const struct ss_heartbeat *own, char *text,
                   size_t capacity);

#endif
