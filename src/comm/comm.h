/* Collectives between ranks, behind one table of operations. Backends: `self` (one rank, no
 * library), `mpi`, and `tcp` (ranks without MPI; no all-reduce of floats, and only for small or
 * infrequent data). Only src/comm communicates with other ranks.
 *
 * Every wait has a deadline. Four events end every rank: a wait that reaches its deadline, a peer
 * that stops responding, a broken connection, and a failed MPI call. The message names the rank
 * waited for, step, bucket and age; then all ranks are aborted with a non-zero exit code. */
#ifndef SS_COMM_COMM_H
#define SS_COMM_COMM_H

#include "core/dtype.h"
#include "core/share.h"
#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct ss_comm;

struct ss_comm_config {
    /* "self", "mpi", "tcp"; "auto": mpi if this build has it and an MPI launcher started this
     * process, else tcp if Slurm or torchrun started it as one of several (comm_env.h), else
     * self */
    const char *backend;
    double timeout_s; /* deadline of any wait on another rank; > 0 */
};

/* Open the communicator. The ranks of `tcp` must have the same STARSTEP_SECRET. Also calls
 * ss_log_set_rank(). The caller closes it; closing a healthy communicator waits for all ranks, with
 * the deadline. Errors: SS_ERR_UNSUPPORTED (backend not in this build; MPI without
 * MPI_THREAD_MULTIPLE; "auto" under an MPI launcher in a build without MPI), SS_ERR_INVALID,
 * SS_ERR_COMM, SS_ERR_TIMEOUT. */
enum ss_status ss_comm_open(const struct ss_comm_config *config, struct ss_comm **out);
void ss_comm_close(struct ss_comm *comm);

/* Defer MPI_Finalize from the close of the communicator to the exit of the process, so that another
 * communicator can be opened. */
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

/* Identifies a collective in messages and traces. bucket < 0: not a bucket ("metrics"). */
struct ss_comm_tag {
    uint64_t step;
    int bucket; /* SS_COMM_GATHERED + k: the weights of bucket k, not its gradients */
};
enum { SS_COMM_GATHERED = 1 << 20 };

/* Called once, from the communication thread (with `self` immediately from the caller), when the
 * collective has completed successfully. Must be short: it may release StarPU tasks, nothing more.
 * Not called after a failure: the process is ending. */
typedef void (*ss_comm_done_fn)(void *arg);

/* Start an in-place all-reduce (sum) of `count` floats or doubles and return immediately. All ranks
 * start the same collectives in the same order. `data` must stay valid until `done`. Results are
 * bit-identical on every rank and in every run with the same rank count.
 *
 * wire: the format in which floats travel. With a 2-byte format each rank multiplies its values by
 * 1 / ranks and rounds them; sums are computed in fp32 and rounded for the way back; the results
 * are multiplied by the number of ranks. So a mean that the format can represent does not overflow
 * as a sum (rounding: kernels/cpu/wire.h). With one rank nothing is rounded.
 * Errors: SS_ERR_COMM; SS_ERR_UNSUPPORTED for floats with `tcp`; then `done` is not called. */
enum ss_status ss_comm_allreduce_start_f32(struct ss_comm *comm, float *data, size_t count,
                                           enum ss_dtype wire, struct ss_comm_tag tag,
                                           ss_comm_done_fn done, void *arg);
enum ss_status ss_comm_allreduce_start_f64(struct ss_comm *comm, double *data, size_t count,
                                           struct ss_comm_tag tag, ss_comm_done_fn done, void *arg);

/* The two halves of an all-reduce. The reduce-scatter leaves in this rank's share of data
 * (core/share.h) values bit-identical to those of the all-reduce; the rest of data is undefined.
 * The all-gather copies every rank's share, unchanged, to all ranks. With more than 16 ranks, and
 * for small buckets, the first half computes the whole all-reduce. */
enum ss_status ss_comm_reduce_scatter_start_f32(struct ss_comm *comm, float *data, size_t count,
                                                enum ss_dtype wire, struct ss_comm_tag tag,
                                                ss_comm_done_fn done, void *arg);
enum ss_status ss_comm_allgather_start_f32(struct ss_comm *comm, float *data, size_t count,
                                           struct ss_comm_tag tag, ss_comm_done_fn done, void *arg);

