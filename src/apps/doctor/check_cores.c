/* check_cores.c: checks the cores that this rank may use. */
#include "apps/doctor/procfs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    /* One core feeds the GPU and one communicates and submits; NCCL's proxies use the rest if at
     * least two remain (runtime/placement.h). */
    WANTED_WITH_GPU = 4,
    WANTED = 2 /* compute; loading and communication */
};

/* The number of NUMA nodes with cores in `cpus`. */
static int count_numa(const struct ss_doctor_options *o, hwloc_const_bitmap_t cpus)
{
    enum { NODES = 256 };
    static char name[NODES][SS_PROBE_NAME];
    char list[1024];
    int n = ss_probe_names(o, "/sys/devices/system/node", name, NODES), nodes = 0;
    hwloc_bitmap_t own = hwloc_bitmap_alloc();
    for (int i = 0; own && i < n; i++)
        if (!strncmp(name[i], "node", 4) &&
            ss_probe_text(o, list, sizeof list, "/sys/devices/system/node/%s/cpulist", name[i]) &&
            hwloc_bitmap_list_sscanf(own, list) == 0)
            nodes += hwloc_bitmap_intersects(own, cpus);
    hwloc_bitmap_free(own);
    return nodes;
}

static void judge(const struct ss_doctor_options *o, hwloc_const_bitmap_t cpus,
                  struct ss_findings *f)
{
    char list[200];
    int cores = ss_probe_cores(o, cpus), units = hwloc_bitmap_weight(cpus),
        numa = count_numa(o, cpus);
    int gpu = ss_probe_uses_gpu(o), wanted = gpu ? WANTED_WITH_GPU : WANTED;
    hwloc_bitmap_list_snprintf(list, sizeof list, cpus);
    if (cores < wanted)
        ss_find(
            f, SS_SLOW, "cores.allowed",
            gpu ? "give each rank more cores, 8 or more where it decodes images (--cpus-per-task "
                  "and srun --cpu-bind, mpiexec --bind-to none)"
                : "give each rank more cores (--cpus-per-task and srun --cpu-bind, mpiexec "
                  "--bind-to none, taskset)",
            "a rank may use %d core%s; %s needs at least %d: %s", cores, cores > 1 ? "s" : "",
            gpu ? "a rank with a GPU" : "a rank", wanted,
            gpu ? "one feeds the GPU, one communicates, NCCL's threads and loading need the rest"
                : "loading and communication need cores besides compute");
    else
        ss_find(f, SS_FINE, "cores.allowed", NULL, "%d cores%s (%s), of %d NUMA node%s", cores,
                units > cores ? ", of which several hardware threads may be used" : "", list, numa,
                numa == 1 ? "" : "s");
    ss_find_figure(f, cores, wanted, "cores");
}

static void judge_quota(const struct ss_doctor_options *o, hwloc_const_bitmap_t cpus,
                        struct ss_findings *f)
{
    double quota = ss_probe_cgroup(o, "cpu.max", "cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us");
    if (isinf(quota) || quota >= hwloc_bitmap_weight(cpus))
        return;
    ss_find(f, SS_SLOW, "cores.quota",
            "ask for as many processors as the rank may run on, or bind it to fewer: threads that "
            "have used up the quota stall until the next period",
            "a cgroup limits CPU time to {} of the %d processors that the rank may run on",
            hwloc_bitmap_weight(cpus));
    ss_find_figure(f, quota, hwloc_bitmap_weight(cpus), "processors");
}

void ss_doctor_cores(const struct ss_doctor_options *o, struct ss_comm *comm, struct ss_findings *f)
{
    (void)comm;
    hwloc_bitmap_t cpus = ss_probe_cpus(o);
    if (!cpus) {
        ss_find(f, SS_FINE, "cores.allowed", NULL,
                "this system does not report which cores are allowed");
        return;
    }
    judge(o, cpus, f);
    judge_quota(o, cpus, f);
    hwloc_bitmap_free(cpus);
}
