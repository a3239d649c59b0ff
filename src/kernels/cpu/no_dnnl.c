/* cpu_none.c: instead of oneDNN and the kernels over it, in builds without oneDNN. Such a build
 * computes on GPUs only; everything here says so. */
#include "kernels/cpu/conv.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/pool.h"
#include "core/log.h"

static enum ss_status missing(void)
{
    return ss_fail(SS_ERR_UNSUPPORTED, "this build computes on GPUs only: it was configured "
                                       "without oneDNN; use --device cuda");
}

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

uint64_t ss_cpu_fingerprint(void)
{
    return 0;
}

/* Without a library nothing below is ever reached: no CPU is opened. */
enum ss_status ss_cpu_library_open(struct ss_cpu *cpu)
{
    (void)cpu;
    return missing();
}

void ss_cpu_library_close(struct ss_cpu *cpu)
{
    (void)cpu;
}

#define NONE(name, ...)                                                                            \
    enum ss_status name(__VA_ARGS__)                                                               \
    {                                                                                              \
        return missing();                                                                          \
    }
#if defined(__GNUC__)
#    pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

NONE(ss_conv_cpu_create, struct ss_cpu *cpu, const struct ss_conv_shape *shape,
     enum ss_conv_algo algo, int training, struct ss_conv_cpu **out)
NONE(ss_conv_cpu_import, struct ss_conv_cpu *conv, const float *plain, float *native)
NONE(ss_conv_cpu_export, struct ss_conv_cpu *conv, const float *native, float *plain)
NONE(ss_conv_cpu_forward, struct ss_conv_cpu *conv, const float *x, const float *weight,
     const float *bias, float *y)
NONE(ss_conv_cpu_backward_data, struct ss_conv_cpu *conv, const float *dy, const float *weight,
     float *dx)
NONE(ss_conv_cpu_backward_weights, struct ss_conv_cpu *conv, const float *x, const float *dy,
     float *dweight, float *dbias)
NONE(ss_linear_cpu_create, struct ss_cpu *cpu, const struct ss_act *x, int outputs, int training,
     struct ss_linear_cpu **out)
NONE(ss_linear_cpu_import, struct ss_linear_cpu *linear, const float *plain, float *native)
NONE(ss_linear_cpu_export, struct ss_linear_cpu *linear, const float *native, float *plain)
NONE(ss_linear_cpu_forward, struct ss_linear_cpu *linear, const float *x, const float *weight,
     const float *bias, float *y)
NONE(ss_linear_cpu_backward_data, struct ss_linear_cpu *linear, const float *dy,
     const float *weight, float *dx)
NONE(ss_linear_cpu_backward_weights, struct ss_linear_cpu *linear, const float *x, const float *dy,
     float *dweight, float *dbias)
NONE(ss_pool_cpu_create, struct ss_cpu *cpu, enum ss_pool_kind kind, const struct ss_act *x,
     int kernel, int stride, int pad, int training, struct ss_pool_cpu **out)
NONE(ss_pool_cpu_forward, struct ss_pool_cpu *pool, const float *x, float *y, void *workspace)
NONE(ss_pool_cpu_backward, struct ss_pool_cpu *pool, const float *dy, const void *workspace,
     float *dx)

void ss_conv_cpu_destroy(struct ss_conv_cpu *conv)
{
    (void)conv;
}

void ss_linear_cpu_destroy(struct ss_linear_cpu *linear)
{
    (void)linear;
}

void ss_pool_cpu_destroy(struct ss_pool_cpu *pool)
{
    (void)pool;
}

size_t ss_conv_cpu_weight_bytes(const struct ss_conv_cpu *conv)
{
    (void)conv;
    return 0;
}

size_t ss_linear_cpu_weight_bytes(const struct ss_linear_cpu *linear)
{
    (void)linear;
    return 0;
}

size_t ss_pool_cpu_workspace_bytes(const struct ss_pool_cpu *pool)
{
    (void)pool;
    return 0;
}
