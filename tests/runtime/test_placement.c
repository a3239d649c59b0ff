/* test_placement.c: cores of GPU ranks on the machines in tests/runtime/placement: recorded
 * decisions, and invariants for all machines.
 *
 * SS_UPDATE_GOLDEN=1 rewrites tests/runtime/placement/NAME.golden instead of comparing with it. */
#include "core/log.h"
#include "runtime/placement_gpu.h"
#include "tests/golden.h"
#include "tests/leaks.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <errno.h>
#include <linux/mempolicy.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_RANKS = 8, MOST_GPUS = 8 };

static const struct machine {
    const char *name;
    int gpus, packages, far; /* far: 0 if all cores are near or no distance is known */
    int shows_gpus;
    struct {
        const char *bus_id;
        int package;
    } gpu[MOST_GPUS];
} machines[] = {
    {"gh200",
     4,
     4,
     1,
     1,
     {{"0009:01:00.0", 0}, {"0019:01:00.0", 1}, {"0029:01:00.0", 2}, {"0039:01:00.0", 3}}},
    {"h100",
     8,
     2,
     1,
     1,
     {{"0000:1b:00.0", 0},
      {"0000:43:00.0", 0},
      {"0000:52:00.0", 0},
      {"0000:61:00.0", 0},
      {"0000:9d:00.0", 1},
      {"0000:c3:00.0", 1},
      {"0000:d1:00.0", 1},
      {"0000:df:00.0", 1}}},
    {"laptop", 1, 1, 0, 1, {{"0000:01:00.0", 0}}},
    {"workstation", 2, 2, 1, 1, {{"0000:01:00.0", 1}, {"0000:02:00.0", 0}}},
    {"nopci", 2, 2, 0, 0, {{"0000:01:00.0", 0}, {"0000:02:00.0", 1}}},
};
enum { MACHINES = sizeof machines / sizeof *machines };

/* Bindings by launchers. */
enum binding { UNBOUND, BLOCKS, REVERSED, PACKAGES, FEW, BINDINGS };
static const char *const binding_names[BINDINGS] = {"unbound", "bound to blocks of cores",
                                                    "bound to blocks in reverse order",
                                                    "bound to packages", "bound to few cores"};

/* A machine with several ranks. */
struct node {
    const struct machine *machine;
    hwloc_topology_t topology;
    int cores, ranks;
    enum binding binding;
    struct ss_seat seat[MOST_RANKS];
    struct ss_placement placement[MOST_RANKS];
};

static void quiet(void)
{
    ss_log_set_quiet(1);
}

static void path_of(const char *name, const char *suffix, char *path, size_t bytes)
{
    const char *srcdir = getenv("srcdir");
    snprintf(path, bytes, "%s/tests/runtime/placement/%s.%s", srcdir ? srcdir : ".", name, suffix);
}

static void load(struct node *n, const struct machine *machine)
{
    char path[1024];
    path_of(machine->name, "xml", path, sizeof path);
    memset(n, 0, sizeof *n);
    n->machine = machine;
    ck_assert_int_eq(ss_topology_create(&n->topology), SS_OK);
    ck_assert_msg(hwloc_topology_set_xml(n->topology, path) == 0, "%s", path);
    ck_assert_msg(hwloc_topology_load(n->topology) == 0, "%s", path);
    n->cores = hwloc_get_nbobjs_by_type(n->topology, HWLOC_OBJ_CORE);
}

static void add_cpus(struct ss_seat *seat, hwloc_const_bitmap_t cpus)
{
    for (int i = 0; i < SS_SEAT_WORDS; i++)
        seat->cpus[i] |= hwloc_bitmap_to_ith_ulong(cpus, (unsigned)i);
}

static void add_cores(struct node *n, struct ss_seat *seat, int begin, int end)
{
    for (int i = begin; i < end; i++)
        add_cpus(seat, hwloc_get_obj_by_type(n->topology, HWLOC_OBJ_CORE, (unsigned)i)->cpuset);
}

