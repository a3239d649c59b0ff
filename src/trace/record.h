/* Recording a trace (format.h): when each task of a step ran, and each collective.
 *
 * Marks come from the hooks of tasks and steps (codelets/hooks.h) and from the communication
 * thread. They go to memory; a thread of the recorder writes them. */
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
    size_t device_bytes;        /* that the run holds there */
    const struct ss_plan *plan; /* outlives the trace */
    /* A prediction of each task in seconds, 0: none, which ss_trace_open alone reads; and of which
     * GPU, or "host": measured before on this kind of node. NULL: there is none. */
    const double *predicted;
    const char *machine;
};

/* Begin DIR/rank-NNNN.jsonl; DIR is made, older files of this rank are replaced. After StarPU was
 * started. Errors: SS_ERR_IO, SS_ERR_MEMORY, SS_ERR_LIBRARY (no thread). The caller closes it. */
enum ss_status ss_trace_open(const struct ss_trace_options *options, struct ss_trace **out);
/* Write what is left and the last line. No task is running. Errors: SS_ERR_IO. NULL is fine. */
enum ss_status ss_trace_close(struct ss_trace *trace);

/* To be hung on the executor: the times of tasks and steps. */
struct ss_hooks *ss_trace_hooks(struct ss_trace *trace);

/* A collective of a step was under way, unless that step is not recorded. bucket -1: metrics. */
void ss_trace_collective(struct ss_trace *trace, uint64_t step, int bucket, uint64_t begin_ns,
                         uint64_t end_ns);
/* A task's time on the GPU, for a struct ss_gpu_times_listener (runtime/gpu_times.h): arg is the
 * trace. */
void ss_trace_write_gpu(void *arg, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                        uint64_t end_ns);
/* How this clock goes against rank 0's; at: "begin" or "end". */
void ss_trace_write_clock(struct ss_trace *trace, const char *at, int64_t offset_ns,
                          uint64_t error_ns);

#endif
