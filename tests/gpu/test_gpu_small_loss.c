/* test_gpu_small_loss.c: compares softmax cross-entropy on a GPU with double precision and with the
 * CPU kernel. */
#include "kernels/cpu/cpu.h"
#include "tests/gpu/test_gpu_small.h"
#include "tests/kernels/loss_reference.h"

struct reference {
    int n, k;
    float smoothing;
    size_t count;
    float *logits;
    struct ss_label *labels;
    double *gradient; /* of the mean loss, unscaled */
    struct ss_metrics metrics;
};

static void reference_make(struct reference *r, int n, int k, int kind, enum ss_dtype dtype)
{
    *r = (struct reference){.n = n, .k = k, .count = (size_t)n * (size_t)k};
    r->smoothing = loss_smoothing(kind);
    r->logits = host_random(r->count, 1, dtype);
    r->labels = host_alloc((size_t)n * sizeof *r->labels);
    r->gradient = host_doubles(r->count);
    double *row = host_doubles((size_t)k);
    for (size_t i = 0; i < r->count; i++)
        r->logits[i] = gpu_round(r->logits[i] * 8, dtype);
    loss_labels(n, k, loss_mixed(kind), r->labels);
    if (k > 40) /* equal maxima in two lanes, twice in each; the first is right in row 0 */
        for (int i = 0; i < 2 && i < n; i++) {
            r->labels[i] = ss_label_of(i ? 40 : 7);
            r->logits[i * k + 7] = r->logits[i * k + 8] = r->logits[i * k + 39] =
                r->logits[i * k + 40] = 16;
        }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < k; j++)
            row[j] = (double)r->logits[i * k + j];
        loss_row(k, row, &r->labels[i], r->smoothing, n, r->gradient + i * k, &r->metrics);
    }
}

/* Runs the loss and stores the metrics in *m, adding to them if accumulate is set. Returns the
 * gradient, or NULL if gradient is 0. */
static float *run(struct ss_device *gpu, const struct reference *r, const struct ss_scaler *scaler,
                  struct ss_metrics *m, int accumulate, int in_place, int gradient)
{
    const void *labels = gpu_put_bytes(gpu, r->labels, (size_t)r->n * sizeof *r->labels);
    struct ss_scaler *device_scaler = scaler ? gpu_put_bytes(gpu, scaler, sizeof *scaler) : NULL;
    struct ss_metrics *metrics = gpu_put_bytes(gpu, m, sizeof *m);
    void *logits = gpu_put(gpu, r->logits, r->count);
    void *d = !gradient ? NULL : in_place ? logits : gpu_out(gpu, r->count);
    OK(ss_cuda_loss_reserve(gpu, r->n, r->k));
    OK(ss_cuda_loss(gpu, r->n, r->k, logits, labels, r->smoothing, device_scaler, metrics,
                    accumulate, d));
    gpu_get_bytes(gpu, metrics, m, sizeof *m);
    if (!in_place || !gradient)
        ck_assert_mem_eq(gpu_fetch(gpu, logits, r->count), r->logits, r->count * sizeof(float));
    return d ? gpu_fetch(gpu, d, r->count) : NULL;
}

static void check_metrics(const struct ss_metrics *got, const struct ss_metrics *want)
{
    ck_assert_double_eq_tol(got->loss, want->loss, 2e-6 * (1 + fabs(want->loss)));
    ck_assert_double_eq(got->correct, want->correct);
    ck_assert_double_eq(got->count, want->count);
    ck_assert_double_eq(got->bad, want->bad);
    ck_assert_double_eq(got->scale, want->scale);
    ck_assert_double_eq(got->top5, want->top5);
}

static const int shapes[][2] = {{1, 1}, {4, 10}, {37, 100}, {130, 33}, {33, 1000}, {1500, 5}};
enum { NSHAPES = sizeof shapes / sizeof shapes[0] };

