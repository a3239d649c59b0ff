/* Export as JSON trace events, for Perfetto (ui.perfetto.dev) or chrome://tracing, and for
 * Holistic Trace Analysis (HTA).
 *
 * For Perfetto all ranks are in one file: process = rank, thread = track (export.h). Thread ids
 * start at the number of ranks, as they must differ from process ids. A task is a complete event
 * with step, bucket, bytes and the time it spent ready. Arrows lead from the last task that wrote
 * a bucket's gradients to its collective and on to its update. Steps are asynchronous events from
 * submission to report. Memory and the utilization of each worker or lane per step are counters.
 * Times are microseconds since the first rank's start, with nanosecond precision.
 *
 * For HTA there is one file per rank. Computing tasks are kernels of stream 1; collectives are
 * kernels of stream 2 with NCCL kernel names, for every backend, so that HTA's overlap of
 * communication and computation equals that of `starstep trace`. A step's window (analyse.h) is
 * its ProfilerStep. HTA assigns kernels to steps by their launch on the CPU, which CPU tasks do
 * not have: a launch is written at the time the task was ready, inside the step's window. All
 * other events are left out. */
#ifndef SS_APPS_TRACE_EXPORT_CHROME_H
#define SS_APPS_TRACE_EXPORT_CHROME_H

#include "apps/trace/export.h"

/* Errors: SS_ERR_IO (names the file), SS_ERR_MEMORY. */
enum ss_status ss_export_chrome(const struct ss_export *e, const char *file);
/* Write DIR/rank-0.json, rank-1.json, ...; creates DIR. Errors: SS_ERR_IO. */
enum ss_status ss_export_hta(const struct ss_export *e, const char *dir);

#endif
