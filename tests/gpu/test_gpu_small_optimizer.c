/* test_gpu_small_optimizer.c: tests optimizers and dynamic loss scaling on a GPU. */
#include "kernels/cpu/cpu.h"
#include "tests/gpu/test_gpu_small.h"
#include "tests/kernels/rule_reference.h"

static const float LR = 0.1f, DECAY = 5e-4f, MOMENTUM = 0.9f, SCALE = 0.5f;

/* A bucket on the device. */
struct bucket {
    size_t count;
    float *w, *v, *g;
    void *copy;
};

static struct bucket bucket_make(struct ss_device *gpu, size_t count, const float *w)
{
    const int fp32 = ss_cuda_dtype(gpu) == SS_DTYPE_F32;
    struct bucket b = {.count = count, .w = gpu_put_f32(gpu, w, count)};
    b.g = gpu_out_f32(gpu, count);
    b.v = gpu_put_f32(gpu, host_floats(count), count);
    b.copy = fp32 ? NULL : gpu_out(gpu, count);
    return b;
}

static void step(struct ss_device *gpu, struct bucket *b, const float *g,
                 const struct ss_scaler *scaler)
{
    const struct ss_update u = {.rule = SS_RULE_SGD_MOMENTUM,
                                .count = b->count,
                                .w = b->w,
                                .state = {b->v},
                                .g = b->g,
                                .scale = SCALE,
                                .lr = (double)LR,
                                .hyper = {(double)MOMENTUM, (double)DECAY},
                                .step = 1,
                                .copy = b->copy,
                                .scaler = scaler};
    OK(ss_cuda_synchronize(gpu));
    OK(ss_cuda_copy(gpu, b->g, g, b->count * sizeof(float)));
    OK(ss_cuda_update(gpu, &u));
}

/* Fails unless the copy equals the rounded weights. */
static void check_copy(struct ss_device *gpu, const struct bucket *b)
{
    if (!b->copy)
        return;
    float *w = gpu_fetch_f32(gpu, b->w, b->count);
    for (size_t i = 0; i < b->count; i++)
        w[i] = gpu_round(w[i], ss_cuda_dtype(gpu));
    check_equal("copy", gpu_fetch(gpu, b->copy, b->count), w, b->count);
}

/* Compares a rule with double precision, with or without spans, with clipping and an EMA of the
 * weights. The same steps with a loss scale must be bit-identical; their three skipped steps do not
 * count. */
