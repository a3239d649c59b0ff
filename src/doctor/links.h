/* Inside of check_links.c and links_*.c: what links should give, and what carries data between ranks, as training uses it. Collective calls. */
#ifndef SS_DOCTOR_LINKS_H
#define SS_DOCTOR_LINKS_H

#include "comm/comm.h"
#include "doctor/doctor.h"

#include <stddef.h>
#include <stdint.h>

/* Two pieces of memory of the same size, where this plane sums and sends from. */
enum ss_links_memory { SS_LINKS_DATA, SS_LINKS_RECEIVED };

struct ss_links_plane {
    const char *name; /* "NCCL 2.28.9", "MPI" */
    int gpus;
    void *state;
    /* Host memory there and back; blocking. */
    enum ss_status (*put)(void *state, enum ss_links_memory memory, const void *host, size_t bytes);
    enum ss_status (*get)(void *state, enum ss_links_memory memory, void *host, size_t bytes);
    /* The sum of `count` floats of DATA, in place. It may return before it has ended. */
    enum ss_status (*sum)(void *state, size_t count);
    /* DATA to rank `to`, and RECEIVED from rank `from`, as ss_comm_exchange. */
    enum ss_status (*exchange)(void *state, int to, int from, size_t bytes);
    enum ss_status (*finish)(void *state); /* all of them have ended */
    void (*close)(void *state);
};

/* nvlink.c: GB/s in one direction between two GPUs of this name on one board, at least. -1: not known, or
 * a card without NVLink. */
double ss_links_nvlink(const char *gpu);

/* links_host.c: CPU ranks over MPI. links_gpu.c: GPUs over NCCL; device is CUDA's index of this rank's.
 * Of so many bytes each. The caller closes it, together with all ranks. Errors: reported. */
enum ss_status ss_links_open_host(struct ss_comm *comm, size_t bytes, struct ss_links_plane *out);
enum ss_status ss_links_open_gpu(struct ss_comm *comm, int device, size_t bytes,
                                 struct ss_links_plane *out);

#define SS_LINKS "look at links" /* in messages */

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

/* The first wrong element of what has come, if any are. */
struct ss_links_fault {
    uint64_t wrong, element;
    double got, want;
};

/* What a rank has to tell: seconds of a sum, or of the message that it got, of so many bytes, and of a
 * small one. */
struct ss_links_result {
    double seconds, bytes, small;
    struct ss_links_fault fault;
};

/* What is to be timed: an exchange, or a sum: to = SS_LINKS_SUM. */
enum { SS_LINKS_SUM = -2 };
struct ss_links_work {
    int to, from;
    size_t bytes;
};

/* links_messages.c, links_all_reduce.c: in at most so many seconds, or little more where even one is slow. */
enum ss_status ss_links_messages(struct ss_links *l, double seconds);
enum ss_status ss_links_all_reduce(struct ss_links *l, double seconds);

/* links_measure.c. Have it done once, DATA of every rank filled with its check values. */
enum ss_status ss_links_check(struct ss_links *l, const struct ss_links_work *w);
/* Seconds that one takes of `times` in a row, on this rank. */
enum ss_status ss_links_time(struct ss_links *l, const struct ss_links_work *w, int times,
                             double *seconds);
/* The largest of all ranks' numbers, on all of them. */
enum ss_status ss_links_largest(struct ss_links *l, double *x);
/* How often something that takes `seconds` fits into `budget`, on rank 0's word; at most `most`. */
enum ss_status ss_links_agree(struct ss_links *l, double budget, double seconds, int most,
                              int *times);
void ss_links_compare(struct ss_links_fault *fault, uint64_t i, double got, double want);
/* GB/s that one rank's link to other nodes should give; -1: not known. */
double ss_links_network(const struct ss_links *l);
/* What to look at where links between nodes, or inside of them, are slow. */
const char *ss_links_advice(const struct ss_links *l, int between);

#endif
