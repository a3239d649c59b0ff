/* Interface between the collectives (comm.h) and their backends; internal to src/comm.
 *
 * A backend has one function to run a collective: `start`. The front end (comm.c, comm_check.c)
 * builds blocking calls, checks and accounting on it. Backends do not depend on the front end. */
#ifndef SS_COMM_COMM_BASE_H
#define SS_COMM_COMM_BASE_H

#include "comm/comm.h"

#include <pthread.h>

enum ss_comm_kind {
    SS_COMM_SUM_F32, /* in-place all-reduce */
    SS_COMM_SUM_F64,
    SS_COMM_REDUCE_SCATTER_F32, /* in place, every rank gets its share of the sum */
    SS_COMM_ALLGATHER_F32,      /* in place, every rank gets all shares */
    SS_COMM_MAX_U64,
    SS_COMM_BCAST,  /* count bytes from root */
    SS_COMM_GATHER, /* count bytes of each rank into `gathered` on rank 0, by rank */
    SS_COMM_BARRIER,
    SS_COMM_EXCHANGE, /* send count bytes to rank `to`, receive as many from `from` */
    SS_COMM_WATCHED,  /* no data: poll returns whether it has completed */
};

/* Each channel has its own order and sequence numbers. */
enum ss_comm_channel { SS_COMM_MAIN, SS_COMM_SMALL, SS_COMM_CHANNELS };

struct ss_comm_request {
    enum ss_comm_kind kind;
    enum ss_comm_channel channel;
    void *data;
    size_t count;   /* elements of the kind's type; bytes for BCAST, GATHER and EXCHANGE */
    void *gathered; /* GATHER on rank 0 only: world size x count bytes */
    int root;       /* BCAST only */
    void *received; /* EXCHANGE only, as are the ranks; below 0: none */
    int to, from;
    enum ss_dtype wire; /* all-reduce of floats: wire format */
    const char *what;   /* name in messages, after the tag's step; NULL: named by the tag */
    struct ss_comm_tag tag;
    ss_comm_poll_fn poll; /* WATCHED only */
    void *poll_arg;
    ss_comm_done_fn done;
    void *arg;
    uint64_t begin_ns; /* set by comm.c */
};

struct ss_comm_ops {
    const char *name;
    /* Start `request` (copied) and return. The backend calls ss_comm_finish() on completion.
     * SS_ERR_UNSUPPORTED, on all ranks alike: the backend lacks this kind; nothing was started. */
    enum ss_status (*start)(struct ss_comm *comm, const struct ss_comm_request *request);
    /* End every rank. Returns only with a single rank. */
    void (*abort)(struct ss_comm *comm);
    /* Free the backend's state. All ranks have agreed to end. */
    void (*close)(struct ss_comm *comm);
};

struct ss_comm {
    const struct ss_comm_ops *ops;
    int rank, size, local_rank, local_size, nodes;
    int node; /* equal on the ranks of one node only */
    double timeout_s;
    void *state; /* owned by the backend */

    ss_comm_observer observer;
    void *observer_arg;

    pthread_mutex_t abort_lock;
    struct {
        void (*fn)(void *arg);
        void *arg;
    } at_abort[SS_COMM_AT_ABORT];
    int nabort;

    pthread_mutex_t totals_lock;
    struct ss_comm_totals totals;
    unsigned under_way;
    uint64_t busy_since_ns;
};

/* Open a backend: fill ops, state, rank, size, local_rank, local_size, nodes and node of a zeroed
 * comm whose timeout_s is set. */
enum ss_status ss_comm_self_open(struct ss_comm *comm);
enum ss_status ss_comm_mpi_open(struct ss_comm *comm);
void ss_comm_mpi_stay(void); /* see ss_comm_stay */
enum ss_status ss_comm_tcp_open(struct ss_comm *comm);
const char *ss_comm_mpi_library(void);

/* Account for the end of one collective. */
void ss_comm_account_end(struct ss_comm *comm);
/* For backends: a collective has completed successfully. Do the accounting, then call `done`. */
void ss_comm_finish(struct ss_comm *comm, const struct ss_comm_request *request);

/* For backends: this process ends prematurely. Run the functions of ss_comm_at_abort once; a
 * timeout (call_timeout.h) bounds the time left to them. */
void ss_comm_before_abort(struct ss_comm *comm);

/* In comm.c, for the other files of the front end: start a collective and wait for its end. */
enum ss_status ss_comm_run(struct ss_comm *comm, const struct ss_comm_request *request);

static inline int ss_comm_sums_floats(enum ss_comm_kind kind)
{
    return kind == SS_COMM_SUM_F32 || kind == SS_COMM_REDUCE_SCATTER_F32;
}

/* Bytes of one element in memory, and on the wire. */
size_t ss_comm_kind_bytes(enum ss_comm_kind kind);
size_t ss_comm_wire_bytes(const struct ss_comm_request *request);

#endif