static hwloc_const_bitmap_t package_cpus(const struct node *n, int package)
{
    return hwloc_get_obj_by_type(n->topology, HWLOC_OBJ_PACKAGE, (unsigned)package)->cpuset;
}

static void bind(struct node *n, int rank)
{
    struct ss_seat *seat = &n->seat[rank];
    int block = n->binding == REVERSED ? n->ranks - 1 - rank : rank,
        begin = n->cores * block / n->ranks, end = n->cores * (block + 1) / n->ranks;
    memset(seat, 0, sizeof *seat);
    if (n->binding == UNBOUND)
        add_cores(n, seat, 0, n->cores);
    else if (n->binding == PACKAGES)
        add_cpus(seat, package_cpus(n, n->machine->packages * rank / n->ranks));
    else if (n->binding == FEW)
        add_cores(n, seat, begin, begin + 1 + rank % 4 < end ? begin + 1 + rank % 4 : end);
    else
        add_cores(n, seat, begin, end);
}

static int gpu_of(const struct node *n, int rank)
{
    return ss_placement_pick_gpu(-1, rank, n->machine->gpus);
}

/* Every rank computes its own placement. */
static void decide(struct node *n, int ranks, enum binding binding)
{
    n->ranks = ranks;
    n->binding = binding;
    for (int r = 0; r < ranks; r++) {
        bind(n, r);
        snprintf(n->seat[r].bus_id, sizeof n->seat[r].bus_id, "%s",
                 n->machine->gpu[gpu_of(n, r)].bus_id);
    }
    for (int r = 0; r < ranks; r++)
        ck_assert_int_eq(ss_placement_divide(n->topology, n->seat, ranks, r, 0, &n->placement[r]),
                         SS_OK);
}

static void print_rank(const struct node *n, int rank, FILE *out)
{
    static const char *const distance[] = {"near", "far", "unknown"};
    const struct ss_placement *p = &n->placement[rank];
    char all[512], loading[512];
    int loaders = p->dedicated ? p->dedicated : p->ncores;
    ss_placement_format(p, 0, p->ncores, all, sizeof all);
    ss_placement_format(p, p->ncores - loaders, loaders, loading, sizeof loading);
    fprintf(out, "  %d: GPU %d %s", rank, gpu_of(n, rank), distance[p->distance]);
    if (p->gpu_ranks > 1)
        fprintf(out, " (1 of %d)", p->gpu_ranks);
    fprintf(out, ", memory %d (GPU %d), cores %s: driver %d, communication %d, %d loading %s\n",
            p->numa_node, p->gpu_numa_node, all, p->core[0], p->core[p->communication], p->workers,
            loading);
}

START_TEST(decisions)
{
    char file[256], *text = NULL;
    size_t bytes = 0;
    struct node n;
    load(&n, &machines[_i]);
    FILE *f = open_memstream(&text, &bytes);
    for (int b = 0; b < BINDINGS; b++)
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
            decide(&n, ranks, (enum binding)b);
            fprintf(f, "%d ranks, %s\n", ranks, binding_names[b]);
            for (int r = 0; r < ranks; r++)
                print_rank(&n, r, f);
        }
    fclose(f);
    hwloc_topology_destroy(n.topology);
    snprintf(file, sizeof file, "runtime/placement/%s.golden", machines[_i].name);
    golden(file, text);
    free(text);
}
END_TEST

/* Invariants for any machine and launcher. */

static int may_use(const struct node *n, int rank, int cpu)
{
    const int bits = 8 * (int)sizeof(unsigned long);
    return n->seat[rank].cpus[cpu / bits] >> cpu % bits & 1;
}

/* 1: the launcher's binding includes cores of the GPU's package. */
static int can_be_near(const struct node *n, int rank)
{
    hwloc_const_bitmap_t near = package_cpus(n, n->machine->gpu[gpu_of(n, rank)].package);
    int cpu;
    hwloc_bitmap_foreach_begin(cpu, near) if (may_use(n, rank, cpu)) return 1;
    hwloc_bitmap_foreach_end();
    return 0;
}

