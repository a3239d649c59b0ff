/* none.c: the CPU's table in builds without oneDNN, which compute on GPUs only. */
#include "core/log.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/internal.h"

enum ss_simd ss_cpu_simd(void)
{
    return SS_SIMD_PLAIN;
}

int ss_cpu_preferred_block(void)
{
    return 0;
}

const char *ss_cpu_library(void)
{
    return "none for CPUs (no oneDNN)";
}

static enum ss_status none_open(const struct ss_device_options *options, struct ss_device **out)
{
    (void)options;
    (void)out;
    return ss_fail(SS_ERR_UNSUPPORTED, "this build computes on GPUs only: it was configured "
                                       "without oneDNN; use --device cuda");
}

const struct ss_kernels ss_cpu_kernels = {
    .missing = "this build computes on GPUs only: it was configured without oneDNN",
    .open = none_open,
};
