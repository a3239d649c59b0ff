/* test_gpu_kernels.c: main program and shared functions of the CUDA kernel tests, which compare the
 * kernels with double precision. */
#include "tests/gpu/test_gpu_kernels.h"
#include "tests/run_suite.h"

enum { GUARD_BYTES = 256, POISON = 0xFF };

static struct ss_device *gpus[GPU_DTYPES];

/* Allocations of the current test, newest first. */
struct held {
    struct held *next;
    void *host, *device; /* one of them is NULL */
    size_t bytes;
};
static struct held *all_held;

static void *hold(void *host, void *device, size_t bytes)
{
    struct held *h = malloc(sizeof *h);
    ck_assert_ptr_nonnull(h);
    *h = (struct held){all_held, host, device, bytes};
    all_held = h;
    return host ? host : device;
}

static void release_all(void)
{
    while (all_held) {
        struct held *h = all_held;
        all_held = h->next;
        free(h->host);
        ss_cuda_free(h->device);
        free(h);
    }
}

struct ss_device *gpu_for(enum ss_dtype dtype)
{
    if (!gpus[dtype]) {
        const struct ss_device_options options = {.dtype = dtype};
        OK(ss_cuda_open(&options, &gpus[dtype]));
    }
    return gpus[dtype];
}

static void close_all(void)
{
    for (int i = 0; i < GPU_DTYPES; i++)
        ss_cuda_close(gpus[i]);
}

void *host_alloc(size_t bytes)
{
    void *p = calloc(bytes ? bytes : 1, 1);
    ck_assert_ptr_nonnull(p);
    return hold(p, NULL, bytes);
}

float *host_floats(size_t count)
{
    return host_alloc(count * sizeof(float));
}