static void rule_steps_of(struct ss_device *gpu, const struct rule_case *c, int spans, size_t count)
{
    enum { KINDS = 4 };
    float *start[KINDS] = {host_random(count, 1, SS_DTYPE_F32), host_floats(count),
                           host_floats(count), host_floats(count)};
    float *plain[KINDS], *scaled[KINDS], *g = gpu_out_f32(gpu, count);
    double *want[KINDS], *wide = host_doubles(count), zero = 0;
    struct ss_scaler scaler = ss_scaler_defaults();
    scaler.skipped = 3;
    const struct ss_scaler *device_scaler = gpu_put_bytes(gpu, &scaler, sizeof scaler);
    double *squares = gpu_put_bytes(gpu, &zero, sizeof zero);
    for (int k = 0; k < KINDS; k++) {
        want[k] = host_doubles(count);
        for (size_t i = 0; i < count; i++)
            want[k][i] = (double)start[k][i];
        plain[k] = gpu_put_f32(gpu, start[k], count);
        scaled[k] = gpu_put_f32(gpu, start[k], count);
    }
    struct ss_update u = {.rule = c->rule,
                          .count = count,
                          .g = g,
                          .scale = SCALE,
                          .lr = (double)LR,
                          .squares = squares,
                          .clip = 0.2 * sqrt((double)count),
                          .ema_decay = 0.9};
    memcpy(u.hyper, c->hyper, sizeof u.hyper);
    if (spans) {
        u.spans = (struct ss_spans){.nspans = RULE_SPANS, .nchunks = rule_cut()};
        u.spans.span = gpu_put_bytes(gpu, rule_spans, sizeof rule_spans);
        u.spans.chunk = gpu_put_bytes(gpu, rule_chunks, sizeof rule_chunks);
    }
    OK(ss_cuda_update_reserve(gpu, 40));
    if (ss_cuda_dtype(gpu) != SS_DTYPE_F32)
        u.copy = gpu_out(gpu, count);
    for (uint32_t at = 0; at < 2 * 5; at++) {
        float *small = host_random(count, 10 + at / 2, SS_DTYPE_F32);
        float **mine = at % 2 ? scaled : plain;
        for (size_t i = 0; i < count; i++)
            wide[i] = (double)SCALE * (double)small[i];
        const double norm = rule_norm(wide, count);
        for (size_t i = 0; i < count; i++) {
            wide[i] *= u.clip < norm ? u.clip / (norm + 1e-6) : 1;
            small[i] *= at % 2 ? scaler.scale : 1;
        }
        u.w = mine[0];
        u.state[0] = mine[1];
        u.state[1] = mine[2];
        u.ema = mine[3];
        u.step = 1 + at / 2 + (at % 2 ? 3 : 0);
        u.scaler = at % 2 ? device_scaler : NULL;
        OK(ss_cuda_copy(gpu, g, small, count * sizeof *small));
        OK(ss_cuda_squares(gpu, 16, g, 1, squares)); /* as for two buckets */
        if (count > 16)
            OK(ss_cuda_squares(gpu, count - 16, g + 16, 0, squares));
        OK(ss_cuda_update(gpu, &u));
        OK(ss_cuda_synchronize(gpu));
        if (at % 2 == 0)
            continue;
        rule_step(c, spans, count, 1 + (int)at / 2, (double)LR, wide, want[0], want[1], want[2]);
        for (size_t i = 0; i < count; i++)
            want[3][i] = at == 1 ? want[0][i] : 0.9 * want[3][i] + 0.1 * want[0][i];
    }
    for (int k = 0; k < KINDS; k++) {
        const float *got = gpu_fetch_f32(gpu, plain[k], count);
        gpu_compare_bound(k == 3 ? "average" : k ? "state" : "w", got, want[k], count, c->bound);
        ck_assert_mem_eq(gpu_fetch_f32(gpu, scaled[k], count), got, count * sizeof(float));
    }
    check_copy(gpu, &(struct bucket){.count = count, .w = plain[0], .copy = u.copy});
}

START_TEST(rule_steps)
{
    struct ss_device *gpu = gpu_one_sm((enum ss_dtype)_i);
    for (int k = 0; k < RULE_CASES; k++) {
        rule_steps_of(gpu, &rule_cases[k], 1, RULE_COUNT);
        if (ss_rule_has_norms(rule_cases[k].rule))
            continue;
        rule_steps_of(gpu, &rule_cases[k], 0, 16);
        rule_steps_of(gpu, &rule_cases[k], 0, 50000); /* several iterations of the grid */
    }
}
END_TEST

/* Spans with factors of 1 give results bit-identical to those without spans. */
START_TEST(spans_change_nothing)
{
    enum { COUNT = 5 * SS_UPDATE_CHUNK, KINDS = 4 };
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    struct ss_chunk chunks[5];
    const struct ss_span span = {.count = COUNT, .lr = 1, .decay = 1, .chunks = 5};
    for (size_t k = 0; k < 5; k++)
        chunks[k] = (struct ss_chunk){k * SS_UPDATE_CHUNK, SS_UPDATE_CHUNK, 0};
    const struct ss_spans all = {1, 5, gpu_put_bytes(gpu, &span, sizeof span),
                                 gpu_put_bytes(gpu, chunks, sizeof chunks)};
    const float *g = gpu_put_f32(gpu, host_random(COUNT, 2, SS_DTYPE_F32), COUNT);
    for (int c = 0; c < RULE_CASES; c++) {
        float *kind[2][KINDS];
        if (ss_rule_has_norms(rule_cases[c].rule))
            continue;
        for (int spans = 0; spans < 2; spans++) {
            struct ss_update u = {.rule = rule_cases[c].rule,
                                  .count = COUNT,
                                  .g = g,
                                  .scale = 1.0f / 3,
                                  .lr = (double)LR,
                                  .ema_decay = 0.9};
            memcpy(u.hyper, rule_cases[c].hyper, sizeof u.hyper);
            for (int k = 0; k < KINDS; k++)
                kind[spans][k] = gpu_put_f32(
                    gpu, k ? host_floats(COUNT) : host_random(COUNT, 1, SS_DTYPE_F32), COUNT);
            u.w = kind[spans][0];
            u.state[0] = kind[spans][1];
            u.state[1] = kind[spans][2];
            u.ema = kind[spans][3];
            u.spans = spans ? all : (struct ss_spans){0};
            for (u.step = 2; u.step < 5; u.step++)
                OK(ss_cuda_update(gpu, &u));
        }
        for (int k = 0; k < KINDS; k++)
            check_equal("bits", gpu_fetch_f32(gpu, kind[1][k], COUNT),
                        gpu_fetch_f32(gpu, kind[0][k], COUNT), COUNT);
    }
}
END_TEST

