/* Which cores get which work. A rank owns the cores it was bound to by its launcher; unbound ranks
 * of one node share its cores evenly.
 *
 * Where the CPU computes, the first `threads` of a rank's cores compute, and the rest, or all when
 * none is left, serve (loading, communication). Where a GPU computes, a rank takes those of its
 * cores that are near the GPU: the first feeds the GPU, the second communicates, the rest load. */
#ifndef SS_RUNTIME_PLACEMENT_H
#define SS_RUNTIME_PLACEMENT_H

#include "comm/comm.h"
#include "core/status.h"

#include <sched.h>
#include <stdio.h>

enum { SS_MAX_CORES = 1024, SS_BUS_ID_BYTES = 32, SS_NUMA_WORDS = 16 };

/* How a rank's cores lie to its GPU. */
enum ss_gpu_distance {
    SS_GPU_NEAR,    /* in the same NUMA node or package, or the machine has one NUMA node */
    SS_GPU_FAR,     /* the launcher bound the rank elsewhere */
    SS_GPU_UNKNOWN, /* this machine does not tell where the GPU is */
};

struct ss_placement {
    int machine_cores;
    int ranks;              /* of this node, where the CPU computes */
    int ncores;             /* of this rank */
    int core[SS_MAX_CORES]; /* OS index of one processing unit of each, in topology order */
    int threads; /* compute threads, 0 where a GPU computes; thread i runs on core[i] when there are
                    enough */
    int dedicated; /* cores left for service workers; 0: they share the compute cores */
    int workers;   /* service workers */

    int gpu;           /* 1: a GPU computes; core[0] is its driver thread's */
    int communication; /* GPU: core[communication] is the communication and the main thread's */
    enum ss_gpu_distance distance;
    int numa_node;     /* GPU: the one that this rank's cores are in; -1: several */
    int gpu_numa_node; /* the one nearest to the GPU; -1: several, or not known */
    int gpu_ranks;     /* ranks of this node on the same GPU, with this one */
    /* GPU: devices' memory is NUMA nodes too; then bits by OS index: the nodes that are not theirs */
    int device_nodes;
    unsigned long host_nodes[SS_NUMA_WORDS];
};

/* threads, workers: 0 decides by the cores (all but none for compute, at least one service worker);
 * OMP_NUM_THREADS counts as threads. local_rank of local_size ranks on this node.
 * Errors: SS_ERR_LIBRARY. */
enum ss_status ss_placement_decide(int threads, int workers, int local_rank, int local_size,
                                   struct ss_placement *out);

/* Which of `count` GPUs that it sees a rank takes; asked < 0: by its number on the node. Where the
 * launcher shows every rank GPUs of its own, that is one of those. */
static inline int ss_placement_pick_gpu(long asked, int local_rank, int count)
{
    return asked >= 0 ? (int)asked : count > 0 ? local_rank % count : 0;
}

/* For ranks that compute on GPUs. bus_id: of this rank's GPU, "0000:1b:00.0", or "" when not known.
 * workers as above. Collective: ranks of one node share the cores that several of them could use,
 * evenly. Errors: SS_ERR_LIBRARY, SS_ERR_MEMORY, SS_ERR_COMM. */
enum ss_status ss_placement_decide_gpu(struct ss_comm *comm, int workers, const char *bus_id,
                                       struct ss_placement *out);

/* Bind the calling thread to the core of compute thread i, or to all of the rank's cores when there
 * are more threads than cores. Thread 0 of more than two may run on all compute cores: after a
 * region of fewer threads libgomp starts new ones, which may run where thread 0 may, and would all
 * sit on its one core. Failing to bind is not an error: some systems refuse it. */
void ss_placement_bind_compute(const struct ss_placement *p, int i);
/* Bind the calling thread to the service cores. */
void ss_placement_bind_service(const struct ss_placement *p);

/* GPU: bind the calling thread to the core that feeds the GPU. */
void ss_placement_bind_driver(const struct ss_placement *p);
/* GPU: cores for NCCL, whose threads busy-wait: all of the rank's but those of the driver and of the
 * communication thread, where two more are left. */
void ss_placement_nccl_cores(const struct ss_placement *p, cpu_set_t *out);

/* GPU: bind the calling thread, which submits tasks, to the communication core, and let it take
 * memory from that core's NUMA node, or another one's when that is full, but never from a device's,
 * unless somebody has set a policy for memory. What was before goes to *old. */
struct ss_thread_place {
    int bound, policy; /* what was changed */
    cpu_set_t cores;
};
void ss_placement_bind_main(const struct ss_placement *p, struct ss_thread_place *old);
void ss_placement_restore(const struct ss_thread_place *old);

/* GPU, several ranks: bind the communication thread. Collective. Errors: SS_ERR_COMM. */
enum ss_status ss_placement_bind_communication(const struct ss_placement *p, struct ss_comm *comm);

/* "0-3,8": the cores as a list. text has room for `bytes`. */
void ss_placement_format(const struct ss_placement *p, int first, int count, char *text, int bytes);

/* Lines for people: who gets which cores. */
void ss_placement_print(const struct ss_placement *p, FILE *out);

#endif
