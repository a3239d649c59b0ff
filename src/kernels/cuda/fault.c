/* fault.c: reports a kernel fault to the handler.
 *
 * After a fault every CUDA call fails. StarPU's driver queries its streams and events after and
 * between tasks, and on an error stops with an assertion and a backtrace. So this file interposes
 * these two calls: a symbol of this program, or of a library that precedes CUDA's, overrides
 * CUDA's symbol.
 *
 * StarPU reports errors of its other calls through starpu_cuda_set_error_handler(), a patch in
 * tools/packaging/starpu. Without the patch, StarPU prints its own message and aborts. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "kernels/cuda/internal.h"

#include <dlfcn.h>
#include <stdatomic.h>

typedef void error_handler(const char *what);
static _Atomic(error_handler *) installed;

void ss_cuda_on_fault(void (*handler)(const char *what))
{
    atomic_store(&installed, handler);
}

static const char *text_of(cudaError_t error)
{
    return error == cudaSuccess || error == cudaErrorNotReady ? NULL : cudaGetErrorString(error);
}

static cudaError_t report(cudaError_t error)
{
    error_handler *handler = atomic_load(&installed);
    const char *what = text_of(error);
    if (what && handler)
        handler(what);
    return error;
}

#ifdef SS_HOSTGPU
cudaError_t hostgpu_stream_query(cudaStream_t stream);
cudaError_t hostgpu_event_query(cudaEvent_t event);
#    define OF_CUDA(name, emulated) emulated
#else
/* Resolved once, by the first thread that calls it. */
#    define OF_CUDA(name, emulated)                                                                \
        ({                                                                                         \
            static _Atomic(__typeof__(&(name))) found_;                                            \
            if (!atomic_load(&found_))                                                             \
                atomic_store(&found_, (__typeof__(&(name)))dlsym(RTLD_NEXT, #name));               \
            atomic_load(&found_);                                                                  \
        })
#endif

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return report(OF_CUDA(cudaStreamQuery, hostgpu_stream_query)(stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return report(OF_CUDA(cudaEventQuery, hostgpu_event_query)(event));
}

const char *ss_cuda_fault(ss_stream stream)
{
    return text_of(OF_CUDA(cudaStreamQuery, hostgpu_stream_query)(stream));
}
