/* test_gpu_exec.c: compares plans on a GPU with the same plans on the CPU, for the models of
 * test_graphs.h: losses and all parameters after some steps with momentum and dropout, evaluation,
 * number formats. Results must be bit-identical in both modes, with CUDA graphs, and for any number
 * of slots, slices and load workers. Exit code 77: no GPU. */
#include "tests/runtime/exec_common.h"

static struct ss_runtime *start_gpu(enum ss_dtype dtype, int ordered, int workers)
{
    static struct ss_runtime runtime;
    struct ss_placement placement;
    struct ss_runtime_gpu gpu = {.gpu = {.dtype = dtype}, .ordered = ordered};
    OK(ss_placement_decide_gpu(comm, workers, "", &placement));
    OK(ss_runtime_start(&runtime, &placement, gpu.gpu.dtype, &gpu));
    return &runtime;
}

/* Steps of most runs: enough to replay some and to reuse slots. */
enum { TRAINED = 6 };

static struct setting setting_of(int which)
{
    struct setting s = usual;
    s.which = which;
    s.block = 0; /* NHWC on both sides: dropout depends on the element's index */
    s.momentum = 0.9f;
    s.weight_decay = 1e-3f;
    return s;
}

START_TEST(as_cpu)
{
    struct setting s = setting_of(_i);
    struct outcome cpu = run(&s, start_runtime(1, 1), TRAINED, 0.05);
    struct outcome gpu = run(&s, start_gpu(SS_DTYPE_F32, 1, 1), TRAINED, 0.05);
    check_close(&gpu, &cpu, 1e-4);
    free_outcome(&gpu);
    free_outcome(&cpu);
}
END_TEST

START_TEST(drops)
{
    drops_by_formula(_i, start_gpu(SS_DTYPE_F32, 1, 1));
}
END_TEST

START_TEST(adamw_as_pytorch)
{
    as_pytorch("groups", "adamw", start_gpu(SS_DTYPE_F32, 1, 1));
}
END_TEST

START_TEST(groupnorm_as_pytorch)
{
    as_pytorch("groups", "sgd", start_gpu(SS_DTYPE_F32, 1, 1));
}
END_TEST

START_TEST(gelu_as_pytorch)
{
    as_pytorch("gelus", "sgd", start_gpu(SS_DTYPE_F32, 1, 1));
}
END_TEST

START_TEST(join_as_pytorch)
{
    as_pytorch("join", "sgd", start_gpu(SS_DTYPE_F32, 1, 1));
}
END_TEST

START_TEST(readers_as_pytorch)
{
    as_pytorch("readers", "sgd", start_gpu(SS_DTYPE_F32, 1, 1));
}
END_TEST

START_TEST(transformer_as_pytorch)
{
    as_pytorch("vit", "sgd", start_gpu(SS_DTYPE_F32, 1, 1));
}
END_TEST

/* Compares the gradients of fp16 and bf16 with the CPU's. One step with learning rate 1 and without
 * momentum changes the parameters by the unscaled gradient. Rounding by eps moves about that
 * fraction of elements across the kink of a ReLU, and each of them loses its whole gradient: the
 * error is of the order of sqrt(eps), 2 % and 6 % of a layer. This is a coarse check of the wiring;
 * the kernels' own tests have tight bounds. */
static void check_formats(struct setting s)
{
    static const double bounds[] = {[SS_DTYPE_F16] = 0.1, [SS_DTYPE_BF16] = 0.4};
    s.momentum = s.weight_decay = 0;
    struct outcome start = run(&s, start_runtime(1, 1), 0, 1);
    struct outcome cpu = run(&s, start_runtime(1, 1), 1, 1);
    for (int t = SS_DTYPE_F16; t <= SS_DTYPE_BF16; t++) {
        s.dtype = (enum ss_dtype)t;
        struct outcome gpu = run(&s, start_gpu(s.dtype, 1, 1), 1, 1);
        ck_assert(fabs(gpu.loss - cpu.loss) <= bounds[t] / 20 * cpu.loss);
        for (int i = 0; i < cpu.nparams; i++) {
            for (int64_t k = 0; cpu.params[i] && k < cpu.elements[i]; k++) {
                gpu.params[i][k] -= start.params[i][k];
                if (t == SS_DTYPE_F16)
                    cpu.params[i][k] -= start.params[i][k];
            }
            if (!cpu.params[i])
                continue;
            /* Zero gradients (of a bias before BatchNorm) are rounding errors on both sides. */
            double d = distance(gpu.params[i], cpu.params[i], cpu.elements[i], 0.05);
            ck_assert_msg(d <= bounds[t], "%s: the gradient of parameter %d differs by %.3g",
                          ss_dtype_name(s.dtype), i, d);
        }
        free_outcome(&gpu);
    }
    free_outcome(&cpu);
    free_outcome(&start);
}

