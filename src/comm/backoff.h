/* Back off when polling what gives no notification: MPI, which progresses only inside its calls, or a
 * GPU. Sleeps are short at first, then longer, and finally a fixed fraction of the time without
 * progress, so that an event after a long wait is detected late by at most that fraction. */
#ifndef SS_COMM_BACKOFF_H
#define SS_COMM_BACKOFF_H

#include <stdint.h>

enum {
    SS_BACKOFF_LEAST_NS = 20000,
    SS_BACKOFF_USUAL_NS = 200000, /* the most after a short wait */
    SS_BACKOFF_PART = 32,         /* of a long one */
    SS_BACKOFF_MOST_NS = 3000000,
};

struct ss_backoff {
    uint64_t since_ns; /* last progress, or the beginning; on the clock of ss_now_ns() */
    uint64_t next_ns;  /* 0: the minimum */
};

/* There was progress. */
void ss_backoff_progressed(struct ss_backoff *backoff, uint64_t now_ns);

/* There may have been progress: begin with short sleeps again, and reach the previous length soon. */
void ss_backoff_restart(struct ss_backoff *backoff);

/* No progress: nanoseconds to sleep now; up to usual_ns however short the wait so far. */
uint64_t ss_backoff_next(struct ss_backoff *backoff, uint64_t now_ns, uint64_t usual_ns);

#endif