/* Start an all-reduce that compute waits for and that must not queue behind larger ones. These
 * collectives have their own order, sequence numbers and, with MPI, communicators: all ranks
 * start them in one order among themselves, regardless of other collectives. `what`, which must
 * stay valid until `done`, names it in messages after the step: "sync fwd conv1". The observer is
 * not called. Not supported by `tcp`. */
enum ss_status ss_comm_allreduce_start_small(struct ss_comm *comm, double *data, size_t count,
                                             struct ss_comm_tag tag, const char *what,
                                             ss_comm_done_fn done, void *arg);

/* Watch an operation that every rank starts in the same order and that completes by itself,
 * such as an all-reduce on GPUs, with the same deadline and messages as a collective. poll is
 * called from the communication thread until it returns SS_POLL_ENDED (completed: `done` is
 * called) or SS_POLL_FAILED (reported: all ranks are ended). With a single rank, poll is
 * called from this function until it has completed; SS_ERR_TIMEOUT at the deadline. `what`
 * NULL: named by the tag. */
enum ss_comm_poll {
    SS_POLL_FAILED = -1,
    SS_POLL_UNDER_WAY = 0,
    SS_POLL_ENDED = 1,
    /* Perhaps under way on other ranks, but queued behind earlier work of this rank (its GPU has
     * not reached it): a rank that returns this past the deadline is reported as the cause. */
    SS_POLL_NOT_REACHED = 2,
};
typedef enum ss_comm_poll (*ss_comm_poll_fn)(void *arg);
enum ss_status ss_comm_watch(struct ss_comm *comm, struct ss_comm_tag tag, const char *what,
                             ss_comm_poll_fn poll, void *poll_arg, ss_comm_done_fn done, void *arg);
/* The same, in the order of ss_comm_allreduce_start_small. (`tcp` has one order for both. As
 * watched operations send no data there, their order may differ between ranks; only messages may
 * then name an adjacent operation.) */
enum ss_status ss_comm_watch_small(struct ss_comm *comm, struct ss_comm_tag tag, const char *what,
                                   ss_comm_poll_fn poll, void *poll_arg, ss_comm_done_fn done,
                                   void *arg);

/* Blocking collectives, with the deadline. Call only while no started collective is under way.
 * `what` names the collective in messages ("broadcast of the initial weights"). */
enum ss_status ss_comm_bcast(struct ss_comm *comm, void *data, size_t bytes, int root,
                             const char *what);
enum ss_status ss_comm_allreduce_f64(struct ss_comm *comm, double *data, size_t count,
                                     const char *what);
/* Like ss_comm_allreduce_start_f32 with wire format fp32. */
enum ss_status ss_comm_allreduce_f32(struct ss_comm *comm, float *data, size_t count,
                                     const char *what);
/* Like ss_comm_allgather_start_f32. */
enum ss_status ss_comm_allgather_f32(struct ss_comm *comm, float *data, size_t count,
                                     const char *what);
enum ss_status ss_comm_barrier(struct ss_comm *comm, const char *what);
/* *any = 1 on every rank if `flag` is non-zero on any rank. */
enum ss_status ss_comm_any(struct ss_comm *comm, int flag, int *any, const char *what);
/* Agree on success. Returns `status` if this rank has failed, SS_ERR_COMM if only another rank has,
 * else SS_OK. The failing rank has reported its error. */
enum ss_status ss_comm_agree(struct ss_comm *comm, enum ss_status status, const char *what);

/* Gather `bytes` of every rank into all on rank 0, by rank (world size x bytes); all is NULL
 * elsewhere. Blocking, as above. */
enum ss_status ss_comm_gather(struct ss_comm *comm, const void *data, size_t bytes, void *all,
                              const char *what);
/* Gather into newly allocated memory: *all, which the caller frees; NULL on other ranks and after
 * an error. If that allocation, or the caller's of `data` (NULL), has failed, all ranks are ended,
 * as the others wait in the gather. SS_ERR_MEMORY is returned with one rank only. */
enum ss_status ss_comm_gather_alloc(struct ss_comm *comm, const void *data, size_t bytes,
                                    void **all, const char *what);

