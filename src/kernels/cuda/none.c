/* none.c: CUDA's kernel table in builds without CUDA. */
#include "kernels/kernels.h"

static int count(void)
{
    return 0;
}

const struct ss_kernels ss_cuda_kernels = {
    .missing = "this build has no CUDA codelets",
    .count = count,
};