double *host_doubles(size_t count)
{
    return host_alloc(count * sizeof(double));
}

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint16_t to_bf16(float x)
{
    const uint32_t u = bits_of(x);
    if (isnan(x))
        return (uint16_t)(u >> 16 | 0x40); /* remains a NaN without its low bits */
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static uint16_t to_f16(float x)
{
    const uint16_t sign = (uint16_t)(bits_of(x) >> 16 & 0x8000);
    if (isnan(x))
        return sign | 0x7E00;
    const double size = fabs((double)x);
    if (size >= 65520) /* halfway between the largest number and the next */
        return sign | 0x7C00;
    int exponent = -13; /* subnormal: the spacing stays 2^-24 */
    if (size >= 0x1p-14)
        frexp(size, &exponent); /* size = m * 2^exponent, m in [1/2, 1) */
    const double steps = nearbyint(ldexp(size, 11 - exponent)); /* ties to even; <= 2048 */
    /* Steps of 1024 and more carry into the exponent. */
    return sign | (uint16_t)((exponent + 13) * 1024 + (int)steps);
}

static float from_f16(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    double size;
    if (exponent == 31)
        size = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        size = ldexp(fraction, -24);
    else
        size = ldexp(fraction + 1024, exponent - 25);
    return (float)(h & 0x8000 ? -size : size);
}

static uint16_t to_16(float x, enum ss_dtype dtype)
{
    return dtype == SS_DTYPE_F16 ? to_f16(x) : to_bf16(x);
}

static float from_16(uint16_t h, enum ss_dtype dtype)
{
    return dtype == SS_DTYPE_F16 ? from_f16(h) : float_of((uint32_t)h << 16);
}

float gpu_round(float x, enum ss_dtype dtype)
{
    return dtype == SS_DTYPE_F32 ? x : from_16(to_16(x, dtype), dtype);
}

float *host_random(size_t count, uint32_t stream, enum ss_dtype dtype)
{
    float *x = host_floats(count);
    struct ss_rng rng;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, stream, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = gpu_round(2 * ss_rng_uniform(&rng) - 1, dtype);
    return x;
}

/* Allocates a device array of `bytes` bytes plus guard, and fills it from host memory (NULL:
 * poison). */
static void *make_array(struct ss_device *gpu, const void *from, size_t bytes)
{
    void *device;
    OK(ss_cuda_alloc(gpu, bytes + GUARD_BYTES, "a test's array", &device));
    hold(NULL, device, bytes);
    unsigned char *host = host_alloc(bytes + GUARD_BYTES);
    memset(host, POISON, bytes + GUARD_BYTES);
    if (from)
        memcpy(host, from, bytes);
    OK(ss_cuda_copy(gpu, device, host, bytes + GUARD_BYTES));
    return device;
}

void *gpu_put(struct ss_device *gpu, const float *values, size_t count)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    if (dtype == SS_DTYPE_F32)
        return gpu_put_f32(gpu, values, count);
    uint16_t *host = host_alloc(count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        host[i] = to_16(values[i], dtype);
    return make_array(gpu, host, count * sizeof *host);
}

float *gpu_put_f32(struct ss_device *gpu, const float *values, size_t count)
{
    return make_array(gpu, values, count * sizeof(float));
}

void *gpu_put_bytes(struct ss_device *gpu, const void *bytes, size_t count)
{
    return make_array(gpu, bytes, count);
}

void *gpu_out(struct ss_device *gpu, size_t count)
{
    return make_array(gpu, NULL, count * ss_dtype_bytes(ss_cuda_dtype(gpu)));
}

float *gpu_out_f32(struct ss_device *gpu, size_t count)
{
    return make_array(gpu, NULL, count * sizeof(float));
}

void *gpu_out_bytes(struct ss_device *gpu, size_t bytes)
{
    return make_array(gpu, NULL, bytes);
}

static void check_guard(struct ss_device *gpu, const void *device)
{
    const struct held *h = all_held;
    while (h && h->device != device)
        h = h->next;
    if (!h)
        return; /* points inside an array */
    unsigned char guard[GUARD_BYTES];
    OK(ss_cuda_copy(gpu, guard, (const char *)device + h->bytes, GUARD_BYTES));
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (guard[i] != POISON) /* no ck_assert per byte: each one writes to Check's log */
            ck_abort_msg("byte %zu after the end of an array of %zu was written", i, h->bytes);
}

void gpu_get_bytes(struct ss_device *gpu, const void *device, void *bytes, size_t count)
{
    OK(ss_cuda_synchronize(gpu));
    check_guard(gpu, device);
    OK(ss_cuda_copy(gpu, bytes, device, count));
}

void gpu_get_f32(struct ss_device *gpu, const float *device, float *values, size_t count)
{
    gpu_get_bytes(gpu, device, values, count * sizeof(float));
}

void gpu_get(struct ss_device *gpu, const void *device, float *values, size_t count)
{
    const enum ss_dtype dtype = ss_cuda_dtype(gpu);
    if (dtype == SS_DTYPE_F32) {
        gpu_get_bytes(gpu, device, values, count * sizeof(float));
        return;
    }
    uint16_t *host = host_alloc(count * sizeof *host);
    gpu_get_bytes(gpu, device, host, count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        values[i] = from_16(host[i], dtype);
}

float *gpu_fetch(struct ss_device *gpu, const void *device, size_t count)
{
    float *values = host_floats(count);
    gpu_get(gpu, device, values, count);
    return values;
}

float *gpu_fetch_f32(struct ss_device *gpu, const float *device, size_t count)
{
    float *values = host_floats(count);
    gpu_get_f32(gpu, device, values, count);
    return values;
}

static void check_written(const char *what, struct ss_device *gpu, const void *device, size_t count,
                          size_t size)
{
    unsigned char *bytes = host_alloc(count * size), poison[sizeof(float)];
    memset(poison, POISON, sizeof poison);
    gpu_get_bytes(gpu, device, bytes, count * size);
    for (size_t i = 0; i < count; i++)
        if (!memcmp(bytes + i * size, poison, size))
            ck_abort_msg("%s: element %zu of %zu not written", what, i, count);
}

void gpu_check_written(const char *what, struct ss_device *gpu, const void *device, size_t count)
{
    check_written(what, gpu, device, count, ss_dtype_bytes(ss_cuda_dtype(gpu)));
}

void gpu_check_written_f32(const char *what, struct ss_device *gpu, const float *device,
                           size_t count)
{
    check_written(what, gpu, device, count, sizeof(float));
}

double gpu_tolerance(enum ss_dtype dtype)
{
    return dtype == SS_DTYPE_F32 ? 1e-5 : dtype == SS_DTYPE_F16 ? 2e-3 : 1e-2;
}

void gpu_compare_bound(const char *what, const float *got, const double *want, size_t count,
                       double bound)
{
    double difference = 0, size = 0, worst = 0, largest = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)got[i] - want[i]);
        if (!isfinite(d))
            ck_abort_msg("%s: element %zu of %zu is %g, want %g", what, i, count, (double)got[i],
                         want[i]);
        difference += d * d;
        size += want[i] * want[i];
        if (d > worst) {
            worst = d;
            at = i;
        }
        largest = fmax(largest, fabs(want[i]));
    }
    difference = sqrt(difference);
    size = sqrt(size);
    ck_assert_msg(difference <= bound * size && worst <= 4 * bound * largest,
                  "%s: relative error %.3g, the bound is %.3g; the worst of %zu elements is %zu: "
                  "%.9g, want %.9g (largest %.3g)",
                  what, difference / size, bound, count, at, (double)got[at], want[at], largest);
}