static void check_cores(const struct node *n, int rank)
{
    const struct ss_placement *p = &n->placement[rank];
    int package = n->machine->gpu[gpu_of(n, rank)].package, near = can_be_near(n, rank);
    ck_assert_int_eq(p->distance, !n->machine->shows_gpus             ? SS_GPU_UNKNOWN
                                  : near || n->machine->packages == 1 ? SS_GPU_NEAR
                                                                      : SS_GPU_FAR);
    ck_assert_int_ge(p->ncores, 1);
    for (int i = 0; i < p->ncores; i++) {
        ck_assert(may_use(n, rank, p->core[i]));
        if (n->machine->far && near)
            ck_assert(hwloc_bitmap_isset(package_cpus(n, package), (unsigned)p->core[i]));
    }
    if (n->machine->far && near)
        ck_assert_int_eq(p->numa_node, package);
    /* NUMA nodes 0 to packages - 1 belong to the cores. */
    ck_assert_int_lt(p->numa_node, n->machine->packages);
    ck_assert_int_eq(p->gpu_numa_node, n->machine->shows_gpus ? package : -1);
    ck_assert_int_eq(p->machine_cores, n->cores);
}

static void check_work(const struct ss_placement *p)
{
    ck_assert(p->gpu && p->threads == 0 && p->workers >= 1);
    ck_assert_int_eq(p->communication, p->ncores > 1);
    ck_assert_int_eq(p->dedicated, p->ncores == 1 ? 0 : p->ncores < 4 ? 1 : p->ncores - 2);
}

/* Return the core of a processing unit: hardware threads of one core share it. */
static hwloc_obj_t core_of(const struct node *n, int cpu)
{
    hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(n->topology, (unsigned)cpu);
    return hwloc_get_ancestor_obj_by_type(n->topology, HWLOC_OBJ_CORE, pu);
}

static int overlap(const struct node *n, int a, int b)
{
    const struct ss_placement *p = &n->placement[a], *q = &n->placement[b];
    for (int i = 0; i < p->ncores; i++)
        for (int k = 0; k < q->ncores; k++)
            if (core_of(n, p->core[i]) == core_of(n, q->core[k]))
                return 1;
    return 0;
}

/* Ranks with the same binding and GPU package get the same number of cores, plus or minus one. */
static void check_pair(const struct node *n, int a, int b)
{
    const struct machine *m = n->machine;
    ck_assert_msg(!overlap(n, a, b), "%s, %s: ranks %d and %d of %d overlap", m->name,
                  binding_names[n->binding], a, b, n->ranks);
    if (memcmp(n->seat[a].cpus, n->seat[b].cpus, sizeof n->seat[a].cpus) == 0 &&
        m->gpu[gpu_of(n, a)].package == m->gpu[gpu_of(n, b)].package)
        ck_assert_int_le(abs(n->placement[a].ncores - n->placement[b].ncores), 1);
}

START_TEST(invariants)
{
    struct node n;
    load(&n, &machines[_i]);
    for (int b = 0; b < BINDINGS; b++)
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
            decide(&n, ranks, (enum binding)b);
            for (int r = 0; r < ranks; r++) {
                check_cores(&n, r);
                check_work(&n.placement[r]);
                for (int other = 0; other < r; other++)
                    check_pair(&n, other, r);
            }
        }
    hwloc_topology_destroy(n.topology);
}
END_TEST

static const struct machine *find(const char *name)
{
    for (int i = 0; i < MACHINES; i++)
        if (!strcmp(machines[i].name, name))
            return &machines[i];
    ck_abort_msg("unknown machine %s", name);
}

/* Two ranks bound to different hardware threads of the same cores. */
START_TEST(threads_of_a_core)
{
    struct node n;
    load(&n, find("laptop"));
    decide(&n, 2, UNBOUND);
    for (int i = 0; i < SS_SEAT_WORDS; i++) {
        n.seat[0].cpus[i] &= 0x5555555555555555ul;
        n.seat[1].cpus[i] &= 0xaaaaaaaaaaaaaaaaul;
    }
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(ss_placement_divide(n.topology, n.seat, 2, r, 3, &n.placement[r]), SS_OK);
    ck_assert(!overlap(&n, 0, 1));
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(n.placement[r].ncores, 4);
        ck_assert_int_eq(n.placement[r].workers, 3); /* as requested */
        for (int i = 0; i < 4; i++)
            ck_assert(may_use(&n, r, n.placement[r].core[i]));
    }
    hwloc_topology_destroy(n.topology);
}
END_TEST

