/* Which cores get which work. A rank owns the cores it was bound to by its launcher; unbound ranks
 * of one node share its cores evenly. Of its cores, the first `threads` compute, and the rest, or
 * all when none is left, serve (loading, communication). */
#ifndef SS_RUNTIME_PLACEMENT_H
#define SS_RUNTIME_PLACEMENT_H

#include "core/status.h"

enum { SS_MAX_CORES = 1024 };

struct ss_placement {
    int machine_cores;
    int ncores;             /* of this rank */
    int core[SS_MAX_CORES]; /* OS index of one processing unit of each, in topology order */
    int threads; /* compute threads, 0 where a GPU computes; thread i runs on core[i] when there are
                    enough */
    int dedicated; /* cores left for service workers; 0: they share the compute cores */
    int workers;   /* service workers */
};

/* For threads: no core computes, all serve (a GPU computes). */
enum { SS_PLACEMENT_NO_COMPUTE = -1 };

/* threads, workers: 0 decides by the cores (all but none for compute, at least one service worker);
 * OMP_NUM_THREADS counts as threads. local_rank of local_size ranks on this node.
 * Errors: SS_ERR_LIBRARY. */
enum ss_status ss_placement_decide(int threads, int workers, int local_rank, int local_size,
                                   struct ss_placement *out);

/* Bind the calling thread to the core of compute thread i, or to all of the rank's cores when there
 * are more threads than cores. Failing to bind is not an error: some systems refuse it. */
void ss_placement_bind_compute(const struct ss_placement *p, int i);
/* Bind the calling thread to the service cores. */
void ss_placement_bind_service(const struct ss_placement *p);

/* "0-3,8": the cores as a list. text has room for `bytes`. */
void ss_placement_format(const struct ss_placement *p, int first, int count, char *text, int bytes);

#endif
