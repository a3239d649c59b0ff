/* Reader and report for the tasks of any StarPU program: the tasks.rec file that starpu_fxt_tool
 * generates from an FxT trace (StarPU handbook, "Offline performance tools"). One stanza of "Key:
 * value" lines per task; times in milliseconds. */
#ifndef SS_APPS_TRACE_STARPU_REC_H
#define SS_APPS_TRACE_STARPU_REC_H

#include "trace/array.h"

#include <stdint.h>
#include <stdio.h>

#define SS_REC_NONE SIZE_MAX

struct ss_rec_task {
    char *job;                  /* its id, used by other tasks' dependencies */
    char *model;                /* else the task's own name; NULL: unnamed */
    int64_t rank;               /* of MPI */
    int64_t worker, priority;   /* worker -1: did not run (synchronization only) */
    int64_t submit, begin, end; /* nanoseconds */
    size_t needs, needs_count;  /* in ss_rec.needs */
    int64_t ready;              /* when it was submitted and all its dependencies had ended */
    size_t last;                /* the dependency that ended last; SS_REC_NONE: none that ran */
    size_t before;              /* the preceding task on its worker; SS_REC_NONE */
};

/* Tasks are sorted by begin. Those that did not run come first; the others start at `ran`. needs:
 * indices of tasks; SS_REC_NONE: not in the file. */
struct ss_rec {
    SS_TRACE_ARRAY(struct ss_rec_task) task;
    SS_TRACE_ARRAY(size_t) needs;
    size_t ran;
};

static inline int ss_rec_same_worker(const struct ss_rec_task *a, const struct ss_rec_task *b)
{
    return a->rank == b->rank && a->worker == b->worker;
}

/* Read a tasks.rec file. Errors: SS_ERR_IO, SS_ERR_FORMAT (names file, line and cause; or no task
 * ran), SS_ERR_MEMORY. The caller frees *out. */
enum ss_status ss_rec_read(const char *file, struct ss_rec **out);
void ss_rec_free(struct ss_rec *rec); /* NULL is fine */

/* Print workers, models, the critical path, and tasks that started before ready tasks of higher
 * priority, in tables of at most 120 columns. Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_rec_report(const struct ss_rec *rec, const char *file, FILE *out);

#endif
