/* Let idle CPU workers sleep between polls for tasks. StarPU always leaves at least one worker
 * awake, with a GPU all of them. These poll continuously and take the core from the
 * communication thread, the thread that drives the GPU, or other ranks' threads that they wait
 * for. With an emulated GPU its driver thread sleeps too, because the emulated GPU uses its
 * core. */
#ifndef SS_RUNTIME_IDLE_H
#define SS_RUNTIME_IDLE_H

#include "core/status.h"

/* Register the hook, after starpu_init. The ranks and cores of this node determine the longest
 * sleep: if ranks share cores, the polls of all of them together take about as much time as those
 * of one. Errors: SS_ERR_LIBRARY. */
enum ss_status ss_idle_start(int ranks, int cores);
void ss_idle_stop(void);

#endif
