/* Internals of check_links.c and links_*.c: expected link speeds, and the backend for data
 * between ranks, as training uses it. All functions are collective. */
#ifndef SS_APPS_DOCTOR_LINKS_H
#define SS_APPS_DOCTOR_LINKS_H

#include "comm/comm.h"
#include "apps/doctor/doctor.h"

#include <stddef.h>
#include <stdint.h>

/* Two buffers of equal size, for all-reduces and messages of the backend. */
enum ss_links_memory { SS_LINKS_DATA, SS_LINKS_RECEIVED };

struct ss_links_plane {
    const char *name; /* "NCCL 2.28.9", "MPI" */
    int gpus;
    void *state;
    /* Copies from and to host memory; blocking. */
    enum ss_status (*put)(void *state, enum ss_links_memory memory, const void *host, size_t bytes);
    enum ss_status (*get)(void *state, enum ss_links_memory memory, void *host, size_t bytes);
    /* All-reduce `count` floats of DATA in place. May return before completion. */
    enum ss_status (*sum)(void *state, size_t count);
    /* Send DATA to rank `to` and receive RECEIVED from rank `from`, as ss_comm_exchange. */
    enum ss_status (*exchange)(void *state, int to, int from, size_t bytes);
    enum ss_status (*finish)(void *state); /* wait for all operations */
    void (*close)(void *state);
};

/* nvlink.c: minimum GB/s in one direction between two GPUs of this name on one board. -1:
 * unknown, or a card without NVLink. */
double ss_links_nvlink(const char *gpu);

/* links_host.c: backend of CPU ranks over MPI. links_gpu.c: backend of GPUs over NCCL; device is
 * this rank's CUDA index. Buffers have `bytes` bytes each. The caller closes it on all ranks
 * collectively. Errors have been reported. */
enum ss_status ss_links_open_host(struct ss_comm *comm, size_t bytes, struct ss_links_plane *out);
enum ss_status ss_links_open_gpu(struct ss_comm *comm, int device, size_t bytes,
                                 struct ss_links_plane *out);

#define SS_LINKS "link check" /* in messages */

enum { SS_MIB = 1 << 20, SS_LINKS_BYTES = 64 * SS_MIB };

struct ss_links_place {
    int node, local_rank;
    char host[64], gpu[64];
};

struct ss_links {
    const struct ss_doctor_options *o;
    struct ss_comm *comm;
    struct ss_findings *f;
    struct ss_links_plane plane;
    struct ss_links_place *place; /* of all ranks, on every rank */
    float *host;                  /* SS_LINKS_BYTES */
};

/* The number of wrong elements received, and the first of them. */
struct ss_links_fault {
    uint64_t wrong, element;
    double got, want;
};

/* Result of a rank: seconds of an all-reduce or of a received message of `bytes` bytes, and of a
 * small message. */
struct ss_links_result {
    double seconds, bytes, small;
    struct ss_links_fault fault;
};

/* The operation to time: an exchange, or an all-reduce if to = SS_LINKS_SUM. */
enum { SS_LINKS_SUM = -2 };
struct ss_links_work {
    int to, from;
    size_t bytes;
};

/* links_messages.c, links_all_reduce.c: measure for at most `seconds`; slightly longer if a
 * single operation is slow. */
enum ss_status ss_links_messages(struct ss_links *l, double seconds);
enum ss_status ss_links_all_reduce(struct ss_links *l, double seconds);

/* links_measure.c: run the operation once, with DATA of every rank filled with check values. */
enum ss_status ss_links_check(struct ss_links *l, const struct ss_links_work *w);
/* Measure the seconds per operation on this rank, over `times` consecutive operations. */
enum ss_status ss_links_time(struct ss_links *l, const struct ss_links_work *w, int times,
                             double *seconds);
/* Replace *x by the maximum over all ranks. */
enum ss_status ss_links_largest(struct ss_links *l, double *x);
/* Compute how often an operation of `seconds` fits into `budget`, at most `most`. Rank 0
 * decides. */
enum ss_status ss_links_agree(struct ss_links *l, double budget, double seconds, int most,
                              int *times);
void ss_links_compare(struct ss_links_fault *fault, uint64_t i, double got, double want);
/* Expected GB/s of one rank's link to other nodes; -1: unknown. */
double ss_links_network(const struct ss_links *l);
/* Advice for slow links between nodes, or within one. */
const char *ss_links_advice(const struct ss_links *l, int between);

#endif
