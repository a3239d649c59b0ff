/* Which rank is waited for: the watchdog's decisions, without any MPI.
 *
 * Every rank sends a beat to rank 0 about twice a second, and rank 0 sends its own to every rank.
 * Rank 0 decides for all, because only it can tell who has not started a collective; the others
 * watch rank 0. Collectives are numbered from 1 in the order of starting, the same on all ranks. */
#ifndef SS_COMM_COMM_WATCH_H
#define SS_COMM_COMM_WATCH_H

#include <stddef.h>
#include <stdint.h>

enum { SS_WATCH_HOST = 64, SS_WATCH_WHAT = 48 };

/* Sent as bytes between equal programs. */
struct ss_beat {
    uint64_t started;     /* collectives started so far */
    uint64_t waiting_seq; /* the oldest one under way, 0 if none */
    double waited_s;      /* since it was started here */
    uint64_t step;        /* of the oldest under way, else of the last one */
    int32_t bucket;
    char what[SS_WATCH_WHAT]; /* names a blocking call, else "" */
};

struct ss_watch_rank {
    struct ss_beat beat; /* the last one heard */
    double heard_s;      /* when, on the clock of `now_s` below */
    char host[SS_WATCH_HOST];
};

/* Rank 0: 1 when the run must end, with the message in text. ranks[0] is itself, up to date. */
int ss_watch_verdict(const struct ss_watch_rank *ranks, int size, double now_s, double timeout_s,
                     char *text, size_t room);

/* Other ranks: the same from their own beat and what was last heard of rank 0 (`root`). Later than
 * rank 0's own verdict, and later on higher ranks, so that one message is printed and not a
 * thousand. */
int ss_watch_root_verdict(const struct ss_watch_rank *root, const struct ss_beat *own, int rank,
                          double now_s, double timeout_s, char *text, size_t room);

#endif
