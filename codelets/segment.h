/* codelets/segment.c: a segment of the step plan (graph/segments.h) as one task on the compute lane of a
 * GPU. The first time its members' work is recorded instead of run, as a graph of the GPU; each time that
 * graph is launched, with a single call. Everything that a member's work depends on is the same in every
 * step, or lies in the GPU's memory (keys of dropout, the loss scale).
 *
 * Where something cannot be recorded the members are run one by one, or, if the graph was asked for, the
 * run fails. Either way the same kernels run in the same order, with the same bits. */
#ifndef SS_CODELETS_SEGMENT_H
#define SS_CODELETS_SEGMENT_H

#include "codelets/task.h"
#include "kernels/kernels.h"

struct ss_segment_member {
    const struct ss_bound_task *task;
    struct ss_region *const *region; /* per access, the same in each step */
    int buffer[SS_PLAN_MAX_ACCESSES]; /* per access: which of the segment's it is */
};

/* Context of its task. */
struct ss_segment_work {
    const struct ss_kernels *kernels;
    int count;
    struct ss_segment_member *member;
    int required;               /* 1: fail where it cannot be recorded */
    int plain;                  /* 1: it could not be recorded */
    struct ss_gpu_graph *graph; /* NULL: not recorded yet */
};

/* args->task: with a struct ss_segment_work as its context. */
enum ss_status ss_segment_submit(const struct ss_step_args *args);

#endif
