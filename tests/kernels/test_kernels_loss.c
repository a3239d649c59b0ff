/* test_kernels_loss.c: loss, optimizer, sums, and properties of the CPU device. */
#include "kernels/cpu/wire.h"
#include "tests/kernels/loss_reference.h"
#include "tests/kernels/rule_reference.h"
#include "tests/kernels/test_kernels.h"

#include <sys/wait.h>
#include <unistd.h>

struct reference {
    int n, k;
    float smoothing;
    double *logits, *gradient;
    struct ss_label *labels;
    struct ss_metrics metrics;
};

static double walk(void *ctx)
{
    struct reference *r = ctx;
    r->metrics = (struct ss_metrics){0};
    for (int n = 0; n < r->n; n++)
        loss_row(r->k, r->logits + n * r->k, &r->labels[n], r->smoothing, r->n,
                 r->gradient + n * r->k, &r->metrics);
    return r->metrics.loss / r->n;
}

static void reference_make(struct reference *r, int n, int k, int kind)
{
    const size_t count = (size_t)n * (size_t)k;
    *r = (struct reference){.n = n,
                            .k = k,
                            .smoothing = loss_smoothing(kind),
                            .logits = random_doubles(count, 1),
                            .gradient = zero_doubles(count),
                            .labels = calloc((size_t)n, sizeof *r->labels)};
    for (size_t i = 0; i < count; i++)
        r->logits[i] *= 8;
    loss_labels(n, k, loss_mixed(kind), r->labels);
    walk(r);
}

static void reference_free(struct reference *r)
{
    free(r->logits), free(r->gradient), free(r->labels);
}

static const int shapes[][2] = {{1, 1}, {4, 10}, {37, 100}, {33, 1000}};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