START_TEST(loss_and_gradient)
{
    const enum ss_dtype dtype = (enum ss_dtype)(_i % GPU_DTYPES);
    const int *shape = shapes[_i / GPU_DTYPES % NSHAPES];
    struct ss_device *gpu = gpu_one_sm(dtype);
    struct reference r;
    reference_make(&r, shape[0], shape[1], _i / GPU_DTYPES / NSHAPES, dtype);
    const size_t bytes = r.count * sizeof(float);

    struct ss_metrics m = {7, 7, 7, 7, 7, 7}, want = r.metrics;
    want.scale = 1;
    float *d = run(gpu, &r, NULL, &m, 0, 0, 1);
    check_metrics(&m, &want);
    gpu_compare("dlogits", d, r.gradient, r.count, dtype);
    for (size_t i = 0; i < r.count; i++)
        if (r.labels[i / (size_t)r.k].label < 0 && d[i] != 0)
            ck_abort_msg("dlogits: element %zu of a row without label is %g", i, (double)d[i]);

    struct ss_metrics again = {0};
    ck_assert_mem_eq(run(gpu, &r, NULL, &again, 0, 1, 1), d, bytes);
    ck_assert_mem_eq(&again, &m, sizeof m);
    ck_assert_ptr_null(run(gpu, &r, NULL, &again, 0, 0, 0));
    ck_assert_mem_eq(&again, &m, sizeof m);

    /* Metrics accumulate; the scale is the scaler's. */
    struct ss_scaler scaler = ss_scaler_defaults();
    scaler.scale = 256;
    struct ss_metrics sum = {100, 20, 30, 4, 6, 50};
    d = run(gpu, &r, &scaler, &sum, 1, 0, 1);
    want.loss += 100;
    want.correct += 20;
    want.count += 30;
    want.bad += 4;
    want.scale = 256;
    want.top5 += 50;
    check_metrics(&sum, &want);
    for (size_t i = 0; i < r.count; i++)
        r.gradient[i] *= 256;
    gpu_compare("scaled dlogits", d, r.gradient, r.count, dtype);
}
END_TEST

START_TEST(agrees_with_cpu)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    struct ss_device *cpu;
    OK(ss_cpu_kernels.open(&(struct ss_device_options){.threads = 1}, &cpu));
    for (int i = 0; i < NSHAPES * LOSS_KINDS; i++) {
        const int *shape = shapes[i / LOSS_KINDS];
        struct reference r;
        reference_make(&r, shape[0], shape[1], i % LOSS_KINDS, SS_DTYPE_F32);
        float *want = host_floats(r.count);
        struct ss_metrics a = {0}, b = {0};
        const float *got = run(gpu, &r, NULL, &a, 0, 0, 1);
        OK(ss_cpu_kernels.loss(cpu, r.n, r.k, r.logits, r.labels, r.smoothing, NULL, &b, 1, want));
        b.scale = 1; /* not set by the CPU kernel */
        check_metrics(&a, &b);
        check_near("dlogits", got, want, r.count, 1e-6 / r.n);
    }
    ss_cpu_kernels.close(cpu);
}
END_TEST

/* Runs one row of three classes. Returns the metrics and stores the gradient in d. */
static struct ss_metrics three(struct ss_device *gpu, float a, float b, float c, int label,
                               float *d)
{
    struct reference r = {.n = 1, .k = 3, .count = 3};
    const float logits[3] = {a, b, c};
    struct ss_label labels[1] = {ss_label_of(label)};
    r.logits = host_floats(3);
    memcpy(r.logits, logits, sizeof logits);
    r.labels = labels;
    struct ss_metrics m = {0};
    memcpy(d, run(gpu, &r, NULL, &m, 0, 1, 1), 3 * sizeof(float));
    return m;
}

/* Equals results recorded from PyTorch; the logits are exact in every format. */
START_TEST(recorded)
{
    const enum ss_dtype dtype = (enum ss_dtype)(_i % GPU_DTYPES);
    const int at = _i / GPU_DTYPES;
    struct ss_device *gpu = gpu_for(dtype);
    struct ss_label labels[RECORDED_N];
    struct reference r = {.n = RECORDED_N, .k = RECORDED_K, .labels = labels};
    r.count = (size_t)r.n * (size_t)r.k;
    r.smoothing = (float)recorded_losses[at].smoothing;
    r.logits = host_floats(r.count);
    loss_recorded_labels(recorded_losses[at].mixed, labels);
    for (size_t i = 0; i < r.count; i++)
        r.logits[i] = (float)recorded_logits[i];
    struct ss_metrics m = {0};
    const float *d = run(gpu, &r, NULL, &m, 0, 0, 1);
    ck_assert_double_eq_tol(m.loss / r.n, recorded_losses[at].loss, 1e-6);
    ck_assert_double_eq(m.top5, recorded_losses[at].top5);
    gpu_compare("dlogits", d, recorded_losses[at].gradient, r.count, dtype);
}
END_TEST

