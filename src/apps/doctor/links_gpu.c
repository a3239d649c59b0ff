#include "comm/nccl.h"
#include "core/log.h"
#include "apps/doctor/links.h"

#include <stdlib.h>

struct gpu {
    struct ss_comm *comm;
    struct ss_device *device;
    struct ss_nccl *nccl;
    void *memory[2];
};

static enum ss_status put(void *state, enum ss_links_memory memory, const void *host, size_t bytes)
{
    struct gpu *g = state;
    return ss_cuda_copy(g->device, g->memory[memory], host, bytes);
}

static enum ss_status get(void *state, enum ss_links_memory memory, void *host, size_t bytes)
{
    struct gpu *g = state;
    return ss_cuda_copy(g->device, host, g->memory[memory], bytes);
}

static enum ss_status sum(void *state, size_t count)
{
    struct gpu *g = state;
    return ss_nccl_allreduce(g->nccl, g->memory[SS_LINKS_DATA], count, SS_DTYPE_F32,
                             (struct ss_comm_tag){0, -1}, SS_LINKS, ss_cuda_stream(g->device));
}

static enum ss_status exchange(void *state, int to, int from, size_t bytes)
{
    struct gpu *g = state;
    return ss_nccl_exchange(g->nccl, g->memory[SS_LINKS_DATA], to, g->memory[SS_LINKS_RECEIVED],
                            from, bytes, SS_LINKS, ss_cuda_stream(g->device));
}

static enum ss_status finish(void *state)
{
    struct gpu *g = state;
    return ss_cuda_synchronize(g->device);
}

static void close_gpu(void *state)
{
    struct gpu *g = state;
    ss_nccl_close(g->nccl);
    for (int i = 0; i < 2; i++)
        ss_nccl_free(g->memory[i]);
    ss_cuda_close(g->device);
    free(g);
}

/* Buffers registered with NCCL, as in training. */
static enum ss_status open_memory(struct gpu *g, size_t bytes)
{
    for (int i = 0; i < 2; i++)
        SS_TRY(ss_nccl_alloc(g->device, bytes, SS_LINKS, &g->memory[i]));
    return SS_OK;
}

static enum ss_status open_device(struct gpu *g, int device, size_t bytes)
{
    const struct ss_device_options options = {.device = device, .dtype = SS_DTYPE_F32};
    SS_TRY(ss_cuda_open(&options, &g->device));
    return open_memory(g, bytes);
}

/* Open on all ranks. A failed rank must not block the others. */
static enum ss_status open_all(struct gpu *g, int device, size_t bytes)
{
    const struct ss_nccl_options options = {.device = device};
    SS_TRY(ss_comm_agree(g->comm, open_device(g, device, bytes), SS_LINKS));
    SS_TRY(ss_nccl_open(g->comm, &options, &g->nccl));
    return ss_nccl_register(g->nccl, g->memory[SS_LINKS_DATA], bytes);
}

enum ss_status ss_links_open_gpu(struct ss_comm *comm, int device, size_t bytes,
                                 struct ss_links_plane *out)
{
    struct gpu *g = calloc(1, sizeof *g);
    SS_TRY(ss_comm_agree(comm, g ? SS_OK : ss_fail_memory(SS_LINKS, sizeof *g), SS_LINKS));
    g->comm = comm;
    enum ss_status status = open_all(g, device, bytes);
    if (status != SS_OK) {
        close_gpu(g);
        return status;
    }
    *out = (struct ss_links_plane){.name = ss_nccl_library(),
                                   .gpus = 1,
                                   .state = g,
                                   .put = put,
                                   .get = get,
                                   .sum = sum,
                                   .exchange = exchange,
                                   .finish = finish,
                                   .close = close_gpu};
    return SS_OK;
}
