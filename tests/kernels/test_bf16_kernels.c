/* test_bf16_kernels.c: CPU kernels in bf16, a program of its own so that it runs beside
 * test_kernels. */
#include "tests/kernels/test_kernels.h"

int main(int argc, char **argv)
{
    (void)argc;
    return run_kernel_suites(argv, (Suite *const[]){bf16_suite(), amx_suite(), NULL});
}
