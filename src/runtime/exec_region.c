/* exec_region.c: the executor's pieces of memory, each on the device that works on it and
 * registered with StarPU there, once (contract in exec_internal.h). */
#include "codelets/lane.h"
#include "comm/nccl.h"
#include "core/log.h"
#include "runtime/exec_internal.h"

#include <stdlib.h>
#include <string.h>

void ss_region_register(const struct ss_exec *e, struct region *x, void *data, size_t bytes)
{
    int device = x->home == REGION_DEVICE || x->home == REGION_SUMS;
    int node = device ? e->options.runtime->node : STARPU_MAIN_RAM;
    x->r.data = data;
    x->r.bytes = bytes;
    /* StarPU counts elements in 32 bits. */
    const size_t element = bytes % 64 ? 1 : 64;
    starpu_vector_data_register(&x->r.handle, node, (uintptr_t)data, (uint32_t)(bytes / element),
                                element);
}

enum ss_status ss_region_new_host(const struct ss_exec *e, struct region *x, size_t bytes,
                                  const char *what)
{
    void *data;
    bytes = ss_round64(bytes ? bytes : 1);
    SS_TRY(e->kernels->alloc_host(e->device, bytes, what, &data));
    x->home = REGION_HOST;
    ss_region_register(e, x, data, bytes);
    return SS_OK;
}

enum ss_status ss_region_new(const struct ss_exec *e, struct region *x, size_t bytes,
                             const char *what)
{
    void *data;
    bytes = ss_round64(bytes ? bytes : 1);
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
    size_t element = ss_dtype_bytes(e->plan->options.grad_dtype);
    bytes = ss_round64(bytes ? bytes : 1);
    SS_TRY(ss_nccl_alloc(e->device, bytes, "gradients", &data));
    x->home = REGION_SUMS;
    ss_region_register(e, x, data, bytes);
    if (element != sizeof(float))
        SS_TRY(ss_nccl_alloc(e->device, bytes / sizeof(float) * element, "gradients that travel",
                             &x->r.copy));
    return ss_order_create(&x->r.order);
}
#endif

void ss_region_drop(const struct ss_exec *e, struct region *x)
{
    if (x->r.handle)
        starpu_data_unregister_no_coherency(x->r.handle);
    if (x->home == REGION_HOST)
        e->kernels->free_host(x->r.data);
#ifdef HAVE_NCCL
    if (x->home == REGION_SUMS) {
        ss_nccl_free(x->r.data);
        ss_nccl_free(x->r.copy);
        x->r.copy = NULL;
    }
#endif
    if (x->home == REGION_DEVICE)
        e->kernels->free(x->r.data);
    e->kernels->free(x->r.copy);
    free(x->r.order);
    memset(x, 0, sizeof *x);
}

void ss_regions_drop(const struct ss_exec *e, struct region *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        ss_region_drop(e, &x[i]);
    free(x);
}
