/* placement_gpu.c: divides the cores of a node among its ranks that compute on GPUs.
 *
 * Each rank requests those of its cores that are nearest to its GPU. Ranks that request the same
 * cores get equal shares, without overlap if there is a core for each. */
#include "runtime/placement_gpu.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WORKERS = 8 }; /* more load workers only on request */

enum ss_status ss_topology_create(hwloc_topology_t *out)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology))
        return ss_fail(SS_ERR_LIBRARY, "hwloc: cannot create a topology");
    /* All ranks of a node must see the same cores, independent of their restrictions. */
    if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) ||
        hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE,
                                       HWLOC_TYPE_FILTER_KEEP_IMPORTANT)) {
        hwloc_topology_destroy(topology);
        return ss_fail(SS_ERR_LIBRARY, "hwloc: cannot enable PCI devices");
    }
    *out = topology;
    return SS_OK;
}

static int is_gpu_memory(hwloc_obj_t node)
{
    return node->subtype && !strcmp(node->subtype, "GPUMemory");
}

/* Memory of GPUs and other devices can form NUMA nodes too. hwloc reports them with the cores
 * nearest to them, so their cores equal or include those of nodes with cores of their own. Among
 * nodes with the same cores, the kernel numbers the cores' own node first. */
static int has_cores(hwloc_topology_t topology, hwloc_obj_t node)
{
    hwloc_obj_t other = NULL;
    if (is_gpu_memory(node) || hwloc_bitmap_iszero(node->cpuset))
        return 0;
    while ((other = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, other))) {
        if (other == node || is_gpu_memory(other) || hwloc_bitmap_iszero(other->cpuset) ||
            !hwloc_bitmap_isincluded(other->cpuset, node->cpuset))
            continue;
        if (!hwloc_bitmap_isequal(other->cpuset, node->cpuset) || other->os_index < node->os_index)
            return 0;
    }
    return 1;
}

/* Lists the nodes with cores of their own: the host's memory. */
static void list_host_nodes(hwloc_topology_t topology, struct ss_placement *p)
{
    const unsigned bits = 8 * (unsigned)sizeof *p->host_nodes;
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node))) {
        if (!has_cores(topology, node))
            p->device_nodes = 1;
        else if (node->os_index < SS_NUMA_WORDS * bits)
            p->host_nodes[node->os_index / bits] |= 1UL << node->os_index % bits;
    }
}

/* NUMA node that contains all of `cpus`; -1: no such node. */
static int node_of(hwloc_topology_t topology, hwloc_const_bitmap_t cpus)
{
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (hwloc_bitmap_isincluded(cpus, node->cpuset) && has_cores(topology, node))
            return (int)node->os_index;
    return -1;
}

static int is_whole_machine(hwloc_topology_t topology, hwloc_obj_t obj)
{
    return hwloc_bitmap_isequal(obj->cpuset, hwloc_get_root_obj(topology)->cpuset);
}

/* Smallest object of the topology that the GPU is attached to; NULL: unknown. */
static hwloc_obj_t find_gpu(hwloc_topology_t topology, const char *bus_id)
{
    hwloc_obj_t pci = *bus_id ? hwloc_get_pcidev_by_busidstring(topology, bus_id) : NULL;
    hwloc_obj_t at = pci ? hwloc_get_non_io_ancestor_obj(topology, pci) : NULL;
    return at && !is_whole_machine(topology, at) ? at : NULL;
}

/* Restricts `cpus` to those near the GPU, unless there are none. */
static enum ss_gpu_distance restrict_to_near(hwloc_topology_t topology, const char *bus_id,
                                             hwloc_bitmap_t cpus)
{
    if (node_of(topology, hwloc_get_root_obj(topology)->cpuset) >= 0)
        return SS_GPU_NEAR;
    hwloc_obj_t at = find_gpu(topology, bus_id);
    if (!at)
        return SS_GPU_UNKNOWN;
    for (; !is_whole_machine(topology, at); at = at->parent)
        if (hwloc_bitmap_intersects(at->cpuset, cpus)) {
            hwloc_bitmap_and(cpus, cpus, at->cpuset);
            return SS_GPU_NEAR;
        }
    return SS_GPU_FAR;
}

/* Some virtual machines report no cores. */
static hwloc_obj_type_t core_type(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

/* The cores that a rank requests, and after serve() the cores that it gets. */
struct wish {
    hwloc_bitmap_t cpus;  /* processing units by OS index */
    hwloc_bitmap_t cores; /* their cores, by logical index */
    enum ss_gpu_distance distance;
    int served;
};

static enum ss_status make_wish(hwloc_topology_t topology, const struct ss_seat *seat,
                                struct wish *w)
{
    w->cpus = hwloc_bitmap_alloc();
    w->cores = hwloc_bitmap_alloc();
    if (!w->cpus || !w->cores)
        return ss_fail_memory("placement", sizeof *w);
    for (int i = 0; i < SS_SEAT_WORDS; i++)
        hwloc_bitmap_set_ith_ulong(w->cpus, (unsigned)i, seat->cpus[i]);
    hwloc_bitmap_and(w->cpus, w->cpus, hwloc_get_root_obj(topology)->cpuset);
    w->distance = restrict_to_near(topology, seat->bus_id, w->cpus);
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, core_type(topology), core)))
        if (hwloc_bitmap_intersects(core->cpuset, w->cpus))
            hwloc_bitmap_set(w->cores, core->logical_index);
    return SS_OK;
}

/* The rank with the fewest candidate cores comes first, then by rank. */
static int next_to_serve(const struct wish *w, int n)
{
    int next = -1;
    for (int i = 0; i < n; i++)
        if (!w[i].served &&
            (next < 0 || hwloc_bitmap_weight(w[i].cores) < hwloc_bitmap_weight(w[next].cores)))
            next = i;
    return next;
}

