/* segments.c: runs of the training step's tasks that may be enqueued as one, because nobody outside
 * waits for a part of them, and they for nobody but at the start: on a GPU such a run is recorded once
 * and replayed by a single launch.
 *
 * Only forward, backward and sums of contributions are in segments. A segment ends where another lane
 * takes over what its last task made (a bucket that is complete, the metrics) and another begins where
 * one must be waited for (weights that a sum's update brings): so sums overlap with compute just as
 * without. On one rank forward is one, backward another. */
#ifndef SS_GRAPH_SEGMENTS_H
#define SS_GRAPH_SEGMENTS_H

#include "graph/plan.h"

struct ss_segment {
    int first, count; /* members: ss_segments.member from first on */
    int naccess;
    struct ss_access *access; /* all that its members touch, each once */
};

struct ss_segments {
    int count;
    struct ss_segment *at;
    int *member; /* indices of training tasks, segment by segment, in the list's order */
    int *of;     /* per training task: its segment, -1: none */
};

/* A segment takes its first member's place in the list. SS_ERR_MEMORY. The caller frees *out. */
enum ss_status ss_segments_find(const struct ss_plan *plan, struct ss_segments *out);
void ss_segments_free(struct ss_segments *s);

/* Is it of a kind that segments are made of? */
int ss_segments_take(enum ss_task_kind kind);

#endif
