/* codelets/segment.c: runs a segment of the step plan (graph/segments.h) as one task on the
 * compute lane of a GPU. The first time, its members' work is recorded, instead of run, as a GPU
 * graph. Each time, that graph is launched with a single call. All inputs of a member's work are
 * identical in every step, or are in GPU memory (keys of dropout, the loss scale).
 *
 * If a segment cannot be recorded, its members run one by one or, if the graph is required, the
 * run fails. The same kernels run in the same order in either case, and results are
 * bit-identical. */
#ifndef SS_CODELETS_SEGMENT_H
#define SS_CODELETS_SEGMENT_H

#include "codelets/task.h"
#include "kernels/kernels.h"

struct ss_segment_member {
    const struct ss_bound_task *task;
    struct ss_region *const *region;  /* per access, identical in each step */
    int buffer[SS_PLAN_MAX_ACCESSES]; /* per access: index of the segment's buffer */
};

/* Context of its task. */
struct ss_segment_work {
    const struct ss_kernels *kernels;
    int count;
    struct ss_segment_member *member;
    int required;               /* 1: fail if it cannot be recorded */
    int plain;                  /* 1: it could not be recorded */
    struct ss_gpu_graph *graph; /* NULL: not recorded yet */
};

/* args->task: with a struct ss_segment_work as its context. */
enum ss_status ss_segment_submit(const struct ss_step_args *args);

#endif
