/* The JSON log of a run (train --log-json), as far as runs are compared by it. */
#ifndef SS_SCALING_RUN_LOG_H
#define SS_SCALING_RUN_LOG_H

#include "core/size.h"
#include "core/status.h"

enum { SS_RUN_TEXT = 64, SS_RUN_PATH = 4096 };

struct ss_run_log {
    char path[SS_RUN_PATH];
    /* Of the "start" event before the last epoch: a run that was resumed has several, perhaps on
     * another number of ranks */
    char model[SS_RUN_TEXT], width[SS_RUN_TEXT], precision[SS_RUN_TEXT], device[SS_RUN_TEXT];
    long ranks, nodes, batch /* of all ranks */, images;
    struct ss_size image_size;
    /* Of the last "epoch" event */
    long epoch;
    double train_loss, train_accuracy; /* loss: NAN if it was not finite; accuracy: 0 to 1 */
    double rate, rate_with_validation; /* images/s */
    int ended;                         /* there is an "end" event after the last "start" */
};

/* Errors: SS_ERR_IO, SS_ERR_FORMAT (names file, line and field; also when no epoch has ended). Half
 * a line at the end is left out. */
enum ss_status ss_run_log_read(const char *path, struct ss_run_log *out);

/* Images a second over all ranks, from the report of step `warmup` to that of the last one. Errors: likewise,
 * but epochs are not needed; SS_ERR_FORMAT where fewer than two steps were reported from there on. */
enum ss_status ss_run_log_rate(const char *path, long warmup, double *out);

/* 1 if the file's first line is an event of a log, or if it cannot be opened: who reads it says why. */
int ss_run_log_is(const char *path);

#endif
