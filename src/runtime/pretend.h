/* Timed emulation: on a device that pretends to compute (kernels/list.h, pretend) every task takes a
 * given time. All else is a run's own: StarPU, the order in which tasks are enqueued, lanes, events,
 * sums between ranks. */
#ifndef SS_RUNTIME_PRETEND_H
#define SS_RUNTIME_PRETEND_H

#include "codelets/hooks.h"

struct ss_pretend;

/* seconds: of each task of the plan's training step, copied. Tasks of evaluation take none. Errors:
 * SS_ERR_MEMORY. The caller closes it. */
enum ss_status ss_pretend_open(const struct ss_kernels *kernels, const double *seconds,
                               size_t tasks, struct ss_pretend **out);
/* To be hung on the executor before all others, whose times of a task then have it. */
struct ss_hooks *ss_pretend_hooks(struct ss_pretend *pretend);
void ss_pretend_close(struct ss_pretend *pretend); /* no task is running; NULL is fine */

#endif