/* Restricts a set to its first `count` members. */
static void restrict_to_first(hwloc_bitmap_t set, int count)
{
    int last = -1;
    while (count-- > 0)
        last = hwloc_bitmap_next(set, last);
    hwloc_bitmap_clr_range(set, (unsigned)last + 1, -1);
}

/* More ranks than cores: shares one of them. */
static void share_core(struct wish *w, int i)
{
    int core = -1, skip = i % hwloc_bitmap_weight(w[i].cores);
    for (; skip >= 0; skip--)
        core = hwloc_bitmap_next(w[i].cores, core);
    hwloc_bitmap_only(w[i].cores, (unsigned)core);
}

/* Assigns rank i its share of the requested cores that are left. */
static void serve(struct wish *w, int n, int i, hwloc_bitmap_t taken, hwloc_bitmap_t left)
{
    int sharers = 0;
    w[i].served = 1;
    if (hwloc_bitmap_iszero(w[i].cores))
        return;
    hwloc_bitmap_andnot(left, w[i].cores, taken);
    int have = hwloc_bitmap_weight(left);
    if (have == 0) {
        share_core(w, i);
        return;
    }
    for (int k = 0; k < n; k++)
        sharers += k == i || (!w[k].served && hwloc_bitmap_intersects(w[k].cores, left));
    restrict_to_first(left, have > sharers ? have / sharers : 1);
    hwloc_bitmap_copy(w[i].cores, left);
    hwloc_bitmap_or(taken, taken, left);
}

static enum ss_status divide(hwloc_topology_t topology, const struct ss_seat *seat, int n,
                             struct wish *w)
{
    for (int i = 0; i < n; i++)
        SS_TRY(make_wish(topology, &seat[i], &w[i]));
    hwloc_bitmap_t taken = hwloc_bitmap_alloc(), left = hwloc_bitmap_alloc();
    for (int i; taken && left && (i = next_to_serve(w, n)) >= 0;)
        serve(w, n, i, taken, left);
    enum ss_status status =
        taken && left ? SS_OK : ss_fail_memory("placement", (size_t)n * sizeof *w);
    hwloc_bitmap_free(taken);
    hwloc_bitmap_free(left);
    return status;
}

/* Lists one processing unit of each core assigned to the rank. */
static void list_cores(hwloc_topology_t topology, const struct wish *w, struct ss_placement *p)
{
    hwloc_bitmap_t all = hwloc_bitmap_alloc(); /* if NULL, the NUMA node stays unknown */
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, core_type(topology), core))) {
        if (!hwloc_bitmap_isset(w->cores, core->logical_index) || p->ncores == SS_MAX_CORES)
            continue;
        int cpu = hwloc_bitmap_first(core->cpuset);
        while (!hwloc_bitmap_isset(w->cpus, (unsigned)cpu))
            cpu = hwloc_bitmap_next(core->cpuset, cpu);
        p->core[p->ncores++] = cpu;
        if (all)
            hwloc_bitmap_set(all, (unsigned)cpu);
    }
    p->numa_node = all ? node_of(topology, all) : -1;
    hwloc_bitmap_free(all);
}

static int count_machine(hwloc_topology_t topology)
{
    hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(topology);
    hwloc_obj_t core = NULL;
    int n = 0;
    while ((core = hwloc_get_next_obj_by_type(topology, core_type(topology), core)))
        n += hwloc_bitmap_intersects(core->cpuset, allowed);
    return n;
}

/* One core drives the GPU, one communicates, the others load. With two cores the GPU's driver
 * still has its own core, because it must never wait. */
static void give_work(struct ss_placement *p, int workers)
{
    p->gpu = 1;
    p->communication = p->ncores > 1;
    p->dedicated = p->ncores > 3 ? p->ncores - 2 : p->ncores > 1;
    p->workers = workers                       ? workers
                 : p->dedicated > MOST_WORKERS ? MOST_WORKERS
                 : p->dedicated > 1            ? p->dedicated
                                               : 1;
}

static enum ss_status describe(hwloc_topology_t topology, const struct ss_seat *seat, int n,
                               int self, const struct wish *w, struct ss_placement *p)
{
    const char *bus_id = seat[self].bus_id;
    hwloc_obj_t at = find_gpu(topology, bus_id);
    list_cores(topology, w, p);
    if (p->ncores == 0)
        return ss_fail(SS_ERR_LIBRARY, "hwloc: no core that this process may use is in "
                                       "this machine's topology");
    p->machine_cores = count_machine(topology);
    list_host_nodes(topology, p);
    p->distance = w->distance;
    p->gpu_numa_node = at                           ? node_of(topology, at->cpuset)
                       : w->distance == SS_GPU_NEAR ? p->numa_node
                                                    : -1;
    for (int i = 0; i < n; i++)
        p->gpu_ranks += i == self || (*bus_id && !strcmp(seat[i].bus_id, bus_id));
    return SS_OK;
}

enum ss_status ss_placement_divide(hwloc_topology_t topology, const struct ss_seat *seat, int n,
                                   int self, int workers, struct ss_placement *out)
{
    struct ss_placement p = {0};
    struct wish *w = calloc((size_t)n, sizeof *w);
    if (!w)
        return ss_fail_memory("placement", (size_t)n * sizeof *w);
    enum ss_status status = divide(topology, seat, n, w);
    if (status == SS_OK)
        status = describe(topology, seat, n, self, &w[self], &p);
    for (int i = 0; i < n; i++) {
        hwloc_bitmap_free(w[i].cpus);
        hwloc_bitmap_free(w[i].cores);
    }
    free(w);
    if (status != SS_OK)
        return status;
    give_work(&p, workers);
    *out = p;
    return SS_OK;
}
