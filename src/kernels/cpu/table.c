/* table.c: the CPU's kernel table. */
#include "kernels/cpu/cpu.h"

const struct ss_kernels ss_cpu_kernels = {
#define KERNEL_OF(type, name, ...) .name = ss_cpu_##name,
#define GPU_KERNEL_OF(type, name, ...)
#include "kernels/list.h"
};
