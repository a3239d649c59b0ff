/* check_ranks.c: cross-rank checks: which cores and GPUs each rank has, whether all run the same
 * program, and how well their clocks are synchronized. */
#include "core/boot_id.h"
#include "core/program.h"
#include "apps/doctor/procfs.h"
#include "kernels/kernels.h"
#include "runtime/placement.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = SS_MAX_CORES / (8 * (int)sizeof(unsigned long)) };

/* Exchanged as raw bytes. */
struct facts {
    char node[SS_BOOT_ID];
    unsigned long cpus[WORDS];
    int known;                    /* cpus is valid */
    int cores;                    /* number of cores in cpus */
    int gpus;                     /* GPUs that this rank sees; 0 if the CPU computes */
    char bus_id[SS_BUS_ID_BYTES]; /* of the GPU it uses */
    char program[SS_PROGRAM_HASH], library[SS_PROGRAM_HASH];
    uint64_t clock_error_ns;
};

static void describe(const struct ss_doctor_options *o, struct ss_comm *comm, struct facts *own)
{
    struct ss_program program;
    int64_t offset;
    memset(own, 0, sizeof *own);
    ss_boot_id(own->node);
    hwloc_bitmap_t cpus = ss_probe_cpus(o);
    if (cpus) {
        own->known = 1;
        own->cores = ss_probe_cores(o, cpus);
        for (int i = 0; i < WORDS; i++)
            own->cpus[i] = hwloc_bitmap_to_ith_ulong(cpus, (unsigned)i);
    }
    hwloc_bitmap_free(cpus);
    if (ss_probe_uses_gpu(o) && !ss_cuda_kernels.missing)
        own->gpus = ss_cuda_kernels.count();
    if (own->gpus) {
        int device = ss_placement_pick_gpu(-1, ss_comm_local_rank(comm), own->gpus);
        if (ss_cuda_kernels.bus_id(device, own->bus_id, sizeof own->bus_id) != SS_OK)
            own->bus_id[0] = '\0';
    }
    ss_program_identify(&program);
    memcpy(own->program, program.program.sha256, sizeof own->program);
    memcpy(own->library, program.library.sha256, sizeof own->library);
    if (ss_comm_clock(comm, &offset, &own->clock_error_ns) != SS_OK)
        own->clock_error_ns = 0;
}

static int same_node(const struct facts *a, const struct facts *b)
{
    return a->node[0] && !strcmp(a->node, b->node);
}

/* Ranks whose sets of cores overlap share them; if the sets are equal, starstep divides them
 * evenly. */
static void judge_cores(const struct facts *all, int n, int self, struct ss_findings *f)
{
    const struct facts *own = &all[self];
    int equal = 0, partly = 0;
    for (int r = 0; r < n; r++) {
        if (!same_node(&all[r], own) || !all[r].known)
            continue;
        int common = 0;
        for (int i = 0; i < WORDS; i++)
            common |= (all[r].cpus[i] & own->cpus[i]) != 0;
        if (!memcmp(all[r].cpus, own->cpus, sizeof own->cpus))
            equal++;
        else
            partly += common;
    }
    if (equal > 1 && own->cores < 2 * equal)
        ss_find(f, SS_SLOW, "ranks.cores",
                "start fewer ranks on a node, or give each cores of its own (--cpus-per-task, srun "
                "--cpu-bind=cores, mpiexec --bind-to core)",
                "%d ranks of a node share %d core%s", equal, own->cores, own->cores > 1 ? "s" : "");
    else if (partly)
        ss_find(f, SS_SLOW, "ranks.cores",
                "give each rank cores of its own, or all ranks of a node the same "
                "(--cpu-bind=none): then starstep divides them",
                "a rank has some of its cores in common with %d other%s of its node", partly,
                partly > 1 ? "s" : "");
    else if (equal > 1)
        ss_find(f, SS_FINE, "ranks.cores", NULL,
                "%d ranks of a node may use all of its %d cores: starstep divides them", equal,
                own->cores);
}

/* NCCL finds NVLink only among the GPUs that a process sees. With a single visible GPU it
 * silently uses PCIe or host memory (github.com/NVIDIA/nccl issue 1066, 2023-11). */
static void judge_gpus(const struct ss_doctor_options *o, const struct facts *all, int n, int self,
                       struct ss_findings *f)
{
    const struct facts *own = &all[self];
    int ranks = 0, on_mine = 0, without = 0;
    for (int r = 0; r < n; r++) {
        without += !all[r].gpus;
        if (!same_node(&all[r], own))
            continue;
        ranks++;
        on_mine += *own->bus_id && !strcmp(all[r].bus_id, own->bus_id);
    }
    if (!own->gpus) {
        if (without < n && o->device == SS_DOCTOR_AUTO)
            ss_find(f, SS_BROKEN, "ranks.gpus", "ask for as many GPUs on every node",
                    "a rank sees no GPU, but others do: all would compute on CPUs");
        return;
    }
    if (on_mine > 1)
        ss_find(f, SS_BROKEN, "ranks.gpus",
                "start one rank for each GPU of a node (--ntasks-per-node as --gpus-per-node)",
                "%d ranks of a node take the same GPU, which NCCL refuses", on_mine);
    else if (own->gpus < ranks)
        ss_find(f, SS_SLOW, "ranks.gpus",
                "show every rank all GPUs of its node: srun --gpu-bind=none with --gpus-per-node, "
                "never --gpus-per-task",
                "a rank sees %d GPU%s and its node has %d ranks: NCCL does not find NVLink to the "
                "others",
                own->gpus, own->gpus > 1 ? "s" : "", ranks);
    else if (ranks > 1)
        ss_find(f, SS_FINE, "ranks.gpus", NULL,
                "%d ranks of a node see %d GPUs, each takes its own", ranks, own->gpus);
}

static void judge_program(const struct facts *all, int self, struct ss_findings *f)
{
    if (strcmp(all[self].program, all[0].program) || strcmp(all[self].library, all[0].library))
        ss_find(
            f, SS_BROKEN, "ranks.program", "install one build where all nodes see it",
            "another build of starstep than rank 0's (starstep info shows checksums of its files)");
}

static void judge_clocks(const struct facts *all, int n, struct ss_findings *f)
{
    uint64_t worst = 0;
    for (int r = 0; r < n; r++)
        if (all[r].clock_error_ns > worst)
            worst = all[r].clock_error_ns;
    ss_find(f, SS_FINE, "ranks.clocks", NULL,
            "ranks' clocks are synchronized to {} us, which is the accuracy of traces of several "
            "ranks");
    ss_find_figure(f, (double)worst / 1e3, -1, "us");
}

void ss_doctor_ranks(const struct ss_doctor_options *o, struct ss_comm *comm, struct ss_findings *f)
{
    int n = ss_comm_size(comm), self = ss_comm_rank(comm);
    struct facts own;
    if (n == 1)
        return;
    describe(o, comm, &own);
    struct facts *all = calloc((size_t)n, sizeof *all);
    if (ss_comm_agree(comm, all ? SS_OK : SS_ERR_MEMORY, "facts about ranks") == SS_OK &&
        ss_comm_gather(comm, &own, sizeof own, self ? NULL : all, "facts about ranks") == SS_OK &&
        ss_comm_bcast(comm, all, (size_t)n * sizeof *all, 0, "facts about ranks") == SS_OK) {
        judge_cores(all, n, self, f);
        judge_gpus(o, all, n, self, f);
        judge_program(all, self, f);
        judge_clocks(all, n, f);
    }
    free(all);
}
