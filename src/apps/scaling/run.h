/* A run of a scaling study: its log, and the results of monitor and trace. */
#ifndef SS_APPS_SCALING_RUN_H
#define SS_APPS_SCALING_RUN_H

#include "apps/monitor/samples.h"
#include "apps/scaling/run_log.h"

#include <stddef.h>

struct ss_scaling_run {
    struct ss_run_log log;
    /* MiB; of GPU 0 on the first host, or, for a run on CPUs, of the processes there. count 0: no
     * monitor */
    struct ss_sample_stats memory;
    int has_exposed;
    double exposed_ms, step_ms; /* means over ranks and traced steps */
};

struct ss_runs {
    struct ss_scaling_run *at;
    size_t count;
};

/* Append the run at PATH: a log; a result folder (a log *.jsonl in it: if several, the one with
 * most epochs, of those the newest); or a folder of result folders. Errors: those of the readers,
 * and SS_ERR_FORMAT if there is no log; *runs then holds those that were read before. */
enum ss_status ss_runs_add(struct ss_runs *runs, const char *path);
void ss_runs_free(struct ss_runs *runs);

#endif
