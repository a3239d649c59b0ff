/* test_kernels.c: CPU kernels in fp32 against double precision and finite differences. */
#include "tests/kernels/test_kernels.h"

int main(int argc, char **argv)
{
    (void)argc;
    return run_kernel_suites(
        argv, (Suite *const[]){conv_suite(), winograd_suite(), norm_act_suite(),
                               norm_act_bits_suite(), pool_suite(), linear_suite(), loss_suite(),
                               groupnorm_suite(), join_suite(), transformer_suite(), NULL});
}
