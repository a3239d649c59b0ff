/* Reader of a trace (format.h): loads one rank's file into plain arrays.
 *
 * The reader holds one rank at a time, at 40 bytes per event; only the results of analyse.h are
 * retained. All input is validated: numbers are checked against the objects they refer to, and
 * the first invalid line is reported with its number, field and value. A killed run's file may
 * end in an incomplete line: the preceding events are still read. */
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

/* Lanes of a GPU, in the order of enum ss_lane; also the roles of workers, by name. */
enum ss_trace_lane {
    SS_TRACE_COMPUTE,
    SS_TRACE_COMM,
    SS_TRACE_COPY,
    SS_TRACE_UPDATE, /* has no worker of its own */
    SS_TRACE_LANES,
    SS_TRACE_SERVICE = SS_TRACE_LANES, /* all others */
};
extern const char *const ss_trace_lanes[]; /* their names */

/* Data accessed by tasks: (space, index), each pair once. */
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
    int64_t predicted;        /* ns; 0: unknown */
    int naccess;
    struct ss_trace_access access[SS_PLAN_MAX_ACCESSES];
};

struct ss_trace_worker {
    char name[SS_TRACE_TEXT];
    enum ss_trace_lane lane;
};

struct ss_trace_bucket {
    int64_t bytes, wire_bytes;
    enum ss_task_kind kind; /* of the task that runs this collective */
    int of;                 /* the bucket of its gradients or weights */
};

/* Events, in file order; steps sorted. */
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
    int32_t bucket; /* the number of its line; -1: metrics */
};
struct ss_trace_memory {
    int64_t at, host, device;
};
struct ss_trace_clock {
    int64_t at, offset, error;
};

struct ss_trace_rank {
    int rank, ranks, slots, cuda, overlap;
    int micros;                    /* micro-batches per step */
    int64_t first_step, last_step; /* as requested; last_step 0: to the end */
    int64_t epoch_ns, batch;       /* batch: images per step; 0: unknown */
    char host[SS_TRACE_TEXT], model[SS_TRACE_TEXT], backend[SS_TRACE_TEXT];
    char machine[SS_TRACE_TEXT]; /* of the predictions; "": no predictions */
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
    int ended;    /* the file has its end line */
    int cut;      /* it ends within a line */
    int64_t lost; /* events dropped for lack of memory */
};

/* Find the ranks that have a file in DIR. present has `ranks` entries, one per rank of the run,
 * according to the first file. Errors: SS_ERR_IO (no folder), SS_ERR_FORMAT (no trace in it). The
 * caller frees *present. */
enum ss_status ss_trace_find(const char *dir, int *ranks, char **present);

/* Read DIR's file of this rank. Errors: SS_ERR_IO, SS_ERR_FORMAT, SS_ERR_UNSUPPORTED (version),
 * SS_ERR_MEMORY. The caller frees *out. */
enum ss_status ss_trace_read(const char *dir, int rank, struct ss_trace_rank **out);
void ss_trace_free(struct ss_trace_rank *r); /* NULL is fine */

/* Convert a time of this rank to rank 0's CLOCK_MONOTONIC, and the error bound of that. Without
 * "clock" lines the clocks are assumed equal, as on one host. */
int64_t ss_trace_common(const struct ss_trace_rank *r, int64_t at);
int64_t ss_trace_error(const struct ss_trace_rank *r);

/* The begin of a step's submission; INT64_MIN: unknown. */
int64_t ss_trace_submitted(const struct ss_trace_rank *r, int64_t step);

/* The number of a task's collective in `bucket`; -1: none, or not described. */
int ss_trace_collective_of(const struct ss_trace_rank *r, const struct ss_trace_task *task);

/* Whether the event is on a computing lane and was executed there. */
static inline int ss_trace_on_computing_lane(const struct ss_trace_gpu *g)
{
    return g->lane == SS_TRACE_COMPUTE || g->lane == SS_TRACE_UPDATE;
}
static inline int ss_trace_gpu_computes(const struct ss_trace_rank *r, const struct ss_trace_gpu *g)
{
    return ss_trace_on_computing_lane(g) && ss_task_computes(r->task.at[g->task].kind);
}

#endif
