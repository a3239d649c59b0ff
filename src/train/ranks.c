#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "train/ranks.h"
#include "comm/nccl.h"
#include "core/log.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CORES_TEXT = 512 };

static void describe_gpu(int gpu, struct ss_rank *r)
{
    r->gpu = gpu;
    r->gpus = ss_cuda_kernels.count();
    if (gpu >= r->gpus || ss_cuda_kernels.name(gpu, r->gpu_name, sizeof r->gpu_name) != SS_OK ||
        ss_cuda_kernels.bus_id(gpu, r->bus_id, sizeof r->bus_id) != SS_OK)
        r->gpu_name[0] = '\0';
}

static void describe_transport(const struct ss_comm *comm, int nccl, char *text, size_t bytes)
{
    const char *backend = ss_comm_backend(comm);
#ifdef HAVE_NCCL
    if (nccl) {
        snprintf(text, bytes, "%s, started over %s", ss_nccl_library(), backend);
        return;
    }
#endif
    (void)nccl;
    if (!strcmp(backend, "mpi"))
        snprintf(text, bytes, "mpi, %s", ss_comm_library());
    else
        snprintf(text, bytes, "%s", backend);
}

enum ss_status ss_ranks_gather(struct ss_comm *comm, const struct ss_placement *placement, int gpu,
                               int nccl, struct ss_rank **all)
{
    struct ss_rank own;
    memset(&own, 0, sizeof own); /* including padding: the struct is sent as bytes */
    gethostname(own.host, sizeof own.host - 1);
    own.rank = ss_comm_rank(comm);
    own.size = ss_comm_size(comm);
    own.local_rank = ss_comm_local_rank(comm);
    own.node = ss_comm_node(comm);
    own.placement = *placement;
    own.gpu = -1;
    if (placement->gpu)
        describe_gpu(gpu, &own);
    describe_transport(comm, nccl, own.transport, sizeof own.transport);

    void *ranks;
    SS_TRY(ss_comm_gather_alloc(comm, &own, sizeof own, &ranks, "descriptions of ranks"));
    *all = ranks;
    return SS_OK;
}

/* For the node of rank `first`: count the ranks that compute on GPUs and the fewest GPUs visible
 * to one of them. Returns 1 if fewer GPUs are visible than ranks compute. Ranks that share a GPU
 * are ignored: NCCL's initialization refuses them. */
static int is_short(const struct ss_rank *all, int first, int *ranks, int *seen)
{
    int shared = 0;
    *ranks = 0;
    for (int r = first; r < all->size; r++) {
        if (all[r].node != all[first].node || !all[r].gpu_name[0])
            continue;
        *seen = *ranks == 0 || all[r].gpus < *seen ? all[r].gpus : *seen;
        ++*ranks;
        for (int s = first; s < r; s++)
            shared |= all[s].node == all[r].node && !strcmp(all[s].bus_id, all[r].bus_id);
    }
    return *ranks > 1 && *seen < *ranks && !shared;
}

static int is_first_of_node(const struct ss_rank *all, int rank)
{
    for (int r = 0; r < rank; r++)
        if (all[r].node == all[rank].node)
            return 0;
    return 1;
}

/* Source: NCCL issue 1066 (2023-11): NCCL searches for NVLink among the GPUs visible to the
 * process, and CUDA cannot open memory of a GPU that a cgroup hides. */
void ss_ranks_warn(const struct ss_rank *all)
{
    int nodes = 0, first = 0, ranks = 0, seen = 0, least_ranks = 0, least_seen = 0;
    char others[48] = "";
    for (int r = 0; all && r < all->size; r++) {
        if (!is_first_of_node(all, r) || !is_short(all, r, &ranks, &seen))
            continue;
        if (nodes++ > 0)
            continue;
        first = r;
        least_ranks = ranks;
        least_seen = seen;
    }
    if (nodes == 0)
        return;
    if (nodes > 1)
        snprintf(others, sizeof others, " and %d more node%s", nodes - 1, nodes > 2 ? "s" : "");
    ss_warn(
        "on %s%s %d ranks compute on GPUs, with only %d GPU%s visible to each: NCCL does not use "
        "NVLink between GPUs that a process cannot see; start with srun --gpu-bind=none, and "
        "request GPUs with --gpus-per-node, not --gpus-per-task",
        all[first].host, others, least_ranks, least_seen, least_seen > 1 ? "s" : "");
}

void ss_rank_print_line(const struct ss_rank *r, FILE *out)
{
    const struct ss_placement *p = &r->placement;
    char cores[CORES_TEXT];
    ss_placement_format(p, 0, p->ncores, cores, sizeof cores);
    fprintf(out, "rank %d: %s, local rank %d, ", r->rank, r->host, r->local_rank);
    if (r->gpu < 0)
        fprintf(out, "CPU, %d thread%s", p->threads, p->threads > 1 ? "s" : "");
    else
        fprintf(out, "GPU %d (%s%s%s)", r->gpu, r->bus_id, r->gpu_name[0] ? ", " : "",
                r->gpu_name[0] ? r->gpu_name : "not found");
    fprintf(out, ", core%s %s, %d load worker%s; %s\n", p->ncores > 1 ? "s" : "", cores, p->workers,
            p->workers > 1 ? "s" : "", r->transport);
}

void ss_rank_print_block(const struct ss_rank *r, FILE *out)
{
    const struct ss_placement *p = &r->placement;
    fprintf(out, "rank %d of %d on %s: %d of %d cores\n", r->rank, r->size, r->host, p->ncores,
            p->machine_cores);
    if (r->gpu >= 0 && r->gpu_name[0])
        fprintf(out, "  gpu:           %d, %s, %s\n", r->gpu, r->gpu_name, r->bus_id);
    else if (r->gpu >= 0)
        fprintf(out, "  gpu:           %d not found, this process can use %d\n", r->gpu, r->gpus);
    ss_placement_print(p, out);
    if (r->size > 1)
        fprintf(out, "  transport:  %s%s\n", r->gpu >= 0 ? "   " : "", r->transport);
}

void ss_rank_log(const struct ss_rank *r, struct ss_journal *journal)
{
    const struct ss_placement *p = &r->placement;
    char cores[CORES_TEXT];
    ss_placement_format(p, 0, p->ncores, cores, sizeof cores);
    ss_journal_event(journal, "rank", "rank", 'i', (int64_t)r->rank, "host", 's', r->host,
                     "local_rank", 'i', (int64_t)r->local_rank, "gpu", 'i', (int64_t)r->gpu,
                     "gpu_name", 's', r->gpu_name, "bus_id", 's', r->bus_id, "threads", 'i',
                     (int64_t)p->threads, "cores", 's', cores, "workers", 'i', (int64_t)p->workers,
                     "transport", 's', r->transport, NULL);
}
