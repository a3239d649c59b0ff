/* test_accumulate.c: gradient accumulation: equal to PyTorch's steps with the whole batch, for
 * models without BatchNorm; metrics, running statistics and dropout of micro-batches; settings
 * that must not change results; memory. */
#include "tests/runtime/exec_common.h"

enum { RESNET = 0, CHAIN = 1, GROUPS = 4, READERS = 9 /* of test_graphs */ };

static struct setting setting_of(int which, int batch, int micros)
{
    struct setting s = usual;
    s.which = which;
    s.batch = batch;
    s.accumulate = micros;
    s.slices = batch < 3 ? batch : 3;
    s.momentum = 0.9f;
    s.weight_decay = 1e-3f;
    return s;
}

/* The recorded steps of 6 images as 2 x 3, 3 x 2 and 6 x 1. */
START_TEST(as_pytorch_with_the_whole_batch)
{
    static const char *const models[] = {"groups", "gelus"};
    static const int micros[] = {2, 3, 6};
    as_pytorch_in(models[_i % 2], "sgd", start_runtime(1, 2), micros[_i / 2]);
}
END_TEST

START_TEST(adamw_as_pytorch)
{
    as_pytorch_in("groups", "adamw", start_runtime(2, 1), 3);
}
END_TEST

static uint64_t train_with(const struct setting *s, int threads, int workers)
{
    struct bound b;
    struct ss_runtime *runtime = start_runtime(threads, workers);
    bind_plan(&b, s, runtime);
    uint64_t hash = train(&b, 5);
    ck_assert(isfinite(b.loss));
    unbind(&b);
    ss_runtime_stop(runtime);
    return hash;
}

START_TEST(same_bits)
{
    struct setting s = setting_of(_i, 4, 3);
    uint64_t want = train_with(&s, 1, 1);
    ck_assert_uint_eq(train_with(&s, 1, 4), want);
    s.slots = 1;
    ck_assert_uint_eq(train_with(&s, 1, 1), want);
    s.slots = 7;
    ck_assert_uint_eq(train_with(&s, 1, 3), want);
    s.no_overlap = 1;
    ck_assert_uint_eq(train_with(&s, 1, 2), want);
    s.accumulate = 2; /* the comparison can fail */
    ck_assert_uint_ne(train_with(&s, 1, 2), want);
}
END_TEST

static void compare(const struct bound *a, const struct bound *b, int trained)
{
    float **x = get_params(a), **y = get_params(b);
    int compared = 0;
    for (int i = 0; i < a->plan->nparams; i++) {
        if (!x[i] || (a->plan->param[i].bucket >= 0) != trained)
            continue;
        compared++;
        ck_assert_msg(!memcmp(x[i], y[i], (size_t)a->plan->param[i].elements * sizeof(float)),
                      "%s differs", param_of(a, i)->name);
    }
    ck_assert_int_gt(compared, 0);
    free_params(a, x);
    free_params(b, y);
}

/* Each micro-batch updates the running statistics as a step does. Metrics cover all images. */
START_TEST(running_statistics)
{
    enum { MICROS = 3 };
    struct bound whole, single;
    struct ss_runtime *runtime = start_runtime(1, 2);
    struct setting s = setting_of(RESNET, 4, MICROS);
    bind_plan(&whole, &s, runtime);
    s.accumulate = 0;
    bind_plan(&single, &s, runtime);
    whole.augment = single.augment = 0;
    double loss = 0;
    submit(&whole, 1, 0, 0);
    OK(ss_exec_wait(whole.exec));
    for (int m = 0; m < MICROS; m++) {
        submit(&single, (uint64_t)m + 1, 0, 4 * m);
        OK(ss_exec_wait(single.exec));
        loss += single.loss / MICROS;
    }
    compare(&whole, &single, 0);
    ck_assert_double_eq_tol(whole.loss, loss, 1e-12);
    submit(&single, 9, 0, 0); /* a further step changes them */
    OK(ss_exec_wait(single.exec));
    float **x = get_params(&whole), **y = get_params(&single);
    int moved = 0;
    for (int i = 0; i < whole.plan->nparams; i++)
        if (x[i] && whole.plan->param[i].bucket < 0)
            moved += x[i][0] != y[i][0];
    ck_assert_int_gt(moved, 0);
    free_params(&whole, x);
    free_params(&single, y);
    unbind(&whole);
    unbind(&single);
    ss_runtime_stop(runtime);
}
END_TEST

/* Two micro-batches of the same images: without dropout the mean gradient is bit-identical to
 * that of one. With dropout the masks differ. */