/* An invalid second class counts as bad, too. */
START_TEST(other_that_is_none)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    const float logits[3] = {0, 1, 2};
    for (int other = -1; other <= 3; other += 4) {
        struct ss_label labels[1] = {{1, other, 0.5f}};
        struct reference r = {.n = 1, .k = 3, .count = 3, .labels = labels};
        struct ss_metrics m = {0};
        r.logits = host_floats(3);
        memcpy(r.logits, logits, sizeof logits);
        const float *d = run(gpu, &r, NULL, &m, 0, 1, 1);
        ck_assert_double_eq(m.bad, 1);
        ck_assert_double_eq(m.top5, 0);
        for (int j = 0; j < 3; j++)
            ck_assert_float_eq(d[j], 0);
    }
}
END_TEST

START_TEST(extremes)
{
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    float d[3];
    struct ss_metrics m = three(gpu, 1e4f, -1e4f, -1e4f, 1, d);
    const double large = 2 * (double)gpu_round(1e4f, ss_cuda_dtype(gpu));
    ck_assert_double_eq(m.loss, large);
    ck_assert_float_eq(d[0], 1);
    ck_assert_float_eq(d[1], -1);
    ck_assert_float_eq(d[2], 0);
    ck_assert_double_eq(m.bad, 0);
    m = three(gpu, 2, 2, 2, 1, d);
    ck_assert_double_eq(m.correct, 0); /* the first of equal maxima is class 0 */
    m = three(gpu, 2, 2, 2, 0, d);
    ck_assert_double_eq(m.correct, 1);

    static const float bad[][3] = {{NAN, 0, 0},      {0, NAN, 0},
                                   {0, 1, NAN},      {NAN, NAN, NAN},
                                   {INFINITY, 0, 0}, {-INFINITY, -INFINITY, -INFINITY},
                                   {0, 0, INFINITY}, {0, -INFINITY, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        m = three(gpu, bad[i][0], bad[i][1], bad[i][2], 1, d);
        ck_assert_double_eq(m.bad, 1);
        ck_assert_double_eq(m.count, 1);
        ck_assert(!isfinite(m.loss));
        ck_assert_double_eq(m.top5, !isnan(m.loss));
    }
    m = three(gpu, 0, -INFINITY, 0, 0, d); /* probability 0 of another class is valid */
    ck_assert_double_eq(m.bad, 0);
    ck_assert_double_eq_tol(m.loss, log(2), 1e-6);
    ck_assert_float_eq(d[1], 0);

    static const int none[] = {3, 1000000, -2, INT32_MIN};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        m = three(gpu, 0, 1, 2, none[i], d);
        ck_assert_double_eq(m.bad, 1);
        ck_assert_double_eq(m.count, 1);
        ck_assert_double_eq(m.correct, 0);
        for (int j = 0; j < 3; j++)
            ck_assert_float_eq(d[j], 0);
    }
    m = three(gpu, NAN, 1, 2, -1, d); /* a row without label is ignored, even with NaN */
    ck_assert(m.loss == 0 && m.count == 0 && m.bad == 0);
    for (int j = 0; j < 3; j++)
        ck_assert_float_eq(d[j], 0);
}
END_TEST

START_TEST(bad_shapes)
{
    ss_log_set_quiet(1);
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    ck_assert_int_eq(ss_cuda_loss_reserve(gpu, 0, 3), SS_ERR_SHAPE);
    ck_assert_int_eq(ss_cuda_loss(gpu, 3, 0, NULL, NULL, 0, NULL, NULL, 0, NULL), SS_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "loss"));
    ss_log_set_quiet(0);
}
END_TEST

void add_loss_tests(TCase *t)
{
    tcase_add_loop_test(t, loss_and_gradient, 0, GPU_DTYPES * NSHAPES * LOSS_KINDS);
    tcase_add_loop_test(t, recorded, 0, GPU_DTYPES * RECORDED);
    tcase_add_loop_test(t, other_that_is_none, 0, GPU_DTYPES);
    tcase_add_test(t, agrees_with_cpu);
    tcase_add_loop_test(t, extremes, 0, GPU_DTYPES);
    tcase_add_test(t, bad_shapes);
}
