/* segments.c: runs of training tasks that may be enqueued as one unit. No task outside waits for
 * an inner task of a segment, and a segment waits for outside tasks only at its start. On a GPU a
 * segment is recorded once and replayed by a single launch.
 *
 * Only forward, backward and sum tasks are in segments. A segment ends where another lane takes
 * over the output of its last task (a completed bucket, the metrics). A new one begins where a
 * task must wait for another lane (for weights that an update writes). All-reduces therefore
 * overlap with computation as they do without segments. On one rank, forward is one segment and
 * backward another. */
#ifndef SS_GRAPH_SEGMENTS_H
#define SS_GRAPH_SEGMENTS_H

#include "graph/plan.h"

struct ss_segment {
    int first, count; /* members: ss_segments.member, starting at first */
    int naccess;
    struct ss_access *access; /* all accesses of its members, merged */
};

struct ss_segments {
    int count;
    struct ss_segment *at;
    int *member; /* indices of training tasks, grouped by segment, in list order */
    int *of;     /* per training task: its segment; -1: none */
};

/* Find the segments of the training list. A segment takes its first member's position in the
 * list. SS_ERR_MEMORY. The caller frees *out. */
enum ss_status ss_segments_find(const struct ss_plan *plan, struct ss_segments *out);
void ss_segments_free(struct ss_segments *s);

/* Returns whether tasks of this kind can be in segments. */
int ss_segments_take(enum ss_task_kind kind);

#endif
