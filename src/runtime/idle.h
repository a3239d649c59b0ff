/* Idle CPU workers sleep between two looks for work. StarPU keeps at least one worker awake, beside a
 * GPU all, which look without pause, and so take the core from the communication thread, from the one
 * that feeds the GPU, or from other ranks' threads, that they wait for. Where the GPU is emulated the
 * thread that feeds it sleeps as well: its core is the GPU's. */
#ifndef SS_RUNTIME_IDLE_H
#define SS_RUNTIME_IDLE_H

#include "core/status.h"

/* Ranks of this node and its cores decide how long the sleep may be: where ranks share cores, the
 * looks of all of them together take about as much time as those of one. After starpu_init.
 * Errors: SS_ERR_LIBRARY. */
enum ss_status ss_idle_start(int ranks, int cores);
void ss_idle_stop(void);

#endif