START_TEST(dropout)
{
    struct bound two, one;
    struct ss_runtime *runtime = start_runtime(1, 1);
    static const int graphs[] = {CHAIN, GROUPS, READERS};
    for (int k = 0; k < 3; k++) {
        const int which = graphs[k];
        struct setting s = setting_of(which, IMAGES, 2);
        s.batch = IMAGES; /* the second micro-batch repeats the images */
        bind_plan(&two, &s, runtime);
        s.accumulate = 1;
        bind_plan(&one, &s, runtime);
        submit(&two, 1, 0.1, 0);
        submit(&one, 1, 0.1, 0);
        OK(ss_exec_wait(two.exec));
        int same = hash_of(two.exec) == hash_of(one.exec);
        ck_assert_int_eq(same, which != CHAIN);
        unbind(&two);
        unbind(&one);
    }
    ss_runtime_stop(runtime);
}
END_TEST

/* For any number of micro-batches: the same memory for activations and input as without
 * accumulation, and one gradient buffer more. */
START_TEST(memory)
{
    struct ss_exec_bytes bytes[3];
    static const int micros[] = {1, 2, 16};
    struct ss_runtime *runtime = start_runtime(1, 1);
    for (int i = 0; i < 3; i++) {
        struct setting s = setting_of(RESNET, 4, micros[i]);
        struct bound b;
        bind_plan(&b, &s, runtime);
        ck_assert_int_eq(b.plan->nbuffers > 0, 1);
        train(&b, 2);
        bytes[i] = ss_exec_memory(b.exec);
        unbind(&b);
    }
    for (int i = 1; i < 3; i++) {
        ck_assert_uint_eq(bytes[i].activations, bytes[0].activations);
        ck_assert_uint_eq(bytes[i].input, bytes[0].input);
        /* Weights, gradients, momentum; and the accumulated gradients. */
        ck_assert_uint_eq(bytes[i].parameters, bytes[0].parameters / 3 * 4);
    }
    ss_runtime_stop(runtime);
}
END_TEST

/* Counts the tasks of a step, and those that ran too early. */
struct listener {
    struct ss_hooks hooks;
    _Atomic uint64_t begun, early, sums, adds, loads;
    int micros;
};

static void hook_task(void *arg, const struct ss_step_args *args)
{
    struct listener *l = arg;
    const struct ss_plan_task *t = args->task->plan;
    l->loads += t->kind == SS_TASK_LOAD;
    l->adds += t->kind == SS_TASK_ADD;
    l->sums += t->kind == SS_TASK_ALLREDUCE || t->kind == SS_TASK_REDUCE_METRICS;
    l->early += t->micro < l->micros - 1 &&
                (t->kind == SS_TASK_ALLREDUCE || t->kind == SS_TASK_UPDATE ||
                 t->kind == SS_TASK_REDUCE_METRICS || t->kind == SS_TASK_REPORT);
}

/* All tasks of a step have its number; input statistics cover all images. */
START_TEST(hooks)
{
    struct bound b;
    struct ss_runtime *runtime = start_runtime(1, 2);
    struct setting s = setting_of(RESNET, 6, 4);
    bind_plan(&b, &s, runtime);
    struct listener l = {
        .hooks = {.arg = &l, .first = 2, .last = 2, .ended = SS_HOOKS_ALL, .task_ends = hook_task},
        .micros = 4};
    ss_exec_hook(b.exec, &l.hooks);
    train(&b, 3);
    ss_exec_unhook(b.exec, &l.hooks);
    ck_assert_uint_eq(l.loads, 4 * 3);
    ck_assert_uint_eq(l.adds, 4 * (unsigned)b.plan->nbuckets);
    ck_assert_uint_eq(l.sums, (unsigned)b.plan->nbuckets + 1);
    ck_assert_uint_eq(l.early, 0);
    struct ss_input_totals feed = ss_exec_input_stats(b.exec);
    ck_assert_double_eq(feed.images, 3 * 4 * 6);
    ck_assert(feed.wait_s > 0 && feed.busy_s > 0);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, as_pytorch_with_the_whole_batch, 0, 6);
    tcase_add_test(t, adamw_as_pytorch);
    tcase_add_loop_test(t, same_bits, 0, 2);
    tcase_add_test(t, running_statistics);
    tcase_add_test(t, dropout);
    tcase_add_test(t, memory);
    tcase_add_test(t, hooks);
}

int main(void)
{
    return run_tests("accumulate", add_tests, NULL);
}