START_TEST(gradients_of_formats)
{
    check_formats(setting_of(_i));
}
END_TEST

/* Every kind of layer as the one that reads the images, or a convolution's output. */
START_TEST(first_layers_as_cpu)
{
    struct setting s = setting_of(0);
    s.first = &first_layers[_i / 2];
    s.behind = _i % 2;
    use_channels(s.first->channels);
    struct outcome cpu = run(&s, start_runtime(1, 1), 9, 0.05);
    struct outcome gpu = run(&s, start_gpu(SS_DTYPE_F32, 1, 1), 9, 0.05);
    check_close(&gpu, &cpu, 1e-4);
    free_outcome(&gpu);
    free_outcome(&cpu);
    check_formats(s);
    make_data();
}
END_TEST

static uint64_t hash_with(const struct setting *s, int ordered, int workers)
{
    struct outcome o = run(s, start_gpu(s->dtype, ordered, workers), TRAINED, 0.05);
    uint64_t hash = o.hash;
    ck_assert(isfinite(o.loss));
    free_outcome(&o);
    return hash;
}

START_TEST(same_bits_on_gpu)
{
    struct setting s = setting_of(_i);
    s.dtype = (enum ss_dtype)(_i % 3);
    uint64_t want = hash_with(&s, 1, 1);
    ck_assert_uint_eq(hash_with(&s, 0, 1), want);
    ck_assert_uint_eq(hash_with(&s, 1, 3), want);
    s.replay = SS_REPLAY_ON;
    ck_assert_uint_eq(hash_with(&s, 1, 2), want);
    s.replay = SS_REPLAY_OFF;
    s.slots = 1;
    ck_assert_uint_eq(hash_with(&s, 1, 1), want);
    s.slots = TRAINED - 1;
    s.slices = 1;
    ck_assert_uint_eq(hash_with(&s, 1, 2), want);
    ck_assert_uint_eq(hash_with(&s, 0, 2), want);
}
END_TEST

START_TEST(memory_moves)
{
    struct setting s = setting_of(_i);
    s.dtype = (enum ss_dtype)(_i % 3);
    s.replay = SS_REPLAY_OFF; /* a graph contains the addresses of its capture */
    s.clip = 1;
    s.accumulate = 1 + _i % 2;
    same_bits_elsewhere(&s, start_gpu(s.dtype, 1, 1));
}
END_TEST

/* Returns the bytes copied by StarPU between memory nodes since the last call. */
static size_t transferred(void)
{
    size_t sum = 0;
    for (int bus = 0; bus < starpu_bus_get_count(); bus++) {
        struct starpu_profiling_bus_info info = {0};
        ck_assert_int_eq(starpu_bus_get_profiling_info(bus, &info), 0);
        sum += (size_t)info.transferred_bytes;
    }
    return sum;
}

