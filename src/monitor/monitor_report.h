/* What a monitor's files come to: the seeds' lines, and images of the curves. */
#ifndef SS_MONITOR_MONITOR_REPORT_H
#define SS_MONITOR_MONITOR_REPORT_H

#include "monitor/samples.h"

#include <stdio.h>

/* Per series one line of memory, "[FILE - GPU I] Peak = P MiB, Avg = A MiB, Mode = M MiB", and one
 * of the rest. Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_monitor_print(const struct ss_monitor_data *data, FILE *out);

/* All curves over time. Errors: SS_ERR_IO (names the file), SS_ERR_MEMORY. */
enum ss_status ss_monitor_draw(const struct ss_monitor_data *data, const char *file);

#endif
