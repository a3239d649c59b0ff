/* starpu_error.c: reports a CUDA error as StarPU's driver does. If StarPU supports an error
 * handler, starstep must print its message and exit with code 1; StarPU must not abort. Exit code
 * 77: this StarPU has no handler. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "codelets/lane.h"

int main(void)
{
#ifdef HAVE_STARPU_CUDA_SET_ERROR_HANDLER
    ss_lanes_set_error_handler(&ss_cuda_kernels);
    STARPU_CUDA_REPORT_ERROR(cudaErrorECCUncorrectable);
    return 0;
#else
    return 77;
#endif
}
