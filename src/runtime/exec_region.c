/* exec_region.c: memory regions of the executor. Each is allocated on the device that works on it
 * and registered there with StarPU once (contract in exec_internal.h). */
#include "codelets/lane.h"
#include "comm/nccl.h"
#include "core/log.h"
#include "core/round.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

/* StarPU memory node of the region. */
static int node_of(const struct ss_exec *e, const struct region *x)
{
    const int device = x->home == REGION_DEVICE || x->home == REGION_SUMS;
    return device ? e->options.runtime->node : STARPU_MAIN_RAM;
}

void ss_region_register(const struct ss_exec *e, struct region *x, void *data, size_t bytes)
{
    x->data = data;
    x->r.bytes = bytes;
    /* StarPU counts elements in 32 bits. */
    const size_t element = bytes % 64 ? 1 : 64;
    starpu_vector_data_register(&x->r.handle, node_of(e, x), (uintptr_t)data,
                                (uint32_t)(bytes / element), element);
}

void ss_region_new_token(struct region *x)
{
    starpu_void_data_register(&x->r.handle);
}

enum ss_status ss_region_new_host(const struct ss_exec *e, struct region *x, size_t bytes,
                                  const char *what)
{
    void *data;
    bytes = ss_round_up(bytes ? bytes : 1, 64);
    SS_TRY(e->kernels->alloc_host(e->device, bytes, what, &data));
    x->home = REGION_HOST;
    ss_region_register(e, x, data, bytes);
    /* Otherwise StarPU would allocate device memory when the copy worker writes here. */
    starpu_data_set_wt_mask(x->r.handle, 1u << STARPU_MAIN_RAM);
    return SS_OK;
}

enum ss_status ss_region_new(const struct ss_exec *e, struct region *x, size_t bytes,
                             const char *what)
{
    void *data;
    bytes = ss_round_up(bytes ? bytes : 1, 64);
    SS_TRY(e->kernels->alloc(e->device, bytes, what, &data));
    x->home = REGION_DEVICE;
    ss_region_register(e, x, data, bytes);
    return SS_OK;
}

enum ss_status ss_region_new_shared(const struct ss_exec *e, struct region *x, size_t bytes,
                                    const char *what)
{
    SS_TRY(ss_region_new(e, x, bytes, what));
    return e->options.runtime->lanes ? ss_order_create(&x->r.order) : SS_OK;
}

#ifdef HAVE_NCCL
enum ss_status ss_region_new_summed(const struct ss_exec *e, struct region *x, size_t bytes)
{
    void *data;
    bytes = ss_round_up(bytes ? bytes : 1, 64);
    SS_TRY(ss_nccl_alloc(e->device, bytes, "gradients", &data));
    x->home = REGION_SUMS;
    ss_region_register(e, x, data, bytes);
    return ss_order_create(&x->r.order);
}
#endif

enum ss_status ss_region_acquire(const struct ss_exec *e, const struct region *x,
                                 enum starpu_data_access_mode mode, void **data)
{
    SS_STARPU_TRY(starpu_data_acquire(x->r.handle, mode)); /* on its home node */
    *data = starpu_data_handle_to_pointer(x->r.handle, (unsigned)node_of(e, x));
    return SS_OK;
}

void ss_region_release(const struct region *x)
{
    starpu_data_release(x->r.handle);
}

enum ss_status ss_region_get(const struct ss_exec *e, const struct region *x, size_t at, void *host,
                             size_t bytes)
{
    void *data;
    SS_TRY(ss_region_acquire(e, x, STARPU_R, &data));
    enum ss_status status = e->kernels->copy(e->device, host, (const char *)data + at, bytes);
    ss_region_release(x);
    return status;
}

enum ss_status ss_region_put(const struct ss_exec *e, const struct region *x, size_t at,
                             const void *host, size_t bytes)
{
    void *data;
    SS_TRY(ss_region_acquire(e, x, STARPU_RW, &data));
    enum ss_status status = e->kernels->copy(e->device, (char *)data + at, host, bytes);
    ss_region_release(x);
    return status;
}

void ss_region_drop(const struct ss_exec *e, struct region *x)
{
    if (x->r.handle)
        starpu_data_unregister_no_coherency(x->r.handle);
    if (x->home == REGION_HOST)
        e->kernels->free_host(x->data);
#ifdef HAVE_NCCL
    if (x->home == REGION_SUMS)
        ss_nccl_free(x->data);
#endif
    if (x->home == REGION_DEVICE)
        e->kernels->free(x->data);
    free(x->r.order);
    memset(x, 0, sizeof *x);
}

void ss_regions_drop(const struct ss_exec *e, struct region *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        ss_region_drop(e, &x[i]);
    free(x);
}
