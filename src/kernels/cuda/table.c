/* table.c: CUDA's kernel table. */
#include "kernels/cuda/gpu.h"

const struct ss_kernels ss_cuda_kernels = {
#define KERNEL_OF(type, name, ...) .name = ss_cuda_##name,
#define CPU_KERNEL_OF(type, name, ...)
#include "kernels/list.h"
};
