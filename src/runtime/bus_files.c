/* bus_files.c: in the format of StarPU 1.4 (src/core/perfmodel/perfmodel_bus.c there). Another
 * count of cores, NUMA nodes or GPUs in `config` than its own makes StarPU measure. */
#include "runtime/bus_files.h"
#include "core/folder.h"
#include "core/log.h"
#include "kernels/kernels.h"

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <starpu.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_BYTES = 256 };

struct counts {
    int cores, numa, gpus;
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* As StarPU's _starpu_topology_get_nhwcpu and _starpu_topology_get_nhwnumanodes. */
static enum ss_status count(struct counts *out)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology))
        return ss_fail(SS_ERR_LIBRARY, "hwloc: cannot make a topology");
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) ||
        hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM) ||
        hwloc_topology_load(topology)) {
        hwloc_topology_destroy(topology);
        return ss_fail(SS_ERR_LIBRARY, "hwloc: cannot read this machine's topology");
    }
    int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    int numa = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    *out = (struct counts){.cores =
                               cores > 0 ? cores : hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU),
                           .numa = numa > 0 ? least(numa, STARPU_MAXNUMANODES) : 1};
    hwloc_topology_destroy(topology);
#ifdef STARPU_USE_CUDA
    out->gpus = least(ss_cuda_kernels.count(), STARPU_MAXCUDADEVS);
#endif
    return SS_OK;
}

/* NULL: it could not be opened. */
static FILE *open_file(const char *dir, const char *kind, const char *mode)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/bus/" SS_BUS_HOST ".%s", dir, kind);
    return n > 0 && n < (int)sizeof path ? fopen(path, mode) : NULL;
}

typedef void content(FILE *f, const struct counts *n);

/* Cores, then memory nodes by kind: NUMA nodes, GPUs of CUDA, and none of the others. */
static void write_config(FILE *f, const struct counts *n)
{
    fprintf(f, "%d\n%d\n%d\n", n->cores, n->numa, n->gpus);
    for (int kind = STARPU_CUDA_RAM + 1; kind < STARPU_NRAM; kind++)
        fputs("0\n", f);
}

/* NUMA nodes in the order in which a GPU likes them. */
static void write_affinity(FILE *f, const struct counts *n)
{
    fputs("# GPU\t", f);
    for (int k = 0; k < n->numa; k++)
        fprintf(f, "NUMA%d\t", k);
    for (int gpu = 0; gpu < n->gpus; gpu++) {
        fprintf(f, "\n%d\t", gpu);
        for (int k = 0; k < n->numa; k++)
            fprintf(f, "%d\t", k);
    }
    fputc('\n', f);
}

/* Between memory nodes: any figure will do. */
static void write_matrix(FILE *f, const struct counts *n)
{
    int nodes = least(n->numa + n->gpus, STARPU_MAXNODES);
    for (int from = 0; from < nodes; from++) {
        for (int to = 0; to < nodes; to++)
            fprintf(f, "%d\t", from == to ? 0 : 10000);
        fputc('\n', f);
    }
}

/* For simulations alone: it has only to be there. */
static void write_nothing(FILE *f, const struct counts *n)
{
    (void)f;
    (void)n;
}

enum ss_status ss_bus_files_write(const char *dir)
{
    static const struct {
        const char *kind;
        content *write;
    } files[] = {{"config", write_config},        {"affinity", write_affinity},
                 {"latency", write_matrix},       {"bandwidth", write_matrix},
                 {"platform.xml", write_nothing}, {"platform.v4.xml", write_nothing}};
    char folder[PATH_MAX];
    struct counts n;
    SS_TRY(ss_folder_join(folder, sizeof folder, dir, "bus"));
    SS_TRY(ss_folder_make(folder));
    SS_TRY(count(&n));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *f = open_file(dir, files[i].kind, "w");
        if (f)
            files[i].write(f, &n);
        if (!f || fclose(f))
            return ss_fail(SS_ERR_IO, "%s: a file for StarPU cannot be written: %s", folder,
                           strerror(errno));
    }
    return SS_OK;
}

/* StarPU comments what it writes. */
int ss_bus_files_were_taken(const char *dir)
{
    char text[CONFIG_BYTES] = "#";
    FILE *f = open_file(dir, "config", "r");
    if (f) {
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
    }
    return !strchr(text, '#');
}