/* StarPU copies no data in training steps and evaluation, nor when parameters are read and set. */
START_TEST(starpu_copies_nothing)
{
    struct setting s = setting_of(0);
    struct bound b;
    s.dtype = SS_DTYPE_F16;
    s.accumulate = 2;
    struct ss_runtime *runtime = start_gpu(s.dtype, _i, 2);
    starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
    bind_plan(&b, &s, runtime);
    train(&b, 4);
    (void)evaluate(&b);
    float **all = get_params(&b);
    set_params(&b, all);
    train(&b, 1);
    ck_assert_uint_eq(transferred(), 0);
    /* A copy would have been counted. */
    starpu_data_handle_t params = b.exec->params[0].r.handle;
    ck_assert_int_eq(starpu_data_acquire_on_node(params, STARPU_MAIN_RAM, STARPU_R), 0);
    starpu_data_release_on_node(params, STARPU_MAIN_RAM);
    ck_assert_uint_eq(transferred(), starpu_data_get_size(params));
    starpu_profiling_status_set(STARPU_PROFILING_DISABLE);
    free_params(&b, all);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

/* By default, a run replays steps if enqueuing takes longer than the predicted time on the GPU,
 * once it has measured this. */
START_TEST(replays_where_it_pays)
{
    enum { LONG = 16 };
    struct setting s = setting_of(0);
    struct outcome plain = run(&s, start_gpu(s.dtype, 1, 1), LONG, 0.05);
    ck_assert_uint_eq(plain.replayed, 0); /* no prediction */
    s.predicted_s = 1e6;
    struct outcome slow_gpu = run(&s, start_gpu(s.dtype, 1, 1), LONG, 0.05);
    ck_assert_uint_eq(slow_gpu.replayed, 0);
    s.predicted_s = 1e-9;
    struct outcome fast_gpu = run(&s, start_gpu(s.dtype, 1, 1), LONG, 0.05);
    ck_assert_uint_ge(fast_gpu.replayed, 1);
    ck_assert_uint_le(fast_gpu.replayed, LONG - 6);
    ck_assert_uint_eq(fast_gpu.hash, plain.hash);
    ck_assert_uint_eq(slow_gpu.hash, plain.hash);
    free_outcome(&plain);
    free_outcome(&slow_gpu);
    free_outcome(&fast_gpu);
}
END_TEST

/* Results in views are bit-identical to results that are copied. */
START_TEST(parts_as_copies)
{
    static const char *const names[] = {"dense", "branches"};
    const enum ss_dtype dtype = (enum ss_dtype)(_i % 3);
    int which = 0;
    while (strcmp(test_graphs[which].name, names[_i / 3]))
        which++;
    struct setting s = setting_of(which);
    s.dtype = dtype;
    struct outcome in_place = run(&s, start_gpu(dtype, 1, 1), 5, 0.05);
    s.copy_parts = 1;
    struct outcome copied = run(&s, start_gpu(dtype, 1, 1), 5, 0.05);
    ck_assert_uint_eq(in_place.hash, copied.hash);
    ck_assert_double_eq(in_place.eval.loss, copied.eval.loss);
    free_outcome(&in_place);
    free_outcome(&copied);
}
END_TEST

/* Deferring weight gradients gives bit-identical results, in both modes. */
START_TEST(weights_deferred)
{
    static const int deferred[] = {-1, 3, 1 << 16};
    struct setting s = setting_of(_i);
    s.bucket_mb = 0.01;
    s.dtype = (enum ss_dtype)(_i % 3);
    const struct in_order want = train_in_order(&s, start_gpu(s.dtype, 1, 1));
    struct in_order run;
    for (int k = 0; k < 3; k++) {
        s.defer_weight_grads = deferred[k];
        run = train_in_order(&s, start_gpu(s.dtype, k % 2, 1));
        ck_assert_uint_eq(run.hash, want.hash);
    }
    ck_assert(run.deferred > 0 || _i != 0); /* the first one has convolutions */
}
END_TEST

/* Freezing parameters is bit-identical to a learning rate of 0, as in the CPU's test of the same
 * name (tests/runtime/test_exec.c), unless fewer residual additions are fused, which changes
 * rounding. */
START_TEST(frozen_weights)
{
    char rates[4096];
    struct setting s = setting_of(_i);
    s.bucket_mb = 0.01;
    s.dtype = (enum ss_dtype)(_i % 3);
    for (uint32_t seed = 1; seed <= 2; seed++) {
        s.frozen = seed;
        s.lr_factor = NULL;
        rates_of_frozen(&s, rates, sizeof rates);
        s.defer_weight_grads = seed == 1 ? 0 : -1;
        const struct in_order frozen = train_in_order(&s, start_gpu(s.dtype, seed == 1, 1));
        s.frozen = 0;
        s.lr_factor = rates;
        const struct in_order zero = train_in_order(&s, start_gpu(s.dtype, 1, 1));
        ck_assert_msg(frozen.hash == zero.hash || frozen.shortcuts_left < zero.shortcuts_left,
                      "%s: %s", test_graphs[_i].name, rates);
    }
}
END_TEST

/* A batch with missing images gives the results of a smaller batch on the CPU. Replayed and
 * enqueued steps are bit-identical, also for short batches between full ones. */
START_TEST(short_batch)
{
    struct setting s = setting_of(_i);
    s.batch = 4;
    struct outcome cpu = run(&s, start_runtime(1, 1), TRAINED, 0.05);
    s.batch = 7;
    s.lacks = 3;
    for (int ordered = 0; ordered < 2; ordered++) {
        s.nondeterministic = ordered;
        struct outcome gpu = run(&s, start_gpu(SS_DTYPE_F32, ordered, 1), TRAINED, 0.05);
        check_close(&gpu, &cpu, 1e-4);
        free_outcome(&gpu);
    }
    free_outcome(&cpu);
    s.nondeterministic = 0;
    s.whole = 2;
    for (int dtype = 0; dtype < 3; dtype++) {
        uint64_t hash[2];
        for (int on = 0; on < 2; on++) {
            s.dtype = (enum ss_dtype)dtype;
            s.replay = on ? SS_REPLAY_ON : SS_REPLAY_OFF;
            s.spoils = on;
            struct outcome gpu = run(&s, start_gpu(s.dtype, 1, 1 + on), 9, 0.01);
            hash[on] = gpu.hash;
            free_outcome(&gpu);
        }
        ck_assert_uint_eq(hash[0], hash[1]);
    }
}
END_TEST

/* Gradient accumulation gives the CPU's results, with BatchNorm and dropout; results are
 * bit-identical in both modes and for any number of slots. */
START_TEST(micro_batches)
{
    struct setting s = setting_of(_i);
    s.batch = 4;
    s.accumulate = 3;
    struct outcome cpu = run(&s, start_runtime(1, 1), TRAINED, 0.05);
    struct outcome gpu = run(&s, start_gpu(SS_DTYPE_F32, 1, 1), TRAINED, 0.05);
    check_close(&gpu, &cpu, 1e-4);
    s.slots = 2;
    ck_assert_uint_eq(hash_with(&s, 0, 2), gpu.hash);
    s.replay = SS_REPLAY_ON;
    ck_assert_uint_eq(hash_with(&s, 1, 2), gpu.hash);
    free_outcome(&gpu);
    free_outcome(&cpu);
}
END_TEST

START_TEST(micro_batches_as_pytorch)
{
    as_pytorch_in("groups", "sgd", start_gpu(SS_DTYPE_F32, 1, 1), 3);
}
END_TEST

/* An infinity in any micro-batch skips the whole step. Gradients of a micro-batch without images
 * are 0. */
START_TEST(infinite_micro_batch)
{
    enum { MICROS = 3, N = 4 };
    struct bound b;
    struct ss_exec_scaler scaler = {.scale = 1e30f};
    struct setting s = setting_of(0);
    s.batch = N;
    s.accumulate = MICROS;
    s.dtype = SS_DTYPE_F16;
    bind_plan(&b, &s, start_gpu(SS_DTYPE_F16, 1, 1));
    for (int bad = 0; bad <= MICROS; bad++) { /* bad == MICROS: no infinity */
        uint32_t sample[MICROS * N];
        for (int i = 0; i < MICROS * N; i++)
            sample[i] = i / N == bad ? (uint32_t)i : UINT32_MAX;
        scaler.skipped = 0;
        OK(ss_exec_set_scaler(b.exec, &scaler));
        uint64_t before = hash_of(b.exec);
        struct ss_exec_step step = {
            .step = (uint64_t)bad + 1, .lr = 0.1, .dataset = &data, .sample = sample};
        OK(ss_exec_submit_train(b.exec, &step));
        OK(ss_exec_wait(b.exec));
        struct ss_exec_scaler after;
        OK(ss_exec_get_scaler(b.exec, &after));
        ck_assert_int_eq(after.skipped, bad < MICROS);
        ck_assert_int_eq(hash_of(b.exec) == before, bad < MICROS);
    }
    struct ss_runtime *runtime = b.runtime;
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

/* If the device is full, an error message about the failed allocation is logged, and everything can
 * still be destroyed. Each plan has fewer than 2^31 elements. */
START_TEST(out_of_memory)
{
    enum { MOST = 64 };
    struct setting s = setting_of(0);
    struct ss_runtime *runtime = start_gpu(SS_DTYPE_F32, 1, 1);
    struct ss_graph *g = make_test_graph(s.which);
    struct ss_plan *plan;
    struct ss_exec *exec[MOST] = {NULL};
    struct ss_plan_options options = {.batch = 1 << 22,
                                      .bucket_mb = 25,
                                      .first_bucket_mb = 25,
                                      .slices = 1,
                                      .device = 1,
                                      .input_block = 4};
    struct ss_exec_options e = {.runtime = runtime, .comm = comm, .training = 1, .slots = 1};
    OK(ss_optim_find("sgd", &e.optim));
    OK(ss_plan_lower(g, &options, &plan));
    e.plan = plan;
    int n = 0;
    while (n < MOST && ss_exec_create(&e, &exec[n]) == SS_OK)
        n++;
    ck_assert_int_lt(n, MOST);
    ck_assert_ptr_null(exec[n]);
    ck_assert_msg(strstr(ss_log_last_error(), "memory") != NULL, "\"%s\"", ss_log_last_error());
    while (n > 0)
        ss_exec_destroy(exec[--n]);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
    ss_runtime_stop(runtime);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *t = tcase_create(name);
    tcase_set_timeout(t, 600);
    suite_add_tcase(suite, t);
    return t;
}

int main(void)
{
    if (ss_cuda_kernels.count() == 0) {
        puts("skipped: no GPU");
        return 77;
    }
    ss_log_set_quiet(1);
    struct ss_comm_config config = {.backend = "self", .timeout_s = 60};
    make_data();
    if (ss_comm_open(&config, &comm) != SS_OK)
        return EXIT_FAILURE;
    Suite *suite = suite_create("gpu_exec");
    TCase *t = add_case(suite, "graphs");
    tcase_add_loop_test(t, as_cpu, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, drops, 0, DROPS);
    t = add_case(suite, "formats");
    tcase_add_loop_test(t, gradients_of_formats, 0, TEST_GRAPHS);
    t = add_case(suite, "layers");
    tcase_add_loop_test(t, first_layers_as_cpu, 0, 2 * FIRST_LAYERS);
    t = add_case(suite, "bits");
    tcase_add_loop_test(t, same_bits_on_gpu, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, weights_deferred, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, frozen_weights, 0, TEST_GRAPHS);
    t = add_case(suite, "memory");
    tcase_add_loop_test(t, memory_moves, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, starpu_copies_nothing, 0, 2);
    t = add_case(suite, "short");
    tcase_add_loop_test(t, short_batch, 0, TEST_GRAPHS);
    t = add_case(suite, "parts");
    tcase_add_loop_test(t, parts_as_copies, 0, 6);
    tcase_add_loop_test(t, micro_batches, 0, 2);
    tcase_add_test(t, micro_batches_as_pytorch);
    tcase_add_test(t, infinite_micro_batch);
    tcase_add_test(t, out_of_memory);
    t = add_case(suite, "pytorch");
    tcase_add_test(t, groupnorm_as_pytorch);
    tcase_add_test(t, gelu_as_pytorch);
    tcase_add_test(t, join_as_pytorch);
    tcase_add_test(t, readers_as_pytorch);
    tcase_add_test(t, transformer_as_pytorch);
    tcase_add_test(t, adamw_as_pytorch);
    t = add_case(suite, "replay");
    tcase_add_test(t, replays_where_it_pays);
    const int code = run_suite_here(suite);
    ss_comm_close(comm);
    return code;
}