/* Five ranks bound to the same two cores. */
START_TEST(more_ranks_than_cores)
{
    struct node n;
    load(&n, find("workstation"));
    decide(&n, 5, UNBOUND);
    for (int r = 0; r < 5; r++) {
        memset(n.seat[r].cpus, 0, sizeof n.seat[r].cpus);
        n.seat[r].cpus[0] = 0x30;
    }
    for (int r = 0; r < 5; r++) {
        ck_assert_int_eq(ss_placement_divide(n.topology, n.seat, 5, r, 0, &n.placement[r]), SS_OK);
        ck_assert_int_eq(n.placement[r].ncores, 1);
        ck_assert(may_use(&n, r, n.placement[r].core[0]));
        ck_assert_int_eq(n.placement[r].communication, 0);
        ck_assert_int_eq(n.placement[r].workers, 1);
    }
    hwloc_topology_destroy(n.topology);
}
END_TEST

/* A rank with a wide binding leaves cores to ranks with a narrow one. */
START_TEST(narrow_before_wide)
{
    struct node n;
    load(&n, find("nopci"));
    decide(&n, 2, UNBOUND);
    memset(n.seat[1].cpus, 0, sizeof n.seat[1].cpus);
    n.seat[1].cpus[0] = 0x1; /* rank 0 may use this one too */
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(ss_placement_divide(n.topology, n.seat, 2, r, 0, &n.placement[r]), SS_OK);
    ck_assert_int_eq(n.placement[1].ncores, 1);
    ck_assert_int_eq(n.placement[0].ncores, 15);
    ck_assert(!overlap(&n, 0, 1));
    hwloc_topology_destroy(n.topology);
}
END_TEST

START_TEST(no_core_at_all)
{
    struct node n;
    load(&n, find("laptop"));
    decide(&n, 1, UNBOUND);
    memset(n.seat[0].cpus, 0, sizeof n.seat[0].cpus);
    n.seat[0].cpus[SS_SEAT_WORDS - 1] = 1; /* not a core of this machine */
    ck_assert_int_eq(ss_placement_divide(n.topology, n.seat, 1, 0, 0, &n.placement[0]),
                     SS_ERR_LIBRARY);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "no core that this process may use"));
    hwloc_topology_destroy(n.topology);
}
END_TEST

/* Unknown or empty bus ids, as on a machine without visible PCI devices. */
START_TEST(unknown_gpu)
{
    static const char *const ids[] = {"", "0000:77:00.0", "no bus id"};
    struct node n;
    load(&n, find("h100"));
    decide(&n, 2, UNBOUND);
    for (int i = 0; i < 3; i++) {
        for (int r = 0; r < 2; r++)
            snprintf(n.seat[r].bus_id, sizeof n.seat[r].bus_id, "%s", ids[i]);
        ck_assert_int_eq(ss_placement_divide(n.topology, n.seat, 2, 1, 0, &n.placement[1]), SS_OK);
        ck_assert_int_eq(n.placement[1].distance, SS_GPU_UNKNOWN);
        ck_assert_int_eq(n.placement[1].ncores, 56);
        ck_assert_int_eq(n.placement[1].gpu_numa_node, -1);
        ck_assert_int_eq(n.placement[1].gpu_ranks, i ? 2 : 1);
    }
    hwloc_topology_destroy(n.topology);
}
END_TEST

