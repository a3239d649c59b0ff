/* A trace as JSON events: for Perfetto (ui.perfetto.dev) or chrome://tracing, and for Holistic
 * Trace Analysis.
 *
 * For Perfetto all ranks are in one file: process = rank, thread = track (export.h); threads
 * are numbered from the number of ranks on, as none may have a process's number. A task is a
 * complete event with step, bucket, bytes and the time that it had been ready; arrows lead from the
 * last task that wrote a bucket's gradients to its collective and to its update; steps are
 * asynchronous events from submission to report; memory, and the share of each step in which a
 * worker or lane was busy, are counters. Times are microseconds from the first rank's start, to the
 * nanosecond.
 *
 * For Holistic Trace Analysis there is a file per rank in which tasks that compute are kernels of
 * stream 1 and collectives kernels of stream 2 with names as NCCL's, whatever carried them: so that
 * its overlap of communication and computation is the one of `starstep trace`. A step's window
 * (analyse.h) is its ProfilerStep. It ties kernels to steps by the launch on a CPU that they belong
 * to, which CPUs' tasks have not: it is shown when the task was ready, in the step's window.
 * Everything else is left out. */
#ifndef SS_TRACE_EXPORT_CHROME_H
#define SS_TRACE_EXPORT_CHROME_H

#include "trace/export.h"

/* Errors: SS_ERR_IO (names the file), SS_ERR_MEMORY. */
enum ss_status ss_export_chrome(const struct ss_export *e, const char *file);
/* DIR/rank-0.json, rank-1.json, ...; DIR is made. Errors: SS_ERR_IO. */
enum ss_status ss_export_hta(const struct ss_export *e, const char *dir);

#endif
