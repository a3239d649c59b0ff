/* A trace in the Paje format, for ViTE or pj_dump.
 *
 * A rank is a container, and in it each track (export.h), on which tasks and collectives are states
 * with step, bucket and kind as further fields. Links lead from the last task that wrote a bucket's
 * gradients to its collective and from there to its update. Memory, and the share of each step in
 * which a worker or lane was busy, are variables of the rank, submission and report of steps are
 * its events. Times are seconds from the first rank's start, to the nanosecond. */
#ifndef SS_TRACE_EXPORT_PAJE_H
#define SS_TRACE_EXPORT_PAJE_H

#include "trace/export.h"

/* Holds about 100 bytes a task besides. Errors: SS_ERR_IO (names the file), SS_ERR_MEMORY. */
enum ss_status ss_export_paje(const struct ss_export *e, const char *file);

#endif