START_TEST(loss_and_gradient)
{
    struct reference r;
    reference_make(&r, shapes[_i / LOSS_KINDS][0], shapes[_i / LOSS_KINDS][1], _i % LOSS_KINDS);
    const size_t count = (size_t)r.n * (size_t)r.k;
    float *logits = to_floats(r.logits, count), *d = to_floats(r.logits, count);
    const struct ss_metrics begin = {.loss = 1, .correct = 1, .count = 1, .top5 = 1};
    struct ss_metrics m = begin; /* values are added */
    OK(ss_cpu_loss(cpu, r.n, r.k, logits, r.labels, r.smoothing, NULL, &m, 1, d));
    ck_assert_double_eq_tol(m.loss - 1, r.metrics.loss, 1e-6 * (1 + r.metrics.loss));
    ck_assert_double_eq(m.correct - 1, r.metrics.correct);
    ck_assert_double_eq(m.top5 - 1, r.metrics.top5);
    ck_assert_double_eq(m.count - 1, r.metrics.count);
    ck_assert_double_eq(m.bad, 0);
    double *got = to_doubles(d, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_double_eq_tol(got[i], r.gradient[i], 2e-7);
    free(got);

    struct ss_metrics again = begin;
    OK(ss_cpu_loss(cpu, r.n, r.k, logits, r.labels, r.smoothing, NULL, &again, 1, NULL));
    ck_assert_mem_eq(&m, &again, sizeof m);
    OK(ss_cpu_loss(cpu, r.n, r.k, logits, r.labels, r.smoothing, NULL, &again, 1, logits));
    ck_assert_mem_eq(logits, d, count * sizeof(float));
    free(logits), free(d);

    double *gradient = zero_doubles(count);
    memcpy(gradient, r.gradient, count * sizeof(double));
    check_slope("logits", walk, &r, r.logits, gradient, count, 1e-6, 1e-6);
    free(gradient);
    reference_free(&r);
}
END_TEST

START_TEST(loss_recorded)
{
    struct ss_label labels[RECORDED_N];
    float *logits = to_floats(recorded_logits, (size_t)RECORDED_N * RECORDED_K);
    float d[RECORDED_N * RECORDED_K];
    struct ss_metrics m = {0};
    loss_recorded_labels(recorded_losses[_i].mixed, labels);
    OK(ss_cpu_loss(cpu, RECORDED_N, RECORDED_K, logits, labels,
                   (float)recorded_losses[_i].smoothing, NULL, &m, 0, d));
    ck_assert_double_eq_tol(m.loss / RECORDED_N, recorded_losses[_i].loss, 1e-6);
    ck_assert_double_eq(m.top5, recorded_losses[_i].top5);
    for (int i = 0; i < RECORDED_N * RECORDED_K; i++)
        ck_assert_double_eq_tol((double)d[i], recorded_losses[_i].gradient[i], 1e-7);
    free(logits);
}
END_TEST

/* Whether a label is among the 5 largest; the first of equal values precedes. With up to 5
 * classes, all labels are. */
START_TEST(loss_top5)
{
    const float falling[8] = {8, 7, 6, 5, 4, 3, 2, 1}, equal[8] = {0}, nan[8] = {8, 7, NAN};
    for (int label = 0; label < 8; label++) {
        const struct ss_label l = ss_label_of(label);
        const struct {
            int k;
            const float *x;
            int in;
        } cases[] = {{8, falling, label < 5},
                     {8, equal, label < 5},
                     {8, nan, 0},
                     {5, falling, 1},
                     {3, equal, 1}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct ss_metrics m = {0};
            if (label >= cases[i].k)
                continue;
            OK(ss_cpu_loss(cpu, 1, cases[i].k, cases[i].x, &l, 0, NULL, &m, 0, NULL));
            ck_assert_double_eq(m.top5, cases[i].in);
        }
    }
}
END_TEST

START_TEST(loss_threads)
{
    struct reference r;
    reference_make(&r, 33, 1000, LOSS_KINDS - 1);
    const size_t count = (size_t)r.n * (size_t)r.k;
    float *logits = to_floats(r.logits, count), *d[2];
    struct ss_metrics m[2] = {{.loss = 0}, {.loss = 0}};
    for (int i = 0; i < 2; i++) {
        struct ss_device *own;
        OK(ss_cpu_open(&(struct ss_device_options){.threads = 1 + i}, &own));
        d[i] = ss_aligned_alloc(count * sizeof(float));
        OK(ss_cpu_loss(own, r.n, r.k, logits, r.labels, r.smoothing, NULL, &m[i], 1, d[i]));
        ss_cpu_close(own);
    }
    ck_assert_mem_eq(&m[0], &m[1], sizeof m[0]);
    ck_assert_mem_eq(d[0], d[1], count * sizeof(float));
    free(logits), free(d[0]), free(d[1]);
    reference_free(&r);
}
END_TEST

START_TEST(loss_extremes)
{
    ss_log_set_quiet(1);
    struct ss_metrics m = {0};
    const float large[2] = {1e4f, -1e4f}, nan[2] = {0, NAN}, equal[3] = {2, 2, 2};
    float d[3];
    struct ss_label label = ss_label_of(1);
    OK(ss_cpu_loss(cpu, 1, 2, large, &label, 0, NULL, &m, 1, d));
    ck_assert_double_eq(m.loss, 2e4);
    ck_assert_float_eq(d[0], 1);
    ck_assert_float_eq(d[1], -1);
    OK(ss_cpu_loss(cpu, 1, 2, nan, &label, 0, NULL, &m, 1, d));
    ck_assert_double_eq(m.bad, 1);
    m = (struct ss_metrics){0};
    OK(ss_cpu_loss(cpu, 1, 3, equal, &label, 0, NULL, &m, 1, NULL));
    ck_assert_double_eq(m.correct, 0);             /* class 0 is the first of equal values */
    const float impossible[3] = {0, 0, -INFINITY}; /* not the label's class: valid */
    m = (struct ss_metrics){0};
    OK(ss_cpu_loss(cpu, 1, 3, impossible, &label, 0, NULL, &m, 1, d));
    ck_assert_double_eq_tol(m.loss, log(2), 1e-6);
    static const struct ss_label wrong[] = {{-2, -2, 1}, {3, 3, 1}, {1, 3, 1}, {1, -1, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(ss_cpu_loss(cpu, 1, 3, equal, &wrong[i], 0, NULL, &m, 1, NULL),
                         SS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "label"));
    }
    ck_assert_int_eq(ss_cpu_loss(cpu, 0, 3, equal, &label, 0, NULL, &m, 1, NULL), SS_ERR_SHAPE);
}
END_TEST

/* Several steps of a rule against double precision, with one and more threads: a whole bucket or
 * one in spans, with clipping, and with an EMA of the weights. */
static void rule_steps_of(const struct rule_case *c, int spans)
{
    const size_t count = spans ? RULE_COUNT : 40001;
    const double clip = 20;
    double *want[4] = {random_doubles(count, 1), zero_doubles(count), zero_doubles(count),
                       zero_doubles(count)};
    float *got[2][4];
    double squares[2];
    struct ss_device *one;
    struct ss_update u = {
        .rule = c->rule, .count = count, .scale = 0.5f, .lr = 0.1, .clip = clip, .ema_decay = 0.9};
    OK(ss_cpu_open(&(struct ss_device_options){.threads = 1}, &one));
    memcpy(u.hyper, c->hyper, sizeof u.hyper);
    if (spans)
        u.spans = (struct ss_spans){RULE_SPANS, rule_cut(), rule_spans, rule_chunks};
    for (int i = 0; i < 2; i++) {
        OK(ss_cpu_update_reserve(i ? cpu : one, 40));
        for (int k = 0; k < 4; k++)
            got[i][k] = to_floats(want[k], count);
    }
    for (u.step = 1; u.step <= 5; u.step++) {
        double *g = random_doubles(count, 10 + (uint32_t)u.step);
        float *fg = to_floats(g, count);
        const double norm = 0.5 * rule_norm(g, count);
        const double scale = 0.5 * (clip < norm ? clip / (norm + 1e-6) : 1);
        for (size_t i = 0; i < count; i++)
            g[i] *= scale;
        rule_step(c, spans, count, (int)u.step, u.lr, g, want[0], want[1], want[2]);
        for (size_t i = 0; i < count; i++)
            want[3][i] = u.step == 1 ? want[0][i] : 0.9 * want[3][i] + 0.1 * want[0][i];
        for (int i = 0; i < 2; i++) {
            /* In two calls, as for two buckets. */
            OK(ss_cpu_squares(i ? cpu : one, 8192, fg, 1, &squares[i]));
            OK(ss_cpu_squares(i ? cpu : one, count - 8192, fg + 8192, 0, &squares[i]));
            u.squares = &squares[i];
            u.w = got[i][0];
            u.state[0] = got[i][1];
            u.state[1] = got[i][2];
            u.ema = got[i][3];
            u.g = fg;
            OK(ss_cpu_update(i ? cpu : one, &u));
        }
        ck_assert_double_eq_tol(sqrt(squares[0]), 2 * norm, 1e-12 * norm);
        ck_assert_double_eq(squares[0], squares[1]);
        free(g), free(fg);
    }
    for (int k = 0; k < 4; k++) {
        static const char *const names[] = {"w", "state 0", "state 1", "EMA"};
        double *result = to_doubles(got[0][k], count);
        check_error(names[k], result, want[k], count, c->bound);
        ck_assert_mem_eq(got[0][k], got[1][k], count * sizeof(float));
        free(result), free(want[k]), free(got[0][k]), free(got[1][k]);
    }
    ss_cpu_close(one);
}

START_TEST(rule_steps)
{
    const struct rule_case *c = &rule_cases[_i];
    if (!ss_rule_has_norms(c->rule))
        rule_steps_of(c, 0);
    rule_steps_of(c, 1);
    ss_log_set_quiet(1);
    float w = 1;
    struct ss_update u = {.rule = c->rule, .w = &w, .state = {NULL, &w}};
    ck_assert_int_eq(ss_cpu_update(cpu, &u), ss_rule_states(c->rule) ? SS_ERR_INVALID : SS_OK);
    u.state[0] = &w;
    u.count = 1;
    u.g = &w;
    ck_assert_int_eq(ss_cpu_update(cpu, &u), ss_rule_has_norms(c->rule) ? SS_ERR_INVALID : SS_OK);
}
END_TEST

/* For a GPU: the copy has the rounded weights, gradients are divided by the loss scale, and
 * skipped steps do not count. */
START_TEST(rule_mixed)
{
    enum { COUNT = 20001 };
    const enum ss_dtype dtype = _i ? SS_DTYPE_BF16 : SS_DTYPE_F16;
    double *start = random_doubles(COUNT, 1), *g = random_doubles(COUNT, 2);
    float *w[2], *state[2][2], *fg = to_floats(g, COUNT);
    uint16_t *copy = calloc(COUNT, sizeof *copy), *want = calloc(COUNT, sizeof *want);
    struct ss_scaler scaler = ss_scaler_defaults();
    struct ss_device *mixed;
    struct ss_update u = {.rule = SS_RULE_ADAMW, .count = COUNT, .scale = 0.5f, .lr = 0.1, .g = fg};
    memcpy(u.hyper, (double[]){0.9, 0.999, 1e-8, 0.05}, sizeof u.hyper);
    OK(ss_cpu_open(&(struct ss_device_options){.threads = 2, .dtype = dtype}, &mixed));
    scaler.scale = 1024;
    for (int i = 0; i < 2; i++) {
        u.w = w[i] = to_floats(start, COUNT);
        for (int k = 0; k < 2; k++)
            u.state[k] = state[i][k] = calloc(COUNT, sizeof(float));
        for (uint64_t step = 1; step < 4; step++) {
            u.step = step + (i ? 3 : 0);
            u.scaler = i ? &scaler : NULL;
            u.copy = i ? copy : NULL;
            scaler.skipped = 3;
            OK(ss_cpu_update(mixed, &u));
        }
        for (size_t k = 0; k < COUNT; k++)
            fg[k] *= scaler.scale;
    }
    ck_assert_mem_eq(w[0], w[1], COUNT * sizeof(float));
    ss_wire_pack(dtype, w[1], 1, want, COUNT);
    ck_assert_mem_eq(copy, want, COUNT * sizeof *copy);
    scaler.found = 1;
    OK(ss_cpu_update(mixed, &u));
    ck_assert_mem_eq(w[0], w[1], COUNT * sizeof(float));
    ck_assert_mem_eq(state[0][0], state[1][0], COUNT * sizeof(float));
    ck_assert_mem_eq(copy, want, COUNT * sizeof *copy);
    for (int i = 0; i < 2; i++)
        free(w[i]), free(state[i][0]), free(state[i][1]);
    free(start), free(g), free(fg), free(copy), free(want);
    ss_cpu_close(mixed);
}
END_TEST

/* As torch.nn.utils.clip_grad_norm_: gradients are never scaled up; an infinite norm scales by 0,
 * a NaN by NaN. */
START_TEST(clipping)
{
    const double nan = (double)NAN, inf = (double)INFINITY, small = 1e-4, large = 400;
    struct ss_update u = {.scale = 0.5f, .clip = 1, .squares = &small};
    ck_assert_float_eq(ss_update_scale(&u), 0.5f);
    u.squares = &large;
    ck_assert_float_eq_tol(ss_update_scale(&u), 0.05f, 1e-8f);
    u.squares = &inf;
    ck_assert_float_eq(ss_update_scale(&u), 0);
    u.squares = &nan;
    ck_assert_float_nan(ss_update_scale(&u));
}
END_TEST

START_TEST(sums)
{
    enum { COUNT = 20001, MOST = 9 };
    double *x[MOST], *want = zero_doubles(COUNT);
    float *src[MOST], *dst = ss_aligned_alloc(COUNT * sizeof(float));
    for (int n = 1; n <= MOST; n++) {
        x[n - 1] = random_doubles(COUNT, (uint32_t)n);
        src[n - 1] = to_floats(x[n - 1], COUNT);
        for (int i = 0; i < COUNT; i++)
            want[i] += x[n - 1][i];
        OK(ss_cpu_sum(cpu, (const void *const *)src, n, dst, COUNT));
        double *got = to_doubles(dst, COUNT);
        check_error("sum", got, want, COUNT, 1e-6);
        free(got);
    }
    OK(ss_cpu_sum(cpu, (const void *const *)src, MOST, src[0], COUNT));
    ck_assert_mem_eq(src[0], dst, COUNT * sizeof(float));
    ss_log_set_quiet(1);
    ck_assert_int_eq(ss_cpu_sum(cpu, (const void *const *)src, 0, dst, COUNT), SS_ERR_INVALID);
    for (int n = 0; n < MOST; n++)
        free(x[n]), free(src[n]);
    free(want), free(dst);
}
END_TEST

START_TEST(cpu_itself)
{
    ss_log_set_quiet(1);
    struct ss_device *none = NULL;
    ck_assert_int_eq(ss_cpu_open(&(struct ss_device_options){.threads = 0}, &none), SS_ERR_INVALID);
    ck_assert_ptr_null(none);
#ifdef HAVE_DNNL
    ck_assert_int_eq(strncmp(ss_cpu_library(), "oneDNN ", 7), 0);
#else
    ck_assert_int_eq(strncmp(ss_cpu_library(), "own, ", 5), 0);
#endif
    const int block = ss_cpu_preferred_block();
    ck_assert(block == 16 || block == 8 || block == 0);
    OK(ss_cpu_reserve(cpu, 1000));
    OK(ss_cpu_reserve(cpu, 10));
    ck_assert_uint_eq((uintptr_t)ss_cpu_scratch(cpu) % 64, 0);
    for (size_t bytes = 0; bytes <= (size_t)9 << 20; bytes = 3 * bytes + 1) {
        unsigned char *p = ss_aligned_alloc(bytes);
        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < bytes; i++)
            if (p[i])
                ck_abort_msg("byte %zu of %zu is not zero", i, bytes);
        free(p);
    }
}
END_TEST

