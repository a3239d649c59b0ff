/* Trace recorder (format.h): records when each task of a step and each collective ran.
 *
 * Events come from the hooks of tasks and steps (codelets/hooks.h) and from the communication
 * thread. They are buffered in memory; a thread of the recorder writes them. */
#ifndef SS_TRACE_RECORD_H
#define SS_TRACE_RECORD_H

#include "codelets/hooks.h"

struct ss_trace;

struct ss_trace_options {
    const char *dir;
    int rank, ranks;
    uint64_t first, last; /* steps recorded; UINT64_MAX: to the end */
    int slots;
    const char *model, *backend;
    int gpu;
    size_t device_bytes;        /* allocated by the run on the device */
    const struct ss_plan *plan; /* must outlive the trace */
    /* Predicted seconds per task, 0: none; read by ss_trace_open only. machine: the GPU, or
     * "host" for times measured earlier on this kind of node. NULL: no predictions. */
    const double *predicted;
    const char *machine;
};

/* Start DIR/rank-NNNN.jsonl; creates DIR and replaces older files of this rank. Call after StarPU
 * has started. Errors: SS_ERR_IO, SS_ERR_MEMORY, SS_ERR_LIBRARY (no thread). The caller closes
 * it. */
enum ss_status ss_trace_open(const struct ss_trace_options *options, struct ss_trace **out);
/* Write the remaining events and the last line. No task may be running. Errors: SS_ERR_IO. NULL
 * is fine. */
enum ss_status ss_trace_close(struct ss_trace *trace);

/* Hooks for the executor that record tasks and steps. */
struct ss_hooks *ss_trace_hooks(struct ss_trace *trace);

/* Record a collective of a step, unless that step is not recorded. bucket -1: metrics. */
void ss_trace_collective(struct ss_trace *trace, uint64_t step, int bucket, uint64_t begin_ns,
                         uint64_t end_ns);
/* Record a task's time on the GPU. For a struct ss_gpu_times_listener (runtime/gpu_times.h); arg
 * is the trace. */
void ss_trace_write_gpu(void *arg, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                        uint64_t end_ns);
/* Record the offset of this clock to rank 0's; at: "begin" or "end". */
void ss_trace_write_clock(struct ss_trace *trace, const char *at, int64_t offset_ns,
                          uint64_t error_ns);

#endif
