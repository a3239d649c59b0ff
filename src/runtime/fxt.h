/* StarPU's own trace, for starpu_fxt_tool: where the StarPU of this build has FxT. */
#ifndef SS_RUNTIME_FXT_H
#define SS_RUNTIME_FXT_H

#include "codelets/hooks.h"

/* StarPU shall record what happens in the steps of ss_fxt_hooks. What STARPU_FXT_TRACE,
 * STARPU_FXT_PREFIX and STARPU_FXT_EVENTS say already stays. It changes the environment, so before
 * the process has a second thread. Without FxT nothing happens. */
void ss_fxt_announce(void);
/* Before StarPU starts. The name of its file ends with the rank. dir: of --trace, into DIR/fxt-NNNN, NNNN being the
 * rank, after ss_fxt_announce; NULL: if STARPU_FXT_TRACE asks for a trace, where STARPU_FXT_PREFIX says, from StarPU's
 * start on. Errors: SS_ERR_IO, SS_ERR_INVALID (a name too long). */
enum ss_status ss_fxt_prepare(const char *dir, int rank);
/* StarPU runs, and shall record nothing until then. Nothing happens without ss_fxt_prepare. */
void ss_fxt_end(void);
/* StarPU has ended: the process's next run records nothing unless it is announced again. What
 * STARPU_FXT_TRACE of the user's own says stays. */
void ss_fxt_withdraw(void);
/* To be hung on the executor: record these steps. NULL: there is no FxT. Only one at a time. */
struct ss_hooks *ss_fxt_hooks(uint64_t first, uint64_t last);

#endif
