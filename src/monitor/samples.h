/* What a monitor wrote, read again: a series of samples per GPU, or of a host's processes. */
#ifndef SS_MONITOR_SAMPLES_H
#define SS_MONITOR_SAMPLES_H

#include "core/status.h"

#include <stddef.h>

enum ss_sample_column {
    SS_SAMPLE_TIME,        /* s since 1970, as if local time were UTC */
    SS_SAMPLE_MEMORY,      /* MiB: of a GPU in use, of processes resident */
    SS_SAMPLE_TOTAL,       /* MiB: of a GPU */
    SS_SAMPLE_BUSY,        /* percent: of a GPU, or of one core */
    SS_SAMPLE_POWER,       /* W */
    SS_SAMPLE_PSS,         /* MiB */
    SS_SAMPLE_LOAD,        /* of the host */
    SS_SAMPLE_HOST_MEMORY, /* MiB in use */
    SS_SAMPLE_COLUMNS
};

struct ss_samples {
    char file[256]; /* its name without folder and ".csv" or ".txt" */
    int gpu;        /* index; -1: processes */
    char name[96];  /* of the GPU */
    size_t count, room;
    double *at[SS_SAMPLE_COLUMNS]; /* count each; NAN: not told */
};

struct ss_monitor_data {
    struct ss_samples *series; /* by file, GPU files first, then index */
    size_t count;
};

/* Read all gpu_memory_log*.csv and cpu_memory_log*.csv of a folder (or .txt), or one file of any
 * name. The form is told by the first line, so files of nvidia-smi and of psrecord are read too (the
 * latter have no dates: they end when the file was last written). Half a line at the end is left out.
 * Errors: SS_ERR_IO, SS_ERR_FORMAT (names file, line and field), SS_ERR_MEMORY. No file at all is
 * SS_OK and a count of 0. The caller frees *out. */
enum ss_status ss_monitor_read(const char *path, struct ss_monitor_data *out);
void ss_monitor_data_free(struct ss_monitor_data *data);

/* Of the values that are told. All 0 if count is. */
struct ss_sample_stats {
    double peak, mean, mode; /* mode: the most frequent whole number; of several the smallest */
    size_t count;
};

/* Errors: SS_ERR_MEMORY. */
enum ss_status ss_sample_stats_of(const double *value, size_t count, struct ss_sample_stats *out);

#endif
