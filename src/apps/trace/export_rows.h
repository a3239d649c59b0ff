/* Conversion of a rank's events to slices on tracks (export.h). */
#ifndef SS_APPS_TRACE_EXPORT_ROWS_H
#define SS_APPS_TRACE_EXPORT_ROWS_H

#include "apps/trace/export.h"

/* Fill r->track and r->slice from r->trace for these steps. Times stay on the rank's own clock.
 * Errors: SS_ERR_MEMORY. */
enum ss_status ss_export_fill(struct ss_export_rank *r, int64_t first, int64_t last);

/* The bucket whose gradients this task writes, reduces or applies; -1: none. */
int ss_export_bucket(const struct ss_trace_rank *r, const struct ss_trace_task *task);

#endif
