/* Preloaded into a run: oneDNN never comes back once the file $HANG_TASK is there. */
#include "kernels/cpu/dnnl_shim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                     int nargs, const dnnl_exec_arg_t *args)
{
    static dnnl_status_t (*execute)(const_dnnl_primitive_t, dnnl_stream_t, int,
                                    const dnnl_exec_arg_t *);
    const char *file = getenv("HANG_TASK");
    while (file && access(file, F_OK) == 0)
        sleep(1);
    if (!execute)
        *(void **)&execute = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
    return execute(primitive, stream, nargs, args);
}