/* Send `bytes` from `send` to rank `to` and receive as many from rank `from` into `received`; a
 * rank below 0: no transfer. Collective, with the same `bytes` on all ranks, including those
 * without a transfer. With `self`: from rank 0 to itself. Blocking, as above. Errors:
 * SS_ERR_UNSUPPORTED with `tcp`. */
enum ss_status ss_comm_exchange(struct ss_comm *comm, const void *send, int to, void *received,
                                int from, size_t bytes, const char *what);

/* A value, as text, that must be the same on all ranks. */
struct ss_comm_fact {
    const char *name;   /* "option --seed"; not "" */
    const char *value;  /* compared */
    const char *shown;  /* in the message, not compared; NULL: the value */
    const char *advice; /* in the message; NULL: "give all ranks the same" */
};
/* Check that all facts are the same on all ranks, in one exchange for any number of facts, which
 * `what` names in messages ("comparison of options"). Collective: every rank calls it with the same
 * names in the same order. On a difference rank 0 reports name, both values and the rank, and all
 * ranks return SS_ERR_MISMATCH. */
enum ss_status ss_comm_check_facts(struct ss_comm *comm, const char *what,
                                   const struct ss_comm_fact *fact, size_t n);
/* The same for one value. */
enum ss_status ss_comm_check_consistent(struct ss_comm *comm, const char *name, const char *value);

/* Collective start-up check: all-reduce known values in wire format `wire` at the given element
 * counts and compare the results exactly. Errors: SS_ERR_COMM, after a report of the first wrong
 * element, or that this backend has no all-reduce of floats. */
enum ss_status ss_comm_verify(struct ss_comm *comm, enum ss_dtype wire, const size_t *counts,
                              size_t ncounts);

/* Input and expected result of that check in format `wire`: element i of one rank, and of the sum
 * over `size` ranks. All values and partial sums, in any order over up to 4096 ranks, are exact
 * integers: below 2^24 for fp32; at most 255 for 2-byte formats (bf16 represents integers up to
 * 2^8, fp16 up to 2^11). With 2-byte formats at most 8 ranks have a nonzero value in an element,
 * and a rank has one in every (size + 7) / 8-th element. */
float ss_comm_check_value(enum ss_dtype wire, int size, int rank, size_t i);
float ss_comm_check_sum(enum ss_dtype wire, int size, size_t i);

/* End every rank now. This rank has already reported its last error. Does not return with more than
 * one rank (exit code 1 everywhere); returns with one. */
void ss_comm_abort(struct ss_comm *comm, enum ss_status status);

/* Register fn to be called once, from any thread, when this rank ends prematurely: a failure, a
 * lost rank or ss_comm_abort. fn has a few seconds to return; it stops work that would keep the
 * devices of other ranks waiting. At most SS_COMM_AT_ABORT functions; the last registered is
 * called first. fn NULL removes the last one. */
enum { SS_COMM_AT_ABORT = 4 };
void ss_comm_at_abort(struct ss_comm *comm, void (*fn)(void *arg), void *arg);

/* Call fn for every completed collective with a tag, with the time in which it was under way on
 * this rank (CLOCK_MONOTONIC), from the communication thread; must be short. NULL removes it.
 * Call this only while nothing is under way. */
typedef void (*ss_comm_observer)(void *arg, struct ss_comm_tag tag, uint64_t begin_ns,
                                 uint64_t end_ns);
void ss_comm_observe(struct ss_comm *comm, ss_comm_observer fn, void *arg);

/* Offset between this rank's CLOCK_MONOTONIC and rank 0's: rank 0's clock is this one + *offset_ns,
 * with an error of at most *error_ns (comm_clock.c). Blocking; collective. */
enum ss_status ss_comm_clock(struct ss_comm *comm, int64_t *offset_ns, uint64_t *error_ns);

/* Time in nanoseconds (CLOCK_MONOTONIC) and bytes on the wire of collectives so far, for the
 * summary. */
struct ss_comm_totals {
    uint64_t collectives, bytes;
    uint64_t busy_ns; /* time in which at least one collective was under way */
};
void ss_comm_get_totals(const struct ss_comm *comm, struct ss_comm_totals *out);

#endif
