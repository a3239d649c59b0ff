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
    int node = device ? e->options.runtime->gpu_node : STARPU_MAIN_RAM;
    x->r.data = data;
    x->r.bytes = bytes;
    starpu_vector_data_register(&x->r.handle, node, (uintptr_t)data, bytes, 1);
}

enum ss_status ss_exec_alloc_host(const struct ss_exec *e, size_t bytes, const char *what,
                                  void **out)
{
#ifdef HAVE_CUDA
    if (e->gpu)
        return ss_gpu_alloc_host(e->gpu, bytes, what, out);
#else
    (void)e;
#endif
    *out = ss_aligned_alloc(bytes);
    return *out ? SS_OK : ss_fail_memory(what, bytes);
}

void ss_exec_free_host(const struct ss_exec *e, void *data)
{
#ifdef HAVE_CUDA
    if (e->gpu) {
        ss_gpu_free_host(data);
        return;
    }
#else
    (void)e;
#endif
    free(data);
}

enum ss_status ss_region_new_host(const struct ss_exec *e, struct region *x, size_t bytes,
                                  const char *what)
{
    void *data;
    bytes = ss_round64(bytes ? bytes : 1);
    SS_TRY(ss_exec_alloc_host(e, bytes, what, &data));
    x->home = REGION_HOST;
    ss_region_register(e, x, data, bytes);
    return SS_OK;
}

enum ss_status ss_region_new(const struct ss_exec *e, struct region *x, size_t bytes,
                             const char *what)
{
#ifdef HAVE_CUDA
    if (e->gpu) {
        void *data;
        bytes = ss_round64(bytes ? bytes : 1);
        SS_TRY(ss_gpu_alloc(e->gpu, bytes, what, &data));
        x->home = REGION_DEVICE;
        ss_region_register(e, x, data, bytes);
        return SS_OK;
    }
#endif
    return ss_region_new_host(e, x, bytes, what);
}

enum ss_status ss_region_new_shared(const struct ss_exec *e, struct region *x, size_t bytes,
                                    const char *what)
{
    SS_TRY(ss_region_new(e, x, bytes, what));
#ifdef HAVE_CUDA
    if (e->gpu)
        return ss_order_create(e->gpu, &x->r.order);
#endif
    return SS_OK;
}

#ifdef HAVE_NCCL
enum ss_status ss_region_new_summed(const struct ss_exec *e, struct region *x, size_t bytes)
{
    void *data;
    size_t element = ss_dtype_bytes(e->plan->options.grad_dtype);
    bytes = ss_round64(bytes ? bytes : 1);
    SS_TRY(ss_nccl_alloc(e->gpu, bytes, "gradients", &data));
    x->home = REGION_SUMS;
    ss_region_register(e, x, data, bytes);
    if (element != sizeof(float))
        SS_TRY(ss_nccl_alloc(e->gpu, bytes / sizeof(float) * element, "gradients that travel",
                             &x->r.copy));
    return ss_order_create(e->gpu, &x->r.order);
}
#endif

void ss_region_drop(const struct ss_exec *e, struct region *x)
{
    if (x->r.handle)
        starpu_data_unregister_no_coherency(x->r.handle);
    if (x->home == REGION_HOST)
        ss_exec_free_host(e, x->r.data);
#ifdef HAVE_NCCL
    if (x->home == REGION_SUMS) {
        ss_nccl_free(x->r.data);
        ss_nccl_free(x->r.copy);
        x->r.copy = NULL;
    }
#endif
#ifdef HAVE_CUDA
    if (x->home == REGION_DEVICE)
        ss_gpu_free(x->r.data);
    ss_gpu_free(x->r.copy);
    ss_order_destroy(x->r.order);
#endif
    memset(x, 0, sizeof *x);
}

void ss_regions_drop(const struct ss_exec *e, struct region *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        ss_region_drop(e, &x[i]);
    free(x);
}

enum ss_status ss_exec_copy(const struct ss_exec *e, void *dst, const void *src, size_t bytes)
{
#ifdef HAVE_CUDA
    if (e->gpu)
        return ss_gpu_copy(e->gpu, dst, src, bytes);
#else
    (void)e;
#endif
    memcpy(dst, src, bytes);
    return SS_OK;
}
