/* Placement: assigns cores to threads. A rank owns the cores that its launcher bound it to;
 * unbound ranks of one node share its cores evenly.
 *
 * On a CPU, the first `threads` of a rank's cores compute. The others, or all if none are left,
 * run service workers (loading, communication). With a GPU, a rank uses those of its cores that
 * are near the GPU: the first drives the GPU, the second communicates, the others load. */
#ifndef SS_RUNTIME_PLACEMENT_H
#define SS_RUNTIME_PLACEMENT_H

#include "comm/comm.h"
#include "core/status.h"

#include <sched.h>
#include <stdio.h>

enum { SS_MAX_CORES = 1024, SS_BUS_ID_BYTES = 32, SS_NUMA_WORDS = 16 };

/* Locality of a rank's cores and its GPU. */
enum ss_gpu_distance {
    SS_GPU_NEAR,    /* same NUMA node or package, or the machine has one NUMA node */
    SS_GPU_FAR,     /* the launcher bound the rank elsewhere */
    SS_GPU_UNKNOWN, /* this machine does not report the GPU's location */
};

struct ss_placement {
    int machine_cores;
    int ranks;              /* on this node, if the CPU computes */
    int ncores;             /* of this rank */
    int core[SS_MAX_CORES]; /* OS index of one processing unit of each, in topology order */
    int threads;   /* compute threads, 0 with a GPU; thread i runs on core[i] if possible */
    int dedicated; /* cores for service workers only; 0: they share the compute cores */
    int workers;   /* service workers */

    int gpu;           /* 1: a GPU computes; core[0] is for its driver thread */
    int communication; /* GPU: core[communication] is for the communication and main threads */
    enum ss_gpu_distance distance;
    int numa_node;     /* GPU: node of this rank's cores; -1: several */
    int gpu_numa_node; /* node nearest to the GPU; -1: several, or unknown */
    int gpu_ranks;     /* ranks of this node on the same GPU, including this one */
    /* GPU: 1 if device memory forms NUMA nodes too; bits by OS index of the other nodes */
    int device_nodes;
    unsigned long host_nodes[SS_NUMA_WORDS];
};

/* Decide the placement on a CPU. threads, workers: 0 selects them by the number of cores (all
 * compute, with at least one service worker); OMP_NUM_THREADS replaces threads = 0. local_rank of
 * local_size ranks on this node. Errors: SS_ERR_LIBRARY. */
enum ss_status ss_placement_decide(int threads, int workers, int local_rank, int local_size,
                                   struct ss_placement *out);

/* Select one of the `count` GPUs visible to a rank. asked < 0: by the rank's number on the node,
 * modulo count, because a launcher may show each rank only GPUs of its own. */
static inline int ss_placement_pick_gpu(long asked, int local_rank, int count)
{
    return asked >= 0 ? (int)asked : count > 0 ? local_rank % count : 0;
}

/* Decide the placement with GPUs. bus_id: of this rank's GPU, "0000:1b:00.0", or "" if unknown.
 * workers as above. Collective: ranks of one node share evenly the cores that several of them
 * could use. Errors: SS_ERR_LIBRARY, SS_ERR_MEMORY, SS_ERR_COMM. */
enum ss_status ss_placement_decide_gpu(struct ss_comm *comm, int workers, const char *bus_id,
                                       struct ss_placement *out);

/* Bind the calling thread to the core of compute thread i, or to all of the rank's cores if there
 * are more threads than cores. Thread 0 of more than two may run on all compute cores: after a
 * region with fewer threads libgomp starts new threads, which inherit thread 0's cores and would
 * all share a single one. A failure is not an error, as some systems refuse to bind. */
void ss_placement_bind_compute(const struct ss_placement *p, int i);
/* Bind the calling thread to the service cores. */
void ss_placement_bind_service(const struct ss_placement *p);

/* GPU: bind the calling thread to the core that drives the GPU. */
void ss_placement_bind_driver(const struct ss_placement *p);
/* GPU: get the cores for NCCL, whose threads busy-wait: all of the rank's cores except those of
 * the driver and the communication thread, if at least two more are left. */
void ss_placement_nccl_cores(const struct ss_placement *p, cpu_set_t *out);

/* GPU: bind the calling thread, which submits tasks, to the communication core. Its memory comes
 * from that core's NUMA node, or from others if it is full, but never from a device's; a memory
 * policy that is already set remains. *old: the previous state, for ss_placement_restore. */
struct ss_thread_place {
    int bound, policy; /* 1: changed */
    cpu_set_t cores;
};
void ss_placement_bind_main(const struct ss_placement *p, struct ss_thread_place *old);
void ss_placement_restore(const struct ss_thread_place *old);

/* GPU, several ranks: bind the communication thread. Collective. Errors: SS_ERR_COMM. */
enum ss_status ss_placement_bind_communication(const struct ss_placement *p, struct ss_comm *comm);

/* Format cores as a list, "0-3,8". bytes: size of text. */
void ss_placement_format(const struct ss_placement *p, int first, int count, char *text, int bytes);

/* Print the use of the cores. */
void ss_placement_print(const struct ss_placement *p, FILE *out);

#endif