struct described {
    uint64_t fingerprint;
    char library[128];
};

/* Uses a child process, because oneDNN reads its limit only once. */
static struct described describe_limited(const char *isa)
{
    struct described d;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        setenv("DNNL_MAX_CPU_ISA", isa, 1);
        test_open_one();
        d.fingerprint = ss_cpu_fingerprint(cpu);
        snprintf(d.library, sizeof d.library, "%s", ss_cpu_library());
        _exit(write(ends[1], &d, sizeof d) != sizeof d);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &d, sizeof d), sizeof d);
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    return d;
}

/* The fingerprint differs if the limit disables instructions of this processor. */
START_TEST(fingerprints)
{
    const struct described all = describe_limited("ALL"), again = describe_limited("ALL"),
                           least = describe_limited("SSE41");
    ck_assert_uint_eq(all.fingerprint, again.fingerprint);
    ck_assert_int_eq(all.fingerprint == least.fingerprint, !strcmp(all.library, least.library));
}
END_TEST

Suite *loss_suite(void)
{
    Suite *suite = suite_create("loss, optimizer, sums");
    TCase *t = tcase_create("loss, optimizer, sums");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, test_open, test_close);
    tcase_add_loop_test(t, loss_and_gradient, 0, NSHAPES * LOSS_KINDS);
    tcase_add_loop_test(t, loss_recorded, 0, RECORDED);
    tcase_add_test(t, loss_top5);
    tcase_add_test(t, loss_threads);
    tcase_add_test(t, loss_extremes);
    tcase_add_loop_test(t, rule_steps, 0, RULE_CASES);
    tcase_add_loop_test(t, rule_mixed, 0, 2);
    tcase_add_test(t, clipping);
    tcase_add_test(t, sums);
    tcase_add_test(t, cpu_itself);
    suite_add_tcase(suite, t);
    t = tcase_create("fingerprints");
    tcase_add_test(t, fingerprints);
    suite_add_tcase(suite, t);
    return suite;
}
