/* Collectives between ranks, behind one table of operations: `self` (one rank, no library), `mpi`,
 * and `tcp` (ranks without MPI; all but sums of floats, and only for what is small or seldom). Only
 * this room knows who the other ranks are.
 *
 * Every wait has a deadline. A wait that reaches it, a peer that stops answering, a connection that
 * breaks or an MPI call that fails ends every rank: the message names the rank waited for, step,
 * bucket and age, then all ranks are aborted with a non-zero exit code. */
#ifndef SS_COMM_COMM_H
#define SS_COMM_COMM_H

#include "core/dtype.h"
#include "core/share.h"
#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct ss_comm;

struct ss_comm_config {
    /* "self", "mpi", "tcp"; "auto": mpi in a build with it when an MPI launcher started this
     * process, else tcp when Slurm or torchrun did, as one of several (comm_env.h), else self */
    const char *backend;
    double timeout_s; /* deadline of any wait on another rank; > 0 */
};

/* Start up; the ranks of `tcp` must have the same STARSTEP_SECRET. Errors: SS_ERR_UNSUPPORTED
 * (backend not in this build, or MPI without MPI_THREAD_MULTIPLE; "auto" under an MPI launcher in a
 * build without MPI), SS_ERR_INVALID, SS_ERR_COMM, SS_ERR_TIMEOUT. The caller closes it; the close
 * of a healthy communicator waits for all ranks, with the deadline.
 * Also calls ss_log_set_rank(). */
enum ss_status ss_comm_open(const struct ss_comm_config *config, struct ss_comm **out);
void ss_comm_close(struct ss_comm *comm);

/* From here on, MPI is not ended by the close of its communicator but by the exit of the process, so that
 * another one can be opened. */
void ss_comm_stay(void);

int ss_comm_rank(const struct ss_comm *comm);
int ss_comm_size(const struct ss_comm *comm);
int ss_comm_local_rank(const struct ss_comm *comm); /* among the ranks of this node */
int ss_comm_local_size(const struct ss_comm *comm);
int ss_comm_nodes(const struct ss_comm *comm);
/* A number >= 0: equal on the ranks of one node only. */
int ss_comm_node(const struct ss_comm *comm);
const char *ss_comm_backend(const struct ss_comm *comm); /* "self", "mpi", "tcp" */
/* Library and version, for `starstep info`: "Open MPI 4.1.4", "none". A constant string. */
const char *ss_comm_library(void);

/* What a collective belongs to, for messages and traces. bucket < 0: not a bucket ("metrics"). */
struct ss_comm_tag {
    uint64_t step;
    int bucket; /* SS_COMM_GATHERED + k: the weights of bucket k, and not its gradients */
};
enum { SS_COMM_GATHERED = 1 << 20 };

/* Called once, from the communication thread (or at once from the caller with `self`), when the
 * collective has ended well. Must be short: it may release StarPU tasks, nothing more. After a
 * failure it is not called: the process is ending. */
typedef void (*ss_comm_done_fn)(void *arg);

/* Start an in-place sum over all ranks of `count` floats (or doubles) and return at once. All ranks
 * start the same collectives in the same order. `data` must stay valid until `done`. The sum's bits
 * are the same on every rank and in every run of the same rank count.
 *
 * wire: the format in which floats travel. In 2 bytes each rank's numbers are multiplied by
 * 1 / ranks and rounded, sums are made in fp32 and rounded for the way back, and what comes back is
 * multiplied by the number of ranks: so a mean that the format holds does not overflow as a sum
 * (the rounding is kernels/cpu/wire.h's). With one rank nothing is rounded.
 * Errors: SS_ERR_COMM; SS_ERR_UNSUPPORTED for floats with `tcp`; then `done` is not called. */
enum ss_status ss_comm_allreduce_start_f32(struct ss_comm *comm, float *data, size_t count,
                                           enum ss_dtype wire, struct ss_comm_tag tag,
                                           ss_comm_done_fn done, void *arg);
enum ss_status ss_comm_allreduce_start_f64(struct ss_comm *comm, double *data, size_t count,
                                           struct ss_comm_tag tag, ss_comm_done_fn done, void *arg);

/* The two halves of such a sum. The first leaves in this rank's share of data (core/share.h) the bits
 * that the whole sum would have there, and anything elsewhere. The second takes every rank's share,
 * as it is, to all. More than 16 ranks, and small buckets, make the whole sum in the first. */
