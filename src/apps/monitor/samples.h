/* Reader of the monitor's files: one series of samples per GPU, or per host's processes. */
#ifndef SS_APPS_MONITOR_SAMPLES_H
#define SS_APPS_MONITOR_SAMPLES_H

#include "core/status.h"

#include <stddef.h>

enum ss_sample_column {
    SS_SAMPLE_TIME,        /* s since 1970, as if local time were UTC */
    SS_SAMPLE_MEMORY,      /* MiB: used on a GPU, or resident in processes */
    SS_SAMPLE_TOTAL,       /* MiB: total of a GPU */
    SS_SAMPLE_BUSY,        /* percent: of a GPU, or of one core */
    SS_SAMPLE_POWER,       /* W */
    SS_SAMPLE_PSS,         /* MiB */
    SS_SAMPLE_LOAD,        /* of the host */
    SS_SAMPLE_HOST_MEMORY, /* MiB used */
    SS_SAMPLE_COLUMNS
};

struct ss_samples {
    char file[256]; /* file name without folder and ".csv" or ".txt" */
    int gpu;        /* index; -1: processes */
    char name[96];  /* GPU name */
    size_t count, capacity;
    double *at[SS_SAMPLE_COLUMNS]; /* count each; NAN: not reported */
};

struct ss_monitor_data {
    struct ss_samples *series; /* sorted by file, GPU files first, then index */
    size_t count;
};

/* Read all gpu_memory_log*.csv and cpu_memory_log*.csv of a folder (or .txt), or one file of any
 * name. The format is detected from the first line, so files of nvidia-smi and of psrecord are
 * read too (the latter have no timestamps: they end at the file's modification time). An
 * incomplete last line is skipped. Errors: SS_ERR_IO, SS_ERR_FORMAT (names file, line and field),
 * SS_ERR_MEMORY. Without any file, returns SS_OK and a count of 0. The caller frees *out. */
enum ss_status ss_monitor_read(const char *path, struct ss_monitor_data *out);
void ss_monitor_data_free(struct ss_monitor_data *data);

/* Statistics of the reported values. All 0 if count is 0. */
struct ss_sample_stats {
    double peak, mean, mode; /* mode: the most frequent whole number; on a tie the smallest */
    size_t count;
};

/* Errors: SS_ERR_MEMORY. */
enum ss_status ss_sample_stats_of(const double *value, size_t count, struct ss_sample_stats *out);

#endif
