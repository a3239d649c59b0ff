/* Collectives over GPUs with NCCL: one communicator per job (a second one for small all-reduces),
 * one GPU per rank. A struct ss_comm (comm.h), the control side, connects, watches and ends the
 * ranks; gradients use NCCL.
 *
 * Every collective is enqueued on the caller's stream and watched until the GPU has completed it.
 * A late one ends every rank with the message of comm.h (rank, host, step, bucket, age). Ending a
 * rank aborts its communicators, so that no kernel spins for ranks that have exited. */
#ifndef SS_COMM_NCCL_H
#define SS_COMM_NCCL_H

#include "comm/comm.h"
#include "kernels/cuda/gpu.h"

#include <sched.h>

struct ss_nccl;

/* NCCL's use of thread blocks (CTAPolicy of ncclConfig_t, from 2.27 on): its own choice; as few as
 * sufficient; or, where possible (2.28), none, using the copy engines instead. */
enum ss_nccl_cta_policy { SS_NCCL_CTAS_DEFAULT, SS_NCCL_CTAS_EFFICIENCY, SS_NCCL_CTAS_ZERO };

struct ss_nccl_options {
    int ctas; /* maximum number of thread blocks for NCCL; 0: its own choice */
    enum ss_nccl_cta_policy cta_policy;
    int device;      /* CUDA's index of this rank's GPU, which is current */
    int small;       /* create a second communicator for small all-reduces */
    cpu_set_t cores; /* CPUs for NCCL's threads; empty: those of the caller */
};

/* Open NCCL. Collective. Refuses two ranks on one GPU, and an NCCL_SOCKET_IFNAME that matches no
 * interface. `control` outlives it; the caller closes it. Errors: SS_ERR_UNSUPPORTED (a build
 * without NCCL, an NCCL before 2.14), SS_ERR_COMM, SS_ERR_INVALID. */
enum ss_status ss_nccl_open(struct ss_comm *control, const struct ss_nccl_options *options,
                            struct ss_nccl **out);
/* Close NCCL. Collective; call it while nothing is under way. NULL is allowed. */
void ss_nccl_close(struct ss_nccl *nccl);
/* "NCCL 2.28.9"; "none". A constant string. */
const char *ss_nccl_library(void);

/* NCCL is called on a dedicated thread. Run work on that thread, after earlier work: asynchronously
 * (post), or waiting for it (call). The collectives below, if enqueued on another thread, also run
 * there, and the caller waits. Errors: SS_ERR_MEMORY. */
enum ss_status ss_nccl_post(struct ss_nccl *nccl, void (*work)(void *arg), void *arg);
void ss_nccl_call(struct ss_nccl *nccl, void (*work)(void *arg), void *arg);

/* Allocate device memory for all-reduces, zeroed and 256-byte aligned: memory that NCCL can
 * register (ss_nccl_register) if supported, else as from ss_cuda_alloc. Needs no communicator.
 * Free it after ss_nccl_close. Errors: as ss_cuda_alloc. */
enum ss_status ss_nccl_alloc(struct ss_device *gpu, size_t bytes, const char *what, void **out);
void ss_nccl_free(void *data); /* NULL is allowed */

/* Register memory from ss_nccl_alloc that is used in many all-reduces, until ss_nccl_close: as a
 * symmetric window (NCCL 2.27 and later), else as a registered buffer (2.19), else not at all;
 * results are the same. Collective, with the same size on all ranks. Errors: SS_ERR_COMM. */
enum ss_status ss_nccl_register(struct ss_nccl *nccl, void *data, size_t bytes);
/* Result of the registrations: "windows", "buffers", "none". A constant string. */
const char *ss_nccl_registered(const struct ss_nccl *nccl);

/* Enqueue an in-place all-reduce (sum) of `count` elements of device memory. All ranks enqueue the
 * same collectives in the same order. `what` names it in messages; NULL: named by the tag. Errors:
 * SS_ERR_COMM. */
enum ss_status ss_nccl_allreduce(struct ss_nccl *nccl, void *data, size_t count,
                                 enum ss_dtype dtype, struct ss_comm_tag tag, const char *what,
                                 ss_stream stream);

/* The halves of an all-reduce, in place; `count` is divisible by the number of ranks. The
 * reduce-scatter leaves this rank's share (core/share.h) of the sum, the all-gather copies all
 * shares to all ranks. */
enum ss_status ss_nccl_reduce_scatter(struct ss_nccl *nccl, void *data, size_t count,
                                      enum ss_dtype dtype, struct ss_comm_tag tag,
                                      ss_stream stream);
enum ss_status ss_nccl_allgather(struct ss_nccl *nccl, void *data, size_t count,
                                 enum ss_dtype dtype, struct ss_comm_tag tag, const char *what,
                                 ss_stream stream);

/* All-reduce (maximum) of one int per rank. */
enum ss_status ss_nccl_max_i32(struct ss_nccl *nccl, int *data, struct ss_comm_tag tag,
                               const char *what, ss_stream stream);

/* All-reduce (sum) of doubles. `what`: as above. */
enum ss_status ss_nccl_allreduce_f64(struct ss_nccl *nccl, double *data, size_t count,
                                     struct ss_comm_tag tag, const char *what, ss_stream stream);

/* An all-reduce that compute waits for, with its own order and its own communicator, because
 * collectives of one communicator run one after the other on any streams. On a GPU both
 * communicators may be active simultaneously, so ranks may enqueue the two kinds in different
 * orders: a collective takes at most some dozen of the GPU's multiprocessors. `what`: as in
 * ss_comm_allreduce_start_small. Requires options.small. */
enum ss_status ss_nccl_allreduce_small(struct ss_nccl *nccl, double *data, size_t count,
                                       struct ss_comm_tag tag, const char *what, ss_stream stream);

/* Send `bytes` of device memory from `send` to rank `to` and receive as many from rank `from`
 * into `received`; a rank below 0: no transfer. Collective, in the same order as the all-reduces.
 * `what`: as above. Errors: SS_ERR_COMM. */
enum ss_status ss_nccl_exchange(struct ss_nccl *nccl, const void *send, int to, void *received,
                                int from, size_t bytes, const char *what, ss_stream stream);

/* Collective start-up check, like ss_comm_verify: all-reduce known values in format `wire` at the
 * given element counts. data: device memory of the largest count, overwritten. With several nodes
 * it also checks, for about a second, sizes at which a fabric has returned wrong results
 * intermittently. */
enum ss_status ss_nccl_verify(struct ss_nccl *nccl, struct ss_device *gpu, enum ss_dtype wire,
                              void *data, const size_t *counts, size_t ncounts);

#endif
