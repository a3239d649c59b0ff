/* none.c: CUDA's table in builds without it. */
#include "kernels/kernels.h"

static int count(void)
{
    return 0;
}

const struct ss_kernels ss_cuda_kernels = {
    .missing = "this build has no CUDA codelets",
    .count = count,
};
