/* placement_ranks.c: collective part of placement. Each rank sends its allowed cores and its GPU
 * to the others, so that the ranks of one node can divide its cores. */
#include "core/boot_id.h"
#include "core/log.h"
#include "core/rng.h"
#include "runtime/placement_gpu.h"

#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A message is sent as numbers that an all-reduce preserves, because all other ranks add zeros. */
struct message {
    uint64_t node;
    struct ss_seat seat;
};
enum { PIECES = sizeof(struct message) / sizeof(uint16_t) };
_Static_assert(sizeof(struct message) % sizeof(uint16_t) == 0, "whole pieces");

static void pack(const struct message *m, double *pieces)
{
    uint16_t piece[PIECES];
    memcpy(piece, m, sizeof piece);
    for (int i = 0; i < PIECES; i++)
        pieces[i] = piece[i];
}

static void unpack(const double *pieces, struct message *m)
{
    uint16_t piece[PIECES];
    for (int i = 0; i < PIECES; i++)
        piece[i] = (uint16_t)pieces[i];
    memcpy(m, piece, sizeof piece);
}

/* A number that is equal for all processes under one kernel, and for no others. */
static uint64_t node_number(void)
{
    char text[256] = "";
    uint64_t number = 0;
    ss_boot_id(text);
    if (!*text)
        gethostname(text, sizeof text - 1);
    for (const char *c = text; *c; c++)
        number = ss_mix64(number, (uint64_t)*c);
    return number;
}

/* Gets the seats of this node, by rank; *self: index of this rank's seat. pieces and seat have
 * space for all ranks. */
static enum ss_status exchange(struct ss_comm *comm, const struct message *own, double *pieces,
                               struct ss_seat *seat, int *n, int *self)
{
    int size = ss_comm_size(comm), rank = ss_comm_rank(comm);
    pack(own, pieces + (size_t)rank * PIECES);
    SS_TRY(ss_comm_allreduce_f64(comm, pieces, (size_t)size * PIECES, "placement"));
    *n = 0;
    for (int r = 0; r < size; r++) {
        struct message m;
        unpack(pieces + (size_t)r * PIECES, &m);
        if (m.node != own->node)
            continue;
        if (r == rank)
            *self = *n;
        seat[(*n)++] = m.seat;
    }
    return SS_OK;
}

/* Reads the cores that the launcher allows this process to use. */
static enum ss_status read_binding(hwloc_topology_t topology, struct ss_seat *seat)
{
    hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(topology);
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (!cpus)
        return ss_fail_memory("placement", sizeof *seat);
    if (hwloc_get_cpubind(topology, cpus, HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_bitmap_and(cpus, cpus, allowed);
    if (hwloc_bitmap_iszero(cpus))
        hwloc_bitmap_copy(cpus, allowed);
    for (int i = 0; i < SS_SEAT_WORDS; i++)
        seat->cpus[i] = hwloc_bitmap_to_ith_ulong(cpus, (unsigned)i);
    hwloc_bitmap_free(cpus);
    return SS_OK;
}

/* Data needed for the decision. */
struct table {
    hwloc_topology_t topology;
    struct message own;
    double *pieces;
    struct ss_seat *seat;
};

static enum ss_status prepare(struct table *t, int size, const char *bus_id)
{
    t->pieces = calloc((size_t)size * PIECES, sizeof *t->pieces);
    t->seat = calloc((size_t)size, sizeof *t->seat);
    if (!t->pieces || !t->seat)
        return ss_fail_memory("placement", (size_t)size * PIECES * sizeof *t->pieces);
    SS_TRY(ss_topology_create(&t->topology));
    if (hwloc_topology_load(t->topology))
        return ss_fail(SS_ERR_LIBRARY, "hwloc: cannot read this machine's topology");
    t->own.node = node_number();
    snprintf(t->own.seat.bus_id, sizeof t->own.seat.bus_id, "%s", bus_id);
    return read_binding(t->topology, &t->own.seat);
}

/* A rank that failed to prepare still takes part, so that the others do not block. */
static enum ss_status decide(struct table *t, struct ss_comm *comm, enum ss_status prepared,
                             int workers, struct ss_placement *out)
{
    int any, n = 0, self = 0;
    SS_TRY(ss_comm_any(comm, prepared != SS_OK, &any, "placement"));
    SS_TRY(prepared);
    if (any)
        return SS_ERR_COMM; /* the failed rank has reported the error */
    SS_TRY(exchange(comm, &t->own, t->pieces, t->seat, &n, &self));
    return ss_placement_divide(t->topology, t->seat, n, self, workers, out);
}

enum ss_status ss_placement_decide_gpu(struct ss_comm *comm, int workers, const char *bus_id,
                                       struct ss_placement *out)
{
    struct table t;
    memset(&t, 0, sizeof t);
    enum ss_status status = decide(&t, comm, prepare(&t, ss_comm_size(comm), bus_id), workers, out);
    if (t.topology)
        hwloc_topology_destroy(t.topology);
    free(t.pieces);
    free(t.seat);
    return status;
}

struct to_bind {
    const struct ss_placement *p;
    sem_t done;
};

static void bind_communication(void *arg)
{
    struct to_bind *b = arg;
    ss_placement_bind_cores(b->p, b->p->communication, 1);
    sem_post(&b->done);
}

/* Completion of a collective is signaled on the communication thread. */
enum ss_status ss_placement_bind_communication(const struct ss_placement *p, struct ss_comm *comm)
{
    struct to_bind b = {.p = p};
    double nothing = 0;
    if (ss_comm_size(comm) == 1)
        return SS_OK;
    sem_init(&b.done, 0, 0);
    enum ss_status status = ss_comm_allreduce_start_f64(
        comm, &nothing, 1, (struct ss_comm_tag){.bucket = -1}, bind_communication, &b);
    while (status == SS_OK && sem_wait(&b.done) != 0)
        ; /* interrupted by a signal handler */
    sem_destroy(&b.done);
    return status;
}
