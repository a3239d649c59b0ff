/* placement_print.c: prints a placement. */
#include "runtime/placement.h"

enum { CORES_TEXT = 512 };

static void print_cpu(const struct ss_placement *p, FILE *out)
{
    char compute[CORES_TEXT], service[CORES_TEXT];
    int threads = p->threads < p->ncores ? p->threads : p->ncores;
    ss_placement_format(p, 0, threads, compute, sizeof compute);
    if (p->dedicated)
        ss_placement_format(p, p->ncores - p->dedicated, p->dedicated, service, sizeof service);
    else
        ss_placement_format(p, 0, p->ncores, service, sizeof service);
    fprintf(out, "  compute:    %d thread%s on core%s %s\n", p->threads, p->threads > 1 ? "s" : "",
            threads > 1 ? "s" : "", compute);
    fprintf(out, "  service:    %d worker%s (loading, communication, reports) on %s %s\n",
            p->workers, p->workers > 1 ? "s" : "",
            p->dedicated ? "cores of their own:" : "the same cores:", service);
}

static void print_memory(const struct ss_placement *p, FILE *out)
{
    if (p->numa_node >= 0)
        fprintf(out, "  memory:        NUMA node %d", p->numa_node);
    else
        fprintf(out, "  memory:        several NUMA nodes");
    if (p->device_nodes)
        fprintf(out, ", host memory only");
    if (p->distance == SS_GPU_UNKNOWN)
        fprintf(out, "; the node nearest to the GPU is unknown\n");
    else if (p->distance == SS_GPU_FAR && p->gpu_numa_node >= 0)
        fprintf(out, "; the GPU is near NUMA node %d, but the launcher bound this rank elsewhere\n",
                p->gpu_numa_node);
    else if (p->distance == SS_GPU_FAR)
        fprintf(out, "; the launcher bound this rank to cores far from the GPU\n");
    else if (p->gpu_numa_node >= 0 && p->gpu_numa_node != p->numa_node)
        fprintf(out, "; the GPU is near node %d, where this rank has no cores\n", p->gpu_numa_node);
    else
        fprintf(out, ", near the GPU\n");
}

static void print_gpu(const struct ss_placement *p, FILE *out)
{
    char cores[CORES_TEXT];
    int loading = p->dedicated ? p->dedicated : p->ncores;
    ss_placement_format(p, p->ncores - loading, loading, cores, sizeof cores);
    if (p->gpu_ranks > 1)
        fprintf(out, "  shared:        %d ranks of this node use this GPU\n", p->gpu_ranks);
    print_memory(p, out);
    fprintf(out, "  driver:        core %d\n", p->core[0]);
    fprintf(out, "  communication: core %d, with the submission of tasks\n",
            p->core[p->communication]);
    fprintf(out, "  loading:       %d worker%s on core%s %s\n", p->workers,
            p->workers > 1 ? "s" : "", loading > 1 ? "s" : "", cores);
}

void ss_placement_print(const struct ss_placement *p, FILE *out)
{
    if (p->gpu)
        print_gpu(p, out);
    else
        print_cpu(p, out);
}
