/* Back off when polling a source without notifications: MPI, which progresses only inside its
 * calls, or a GPU. Sleeps are short at first, then longer, and finally a fixed fraction of the
 * time without progress, so that an event after a long wait is detected late by at most that
 * fraction. */
#ifndef SS_COMM_BACKOFF_H
#define SS_COMM_BACKOFF_H

#include <stdint.h>

enum {
    SS_BACKOFF_LEAST_NS = 20000,
    SS_BACKOFF_USUAL_NS = 200000, /* upper bound after a short wait */
    SS_BACKOFF_PART = 32,         /* after a long wait: this fraction of it */
    SS_BACKOFF_MOST_NS = 3000000,
};

struct ss_backoff {
    uint64_t since_ns; /* last progress, or the start; on the clock of ss_now_ns() */
    uint64_t next_ns;  /* 0: the minimum */
};

/* Record progress: the wait starts again. */
void ss_backoff_progressed(struct ss_backoff *backoff, uint64_t now_ns);

/* Possible progress: restart with short sleeps, and double up to the previous length. */
void ss_backoff_restart(struct ss_backoff *backoff);

/* No progress: return the nanoseconds to sleep now; at most usual_ns after a short wait. */
uint64_t ss_backoff_next(struct ss_backoff *backoff, uint64_t now_ns, uint64_t usual_ns);

#endif
