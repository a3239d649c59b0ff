/* How long to sleep between two looks at what does not tell when it moves: another rank's data in an
 * MPI library that only moves inside its calls, or a GPU. At first short, then longer, in the end a
 * small part of the time in which nothing has moved: what comes after a long wait is noticed late by
 * at most that part of it. */
#ifndef SS_COMM_COMM_PAUSE_H
#define SS_COMM_COMM_PAUSE_H

#include <stdint.h>

enum {
    SS_PAUSE_LEAST_NS = 20000,
    SS_PAUSE_USUAL_NS = 200000, /* the most after a short wait */
    SS_PAUSE_PART = 32,         /* of a long one */
    SS_PAUSE_MOST_NS = 3000000,
};

struct ss_pause {
    uint64_t since_ns; /* when it last moved, or began; on the clock of ss_now_ns() */
    uint64_t next_ns;  /* 0: the least */
};

/* It has moved. */
void ss_pause_moved(struct ss_pause *pause, uint64_t now_ns);

/* It may have: the sleeps are short at first, and soon as long as they were. */
void ss_pause_restart(struct ss_pause *pause);

/* Nothing has moved: nanoseconds to sleep now; up to usual_ns however short the wait so far. */
uint64_t ss_pause_next(struct ss_pause *pause, uint64_t now_ns, uint64_t usual_ns);

#endif
