/* Timed emulation: on a device that does not compute (kernels/list.h, emulate_time) every task
 * takes a given time. Everything else is as in any run: StarPU, the order of enqueuing, lanes,
 * events, all-reduces. */
#ifndef SS_RUNTIME_TIMED_EMULATION_H
#define SS_RUNTIME_TIMED_EMULATION_H

#include "codelets/hooks.h"

struct ss_timed_emulation;

/* seconds: of each task of the plan's training step, copied. Evaluation tasks take no time. The
 * caller closes it. Errors: SS_ERR_MEMORY. */
enum ss_status ss_timed_emulation_open(const struct ss_kernels *kernels, const double *seconds,
                                       size_t tasks, struct ss_timed_emulation **out);
/* Return the hooks. Attach them to the executor before all others, so that those include the
 * emulated time. */
struct ss_hooks *ss_timed_emulation_hooks(struct ss_timed_emulation *emulation);
void ss_timed_emulation_close(
    struct ss_timed_emulation *emulation); /* no task is running; may be NULL */

#endif
