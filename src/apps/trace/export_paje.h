/* Export in the Paje format, for ViTE or pj_dump.
 *
 * A rank is a container. It contains its tracks (export.h), on which tasks and collectives are
 * states with step, bucket and kind as additional fields. Links lead from the last task that
 * wrote a bucket's gradients to its collective and on to its update. Memory and the utilization
 * of each worker or lane per step are variables of the rank; submission and report of steps are
 * its events. Times are seconds since the first rank's start, with nanosecond precision. */
#ifndef SS_APPS_TRACE_EXPORT_PAJE_H
#define SS_APPS_TRACE_EXPORT_PAJE_H

#include "apps/trace/export.h"

/* Uses about 100 additional bytes per task. Errors: SS_ERR_IO (names the file), SS_ERR_MEMORY. */
enum ss_status ss_export_paje(const struct ss_export *e, const char *file);

#endif
