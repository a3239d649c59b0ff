/* Sums over GPUs with NCCL: one communicator per job, one GPU per rank. The ranks find each other,
 * are watched and are ended by a struct ss_comm (comm.h), the control side; gradients go over NCCL.
 *
 * Every sum is enqueued on the caller's stream and watched until the GPU has done it: a sum that is
 * late ends every rank with the message of comm.h (rank, host, step, bucket, age). Ending a rank
 * aborts its communicator, so that no kernel keeps spinning for ranks that are gone. */
#ifndef SS_COMM_NCCL_H
#define SS_COMM_NCCL_H

#include "comm/comm.h"
#include "kernels/cuda/gpu.h"

#include <sched.h>

struct ss_nccl;

/* What NCCL spends its thread blocks on (ncclConfig_t's CTAPolicy, from 2.27 on): its own choice, as few
 * as do, or where it can (2.28) none, with the copy engines instead. */
enum ss_nccl_cta_policy { SS_NCCL_CTAS_DEFAULT, SS_NCCL_CTAS_EFFICIENCY, SS_NCCL_CTAS_ZERO };

struct ss_nccl_options {
    int ctas;   /* thread blocks that NCCL may use at most; 0: its own choice */
    enum ss_nccl_cta_policy cta_policy;
    int device; /* CUDA's index of this rank's GPU, which is current */
    int small;  /* there will be small sums: a second communicator */
    cpu_set_t cores; /* that NCCL's threads may run on; none: those of who opens it */
};

/* Collective. Refuses two ranks on one GPU, and an NCCL_SOCKET_IFNAME without interface. Errors: SS_ERR_UNSUPPORTED (a build without NCCL, an
 * NCCL before 2.14), SS_ERR_COMM, SS_ERR_INVALID. `control` outlives it; the caller closes it. */
enum ss_status ss_nccl_open(struct ss_comm *control, const struct ss_nccl_options *options,
                            struct ss_nccl **out);
/* Collective, while no sum is under way. NULL is fine. */
void ss_nccl_close(struct ss_nccl *nccl);
/* "NCCL 2.28.9"; "none". A constant string. */
const char *ss_nccl_library(void);

/* NCCL is called on a thread of its own. Have work done there, behind what was given to it before:
 * later, or now. Sums enqueued elsewhere go there and back. Errors: SS_ERR_MEMORY. */
enum ss_status ss_nccl_post(struct ss_nccl *nccl, void (*work)(void *arg), void *arg);
void ss_nccl_call(struct ss_nccl *nccl, void (*work)(void *arg), void *arg);

/* Device memory for what will be summed, zeroed and 256-byte aligned, of the kind that NCCL can
 * register (ss_nccl_register) where there is such a kind, else as ss_cuda_alloc's. Needs no
 * communicator. Freed after ss_nccl_close. Errors: as ss_cuda_alloc. */
enum ss_status ss_nccl_alloc(struct ss_device *gpu, size_t bytes, const char *what, void **out);
void ss_nccl_free(void *data); /* NULL is fine */

/* Tell NCCL of memory from ss_nccl_alloc that will be summed again and again: as a symmetric window
 * (NCCL 2.27 and later), else as a registered buffer (2.19), else not; sums come out the same.
 * Until ss_nccl_close. Collective, with the same size on all ranks. Errors: SS_ERR_COMM. */
enum ss_status ss_nccl_register(struct ss_nccl *nccl, void *data, size_t bytes);
/* What became of that: "windows", "buffers", "none". A constant string. */
const char *ss_nccl_registered(const struct ss_nccl *nccl);

/* Enqueue the in-place sum over all ranks of `count` elements of device memory. All ranks enqueue
 * the same sums in the same order. what names it in messages; NULL: the tag
 * does. Errors: SS_ERR_COMM. */
enum ss_status ss_nccl_allreduce(struct ss_nccl *nccl, void *data, size_t count,
                                 enum ss_dtype dtype, struct ss_comm_tag tag, const char *what,
                                 ss_stream stream);

/* Its halves, in place on `count` elements that divide by the number of ranks: the first leaves this
 * rank's share (core/share.h) of the sum, the second takes all shares to all ranks. */
enum ss_status ss_nccl_reduce_scatter(struct ss_nccl *nccl, void *data, size_t count,
                                      enum ss_dtype dtype, struct ss_comm_tag tag,
                                      ss_stream stream);
enum ss_status ss_nccl_allgather(struct ss_nccl *nccl, void *data, size_t count,
                                 enum ss_dtype dtype, struct ss_comm_tag tag, const char *what,
                                 ss_stream stream);

/* The largest of all ranks' numbers. */
enum ss_status ss_nccl_max_i32(struct ss_nccl *nccl, int *data, struct ss_comm_tag tag,
                               const char *what, ss_stream stream);

/* The sum of doubles. what: as above. */
enum ss_status ss_nccl_allreduce_f64(struct ss_nccl *nccl, double *data, size_t count,
                                     struct ss_comm_tag tag, const char *what, ss_stream stream);

/* The same for a small sum that compute waits for, in an order of its own: over a communicator of its
 * own, as sums of one communicator run one after the other, whatever their streams. On a GPU both may
 * run at once, so ranks may enqueue the two kinds in different orders: a sum takes at most some dozen
 * of the GPU's multiprocessors. what: as in ss_comm_allreduce_start_small. With options.small. */
enum ss_status ss_nccl_allreduce_small(struct ss_nccl *nccl, double *data, size_t count,
                                       struct ss_comm_tag tag, const char *what, ss_stream stream);

/* `bytes` of device memory from `send` to rank `to`, and as many from rank `from` into `received`; below
 * 0: none. Collective, in one order with the sums. what: as above. Errors: SS_ERR_COMM. */
enum ss_status ss_nccl_exchange(struct ss_nccl *nccl, const void *send, int to, void *received,
                                int from, size_t bytes, const char *what, ss_stream stream);

/* Collective start-up check, as ss_comm_verify: known values in the format `wire` at the given
 * element counts, on data, device memory of the largest count, whose content is lost. With several
 * nodes also, for about a second, of sizes at which some fabric has corrupted sums now and then. */
enum ss_status ss_nccl_verify(struct ss_nccl *nccl, struct ss_device *gpu, enum ss_dtype wire,
                              void *data, const size_t *counts, size_t ncounts);

#endif
