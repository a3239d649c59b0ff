/* StarPU's FxT trace, for starpu_fxt_tool, if StarPU was built with FxT. */
#ifndef SS_RUNTIME_FXT_H
#define SS_RUNTIME_FXT_H

#include "codelets/hooks.h"

/* Request a recording of the steps of ss_fxt_hooks. Existing values of STARPU_FXT_TRACE,
 * STARPU_FXT_PREFIX and STARPU_FXT_EVENTS take precedence. Call it before the process has a
 * second thread, because it changes the environment. Does nothing without FxT. */
void ss_fxt_announce(void);
/* Set the trace file, before StarPU starts; its name ends with the rank. dir: the folder of
 * --trace, after ss_fxt_announce; the file is written into DIR/fxt-NNNN, NNNN being the rank.
 * NULL: if STARPU_FXT_TRACE requests a trace, it is written to STARPU_FXT_PREFIX and starts with
 * StarPU. Errors: SS_ERR_IO, SS_ERR_INVALID (a name too long). */
enum ss_status ss_fxt_prepare(const char *dir, int rank);
/* Stop recording, while StarPU is running; the hooks restart it. Does nothing without
 * ss_fxt_prepare. */
void ss_fxt_end(void);
/* Reset after StarPU has shut down: the next run of the process records only if it is announced
 * again. A STARPU_FXT_TRACE set by the user is unchanged. */
void ss_fxt_withdraw(void);
/* Return hooks for the executor that record these steps, or NULL without FxT. Only one at a
 * time. */
struct ss_hooks *ss_fxt_hooks(uint64_t first, uint64_t last);

#endif
