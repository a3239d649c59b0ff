/* Reading a trace (format.h): one rank's file as plain arrays.
 *
 * A reader holds one rank at a time, at 40 bytes a mark; what is kept of a rank beyond that is what
 * analyse.h makes of it. Nothing in a file is believed: numbers are checked against what they refer
 * to, and the first line that is wrong ends the reading with its number, field and value. A last
 * line without an end is how a killed run leaves its file: the marks before it are kept. */
#ifndef SS_TRACE_READ_H
#define SS_TRACE_READ_H

#include "core/status.h"
#include "graph/plan.h"
#include "trace/array.h"

#include <stddef.h>
#include <stdint.h>

enum {
    SS_TRACE_TEXT = 64,
    SS_TRACE_MAX_RANKS = 1 << 20,
    SS_TRACE_MAX_SLOTS = 4096,
    SS_TRACE_MAX_MICROS = 1 << 20
};

/* Lanes of a GPU, in the order of enum ss_lane, and what workers are by their names. */
enum ss_trace_lane {
    SS_TRACE_COMPUTE,
    SS_TRACE_COMM,
    SS_TRACE_COPY,
    SS_TRACE_UPDATE, /* has no worker of its own */
    SS_TRACE_LANES,
    SS_TRACE_SERVICE = SS_TRACE_LANES, /* all others */
};
extern const char *const ss_trace_lanes[]; /* their names */

/* What tasks touch: (space, index), each pair once. */
struct ss_trace_data {
    char space[SS_TRACE_TEXT];
    int index;
    int per_slot; /* each slot has its own */
};

struct ss_trace_access {
    int data;
    enum ss_mode mode;
};

struct ss_trace_task {
    enum ss_task_kind kind;
    char name[SS_NAME_BYTES];
    int block, bucket, slice; /* -1: none */
    int micro;                /* below the rank's micros */
    int64_t predicted;        /* ns; 0: not told */
    int naccess;
    struct ss_trace_access access[SS_PLAN_MAX_ACCESSES];
};

struct ss_trace_worker {
    char name[SS_TRACE_TEXT];
    enum ss_trace_lane lane;
};

struct ss_trace_bucket {
    int64_t bytes, wire_bytes;
    enum ss_task_kind kind; /* of the task that makes this collective */
    int of;                 /* whose gradients, or weights */
};

/* Marks, in the order of the file; steps sorted. */
struct ss_trace_step {
    int64_t step, submitted, reported;
};
struct ss_trace_run {
    int64_t step, ready, begin, end;
    int32_t task, worker;
};
struct ss_trace_gpu {
    int64_t step, begin, end;
    int32_t task, lane;
};
struct ss_trace_sum {
    int64_t step, begin, end;
    int32_t bucket; /* as they are numbered; -1: metrics */
};
struct ss_trace_memory {
    int64_t at, host, device;
};
struct ss_trace_clock {
    int64_t at, offset, error;
};

struct ss_trace_rank {
    int rank, ranks, slots, cuda, overlap;
    int micros;                    /* micro-steps of a step */
    int64_t first_step, last_step; /* as asked for; last_step 0: to the end */
    int64_t epoch_ns, batch;       /* batch: images per step; 0: not told */
    char host[SS_TRACE_TEXT], model[SS_TRACE_TEXT], backend[SS_TRACE_TEXT];
    char machine[SS_TRACE_TEXT]; /* of the predictions; "": there are none */
    SS_TRACE_ARRAY(struct ss_trace_worker) worker;
    SS_TRACE_ARRAY(struct ss_trace_task) task;
    SS_TRACE_ARRAY(struct ss_trace_data) data;
    SS_TRACE_ARRAY(struct ss_trace_bucket) bucket;
    SS_TRACE_ARRAY(struct ss_trace_clock) clock; /* at most two, "begin" first */
    SS_TRACE_ARRAY(struct ss_trace_step) step;
    SS_TRACE_ARRAY(struct ss_trace_run) run;
    SS_TRACE_ARRAY(struct ss_trace_gpu) gpu;
    SS_TRACE_ARRAY(struct ss_trace_sum) sum;
    SS_TRACE_ARRAY(struct ss_trace_memory) memory;
    int ended;    /* the file has its last line */
    int cut;      /* it ends inside a line */
    int64_t lost; /* marks that did not fit */
};

/* Which ranks have a file in DIR. present has `ranks` entries, one per rank of the run, as the
 * first file says. Errors: SS_ERR_IO (no folder), SS_ERR_FORMAT (no trace in it).
 * The caller frees *present. */
enum ss_status ss_trace_find(const char *dir, int *ranks, char **present);

/* Read DIR's file of this rank. Errors: SS_ERR_IO, SS_ERR_FORMAT, SS_ERR_UNSUPPORTED (version),
 * SS_ERR_MEMORY. The caller frees *out. */
enum ss_status ss_trace_read(const char *dir, int rank, struct ss_trace_rank **out);
void ss_trace_free(struct ss_trace_rank *r); /* NULL is fine */

/* A time of this rank on rank 0's CLOCK_MONOTONIC, and how wrong that may be. Without "clock" lines
 * the clocks are taken for the same, as they are on one host. */
int64_t ss_trace_common(const struct ss_trace_rank *r, int64_t at);
int64_t ss_trace_error(const struct ss_trace_rank *r);

/* When a step's submission began; INT64_MIN: not told. */
int64_t ss_trace_submitted(const struct ss_trace_rank *r, int64_t step);

/* The number of a task's collective in `bucket`; -1: none, or it is not described. */
int ss_trace_collective_of(const struct ss_trace_rank *r, const struct ss_trace_task *task);

/* Is it one of a lane that computes, and did it itself? */
static inline int ss_trace_on_computing_lane(const struct ss_trace_gpu *g)
{
    return g->lane == SS_TRACE_COMPUTE || g->lane == SS_TRACE_UPDATE;
}
static inline int ss_trace_gpu_computes(const struct ss_trace_rank *r, const struct ss_trace_gpu *g)
{
    return ss_trace_on_computing_lane(g) && ss_task_computes(r->task.at[g->task].kind);
}

#endif
