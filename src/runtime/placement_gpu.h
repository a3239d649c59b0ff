/* How ranks of one node that compute on GPUs divide its cores: a pure function of the topology and
 * of what each rank may use, so that all of them come to the same division. Not for other rooms. */
#ifndef SS_RUNTIME_PLACEMENT_GPU_H
#define SS_RUNTIME_PLACEMENT_GPU_H

#include "runtime/placement.h"

#include <hwloc.h>

enum { SS_SEAT_WORDS = SS_MAX_CORES / (8 * (int)sizeof(unsigned long)) };

/* What a rank tells the others of its node. */
struct ss_seat {
    unsigned long cpus[SS_SEAT_WORDS]; /* bits by OS index: processing units it may run on */
    char bus_id[SS_BUS_ID_BYTES];      /* of its GPU; "": not known */
};

/* A topology with PCI devices: to be filled with this machine's or a recorded one, and loaded. */
enum ss_status ss_topology_create(hwloc_topology_t *out);

/* The cores of seat `self` of n, and what they do. Errors: SS_ERR_LIBRARY (no core that it may
 * use), SS_ERR_MEMORY. */
enum ss_status ss_placement_divide(hwloc_topology_t topology, const struct ss_seat *seat, int n,
                                   int self, int workers, struct ss_placement *out);

/* Bind the calling thread to `count` of the rank's cores. */
void ss_placement_bind_cores(const struct ss_placement *p, int first, int count);

#endif
