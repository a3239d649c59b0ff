/* kernel_checks.c: fixtures, conversions and error measures of the kernel tests. */
#include "tests/kernels/test_kernels.h"
#include "tests/run_suite.h"

#include <unistd.h>

struct ss_device *cpu;

void test_open(void)
{
    OK(ss_cpu_open(&(struct ss_device_options){.threads = 2}, &cpu));
}

const char *const isas[NISAS] = {"ALL", "AVX2", "SSE41"};

void test_open_limited(const char *isa)
{
    setenv("DNNL_MAX_CPU_ISA", isa, 1);
    test_open();
}

void test_open_one(void)
{
    OK(ss_cpu_open(&(struct ss_device_options){.threads = 1}, &cpu));
}

void test_close(void)
{
    ss_cpu_close(cpu);
}

int test_block(int which, int c)
{
    const int blocks[NBLOCKS] = {16, 8, c, 1};
    return blocks[which];
}

size_t plain_count(const struct ss_act *a)
{
    return (size_t)a->n * (size_t)a->c * (size_t)a->h * (size_t)a->w;
}

double *zero_doubles(size_t count)
{
    double *x = calloc(count, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

double *random_doubles(size_t count, uint32_t stream)
{
    double *x = zero_doubles(count);
    struct ss_rng rng;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, stream, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = (double)(2 * ss_rng_uniform(&rng) - 1);
    return x;
}

size_t storage_index(const struct ss_act *a, size_t i)
{
    const size_t b = (size_t)a->block, w = i % (size_t)a->w, h = i / (size_t)a->w % (size_t)a->h,
                 c = i / (size_t)a->w / (size_t)a->h % (size_t)a->c,
                 n = i / (size_t)a->w / (size_t)a->h / (size_t)a->c;
    return (((n * (size_t)ss_act_blocks(a) + c / b) * (size_t)a->h + h) * (size_t)a->w + w) * b +
           c % b;
}

float *act_pack(const struct ss_act *a, const double *plain)
{
    float *packed = ss_aligned_alloc(ss_act_elements(a) * sizeof(float));
    ck_assert_ptr_nonnull(packed);
    if (!plain)
        for (size_t i = 0; i < ss_act_elements(a); i++)
            packed[i] = NAN;
    else
        for (size_t i = 0; i < plain_count(a); i++)
            packed[storage_index(a, i)] = (float)plain[i];
    return packed;
}

double *act_unpack(const struct ss_act *a, const float *packed)
{
    double *plain = zero_doubles(plain_count(a));
    float *padding = ss_aligned_alloc(ss_act_elements(a) * sizeof(float));
    memcpy(padding, packed, ss_act_elements(a) * sizeof(float));
    for (size_t i = 0; i < plain_count(a); i++) {
        plain[i] = (double)packed[storage_index(a, i)];
        padding[storage_index(a, i)] = 0;
    }
    for (size_t i = 0; i < ss_act_elements(a); i++)
        ck_assert_msg(padding[i] == 0, "padding is %g at element %zu of (%d,%d,%d,%d) block %d",
                      (double)padding[i], i, a->n, a->c, a->h, a->w, a->block);
    free(padding);
    return plain;
}

float *to_floats(const double *x, size_t count)
{
    float *y = ss_aligned_alloc(count * sizeof *y);
    ck_assert_ptr_nonnull(y);
    for (size_t i = 0; i < count; i++)
        y[i] = (float)x[i];
    return y;
}

double *to_doubles(const float *x, size_t count)
{
    double *y = zero_doubles(count);
    for (size_t i = 0; i < count; i++)
        y[i] = (double)x[i];
    return y;
}

double dot(const double *x, const double *y, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

double error_of(const double *got, const double *want, size_t count)
{
    double worst = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(got[i] - want[i]) <= worst)) /* NaN is the worst error */
            worst = fabs(got[i] - want[i]);
        if (isnan(worst))
            return worst;
        if (fabs(want[i]) > size)
            size = fabs(want[i]);
    }
    return size > 0 ? worst / size : worst;
}

void check_error(const char *what, const double *got, const double *want, size_t count,
                 double bound)
{
    double error = error_of(got, want, count);
    ck_assert_msg(error <= bound, "%s: error %.3g, the bound is %.3g", what, error, bound);
}

void check_act(const char *what, const struct ss_act *a, const float *got, const double *want,
               double bound)
{
    double *plain = act_unpack(a, got);
    check_error(what, plain, want, plain_count(a), bound);
    free(plain);
}

void check_slope(const char *what, double (*loss)(void *ctx), void *ctx, double *x,
                 const double *gradient, size_t count, double step, double bound)
{
    double *v = random_doubles(count, 77), *at = zero_doubles(count);
    memcpy(at, x, count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = at[i] + step * v[i];
    const double up = loss(ctx);
    for (size_t i = 0; i < count; i++)
        x[i] = at[i] - step * v[i];
    const double down = loss(ctx);
    memcpy(x, at, count * sizeof *x);
    const double slope = (up - down) / (2 * step), want = dot(gradient, v, count);
    /* The slope along one direction may be small by chance: measure against its expected size. */
    const double size = sqrt(dot(gradient, gradient, count) / 3) + 1e-3;
    ck_assert_msg(fabs(slope - want) <= bound * size,
                  "%s: slope %.9g, gradient gives %.9g (size %.3g)", what, slope, want, size);
    free(v);
    free(at);
}

int run_kernel_suites(char **argv, Suite *const *suites)
{
    /* Tests share cores with other tests, so waiting threads must not spin. The OpenMP library
     * reads the variable before main. */
    if (!getenv("OMP_WAIT_POLICY") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv); /* without /proc the tests run anyway */
    SRunner *runner = srunner_create(NULL);
    for (; *suites; suites++)
        srunner_add_suite(runner, *suites);
    srunner_run_all(runner, CK_NORMAL);
    return run_suite_end(runner);
}