/* Fails unless a CPU's update is bit-identical, in any format of the copy: with an EMA, clipping
 * and a loss scale, with or without spans, with three skipped steps before and one between. */
static void same_on_cpu(struct ss_device *gpu, struct ss_device *cpu, const struct rule_case *c,
                        int spans)
{
    enum { KINDS = 4 };
    const size_t count = RULE_COUNT, copy_bytes = count * sizeof(uint16_t);
    const int mixed = ss_cuda_dtype(gpu) != SS_DTYPE_F32;
    struct ss_scaler scaler = ss_scaler_defaults();
    double squares = 40 * (double)count;
    float *mine[KINDS], *its[KINDS], *g = host_random(count, 9, SS_DTYPE_F32);
    scaler.skipped = 3;
    struct ss_update u = {.rule = c->rule,
                          .count = count,
                          .lr = (double)LR,
                          .clip = 0.2,
                          .ema_decay = 0.9,
                          .scale = SCALE};
    memcpy(u.hyper, c->hyper, sizeof u.hyper);
    struct ss_update v = u;
    for (int k = 0; k < KINDS; k++) {
        mine[k] = k ? host_floats(count) : host_random(count, 1, SS_DTYPE_F32);
        its[k] = gpu_put_f32(gpu, mine[k], count);
    }
    u.w = mine[0], u.state[0] = mine[1], u.state[1] = mine[2], u.ema = mine[3];
    v.w = its[0], v.state[0] = its[1], v.state[1] = its[2], v.ema = its[3];
    u.g = g, u.squares = &squares, u.scaler = &scaler;
    v.g = gpu_put_f32(gpu, g, count), v.squares = gpu_put_bytes(gpu, &squares, sizeof squares);
    if (spans) {
        u.spans = v.spans = (struct ss_spans){RULE_SPANS, rule_cut(), rule_spans, rule_chunks};
        v.spans.span = gpu_put_bytes(gpu, rule_spans, sizeof rule_spans);
        v.spans.chunk = gpu_put_bytes(gpu, rule_chunks, sizeof rule_chunks);
    }
    uint16_t *copy = (uint16_t *)host_floats(count), *got = (uint16_t *)host_floats(count);
    u.copy = mixed ? copy : NULL;
    v.copy = mixed ? gpu_out(gpu, count) : NULL;
    for (u.step = 4; u.step < 9; u.step++) {
        scaler.found = u.step == 6;
        scaler.skipped += u.step == 7;
        v.step = u.step;
        v.scaler = gpu_put_bytes(gpu, &scaler, sizeof scaler);
        OK(ss_cpu_kernels.update(cpu, &u));
        OK(ss_cuda_update(gpu, &v));
    }
    for (int k = 0; k < KINDS; k++)
        ck_assert_mem_eq(gpu_fetch_f32(gpu, its[k], count), mine[k], count * sizeof(float));
    if (!mixed)
        return;
    OK(ss_cuda_copy(gpu, got, v.copy, copy_bytes));
    ck_assert_mem_eq(got, copy, copy_bytes);
}