/* The GPU is in the topology, but attached to the whole machine. */
START_TEST(gpu_without_a_place)
{
    struct node n;
    load(&n, find("workstation"));
    decide(&n, 1, UNBOUND);
    snprintf(n.seat[0].bus_id, sizeof n.seat[0].bus_id, "0000:04:00.0");
    ck_assert_ptr_nonnull(hwloc_get_pcidev_by_busidstring(n.topology, n.seat[0].bus_id));
    ck_assert_int_eq(ss_placement_divide(n.topology, n.seat, 1, 0, 0, &n.placement[0]), SS_OK);
    ck_assert_int_eq(n.placement[0].distance, SS_GPU_UNKNOWN);
    ck_assert_int_eq(n.placement[0].ncores, 16);
    hwloc_topology_destroy(n.topology);
}
END_TEST

/* NUMA nodes that hwloc names as GPU memory are not used for the cores, for any index. */
START_TEST(named_gpu_memory)
{
    struct node n;
    hwloc_obj_t named = NULL;
    load(&n, find("gh200"));
    while ((named = hwloc_get_next_obj_by_type(n.topology, HWLOC_OBJ_NUMANODE, named)))
        if (named->subtype && named->os_index == 12)
            break;
    ck_assert_ptr_nonnull(named);
    hwloc_obj_t own = hwloc_get_numanode_obj_by_os_index(n.topology, 1);
    ck_assert(hwloc_bitmap_isequal(own->cpuset, named->cpuset));
    own->os_index = 12;
    named->os_index = 1;
    decide(&n, 4, UNBOUND);
    ck_assert_int_eq(n.placement[1].numa_node, 12);
    ck_assert_int_eq(n.placement[1].gpu_numa_node, 12);
    own->subtype = named->subtype; /* the cores have no memory of their own */
    decide(&n, 4, UNBOUND);
    own->subtype = NULL;
    ck_assert_int_eq(n.placement[1].numa_node, -1);
    ck_assert_int_eq(n.placement[0].numa_node, 0);
    hwloc_topology_destroy(n.topology);
}
END_TEST

/* NUMA nodes of host memory, with and without GPU memory as NUMA nodes. */
START_TEST(memory_of_the_host)
{
    struct node n;
    load(&n, find("gh200"));
    decide(&n, 4, UNBOUND);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(n.placement[r].device_nodes, 1);
        ck_assert_uint_eq(n.placement[r].host_nodes[0], 0xf); /* neither 4, 12, 20 nor 28 */
        for (int i = 1; i < SS_NUMA_WORDS; i++)
            ck_assert_uint_eq(n.placement[r].host_nodes[i], 0);
    }
    hwloc_topology_destroy(n.topology);
    load(&n, find("h100"));
    decide(&n, 1, UNBOUND);
    ck_assert_int_eq(n.placement[0].device_nodes, 0);
    hwloc_topology_destroy(n.topology);
}
END_TEST

/* On this machine: return the memory policy of the bound main thread; check that it is restored. */
static int policy_of_main(const struct ss_placement *p, unsigned long nodes[SS_NUMA_WORDS])
{
    struct ss_thread_place old;
    int mode = -1, after = -1;
    ss_placement_bind_main(p, &old);
    ck_assert_int_eq(
        syscall(SYS_get_mempolicy, &mode, nodes, SS_NUMA_WORDS * 8 * sizeof *nodes, NULL, 0), 0);
    ss_placement_restore(&old);
    ck_assert_int_eq(syscall(SYS_get_mempolicy, &after, NULL, 0, NULL, 0), 0);
    ck_assert_int_eq(after, MPOL_DEFAULT);
    return mode;
}

START_TEST(policy_for_memory)
{
    unsigned long nodes[SS_NUMA_WORDS] = {0};
    struct ss_placement p = {.ncores = 1, .device_nodes = 1, .host_nodes = {1}};
    int mode;
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) || mode != MPOL_DEFAULT ||
        syscall(SYS_set_mempolicy, MPOL_PREFERRED, p.host_nodes, sizeof p.host_nodes * 8))
        return; /* not permitted in this sandbox, or already set */
    ck_assert_int_eq(syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0), 0);
    p.core[0] = sched_getcpu();
    ck_assert_int_eq(policy_of_main(&p, nodes), MPOL_BIND);
    ck_assert_uint_eq(nodes[0], 1);
    /* Nodes that this machine does not have: as without GPU memory. */
    p.host_nodes[0] = 0;
    p.host_nodes[SS_NUMA_WORDS - 1] = 1UL << 63;
    ck_assert_int_eq(policy_of_main(&p, nodes), MPOL_PREFERRED);
    p.device_nodes = 0;
    ck_assert_int_eq(policy_of_main(&p, nodes), MPOL_PREFERRED);
    p.numa_node = -1;
    ck_assert_int_eq(policy_of_main(&p, nodes), MPOL_DEFAULT);
}
END_TEST

