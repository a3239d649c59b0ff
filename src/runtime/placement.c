/* placement.c: cores of ranks that compute on a CPU, and thread binding. */
#include "runtime/placement.h"
#include "core/log.h"
#include "runtime/placement_gpu.h"

#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Lists one processing unit of each core in `set`, by OS index. */
static int list_cores(hwloc_topology_t topology, hwloc_const_cpuset_t set, int *core)
{
    int n = 0;
    hwloc_obj_t obj = NULL;
    while (n < SS_MAX_CORES &&
           (obj = hwloc_get_next_obj_covering_cpuset_by_type(topology, set, HWLOC_OBJ_CORE, obj))) {
        hwloc_bitmap_t mine = hwloc_bitmap_dup(obj->cpuset);
        hwloc_bitmap_and(mine, mine, set);
        if (hwloc_bitmap_first(mine) >= 0)
            core[n++] = hwloc_bitmap_first(mine);
        hwloc_bitmap_free(mine);
    }
    return n;
}

/* Restricts the cores, which all ranks of the node see, to this rank's share. */
static void take_share(struct ss_placement *p, int local_rank, int local_size)
{
    if (p->ncores < local_size) {
        p->core[0] = p->core[local_rank % p->ncores];
        p->ncores = 1;
        return;
    }
    int begin = (int)((long)p->ncores * local_rank / local_size);
    int end = (int)((long)p->ncores * (local_rank + 1) / local_size);
    memmove(p->core, p->core + begin, (size_t)(end - begin) * sizeof *p->core);
    p->ncores = end - begin;
}

static int threads_from_environment(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    int n = text ? atoi(text) : 0;
    return n > 0 && n <= SS_MAX_CORES ? n : 0;
}

enum ss_status ss_placement_decide(int threads, int workers, int local_rank, int local_size,
                                   struct ss_placement *out)
{
    struct ss_placement p = {0};
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) || hwloc_topology_load(topology))
        return ss_fail(SS_ERR_LIBRARY, "hwloc: cannot read this machine's topology");
    hwloc_const_cpuset_t machine = hwloc_topology_get_allowed_cpuset(topology);
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    p.machine_cores = list_cores(topology, machine, p.core);
    int shared = 1;
    if (bound && !hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) &&
        !hwloc_bitmap_iszero(bound)) {
        shared = hwloc_bitmap_isincluded(machine, bound);
        p.ncores = list_cores(topology, bound, p.core);
    }
    hwloc_bitmap_free(bound);
    hwloc_topology_destroy(topology);
    if (!p.ncores) { /* no core objects (some virtual machines): rely on the scheduler */
        p.ncores = p.machine_cores = 1;
        p.core[0] = sched_getcpu();
    }
    if (shared && local_size > 1)
        take_share(&p, local_rank, local_size);

    p.ranks = local_size;
    p.threads = threads ? threads : threads_from_environment();
    if (!p.threads)
        p.threads = p.ncores;
    p.dedicated = p.ncores > p.threads ? p.ncores - p.threads : 0;
    p.workers = workers ? workers : p.dedicated > 8 ? 8 : p.dedicated > 1 ? p.dedicated : 1;
    *out = p;
    return SS_OK;
}

void ss_placement_bind_cores(const struct ss_placement *p, int first, int count)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = first; i < first + count; i++)
        CPU_SET((size_t)p->core[i], &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

void ss_placement_bind_compute(const struct ss_placement *p, int i)
{
    if (p->threads > p->ncores)
        ss_placement_bind_cores(p, 0, p->ncores);
    else if (i > 0 || p->threads <= 2)
        ss_placement_bind_cores(p, i, 1);
    else
        ss_placement_bind_cores(p, 0, p->threads);
}

void ss_placement_bind_service(const struct ss_placement *p)
{
    if (p->dedicated)
        ss_placement_bind_cores(p, p->ncores - p->dedicated, p->dedicated);
    else
        ss_placement_bind_cores(p, 0, p->ncores);
}

void ss_placement_bind_driver(const struct ss_placement *p)
{
    ss_placement_bind_cores(p, 0, 1);
}

void ss_placement_nccl_cores(const struct ss_placement *p, cpu_set_t *out)
{
    const int spared = p->ncores >= 4;
    CPU_ZERO(out);
    for (int i = 0; i < p->ncores; i++)
        if (!spared || (i != 0 && i != p->communication))
            CPU_SET((size_t)p->core[i], out);
}

/* Prefers memory of the core's NUMA node. With MPOL_PREFERRED, memory may come from any other
 * node, also from a GPU's node, whose memory belongs to the GPU. If there are such nodes, memory
 * is bound to all others: Linux takes the nearest of them with free memory (set_mempolicy(2),
 * MPOL_BIND). Returns 1 if a policy was set. */
static int take_memory_near(const struct ss_placement *p)
{
    unsigned long nodes[SS_NUMA_WORDS] = {0};
    const int bits = 8 * (int)sizeof *nodes;
    int mode;
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) != 0 || mode != MPOL_DEFAULT)
        return 0;
    if (p->device_nodes &&
        syscall(SYS_set_mempolicy, MPOL_BIND, p->host_nodes, sizeof p->host_nodes * 8) == 0)
        return 1;
    if (p->numa_node < 0 || p->numa_node >= SS_NUMA_WORDS * bits)
        return 0;
    nodes[p->numa_node / bits] = 1UL << p->numa_node % bits;
    return syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, sizeof nodes * 8) == 0;
}

void ss_placement_bind_main(const struct ss_placement *p, struct ss_thread_place *old)
{
    memset(old, 0, sizeof *old);
    old->bound = sched_getaffinity(0, sizeof old->cores, &old->cores) == 0;
    if (old->bound)
        ss_placement_bind_cores(p, p->communication, 1);
    old->policy = take_memory_near(p);
}

void ss_placement_restore(const struct ss_thread_place *old)
{
    if (old->bound)
        (void)sched_setaffinity(0, sizeof old->cores, &old->cores);
    if (old->policy)
        (void)syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

void ss_placement_format(const struct ss_placement *p, int first, int count, char *text, int bytes)
{
    int used = 0;
    text[0] = '\0';
    for (int i = first; i < first + count && used < bytes; i++) {
        int run = i;
        while (run + 1 < first + count && p->core[run + 1] == p->core[run] + 1)
            run++;
        const char *comma = i > first ? "," : "";
        used += run > i ? snprintf(text + used, (size_t)(bytes - used), "%s%d-%d", comma,
                                   p->core[i], p->core[run])
                        : snprintf(text + used, (size_t)(bytes - used), "%s%d", comma, p->core[i]);
        i = run;
    }
}