enum ss_status ss_comm_reduce_scatter_start_f32(struct ss_comm *comm, float *data, size_t count,
                                                enum ss_dtype wire, struct ss_comm_tag tag,
                                                ss_comm_done_fn done, void *arg);
enum ss_status ss_comm_allgather_start_f32(struct ss_comm *comm, float *data, size_t count,
                                           struct ss_comm_tag tag, ss_comm_done_fn done, void *arg);

/* The same for a sum that compute waits for and that must not wait behind larger ones: these have an
 * order, a number and, over MPI, communicators of their own, so that all ranks start them in one order
 * among themselves, whatever is under way besides. what, which lives until `done`, names it behind
 * the step: "sync fwd conv1". No observer is told of it. Not with `tcp`. */
enum ss_status ss_comm_allreduce_start_small(struct ss_comm *comm, double *data, size_t count,
                                             struct ss_comm_tag tag, const char *what,
                                             ss_comm_done_fn done, void *arg);

/* Something else that every rank begins in the same order and that ends by itself, such as a sum on
 * GPUs: watched like a collective, with the same deadline and messages. poll is called from the
 * communication thread until it returns SS_POLL_ENDED (ended well: `done` is called) or
 * SS_POLL_FAILED (reported: all ranks are ended). Of a single rank, poll is called from here until
 * it has ended; SS_ERR_TIMEOUT at the deadline. what NULL: named by the tag. */
enum ss_comm_poll {
    SS_POLL_FAILED = -1,
    SS_POLL_UNDER_WAY = 0,
    SS_POLL_ENDED = 1,
    /* Under way on other ranks perhaps, but work of this rank is still in front of it (its GPU has
     * not reached the sum): a rank that says so past the deadline is the one waited for. */
    SS_POLL_NOT_REACHED = 2,
};
typedef enum ss_comm_poll (*ss_comm_poll_fn)(void *arg);
enum ss_status ss_comm_watch(struct ss_comm *comm, struct ss_comm_tag tag, const char *what,
                             ss_comm_poll_fn poll, void *poll_arg, ss_comm_done_fn done, void *arg);
/* The same, in the order of ss_comm_allreduce_start_small. (`tcp` has one order for both. As nothing
 * travels there for what is watched, ranks may differ in it; only messages may name a neighbour.) */
enum ss_status ss_comm_watch_small(struct ss_comm *comm, struct ss_comm_tag tag, const char *what,
                                   ss_comm_poll_fn poll, void *poll_arg, ss_comm_done_fn done,
                                   void *arg);

/* Blocking, with the deadline; only while no started collective is under way. `what` names it in
 * messages ("broadcast of the initial weights"). */
enum ss_status ss_comm_bcast(struct ss_comm *comm, void *data, size_t bytes, int root,
                             const char *what);
enum ss_status ss_comm_allreduce_f64(struct ss_comm *comm, double *data, size_t count,
                                     const char *what);
/* As ss_comm_allreduce_start_f32 with fp32 as the wire. */
enum ss_status ss_comm_allreduce_f32(struct ss_comm *comm, float *data, size_t count,
                                     const char *what);
/* As ss_comm_allgather_start_f32. */
enum ss_status ss_comm_allgather_f32(struct ss_comm *comm, float *data, size_t count,
                                     const char *what);
enum ss_status ss_comm_barrier(struct ss_comm *comm, const char *what);
/* *any = 1 on every rank if `flag` is non-zero on one of them. */
enum ss_status ss_comm_any(struct ss_comm *comm, int flag, int *any, const char *what);
/* What one rank has failed at, and reported, all have failed at: `status` of this rank, else
 * SS_ERR_COMM if another one's is not SS_OK. */
enum ss_status ss_comm_agree(struct ss_comm *comm, enum ss_status status, const char *what);

/* `bytes` of every rank to all on rank 0, by rank: room for world size x bytes; elsewhere NULL.
 * Blocking, as above. */
enum ss_status ss_comm_gather(struct ss_comm *comm, const void *data, size_t bytes, void *all,
                              const char *what);
/* The same into memory of its own: *all, which the caller frees, is NULL on other ranks and after
 * an error. When there is no memory for it, or for `data` (NULL), all ranks are ended, as the
 * others wait in the gather; SS_ERR_MEMORY is returned with one rank only. */
