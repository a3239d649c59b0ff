/* Recording a trace (format.h): when each task of a step ran, and each collective.
 *
 * Marks are taken by callbacks that StarPU offers around every task, so that codelets know nothing
 * of traces, and by the communication thread. They go to memory; a thread of the recorder writes
 * them. */
#ifndef SS_TRACE_RECORD_H
#define SS_TRACE_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include "core/status.h"

struct ss_trace;
struct ss_plan;
struct starpu_task;

struct ss_trace_options {
    const char *dir;
    int rank, ranks;
    uint64_t first, last; /* steps recorded; last 0: to the end */
    int slots;
    const char *model, *backend;
    int gpu;
    size_t device_bytes;        /* that the run holds there */
    const struct ss_plan *plan; /* outlives the trace */
};

/* Begin DIR/rank-NNNN.jsonl; DIR is made, older files of this rank are replaced. After StarPU was
 * started. Errors: SS_ERR_IO, SS_ERR_MEMORY, SS_ERR_LIBRARY (no thread). The caller closes it. */
enum ss_status ss_trace_open(const struct ss_trace_options *options, struct ss_trace **out);
/* Write what is left and the last line. No task is running. Errors: SS_ERR_IO. NULL is fine. */
enum ss_status ss_trace_close(struct ss_trace *trace);

/* 1 if this step is recorded. trace may be NULL. */
int ss_trace_wants(const struct ss_trace *trace, uint64_t step);

/* 1 if it is the first one recorded, or the last. */
int ss_trace_begins(const struct ss_trace *trace, uint64_t step);
int ss_trace_ends(const struct ss_trace *trace, uint64_t step);

/* Task `index` of the plan's training step is about to be submitted. Without memory the mark is
 * lost, which the file says. */
void ss_trace_task(struct ss_trace *trace, uint64_t step, size_t index, struct starpu_task *task);
/* Its submission began, and its metrics were there. */
void ss_trace_step(struct ss_trace *trace, uint64_t step, uint64_t submitted_ns,
                   uint64_t reported_ns);
/* A collective of a step was under way. bucket -1: metrics. */
void ss_trace_collective(struct ss_trace *trace, uint64_t step, int bucket, uint64_t begin_ns,
                         uint64_t end_ns);
/* A task's time on the GPU: already on this process's clock. */
void ss_trace_gpu(struct ss_trace *trace, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                  uint64_t end_ns);
/* How this clock goes against rank 0's; at: "begin" or "end". */
void ss_trace_clock(struct ss_trace *trace, const char *at, int64_t offset_ns, uint64_t error_ns);

#endif