START_TEST(choice_of_gpu)
{
    ck_assert_int_eq(ss_placement_pick_gpu(-1, 3, 4), 3);
    ck_assert_int_eq(ss_placement_pick_gpu(-1, 3, 1), 0); /* one visible GPU per task */
    ck_assert_int_eq(ss_placement_pick_gpu(-1, 3, 2), 1);
    ck_assert_int_eq(ss_placement_pick_gpu(5, 3, 4), 5); /* refused later, by name */
    ck_assert_int_eq(ss_placement_pick_gpu(-1, 3, 0), 0);
}
END_TEST

/* Lines of `starstep info`. */
static char *print(const struct ss_placement *p)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    ss_placement_print(p, f);
    fclose(f);
    return text;
}

static const struct {
    const char *machine;
    int ranks, rank;
    enum binding binding;
    const char *text;
} printed[] = {
    {"gh200", 4, 1, UNBOUND,
     "  memory:        NUMA node 1, host memory only, near the GPU\n"
     "  driver:        core 72\n"
     "  communication: core 73, with the submission of tasks\n"
     "  loading:       8 workers on cores 74-143\n"},
    {"gh200", 4, 1, REVERSED,
     "  memory:        NUMA node 2, host memory only; the GPU is near NUMA node 1, but the "
     "launcher bound this rank "
     "elsewhere\n"
     "  driver:        core 144\n"
     "  communication: core 145, with the submission of tasks\n"
     "  loading:       8 workers on cores 146-215\n"},
    {"nopci", 1, 0, UNBOUND,
     "  memory:        several NUMA nodes; the node nearest to the GPU is unknown\n"
     "  driver:        core 0\n"
     "  communication: core 1, with the submission of tasks\n"
     "  loading:       8 workers on cores 2-15\n"},
    {"laptop", 8, 7, UNBOUND,
     "  shared:        8 ranks of this node use this GPU\n"
     "  memory:        NUMA node 0, near the GPU\n"
     "  driver:        core 14\n"
     "  communication: core 14, with the submission of tasks\n"
     "  loading:       1 worker on core 14\n"},
};

START_TEST(lines)
{
    struct node n;
    load(&n, find(printed[_i].machine));
    decide(&n, printed[_i].ranks, printed[_i].binding);
    char *text = print(&n.placement[printed[_i].rank]);
    ck_assert_str_eq(text, printed[_i].text);
    free(text);
    hwloc_topology_destroy(n.topology);
}
END_TEST

/* The same for CPU ranks, with and without dedicated cores for loading. */
START_TEST(lines_of_cpus)
{
    struct ss_placement p;
    memset(&p, 0, sizeof p);
    p.threads = 3;
    p.workers = 2;
    p.ncores = 6;
    for (int i = 0; i < 6; i++)
        p.core[i] = 10 + 2 * i;
    p.dedicated = 2;
    char *text = print(&p);
    ck_assert_str_eq(
        text,
        "  compute:    3 threads on cores 10,12,14\n"
        "  service:    2 workers (loading, communication, reports) on cores of their own: 18,20\n");
    free(text);
    p.dedicated = 0;
    p.threads = p.workers = 1;
    text = print(&p);
    ck_assert_str_eq(text, "  compute:    1 thread on core 10\n"
                           "  service:    1 worker (loading, communication, reports) on the same "
                           "cores: 10,12,14,16,18,20\n");
    free(text);
}
END_TEST

static int binding_works(const cpu_set_t *before)
{
    cpu_set_t one, now;
    CPU_ZERO(&one);
    for (size_t i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, before))
            CPU_SET(i, &one);
    int works = sched_setaffinity(0, sizeof one, &one) == 0 &&
                sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one);
    return sched_setaffinity(0, sizeof *before, before) == 0 && works;
}

