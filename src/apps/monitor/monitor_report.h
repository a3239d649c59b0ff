/* Summary of a monitor's files: peak, average and mode, and plots. */
#ifndef SS_APPS_MONITOR_MONITOR_REPORT_H
#define SS_APPS_MONITOR_MONITOR_REPORT_H

#include "apps/monitor/samples.h"

#include <stdio.h>

/* Print two lines per series: memory, as "[FILE - GPU I] Peak = P MiB, Avg = A MiB, Mode = M
 * MiB", and the other quantities. Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_monitor_print(const struct ss_monitor_data *data, FILE *out);

/* Plot all curves over time. Errors: SS_ERR_IO (names the file), SS_ERR_MEMORY. */
enum ss_status ss_monitor_draw(const struct ss_monitor_data *data, const char *file);

#endif
