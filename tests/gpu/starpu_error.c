/* starpu_error.c: reports a CUDA error as StarPU's driver does. With a StarPU that supports a handler, starstep's message
 * must come, and exit code 1, not StarPU's abort. Exit code 77: this StarPU has no handler. */
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