START_TEST(rules_agree_with_cpu)
{
    const struct ss_device_options one = {.threads = 1, .dtype = (enum ss_dtype)_i};
    struct ss_device *gpu = gpu_for(one.dtype), *cpu;
    OK(ss_cpu_kernels.open(&one, &cpu));
    for (int k = 0; k < 2 * RULE_CASES; k++)
        if (!ss_rule_has_norms(rule_cases[k / 2].rule))
            same_on_cpu(gpu, cpu, &rule_cases[k / 2], k % 2);
    ss_cpu_kernels.close(cpu);
}
END_TEST

START_TEST(sgd_skips)
{
    enum { COUNT = 4096 };
    struct ss_device *gpu = gpu_for((enum ss_dtype)_i);
    const float *w = host_random(COUNT, 1, SS_DTYPE_F32);
    float *g = host_random(COUNT, 2, SS_DTYPE_F32);
    struct bucket b = bucket_make(gpu, COUNT, w);
    struct ss_scaler scaler = ss_scaler_defaults();
    struct ss_scaler *device = gpu_put_bytes(gpu, &scaler, sizeof scaler);
    step(gpu, &b, g, device);
    const float *w1 = gpu_fetch_f32(gpu, b.w, COUNT), *v1 = gpu_fetch_f32(gpu, b.v, COUNT);
    const float *copy1 = b.copy ? gpu_fetch(gpu, b.copy, COUNT) : NULL;
    ck_assert(memcmp(w1, w, COUNT * sizeof(float)));

    g[COUNT - 1] = NAN;
    OK(ss_cuda_synchronize(gpu));
    OK(ss_cuda_copy(gpu, b.g, g, COUNT * sizeof(float)));
    OK(ss_cuda_scaler_check(gpu, COUNT, b.g, device));
    step(gpu, &b, g, device);
    ck_assert_mem_eq(gpu_fetch_f32(gpu, b.w, COUNT), w1, COUNT * sizeof(float));
    ck_assert_mem_eq(gpu_fetch_f32(gpu, b.v, COUNT), v1, COUNT * sizeof(float));
    if (copy1)
        ck_assert_mem_eq(gpu_fetch(gpu, b.copy, COUNT), copy1, COUNT * sizeof(float));

    OK(ss_cuda_scaler_update(gpu, device)); /* resets found: the next step counts */
    g[COUNT - 1] = 0;
    step(gpu, &b, g, device);
    ck_assert(memcmp(gpu_fetch_f32(gpu, b.w, COUNT), w1, COUNT * sizeof(float)));
    check_copy(gpu, &b);
}
END_TEST

START_TEST(sgd_bad_arguments)
{
    ss_log_set_quiet(1);
    struct ss_device *gpu = gpu_for(SS_DTYPE_F32);
    float *w = gpu_out_f32(gpu, 32);
    struct ss_update u = {.rule = SS_RULE_SGD, .count = 24, .w = w, .g = w, .scale = 1, .step = 1};
    ck_assert_int_eq(ss_cuda_update(gpu, &u), SS_ERR_SHAPE);
    u.count = 32;
    u.rule = SS_RULE_SGD_MOMENTUM;
    ck_assert_int_eq(ss_cuda_update(gpu, &u), SS_ERR_INVALID);
    u.rule = SS_RULE_SGD;
    u.count = 0;
    OK(ss_cuda_update(gpu, &u));
    ss_log_set_quiet(0);
}
END_TEST

static int found(struct ss_device *gpu, const float *grads, size_t count, int before)
{
    struct ss_scaler scaler = ss_scaler_defaults(), after;
    scaler.found = before;
    struct ss_scaler *device = gpu_put_bytes(gpu, &scaler, sizeof scaler);
    OK(ss_cuda_scaler_check(gpu, count, gpu_put_f32(gpu, grads, count), device));
    gpu_get_bytes(gpu, device, &after, sizeof after);
    scaler.found = after.found;
    ck_assert_mem_eq(&scaler, &after, sizeof after); /* no other field has changed */
    return after.found;
}

