/* The JSON log of a run (train --log-json), with the values that runs are compared by. */
#ifndef SS_APPS_SCALING_RUN_LOG_H
#define SS_APPS_SCALING_RUN_LOG_H

#include "core/size.h"
#include "core/status.h"

enum { SS_RUN_TEXT = 64, SS_RUN_PATH = 4096 };

struct ss_run_log {
    char path[SS_RUN_PATH];
    /* From the "start" event preceding the last epoch. A resumed run has several, possibly with
     * different numbers of ranks. */
    char model[SS_RUN_TEXT], width[SS_RUN_TEXT], precision[SS_RUN_TEXT], device[SS_RUN_TEXT];
    long ranks, nodes, batch /* of all ranks */, images;
    struct ss_size image_size;
    /* From the last "epoch" event. */
    long epoch;
    double train_loss, train_accuracy; /* loss: NAN if it was not finite; accuracy: 0 to 1 */
    double rate, rate_with_validation; /* images/s */
    int ended;                         /* there is an "end" event after the last "start" */
};

/* Read a log. An incomplete last line is ignored. Errors: SS_ERR_IO, SS_ERR_FORMAT (names file,
 * line and field; also if no epoch has ended). */
enum ss_status ss_run_log_read(const char *path, struct ss_run_log *out);

/* Compute images per second over all ranks, from the report of step `warmup` to that of the last
 * step. Errors: likewise, but no epoch is required; SS_ERR_FORMAT if fewer than two steps were
 * reported from there on. */
enum ss_status ss_run_log_rate(const char *path, long warmup, double *out);

/* Returns 1 if the file's first line is an event of a log, or if the file cannot be opened:
 * reading it then reports the error. */
int ss_run_log_is(const char *path);

#endif
