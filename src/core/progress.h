/* Progress display of long runs on standard error: a bar on a terminal, periodic lines otherwise.
 * STARSTEP_PROGRESS overrides it: "bar", "none", or the seconds between two lines. */
#ifndef SS_CORE_PROGRESS_H
#define SS_CORE_PROGRESS_H

#include "core/status.h"

struct ss_progress {
    int bar;      /* 1: bar, 0: lines */
    double every; /* seconds between two lines; 0: disabled */
    int told;     /* something was printed */
    double last;  /* time of the last output, ss_seconds() */
};

/* Start the timer. Errors: SS_ERR_INVALID (STARSTEP_PROGRESS). */
enum ss_status ss_progress_open(struct ss_progress *p);

/* Return 1 if a bar or line is due. The first line is due sooner than `every`. */
int ss_progress_due(struct ss_progress *p);

/* Postpone the next line, because other output was printed. */
void ss_progress_rest(struct ss_progress *p);

#endif
