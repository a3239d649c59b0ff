/* The tasks of any StarPU program: tasks.rec, which starpu_fxt_tool makes of a trace of FxT (StarPU's handbook, "Offline
 * performance tools"). Stanzas of lines "Key: value", one a task; times in milliseconds. */
#ifndef SS_TRACE_STARPU_REC_H
#define SS_TRACE_STARPU_REC_H

#include "trace/array.h"

#include <stdint.h>
#include <stdio.h>

#define SS_REC_NONE SIZE_MAX

struct ss_rec_task {
    char *job;                  /* its name for other tasks */
    char *model;                /* else the task's own name; NULL: it has neither */
    int64_t rank;               /* of MPI */
    int64_t worker, priority;   /* worker -1: it did not run, as what only synchronises */
    int64_t submit, begin, end; /* nanoseconds */
    size_t needs, needs_count;  /* in ss_rec.needs */
    int64_t ready;              /* submitted, and all that it waited for has ended */
    size_t last;   /* what it waited for that ended last; SS_REC_NONE: nothing that ran */
    size_t before; /* the one before it on its worker; SS_REC_NONE */
};

/* Tasks are in the order of their begins; those that did not run are in front of all that did, from `ran` on. needs:
 * positions of tasks; SS_REC_NONE: one that is not in the file. */
struct ss_rec {
    SS_TRACE_ARRAY(struct ss_rec_task) task;
    SS_TRACE_ARRAY(size_t) needs;
    size_t ran;
};

static inline int ss_rec_same_worker(const struct ss_rec_task *a, const struct ss_rec_task *b)
{
    return a->rank == b->rank && a->worker == b->worker;
}

/* Errors: SS_ERR_IO, SS_ERR_FORMAT (file, line and what is wrong; no task ran), SS_ERR_MEMORY. */
enum ss_status ss_rec_read(const char *file, struct ss_rec **out);
void ss_rec_free(struct ss_rec *rec); /* NULL is fine */

/* Workers, models, the critical path, and tasks that went before others of higher priority, in tables of at most 120
 * columns. Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_rec_report(const struct ss_rec *rec, const char *file, FILE *out);

#endif