/* On this machine: threads run on their cores, and the main thread's binding is restored. */
START_TEST(binding_threads)
{
    struct ss_comm_config config = {.backend = "self", .timeout_s = 60};
    struct ss_comm *comm;
    struct ss_placement p;
    struct ss_thread_place old;
    cpu_set_t before, now;
    ck_assert_int_eq(ss_comm_open(&config, &comm), SS_OK);
    ck_assert_int_eq(ss_placement_decide_gpu(comm, 0, "", &p), SS_OK);
    ck_assert_int_eq(ss_placement_bind_communication(&p, comm), SS_OK);
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    for (int i = 0; i < p.ncores; i++)
        ck_assert(CPU_ISSET((size_t)p.core[i], &before));
    if (!binding_works(&before)) {
        ss_comm_close(comm);
        return; /* some sandboxes ignore bindings */
    }
    ss_placement_bind_main(&p, &old);
    ck_assert_int_eq(sched_getaffinity(0, sizeof now, &now), 0);
    ck_assert_int_eq(CPU_COUNT(&now), 1);
    ck_assert(CPU_ISSET((size_t)p.core[p.communication], &now));
    ss_placement_bind_driver(&p);
    ck_assert_int_eq(sched_getcpu(), p.core[0]);
    ss_placement_restore(&old);
    ck_assert_int_eq(sched_getaffinity(0, sizeof now, &now), 0);
    ck_assert(CPU_EQUAL(&now, &before));
    ss_comm_close(comm);
}
END_TEST

/* libgomp ends thread 2 of 3 when a region needs only two threads, and creates a new one for the
 * next region. The new thread must not be bound to thread 0's core. */
static void *shrink_and_grow(void *arg)
{
    const struct ss_placement *p = arg;
    static cpu_set_t mask;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(3)
    ss_placement_bind_compute(p, omp_get_thread_num());
#pragma omp parallel num_threads(2)
    sched_yield();
#pragma omp parallel num_threads(3)
    if (omp_get_thread_num() == 2)
        sched_getaffinity(0, sizeof mask, &mask);
    return &mask;
}

START_TEST(a_new_thread_of_a_team)
{
    struct ss_placement p = {.ncores = 3, .threads = 3};
    cpu_set_t all;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    int cpus[2], n = 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET((size_t)i, &all))
            cpus[n++] = i;
    if (n < 2 || !binding_works(&all))
        return;
    p.core[0] = cpus[0];
    p.core[1] = p.core[2] = cpus[1];
    pthread_t thread;
    void *mask;
    ck_assert_int_eq(pthread_create(&thread, NULL, shrink_and_grow, &p), 0);
    ck_assert_int_eq(pthread_join(thread, &mask), 0);
    int may_run_elsewhere = CPU_ISSET((size_t)cpus[1], (cpu_set_t *)mask) != 0;
    ck_assert_int_eq(may_run_elsewhere, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("placement");
    TCase *t = tcase_create("placement");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, quiet, NULL);
    tcase_add_loop_test(t, decisions, 0, MACHINES);
    tcase_add_loop_test(t, invariants, 0, MACHINES);
    tcase_add_test(t, threads_of_a_core);
    tcase_add_test(t, more_ranks_than_cores);
    tcase_add_test(t, narrow_before_wide);
    tcase_add_test(t, no_core_at_all);
    tcase_add_test(t, unknown_gpu);
    tcase_add_test(t, gpu_without_a_place);
    tcase_add_test(t, named_gpu_memory);
    tcase_add_test(t, memory_of_the_host);
    tcase_add_test(t, policy_for_memory);
    tcase_add_test(t, choice_of_gpu);
    tcase_add_loop_test(t, lines, 0, sizeof printed / sizeof *printed);
    tcase_add_test(t, lines_of_cpus);
    tcase_add_test(t, binding_threads);
    tcase_add_test(t, a_new_thread_of_a_team);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