enum ss_status ss_comm_gather_alloc(struct ss_comm *comm, const void *data, size_t bytes,
                                    void **all, const char *what);

/* `bytes` from `send` to rank `to`, and as many from rank `from` into `received`; below 0: none, and
 * who has neither takes its turn all the same. Collective, with the same bytes everywhere: from one
 * rank to itself with `self`. Blocking, as above. Errors: SS_ERR_UNSUPPORTED with `tcp`. */
enum ss_status ss_comm_exchange(struct ss_comm *comm, const void *send, int to, void *received,
                                int from, size_t bytes, const char *what);

/* Something that must be the same on all ranks, as text. */
struct ss_comm_fact {
    const char *name;   /* "option --seed"; not "" */
    const char *value;  /* compared */
    const char *shown;  /* in the message, not compared; NULL: the value */
    const char *advice; /* in the message; NULL: "give all ranks the same" */
};
/* Check that all facts are the same on all ranks; one exchange, however many they are, which `what`
 * names in messages ("comparison of options"). Collective: every rank calls it with the same names
 * in the same order. On a difference rank 0 reports name, both values and the rank, and all ranks
 * return SS_ERR_MISMATCH. */
enum ss_status ss_comm_check_facts(struct ss_comm *comm, const char *what,
                                   const struct ss_comm_fact *fact, size_t n);
/* The same for one. */
enum ss_status ss_comm_check_consistent(struct ss_comm *comm, const char *name, const char *value);

/* Collective start-up check: all-reduce of known values at the given element counts, in the format
 * that will travel, result compared exactly. Errors: SS_ERR_COMM with the first wrong element, or
 * after the report that this backend has no sums of floats. */
enum ss_status ss_comm_verify(struct ss_comm *comm, enum ss_dtype wire, const size_t *counts,
                              size_t ncounts);

/* What the check sums, as it travels in `wire`: element i of a rank, and of
 * the sum over `size` ranks. Whole numbers, and so are all partial sums, in any order over up to
 * 4096 ranks: below 2^24 for fp32; at most 255 for 2-byte formats (bf16 holds whole numbers up to
 * 2^8, fp16 up to 2^11), for which at most 8 ranks have anything but 0 in an element. A rank has
 * something in every (size + 7) / 8-th element then. */
float ss_comm_check_value(enum ss_dtype wire, int size, int rank, size_t i);
float ss_comm_check_sum(enum ss_dtype wire, int size, size_t i);

/* End every rank now: this rank's last error has been reported already. Does not return when there
 * is more than one rank (exit code 1 everywhere); returns with one. */
void ss_comm_abort(struct ss_comm *comm, enum ss_status status);

/* Called once, with a few seconds to return, when this rank is ended before its time by a failure,
 * a lost rank or ss_comm_abort: to stop what would keep other ranks' devices waiting. From any
 * thread. Of several, at most SS_COMM_AT_ABORT, the one given last is called first; fn NULL takes that
 * one back. */
enum { SS_COMM_AT_ABORT = 4 };
void ss_comm_at_abort(struct ss_comm *comm, void (*fn)(void *arg), void *arg);

/* Tell fn of every collective with a tag that has ended, and when it was under way on this rank
 * (CLOCK_MONOTONIC). From the communication thread; must be short. NULL takes it back. While
 * nothing is under way. */
typedef void (*ss_comm_observer)(void *arg, struct ss_comm_tag tag, uint64_t begin_ns,
                                 uint64_t end_ns);
void ss_comm_observe(struct ss_comm *comm, ss_comm_observer fn, void *arg);

/* How this rank's CLOCK_MONOTONIC goes against rank 0's: rank 0's is this one + *offset_ns, with an
 * error of at most *error_ns (comm_clock.c). Blocking; collective. */
enum ss_status ss_comm_clock(struct ss_comm *comm, int64_t *offset_ns, uint64_t *error_ns);

/* Time in nanoseconds (CLOCK_MONOTONIC) and bytes, as they travel, of collectives so far: for the
 * summary. */
struct ss_comm_totals {
    uint64_t collectives, bytes;
    uint64_t busy_ns; /* merged time in which at least one collective was under way */
};
void ss_comm_get_totals(const struct ss_comm *comm, struct ss_comm_totals *out);

#endif
