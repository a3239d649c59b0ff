/* How a long run shows on standard error that it goes on: a bar that is drawn over itself on a
 * terminal, lines now and then elsewhere. STARSTEP_PROGRESS says otherwise: "bar", "none", or the
 * seconds between two lines. */
#ifndef SS_CORE_PROGRESS_H
#define SS_CORE_PROGRESS_H

#include "core/status.h"

struct ss_progress {
    int bar;      /* else lines */
    double every; /* seconds between two lines; 0: none */
    int told;     /* something was shown */
    double last;  /* when; ss_seconds() */
};

/* From now on. Errors: SS_ERR_INVALID (the variable). */
enum ss_status ss_progress_open(struct ss_progress *p);

/* Is it time to show something, by a bar or a line? The first line is due sooner than `every`. */
int ss_progress_due(struct ss_progress *p);

/* Something else was printed: the next line can wait. */
void ss_progress_rest(struct ss_progress *p);

#endif