START_TEST(scaler_check)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    static const size_t sizes[] = {1, 2, 5, 1024, 100003}; /* the last has several iterations */
    struct ss_device *gpu = gpu_one_sm(SS_DTYPE_F16);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const size_t count = sizes[s];
        float *g = host_random(count, 1, SS_DTYPE_F32);
        g[0] = 3.4028235e38f; /* extreme finite values are not infinite */
        g[count / 2] = -3.4028235e38f;
        g[count / 3] = 0x1p-149f;
        ck_assert_int_eq(found(gpu, g, count, 0), 0);
        ck_assert_int_eq(found(gpu, g, count, 1), 1); /* found in another bucket */
        /* The first, the last and a middle element, and both sides of the end of full vectors. */
        const size_t tail = count / 4 * 4;
        const size_t places[] = {0, count - 1, count / 2, tail ? tail - 1 : 0, tail % count};
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            const float keep = g[places[p]];
            g[places[p]] = bad[p % 4];
            ck_assert_int_eq(found(gpu, g, count, 0), 1);
            g[places[p]] = keep;
        }
        for (size_t i = 0; i < count; i++)
            g[i] = NAN;
        ck_assert_int_eq(found(gpu, g, count, 0), 1);
    }
    struct ss_scaler scaler = ss_scaler_defaults();
    OK(ss_cuda_scaler_check(gpu, 0, NULL, gpu_put_bytes(gpu, &scaler, sizeof scaler)));
}
END_TEST

/* Applies torch.amp.GradScaler's rule on the host. */
static void rule(struct ss_scaler *s)
{
    if (s->found) {
        s->scale *= s->backoff;
        s->tracker = 0;
        s->skipped += 1;
    } else {
        s->tracker += 1;
        if (s->tracker == s->interval) {
            if (isfinite(s->scale * s->growth))
                s->scale *= s->growth;
            s->tracker = 0;
        }
    }
    s->found = 0;
}

START_TEST(scaler_update)
{
    static const char script[] = "...x..x...x.xx....xxx.........x"; /* x: found */
    struct ss_device *gpu = gpu_for(SS_DTYPE_F16);
    for (int interval = 1; interval <= 4; interval++) {
        struct ss_scaler want = ss_scaler_defaults(), got;
        want.interval = interval;
        struct ss_scaler *device = gpu_put_bytes(gpu, &want, sizeof want);
        const float nan = NAN;
        const float *bad = gpu_put_f32(gpu, &nan, 1);
        for (const char *at = script; *at; at++) {
            want.found = *at == 'x';
            if (want.found)
                OK(ss_cuda_scaler_check(gpu, 1, bad, device));
            rule(&want);
            OK(ss_cuda_scaler_update(gpu, device));
            gpu_get_bytes(gpu, device, &got, sizeof got);
            ck_assert_mem_eq(&got, &want, sizeof got);
        }
    }
}
END_TEST

START_TEST(scaler_stays_finite)
{
    struct ss_device *gpu = gpu_for(SS_DTYPE_F16);
    struct ss_scaler scaler = ss_scaler_defaults();
    scaler.interval = 1;
    scaler.scale = 0x1p126f;
    struct ss_scaler *device = gpu_put_bytes(gpu, &scaler, sizeof scaler);
    for (int i = 0; i < 3; i++) {
        OK(ss_cuda_scaler_update(gpu, device));
        gpu_get_bytes(gpu, device, &scaler, sizeof scaler);
        ck_assert_float_eq(scaler.scale, 0x1p127f); /* twice that would be infinite */
        ck_assert_int_eq(scaler.tracker, 0);
    }
}
END_TEST

void add_optimizer_tests(TCase *t)
{
    tcase_add_loop_test(t, rule_steps, 0, GPU_DTYPES);
    tcase_add_loop_test(t, spans_change_nothing, 0, GPU_DTYPES);
    tcase_add_loop_test(t, rules_agree_with_cpu, 0, GPU_DTYPES);
    tcase_add_loop_test(t, sgd_skips, 0, GPU_DTYPES);
    tcase_add_test(t, sgd_bad_arguments);
    tcase_add_test(t, scaler_check);
    tcase_add_test(t, scaler_update);
    tcase_add_test(t, scaler_stays_finite);
}
