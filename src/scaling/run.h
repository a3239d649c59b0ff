/* A run of a scaling study: its log, and what monitor and trace say of it. */
#ifndef SS_SCALING_RUN_H
#define SS_SCALING_RUN_H

#include "monitor/samples.h"
#include "scaling/run_log.h"

#include <stddef.h>

struct ss_scaling_run {
    struct ss_run_log log;
    struct ss_sample_stats memory; /* MiB; of GPU 0 on the first host, or of the processes on the
                                      first host for a run on CPUs. count 0: no monitor */
    int has_exposed;
    double exposed_ms, step_ms; /* means over ranks and traced steps */
};

struct ss_runs {
    struct ss_scaling_run *at;
    size_t count;
};

/* Append what PATH names: a log; a result folder (a log *.jsonl in it: of several the one with most
 * epochs, of those the newest); or a folder of result folders. Errors: as of the readers, and
 * SS_ERR_FORMAT where there is no log; *runs then holds those that were read before. */
enum ss_status ss_runs_add(struct ss_runs *runs, const char *path);
void ss_runs_free(struct ss_runs *runs);

#endif
