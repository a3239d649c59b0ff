/* Division of a node's cores among its ranks that compute on GPUs. A pure function of the
 * topology and of each rank's allowed cores, so all ranks compute the same result. Internal to
 * src/runtime. */
#ifndef SS_RUNTIME_PLACEMENT_GPU_H
#define SS_RUNTIME_PLACEMENT_GPU_H

#include "runtime/placement.h"

#include <hwloc.h>

enum { SS_SEAT_WORDS = SS_MAX_CORES / (8 * (int)sizeof(unsigned long)) };

/* Data that a rank sends to the others of its node. */
struct ss_seat {
    unsigned long cpus[SS_SEAT_WORDS]; /* allowed processing units, bits by OS index */
    char bus_id[SS_BUS_ID_BYTES];      /* of its GPU; "": unknown */
};

/* Create a topology with PCI devices. The caller sets its source (this machine, or a recorded
 * topology) and loads it. */
enum ss_status ss_topology_create(hwloc_topology_t *out);

/* Compute the cores of seat `self` of n and their use. Errors: SS_ERR_LIBRARY (no allowed core),
 * SS_ERR_MEMORY. */
enum ss_status ss_placement_divide(hwloc_topology_t topology, const struct ss_seat *seat, int n,
                                   int self, int workers, struct ss_placement *out);

/* Bind the calling thread to `count` of the rank's cores. */
void ss_placement_bind_cores(const struct ss_placement *p, int first, int count);

#endif