void gpu_compare(const char *what, const float *got, const double *want, size_t count,
                 enum ss_dtype dtype)
{
    gpu_compare_bound(what, got, want, count, gpu_tolerance(dtype));
}

void gpu_check_failure(enum ss_status got, enum ss_status want, const char *part)
{
    ck_assert_int_eq(got, want);
    ck_assert_msg(strstr(ss_log_last_error(), part), "message \"%s\" does not contain \"%s\"",
                  ss_log_last_error(), part);
}

/* Halfway cases, subnormals and range limits. All other tests depend on these conversions. */
START_TEST(conversions)
{
    ck_assert_uint_eq(to_f16(1), 0x3C00);
    ck_assert_uint_eq(to_f16(-65504), 0xFBFF);
    ck_assert_uint_eq(to_f16(65519.996f), 0x7BFF);
    ck_assert_uint_eq(to_f16(65520), 0x7C00);
    ck_assert_uint_eq(to_f16(1 + 0x1p-11f), 0x3C00); /* ties to even */
    ck_assert_uint_eq(to_f16(1 + 0x3p-11f), 0x3C02);
    ck_assert_uint_eq(to_f16(0x1.ffcp-1f + 0x1p-12f), 0x3C00); /* carries into the exponent */
    ck_assert_uint_eq(to_f16(0x1p-24f), 1);
    ck_assert_uint_eq(to_f16(0x1p-25f), 0);
    ck_assert_uint_eq(to_f16(0x1.8p-24f), 2);
    ck_assert_uint_eq(to_f16(0x1p-14f), 0x0400);
    ck_assert_uint_eq(to_f16(-0.0f), 0x8000);
    ck_assert_uint_eq(to_bf16(1 + 0x1p-8f), 0x3F80);
    ck_assert_uint_eq(to_bf16(1 + 0x3p-8f), 0x3F82);
    ck_assert_uint_eq(to_bf16(INFINITY), 0x7F80);
    ck_assert_uint_eq(to_bf16(3.4e38f), 0x7F80);
    ck_assert(isnan(gpu_round(NAN, SS_DTYPE_F16)) && isnan(gpu_round(NAN, SS_DTYPE_BF16)));
    for (uint32_t h = 0; h < 65536; h++)
        if (!isnan(from_f16((uint16_t)h)))
            ck_assert_uint_eq(to_f16(from_f16((uint16_t)h)), h);
}
END_TEST

static TCase *frame_tests(void)
{
    TCase *t = tcase_create("conversions");
    tcase_add_test(t, conversions);
    return t;
}

/* own: tests only our own kernels; these come first. The others also call libraries. */
static const struct {
    const char *name;
    TCase *(*make)(void);
    int own;
} cases[] = {{"norm_act", gpu_norm_act_tests, 1},
             {"norm_pool", gpu_norm_pool_tests, 1},
             {"norm_shortcut", gpu_norm_shortcut_tests, 1},
             {"small", gpu_small_tests, 1},
             {"groupnorm", gpu_groupnorm_tests, 1},
             {"join", gpu_join_tests, 1},
             {"conversions", frame_tests, 0},
             {"device", gpu_device_tests, 0},
             {"watch", gpu_watch_tests, 0},
             {"convolution", gpu_conv_tests, 0},
             {"linear", gpu_linear_tests, 0},
             {"transformer", gpu_transformer_tests, 0},
             {"graphs", gpu_graph_tests, 0}};

/* --list: prints the names for CK_RUN_CASE, each with "own" or "library". */
int main(int argc, char **argv)
{
    const size_t count = sizeof cases / sizeof cases[0];
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++)
            printf("%s %s\n", cases[i].name, cases[i].own ? "own" : "library");
        return EXIT_SUCCESS;
    }
    if (ss_cuda_count() == 0) {
        printf("no CUDA device: CUDA kernel tests skipped\n");
        return 77;
    }
    Suite *suite = suite_create("CUDA kernels");
    for (size_t i = 0; i < count; i++) {
        TCase *t = cases[i].make();
        tcase_add_checked_fixture(t, NULL, release_all);
        suite_add_tcase(suite, t);
    }
    const int code = run_suite_here(suite);
    close_all();
    return code;
}
