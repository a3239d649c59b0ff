/* test_exec.c: execution of plans with StarPU on the models of test_graphs.h: gradients of whole
 * steps against finite differences, and settings that must not change results: slots, load
 * workers, the batch size of evaluation, bucket sizes, a second executor, saving and loading. */
#include "codelets/op.h"
#include "runtime/exec_internal.h"
#include "tests/runtime/exec_common.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/mman.h>

/* Finite differences. */

/* Move gamma and beta of BatchNorm away from the identity, which would hide errors. */
static void shake(const struct bound *b)
{
    struct ss_rng rng;
    ss_rng_open(&rng, 5, SS_RNG_SYNTHETIC, 1, 0);
    float **all = get_params(b);
    for (int i = 0; i < b->plan->nparams; i++)
        if (param_of(b, i)->role == SS_PARAM_GAMMA || param_of(b, i)->role == SS_PARAM_BETA)
            for (int64_t k = 0; k < b->plan->param[i].elements; k++)
                all[i][k] += ss_rng_uniform(&rng) - 0.5f;
    set_params(b, all);
    free_params(b, all);
}

/* Central difference in element k of parameter i, with step h. */
static double difference(struct bound *b, float *const *all, int i, int64_t k, float h)
{
    float keep = all[i][k], up = keep + h, down = keep - h;
    all[i][k] = up;
    OK(ss_exec_set_param(b->exec, i, all[i]));
    double above = one_step(b, 0);
    all[i][k] = down;
    OK(ss_exec_set_param(b->exec, i, all[i]));
    double below = one_step(b, 0);
    all[i][k] = keep;
    OK(ss_exec_set_param(b->exec, i, all[i]));
    return (above - below) / ((double)up - (double)down);
}

static float largest(const float *a, const float *b, int64_t n)
{
    float most = 0;
    for (int64_t k = 0; k < n; k++)
        most = fmaxf(most, fabsf(a[k] - b[k]));
    return most;
}

/* The update of a step with learning rate 1 and without momentum is the gradient. Compare it at the
 * element with the largest gradient and at random elements. ReLU and max pooling have kinks: one of
 * three difference widths must agree. */
static void check_gradients(struct bound *b)
{
    enum { SAMPLES = 4 };
    struct ss_rng rng;
    ss_rng_open(&rng, 9, SS_RNG_SYNTHETIC, 2, 0);
    shake(b);
    float **before = get_params(b);
    double loss = one_step(b, 1);
    ck_assert(isfinite(loss) && loss > 0.1);
    float **after = get_params(b);
    set_params(b, before);
    ck_assert_double_eq(one_step(b, 0), loss); /* the step left no other state */
    for (int i = 0; i < b->plan->nparams; i++) {
        int64_t n = b->plan->param[i].elements, at = 0;
        if (b->plan->param[i].bucket < 0)
            continue;
        float scale = largest(before[i], after[i], n);
        ck_assert_msg(scale > 0, "%s: %s has no gradient", ss_graph_name(b->graph),
                      param_of(b, i)->name);
        while (fabsf(before[i][at] - after[i][at]) < scale)
            at++;
        for (int s = 0; s < SAMPLES; s++) {
            int64_t k = s ? (int64_t)ss_rng_below(&rng, (uint32_t)n) : at;
            double gradient = (double)before[i][k] - (double)after[i][k], found = 0, error = 1;
            static const float width[] = {1e-2f, 2e-3f, 5e-4f};
            double bound = 2e-2 * (fabs(gradient) + 0.2 * (double)scale) + 1e-4;
            for (int w = 0; w < 3 && error > bound; w++) {
                found = difference(b, before, i, k, width[w]);
                error = fabs(found - gradient);
            }
            ck_assert_msg(error <= bound,
                          "%s: d loss / d %s[%lld]: step %.6g, finite difference %.6g "
                          "(largest of the parameter: %.3g)",
                          ss_graph_name(b->graph), param_of(b, i)->name, (long long)k, gradient,
                          found, (double)scale);
        }
    }
    free_params(b, before);
    free_params(b, after);
}

/* A region larger than 4 GiB: StarPU counts elements in 32 bits. */
START_TEST(large_region)
{
    const size_t bytes = ((size_t)5 << 30) + 64;
    struct ss_runtime rt = {.node = STARPU_MAIN_RAM};
    const struct ss_exec e = {.options = {.runtime = &rt}, .kernels = &ss_cpu_kernels};
    struct region x = {.home = REGION_PART}, small = {.home = REGION_PART};
    struct starpu_conf conf;
    static char buffer[3];
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(memory != MAP_FAILED);
    ck_assert_int_eq(starpu_conf_init(&conf), 0);
    conf.ncpus = 1;
    ck_assert_int_eq(starpu_init(&conf), 0);
    ss_region_register(&e, &x, memory, bytes);
    ss_region_register(&e, &small, buffer, sizeof buffer);
    ck_assert_uint_eq(starpu_data_get_size(x.r.handle), bytes);
    ck_assert_uint_eq(starpu_data_get_size(small.r.handle), sizeof buffer);
    ss_region_drop(&e, &x);
    ss_region_drop(&e, &small);
    starpu_shutdown();
    munmap(memory, bytes);
}
END_TEST

START_TEST(gradients)
{
    struct bound b;
    struct setting s = usual;
    struct ss_runtime *runtime = start_runtime(1, 1);
    s.which = _i;
    bind_plan(&b, &s, runtime);
    check_gradients(&b);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

static int count_threads(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Models are built, read and written by the compute worker's OpenMP threads. A second team would
 * oversubscribe the cores, and libgomp's threads would sleep at each barrier. */
START_TEST(one_team)
{
    struct ss_runtime *runtime = start_runtime(3, 1);
    const int threads = count_threads();
    for (int i = 0; i < TEST_GRAPHS; i++) {
        struct bound b;
        struct setting s = usual;
        s.which = i;
        bind_plan(&b, &s, runtime);
        one_step(&b, 0.1);
        float **params = get_params(&b);
        set_params(&b, params);
        free_params(&b, params);
        ck_assert_int_eq(count_threads(), threads);
        unbind(&b);
    }
    ss_runtime_stop(runtime);
}
END_TEST

/* Other layouts: NHWC, blocks of 8 and of 16, with SS_CONV_AUTO. */
START_TEST(gradients_elsewhere)
{
    struct ss_runtime *runtime = start_runtime(2, 1);
    static const int blocks[] = {0, 8, 16};
    for (int i = 0; i < 3; i++) {
        struct bound b;
        struct setting s = usual;
        s.block = blocks[i];
        s.bucket_mb = 1e-6;
        s.no_overlap = i == 1;
        s.algo = SS_CONV_AUTO;
        bind_plan(&b, &s, runtime);
        check_gradients(&b);
        unbind(&b);
    }
    ss_runtime_stop(runtime);
}
END_TEST

/* Each layer type that reads the images or a convolution's output, in this processor's layout and
 * in NHWC. Layers with ReLU are tested only on images: after a convolution, finite differences
 * cross too many kinks. */
START_TEST(gradients_of_first_layers)
{
    const char *name = first_layers[_i].name;
    const int kinks = !strcmp(name, "relu") || !strcmp(name, "block");
    struct ss_runtime *runtime = start_runtime(1, 1);
    use_channels(first_layers[_i].channels);
    for (int how = 0; how < 4; how += 1 + kinks) {
        struct bound b;
        struct setting s = usual;
        s.first = &first_layers[_i];
        s.behind = how % 2;
        s.block = how / 2 ? 0 : NONE;
        bind_plan(&b, &s, runtime);
        check_gradients(&b);
        unbind(&b);
    }
    ss_runtime_stop(runtime);
    make_data();
}
END_TEST

/* 1: one of first_layers builds a layer of this class with this value of the flag. */
static int is_built(const struct ss_layer_class *cls, const struct ss_layer_field *flag, int value)
{
    int found = 0;
    for (int i = 0; i < FIRST_LAYERS && !found; i++) {
        struct ss_graph *g = ss_graph_create("one");
        build_with(g, &first_layers[i], 0);
        for (int l = 1; l < ss_graph_layers(g) - 2; l++) {
            const struct ss_layer *layer = ss_graph_layer(g, l);
            const int *at = (const int *)(const void *)((const char *)layer + flag->at);
            found |= layer->cls == cls && *at == value;
        }
        ss_graph_destroy(g);
    }
    return found;
}

/* first_layers covers both values of each flag of each layer class. */
START_TEST(every_flag)
{
    int flags = 0;
    for (int c = 0; ss_layer_classes[c]; c++)
        for (const struct ss_layer_field *f = ss_layer_classes[c]->fields; f && f->name; f++)
            for (int value = 0; f->type == SS_FIELD_FLAG && value < 2; value++, flags++)
                ck_assert_msg(is_built(ss_layer_classes[c], f, value),
                              "first_layers has no %s with %s %d", ss_layer_classes[c]->name,
                              f->name, value);
    ck_assert_int_ge(flags, 16);
}
END_TEST

/* Compare several steps of SGD with its definition, using gradients of single steps:
 *     v = momentum * v + g + weight_decay * p,   p = p - lr * v */
START_TEST(momentum)
{
    enum { STEPS = 3 };
    struct bound probe, b;
    struct setting s = usual, plain = usual;
    const float lr = 0.1f;
    struct ss_runtime *runtime = start_runtime(1, 1);
    s.which = plain.which = 1;
    s.momentum = 0.9f;
    s.weight_decay = 0.02f;
    bind_plan(&b, &s, runtime);
    bind_plan(&probe, &plain, runtime);
    float **p = get_params(&b), **v = get_params(&b);
    for (int i = 0; i < b.plan->nparams; i++)
        memset(v[i], 0, (size_t)b.plan->param[i].elements * sizeof(float));
    for (int k = 1; k <= STEPS; k++) {
        set_params(&probe, p);
        submit(&probe, (uint64_t)k, 1, k);
        OK(ss_exec_wait(probe.exec));
        submit(&b, (uint64_t)k, (double)lr, k);
        OK(ss_exec_wait(b.exec));
        float **stepped = get_params(&probe), **now = get_params(&b);
        for (int i = 0; i < b.plan->nparams; i++)
            for (int64_t j = 0; j < b.plan->param[i].elements; j++) {
                float g = p[i][j] - stepped[i][j];
                v[i][j] = s.momentum * v[i][j] + g + s.weight_decay * p[i][j];
                float want = p[i][j] - lr * v[i][j];
                ck_assert_msg(fabsf(want - now[i][j]) <= 1e-6f + 1e-5f * fabsf(want),
                              "step %d: %s[%lld] is %.9g instead of %.9g", k, param_of(&b, i)->name,
                              (long long)j, (double)now[i][j], (double)want);
                p[i][j] = now[i][j];
            }
        free_params(&b, stepped);
        free_params(&b, now);
    }
    free_params(&b, p);
    free_params(&b, v);
    unbind(&probe);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

/* Settings that must not change results. */

static uint64_t train_with(const struct setting *s, int threads, int workers)
{
    struct bound b;
    struct ss_runtime *runtime = start_runtime(threads, workers);
    bind_plan(&b, s, runtime);
    uint64_t hash = train(&b, 9);
    ck_assert(isfinite(b.loss));
    unbind(&b);
    ss_runtime_stop(runtime);
    return hash;
}

START_TEST(same_bits)
{
    struct setting s = usual;
    s.which = _i;
    s.momentum = 0.9f;
    s.weight_decay = 1e-3f;
    uint64_t want = train_with(&s, 1, 1);
    ck_assert_uint_eq(train_with(&s, 1, 1), want);
    ck_assert_uint_eq(train_with(&s, 1, 3), want);
    s.slots = 1;
    ck_assert_uint_eq(train_with(&s, 1, 3), want);
    s.slots = 7;
    s.slices = 1;
    ck_assert_uint_eq(train_with(&s, 1, 2), want);
    s.slices = BATCH;
    ck_assert_uint_eq(train_with(&s, 1, 2), want);
}
END_TEST

START_TEST(memory_moves)
{
    struct setting s = usual;
    s.which = _i;
    s.momentum = 0.9f;
    s.clip = 1;
    s.accumulate = 1 + _i % 2;
    same_bits_elsewhere(&s, start_runtime(1, 1));
}
END_TEST

static void build_act(struct ss_graph *g, ss_value (*act)(struct ss_graph *, ss_value))
{
    ss_value x = act(g, conv_bn(g, ss_input(g, 3, TEST_SIDE, TEST_SIDE), "conv", "bn", 9, 3, 1));
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
}

static ss_value no_act(struct ss_graph *g, ss_value x)
{
    (void)g;
    return x;
}

static ss_value slope_0(struct ss_graph *g, ss_value x)
{
    return ss_leaky_relu(g, x, 0);
}

static ss_value slope_half(struct ss_graph *g, ss_value x)
{
    return ss_leaky_relu(g, x, 0.5f);
}

static ss_value slope_1(struct ss_graph *g, ss_value x)
{
    return ss_leaky_relu(g, x, 1);
}

static void build_plain(struct ss_graph *g)
{
    build_act(g, no_act);
}

static void build_relu(struct ss_graph *g)
{
    build_act(g, ss_relu);
}

static void build_slope_0(struct ss_graph *g)
{
    build_act(g, slope_0);
}

static void build_slope_half(struct ss_graph *g)
{
    build_act(g, slope_half);
}

static void build_slope_1(struct ss_graph *g)
{
    build_act(g, slope_1);
}

/* A block's LeakyReLU equals ReLU for slope 0, the identity for slope 1, and neither otherwise. */
START_TEST(slopes)
{
    void (*const build[])(struct ss_graph * g) = {build_relu, build_slope_0, build_plain,
                                                  build_slope_1, build_slope_half};
    uint64_t hash[5];
    for (int i = 0; i < 5; i++) {
        struct setting s = usual;
        s.build = build[i];
        hash[i] = train_with(&s, 1, 1);
    }
    ck_assert_uint_eq(hash[1], hash[0]);
    ck_assert_uint_eq(hash[3], hash[2]);
    ck_assert_uint_ne(hash[4], hash[0]);
    ck_assert_uint_ne(hash[4], hash[2]);
}
END_TEST

/* Bucket sizes change the location of parameters, not their values. */
START_TEST(same_values_in_other_buckets)
{
    struct bound a, b;
    struct setting s = usual;
    struct ss_runtime *runtime = start_runtime(1, 2);
    s.momentum = 0.9f;
    bind_plan(&a, &s, runtime);
    s.bucket_mb = 1e-6;
    bind_plan(&b, &s, runtime);
    ck_assert_int_gt(b.plan->nbuckets, a.plan->nbuckets);
    train(&a, 5);
    train(&b, 5);
    float **x = get_params(&a), **y = get_params(&b);
    for (int i = 0; i < a.plan->nparams; i++)
        if (x[i])
            ck_assert_mem_eq(x[i], y[i], (size_t)a.plan->param[i].elements * sizeof(float));
    free_params(&a, x);
    free_params(&b, y);
    unbind(&a);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

/* Content of a training step's input slot: each sample is mixed with the preceding one in the
 * batch, independent of the number of slices. Evaluation does not mix or erase. */
START_TEST(mixed_slots)
{
    enum { N = 7, FIRST = 25, ALL = 3 * TEST_SIDE * TEST_SIDE };
    struct setting s = usual;
    struct bound b;
    s.batch = N;
    s.slots = 1;
    s.slices = 1 + _i;
    s.mix = (struct ss_mix_how){.mixup = 0.4, .cutmix = 1};
    s.random_erasing = 0.5;
    struct ss_runtime *runtime = start_runtime(1, 2);
    bind_plan(&b, &s, runtime);
    const struct ss_load_how how = {.seed = 11, .augment = 1, .replace = 1, .erase = 0.5};
    static float x[ALL], before[ALL];
    submit(&b, 1, 0.05, FIRST);
    OK(ss_exec_wait(b.exec));
    const struct ss_label *labels = b.exec->labels[0].data;
    const float *slot = b.exec->images[0].data;
    for (int i = 0; i < N; i++) {
        const uint32_t own = (FIRST + (uint32_t)i) % IMAGES,
                       other = (FIRST + (uint32_t)(i + N - 1) % N) % IMAGES;
        int32_t label[2];
        OK(ss_dataset_load(&data, own, &how, x, &label[0]));
        OK(ss_dataset_load(&data, other, &how, before, &label[1]));
        const struct ss_mix mix = ss_mix_draw(&s.mix, 11, 0, own, TEST_SIDE, TEST_SIDE);
        ss_mix_apply(&data, &mix, 0, x, before);
        ck_assert_mem_eq(slot + i * ALL, x, sizeof x);
        ck_assert_int_eq(labels[i].label, label[0]);
        ck_assert_int_eq(labels[i].other, label[1]);
        ck_assert_float_eq(labels[i].share, mix.share);
    }
    (void)evaluate(&b);
    const struct ss_load_how plain = {.seed = 11};
    int32_t label; /* of the last batch's first sample */
    OK(ss_dataset_load(&data, IMAGES / N * N, &plain, x, &label));
    ck_assert_mem_eq(slot, x, sizeof x);
    ck_assert_int_eq(labels[0].label, label);
    ck_assert_float_eq(labels[0].share, 1);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

/* Evaluation uses every image once for any batch size and does not change the model. */
START_TEST(evaluation)
{
    static const int batches[] = {BATCH, 1, 7, IMAGES, 32};
    struct ss_metrics want = {0};
    struct bound b, other;
    struct setting s = usual;
    struct ss_runtime *runtime = start_runtime(1, 2);
    s.which = _i;
    bind_plan(&b, &s, runtime);
    train(&b, 3);
    float **all = get_params(&b);
    for (int i = 0; i < 5; i++) {
        s.batch = batches[i];
        s.slots = 1 + i;
        s.slices = s.batch < 3 ? 1 : 3;
        bind_plan(&other, &s, runtime);
        set_params(&other, all);
        uint64_t hash = hash_of(other.exec);
        struct ss_metrics m = evaluate(&other);
        if (i == 0)
            want = m;
        ck_assert_double_eq(m.count, IMAGES);
        ck_assert_double_eq(m.bad, 0);
        ck_assert_double_eq(m.correct, want.correct);
        ck_assert_double_eq_tol(m.loss, want.loss, 1e-5 * want.loss);
        /* A second evaluation is bit-identical, and the parameters are unchanged. */
        struct ss_metrics again = evaluate(&other);
        ck_assert_mem_eq(&again, &m, sizeof m);
        ck_assert_uint_eq(hash_of(other.exec), hash);
        float **now = get_params(&other);
        for (int k = 0; k < b.plan->nparams; k++)
            if (all[k])
                ck_assert_mem_eq(now[k], all[k], (size_t)b.plan->param[k].elements * sizeof(float));
        free_params(&other, now);
        unbind(&other);
    }
    free_params(&b, all);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

/* Training reduces the loss over the images. */
START_TEST(learns)
{
    struct bound b;
    struct setting s = usual;
    struct ss_runtime *runtime = start_runtime(2, 1);
    s.which = _i;
    bind_plan(&b, &s, runtime);
    b.augment = 0;
    /* Models without BatchNorm or with strong dropout need more steps. */
    const char *name = ss_graph_name(b.graph);
    const int slow = !strcmp(name, "chain") || !strcmp(name, "curves");
    b.lr = slow ? 0.2 : 0.02;
    struct ss_metrics before = evaluate(&b);
    train(&b, slow || !strcmp(name, "join") ? 200 : 50);
    struct ss_metrics after = evaluate(&b);
    ck_assert_msg(after.loss < 0.9 * before.loss, "%s: the loss went from %g to %g", name,
                  before.loss / IMAGES, after.loss / IMAGES);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

START_TEST(drops)
{
    drops_by_formula(_i, start_runtime(2, 1));
}
END_TEST

/* A model loaded into another executor is bit-identical, also after further training. */
START_TEST(save_and_load)
{
    struct bound a, b;
    struct setting s = usual;
    char path[64] = "/tmp/test_exec.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    struct ss_runtime *runtime = start_runtime(1, 1);
    s.which = _i;
    bind_plan(&a, &s, runtime);
    train(&a, 4);
    OK(ss_model_file_write(a.exec, a.plan, path, 4711, 0));
    s.bucket_mb = 1e-6; /* the file is independent of buckets */
    bind_plan(&b, &s, runtime);
    OK(ss_model_init(b.exec, b.plan, 99));
    int64_t batches = -1;
    OK(ss_model_file_read(b.exec, b.plan, path, &batches));
    int normalised = 0;
    for (int i = 0; i < a.plan->nparams; i++)
        normalised |= param_of(&a, i)->role == SS_PARAM_NUM_BATCHES;
    ck_assert_int_eq(batches, normalised ? 4711 : 0);
    for (int round = 0; round < 2; round++) {
        float **x = get_params(&a), **y = get_params(&b);
        for (int i = 0; i < a.plan->nparams; i++)
            if (x[i])
                ck_assert_mem_eq(x[i], y[i], (size_t)a.plan->param[i].elements * sizeof(float));
        free_params(&a, x);
        free_params(&b, y);
        train(&a, 2);
        train(&b, 2);
    }
    ck_assert_double_eq(a.loss, b.loss);

    /* A file of another model is refused and does not change parameters. */
    struct bound c;
    s.which = (_i + 1) % TEST_GRAPHS;
    bind_plan(&c, &s, runtime);
    uint64_t hash = hash_of(c.exec);
    ck_assert_int_eq(ss_model_file_read(c.exec, c.plan, path, &batches), SS_ERR_MISMATCH);
    ck_assert_uint_eq(hash_of(c.exec), hash);
    unbind(&a);
    unbind(&b);
    unbind(&c);
    ss_runtime_stop(runtime);
    remove(path);
}
END_TEST

/* Counts the hooks called in steps 2 and 3. Atomics: tasks end on several threads. */
struct listener {
    struct ss_hooks hooks;
    _Atomic uint64_t begun, ended; /* step numbers as decimal digits, in order */
    _Atomic int loads, updates, others, wrong;
};

static void hook_begins(void *arg, uint64_t step)
{
    struct listener *l = arg;
    l->begun = 10 * l->begun + step;
}

static enum ss_status hook_ends(void *arg, const struct ss_step_args *args)
{
    struct listener *l = arg;
    l->ended = 10 * l->ended + args->step;
    l->wrong += !args->submitted_ns || args->task->plan->kind != SS_TASK_REPORT;
    return SS_OK;
}

static void hook_task(void *arg, const struct ss_step_args *args)
{
    struct listener *l = arg;
    const struct ss_task_times *t = &args->times;
    enum ss_task_kind kind = args->task->plan->kind;
    *(kind == SS_TASK_LOAD ? &l->loads : kind == SS_TASK_UPDATE ? &l->updates : &l->others) += 1;
    l->wrong += t->ready < args->submitted_ns || t->begin < t->ready || t->end < t->begin ||
                t->worker < 0 || !args->task->training;
}

static void listen(struct listener *l, unsigned kinds)
{
    *l = (struct listener){.hooks = {.arg = l,
                                     .first = 2,
                                     .last = 3,
                                     .step_begins = hook_begins,
                                     .step_ends = hook_ends,
                                     .ended = kinds,
                                     .task_ends = hook_task}};
}

/* Two listeners: each is called for the tasks that it selected, and not after it is unhooked. */
START_TEST(hooks)
{
    struct listener some, all;
    struct bound b;
    struct ss_runtime *runtime = start_runtime(1, 2);
    bind_plan(&b, &usual, runtime);
    listen(&some, SS_HOOKS_KIND(SS_TASK_LOAD) | SS_HOOKS_KIND(SS_TASK_UPDATE));
    listen(&all, SS_HOOKS_ALL);
    ss_exec_hook(b.exec, &some.hooks);
    ss_exec_hook(b.exec, &all.hooks);
    train(&b, 4);
    ss_exec_unhook(b.exec, &some.hooks);
    train(&b, 2);
    evaluate(&b);
    ss_exec_unhook(b.exec, &all.hooks);
    train(&b, 3);
    int loads = b.plan->options.slices, updates = b.plan->nbuckets;
    ck_assert_uint_eq(some.begun, 23);
    ck_assert_uint_eq(some.ended, 23);
    ck_assert_int_eq(some.loads, 2 * loads);
    ck_assert_int_eq(some.updates, 2 * updates);
    ck_assert_int_eq(some.others, 0);
    ck_assert_uint_eq(all.begun, 232);
    ck_assert_uint_eq(all.ended, 232);
    ck_assert_int_eq(all.loads, 3 * loads);
    ck_assert_int_eq(all.updates, 3 * updates);
    ck_assert_int_eq(all.others, 3 * (b.plan->train.count - loads - updates));
    ck_assert_int_eq(some.wrong + all.wrong, 0);
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

/* A label out of range: the run fails without hanging, and reports have no metrics. */
START_TEST(failure_inside_a_step)
{
    struct bound b;
    struct ss_runtime *runtime = start_runtime(1, 1);
    bind_plan(&b, &usual, runtime);
    uint8_t keep = records[0];
    records[0] = TEST_CLASSES;
    submit(&b, 1, 0.1, 0);
    submit(&b, 2, 0.1, 0);
    ck_assert_int_eq(ss_exec_wait(b.exec), SS_ERR_INVALID);
    ck_assert(isnan(b.loss));
    ck_assert_uint_eq(b.reported, 2);
    records[0] = keep;
    unbind(&b);
    ss_runtime_stop(runtime);
}
END_TEST

START_TEST(adamw_as_pytorch)
{
    as_pytorch("groups", "adamw", start_runtime(1, 1));
}
END_TEST

START_TEST(groupnorm_as_pytorch)
{
    as_pytorch("groups", "sgd", start_runtime(1, 1));
}
END_TEST

START_TEST(gelu_as_pytorch)
{
    as_pytorch("gelus", "sgd", start_runtime(1, 1));
}
END_TEST

START_TEST(join_as_pytorch)
{
    as_pytorch("join", "sgd", start_runtime(1, 1));
}
END_TEST

START_TEST(readers_as_pytorch)
{
    as_pytorch("readers", "sgd", start_runtime(1, 1));
}
END_TEST

START_TEST(transformer_as_pytorch)
{
    as_pytorch("vit", "sgd", start_runtime(1, 1));
}
END_TEST

/* Views in place are bit-identical to copies, also after a step's update. */
START_TEST(parts_as_copies)
{
    static const int blocks[] = {16, 8, 1};
    struct ss_runtime *runtime = start_runtime(2, 1);
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        uint64_t hash[2];
        for (int copy = 0; copy < 2; copy++) {
            struct bound b;
            struct setting s = usual;
            s.which = _i / 3;
            s.block = blocks[_i % 3];
            s.momentum = 0.9f;
            s.copy_parts = copy;
            s.accumulate = accumulate;
            bind_plan(&b, &s, runtime);
            hash[copy] = train(&b, 2);
            const struct ss_metrics e = evaluate(&b);
            hash[copy] = ss_mix64(hash[copy], (uint64_t)(e.loss * 1e12));
            unbind(&b);
        }
        ck_assert_uint_eq(hash[0], hash[1]);
    }
    ss_runtime_stop(runtime);
}
END_TEST

/* Activations recomputed on reading, and additions fused into the store, are bit-identical to
 * stored activations and separate additions: with gradient accumulation, in evaluation, with
 * short batches, and with deferred weight gradients. */
START_TEST(unstored_as_stored)
{
    struct ss_runtime *runtime = start_runtime(2, 1);
    int unstored = 1;
    for (int how = 0; how < 4 && unstored; how++) {
        uint64_t hash[2] = {0, 0};
        unstored = 0;
        for (int stores = 0; stores < 2; stores++) {
            struct bound b;
            struct setting s = usual;
            s.which = _i;
            s.algo = SS_CONV_WINOGRAD;
            s.momentum = 0.9f;
            s.stores = stores;
            s.spoils = 1;
            s.accumulate = 1 + (how == 1);
            s.lacks = 2 * (how == 2);
            s.defer_weight_grads = how == 3 ? -1 : 0;
            bind_plan(&b, &s, runtime);
            for (int i = 0; i < b.plan->nblocks; i++)
                unstored +=
                    b.plan->block[i].made_by >= 0 ||
                    (b.plan->block[i].cls->keeps_z && ss_block_only_adds(&b.plan->block[i]));
            if (!unstored) { /* no such block in this model */
                unbind(&b);
                break;
            }
            train(&b, 3);
            hash[stores] = hash_in_order(&b);
            const struct ss_metrics e = evaluate(&b);
            hash[stores] = ss_mix64(hash[stores], (uint64_t)(e.loss * 1e12));
            unbind(&b);
        }
        ck_assert_uint_eq(hash[0], hash[1]);
        if (!strcmp(test_graphs[_i].name, "pre") && ss_cpu_preferred_block())
            ck_assert_int_eq(unstored, how == 3 ? 3 : 6); /* b, h and i are additions */
    }
    ss_runtime_stop(runtime);
}
END_TEST

/* Deferring weight gradients, which may change their buckets, does not change any bit. */
START_TEST(weights_deferred)
{
    static const int deferred[] = {0, 2, 4, 1 << 16, -1};
    struct setting s = usual;
    struct in_order run[5];
    s.which = _i / 2;
    s.accumulate = 1 + _i % 2;
    s.momentum = 0.9f;
    s.bucket_mb = 0.01;
    run[0] = train_in_order(&s, start_runtime(1, 1));
    for (int k = 1; k < 5; k++) {
        s.defer_weight_grads = deferred[k];
        run[k] = train_in_order(&s, start_runtime(1, 1 + k % 2));
        ck_assert_uint_eq(run[k].hash, run[0].hash);
        ck_assert_int_le(run[k - 1].deferred, run[k].deferred);
    }
    ck_assert_int_eq(run[0].deferred, 0);
    ck_assert_int_eq(run[3].deferred, run[4].deferred);
    ck_assert(run[3].deferred > 0 || s.which != 0); /* model 0 has convolutions */
}
END_TEST

/* In every kind of layer, freezing is bit-identical to a learning-rate factor of 0. */
START_TEST(frozen_weights)
{
    enum { SEEDS = 6 };
    static const int deferred[] = {0, 3, -1};
    char rates[4096];
    struct setting s = usual;
    s.which = _i;
    s.momentum = 0.9f;
    s.weight_decay = 0.01f;
    s.bucket_mb = 0.01;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        s.accumulate = 1 + seed % 2;
        s.defer_weight_grads = deferred[seed % 3];
        s.frozen = seed;
        s.lr_factor = NULL;
        rates_of_frozen(&s, rates, sizeof rates);
        const struct in_order frozen = train_in_order(&s, start_runtime(1, 1));
        s.frozen = 0;
        s.lr_factor = rates;
        ck_assert_msg(train_in_order(&s, start_runtime(1, 1)).hash == frozen.hash, "%s: %s",
                      test_graphs[_i].name, rates);
    }
}
END_TEST

/* A short batch equals a smaller batch, for any layer. Slots and slices do not change any bit. */
static void check_short_batch(struct setting s)
{
    s.momentum = 0.9f;
    s.batch = 4;
    struct outcome small = run(&s, start_runtime(1, 1), 5, 0.02);
    s.batch = 6;
    s.lacks = 2;
    s.defer_weight_grads = -1;
    struct outcome lacking = run(&s, start_runtime(1, 1), 5, 0.02);
    check_close(&lacking, &small, 1e-5);
    s.slots = 2;
    s.slices = 5;
    s.spoils = 1;
    struct outcome again = run(&s, start_runtime(1, 2), 5, 0.02);
    ck_assert_uint_eq(again.hash, lacking.hash);
    free_outcome(&small);
    free_outcome(&lacking);
    free_outcome(&again);
}

START_TEST(short_batch)
{
    static const int blocks[] = {NONE, 0, 16, 8, 1};
    struct setting s = usual;
    s.which = _i / 2;
    s.block = blocks[_i % 5];
    if (_i % 2) {
        s.mix = (struct ss_mix_how){0.5, 0.5};
        s.random_erasing = 0.3;
    }
    check_short_batch(s);
}
END_TEST

START_TEST(short_batch_of_first_layers)
{
    struct setting s = usual;
    s.first = &first_layers[_i];
    use_channels(s.first->channels);
    for (s.behind = 0; s.behind < 2; s.behind++)
        check_short_batch(s);
    make_data();
}
END_TEST

/* Recorded initial values of one seed, in PyTorch's layouts, for convolution and linear layers. */
START_TEST(initial_values)
{
    static const struct {
        const char *name;
        float first[3];
    } golden[] = {{"conv1.weight", {0.0666124895f, 0.0090646809f, -0.0485861227f}},
                  {"fc.weight", {0.210506976f, -0.154175773f, 0.187343091f}},
                  {"fc.bias", {0.145333633f, -0.089681983f, 0.0628645271f}}};
    struct bound b;
    bind_plan(&b, &usual, start_runtime(1, 1));
    float **params = get_params(&b);
    for (size_t k = 0; k < sizeof golden / sizeof *golden; k++) {
        int i = 0;
        while (strcmp(param_of(&b, i)->name, golden[k].name))
            ck_assert_int_lt(++i, b.plan->nparams);
        for (int n = 0; n < 3; n++)
            ck_assert_float_eq(params[i][n], golden[k].first[n]);
    }
    free_params(&b, params);
    unbind(&b);
    ss_runtime_stop(&runtime_of_test);
}
END_TEST

/* The first task blocks the worker until all other tasks are submitted and ready. */
enum { ORDERED = 12 };
static sem_t begun, gate;
static int order[ORDERED], norder;

static void note_order(void *buffers[], void *cl_arg)
{
    (void)buffers;
    const struct ss_step_args *args = cl_arg;
    if (args->step > 0) {
        order[norder++] = args->task->plan->priority;
        return;
    }
    sem_post(&begun);
    sem_wait(&gate);
}

/* Ready tasks run in the order of their plan's priorities, on compute and service workers. */
START_TEST(priorities)
{
    struct ss_codelet codelets[] = {SS_COMPUTE_CODELET("compute", note_order),
                                    SS_SERVICE_CODELET("serve", note_order)};
    struct ss_plan_task planned[ORDERED + 1] = {{.priority = 0}};
    struct ss_bound_task bound[ORDERED + 1];
    struct ss_hooks *none = NULL;
    start_runtime(1, 1);
    for (int c = 0; c < 2; c++) {
        sem_init(&begun, 0, 0);
        sem_init(&gate, 0, 0);
        norder = 0;
        for (int i = 0; i <= ORDERED; i++) {
            planned[i].priority = i * 5 % (ORDERED + 1); /* a permutation */
            bound[i] = (struct ss_bound_task){.plan = &planned[i], .name = "t", .hooks = &none};
            const struct ss_step_args args = {.task = &bound[i], .step = (uint64_t)i};
            OK(ss_task_submit(&codelets[c], &args, sizeof args));
            if (i == 0)
                sem_wait(&begun);
        }
        sem_post(&gate);
        ck_assert_int_eq(starpu_task_wait_for_all(), 0);
        ck_assert_int_eq(norder, ORDERED);
        for (int i = 1; i < ORDERED; i++)
            ck_assert_msg(order[i] < order[i - 1], "priority %d after %d", order[i], order[i - 1]);
        sem_destroy(&begun);
        sem_destroy(&gate);
    }
    ss_runtime_stop(&runtime_of_test);
}
END_TEST

/* The compute worker of a CPU rank also runs loads, here while the service worker is blocked. */
START_TEST(loads_on_the_compute_worker)
{
    struct ss_codelet hold = SS_SERVICE_CODELET("hold", note_order);
    struct ss_plan_task planned = {.priority = 0};
    struct ss_hooks *none = NULL;
    const struct ss_bound_task task = {.plan = &planned, .name = "t", .hooks = &none};
    const struct ss_step_args args = {.task = &task};
    const uint32_t sample[BATCH] = {0};
    const struct ss_exec_step step = {.dataset = &data, .sample = sample};
    struct ss_metrics metrics;
    struct bound b;
    make_data();
    bind_plan(&b, &usual, start_runtime(1, 1));
    sem_init(&begun, 0, 0);
    sem_init(&gate, 0, 0);
    OK(ss_exec_reset_eval(b.exec));
    OK(ss_task_submit(&hold, &args, sizeof args));
    sem_wait(&begun);
    OK(ss_exec_submit_eval(b.exec, &step));
    OK(ss_exec_eval_metrics(b.exec, &metrics)); /* waits for the step's tasks */
    ck_assert_double_eq(metrics.count, BATCH);
    sem_post(&gate);
    OK(ss_exec_wait(b.exec));
    unbind(&b);
    ss_runtime_stop(&runtime_of_test);
    sem_destroy(&begun);
    sem_destroy(&gate);
}
END_TEST

/* Let allocations larger than memory return NULL (for the address sanitizer see leaks.h). */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

START_TEST(no_memory_for_a_task)
{
    struct ss_codelet codelet = {.cl = {.nbuffers = STARPU_VARIABLE_NBUFFERS}};
    struct ss_plan_task planned = {0};
    struct ss_hooks *none = NULL;
    struct ss_bound_task task = {.plan = &planned, .name = "t", .hooks = &none};
    const struct ss_step_args args = {.task = &task};
    start_runtime(1, 1);
    ck_assert_int_eq(ss_task_submit(&codelet, &args, SIZE_MAX / 4), SS_ERR_MEMORY);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "a StarPU task ("));
    ss_runtime_stop(&runtime_of_test);
}
END_TEST

/* With clipping, the norm of the update equals learning rate times bound for larger gradients. */
START_TEST(clipping)
{
    struct bound b;
    struct setting s = usual;
    double moved = 0;
    s.clip = 1e-3;
    bind_plan(&b, &s, start_runtime(1, 1));
    float **before = get_params(&b);
    one_step(&b, 0.5);
    float **after = get_params(&b);
    for (int i = 0; i < b.plan->nparams; i++)
        for (int64_t k = 0; b.plan->param[i].bucket >= 0 && k < (int64_t)b.plan->param[i].elements;
             k++)
            moved += pow((double)after[i][k] - (double)before[i][k], 2);
    ck_assert_msg(fabs(sqrt(moved) - 0.5e-3) < 1e-6, "%g", sqrt(moved));
    free_params(&b, before);
    free_params(&b, after);
    unbind(&b);
    ss_runtime_stop(&runtime_of_test);
}
END_TEST

/* Executors free their memory. StarPU retains some of its own. */
START_TEST(gives_back)
{
    enum { WARM_UP = 3, MEASURED = 6, KEPT = 1500 };
    struct bound b;
    struct setting s = usual;
    struct mallinfo2 before = mallinfo2();
    if (!before.uordblks)
        return; /* a sanitizer's allocator */
    struct ss_runtime *runtime = start_runtime(1, 1);
    s.which = _i;
    s.optimizer = "adamw";
    s.clip = 1;
    s.ema_decay = 0.9;
    s.copy_parts = 1;
    s.bucket_mb = 0.01;
    for (int k = 0; k < WARM_UP + MEASURED; k++) {
        bind_plan(&b, &s, runtime);
        train(&b, 2);
        evaluate(&b);
        unbind(&b);
        if (k < WARM_UP)
            before = mallinfo2();
    }
    const struct mallinfo2 after = mallinfo2();
    const double kept =
        (double)(after.uordblks + after.hblkhd) - (double)(before.uordblks + before.hblkhd);
    ck_assert_msg(kept < MEASURED * KEPT, "an executor leaks %g bytes", kept / MEASURED);
    ss_runtime_stop(runtime);
}
END_TEST

/* A layer class whose operation is not implemented. */
START_TEST(operation_missing)
{
    static const struct ss_layer_class cls = {.name = "strange", .operation = "walk"};
    struct ss_block block = {.cls = &cls, .name = "walk.1"};
    struct ss_plan plan = {.nblocks = 1, .block = &block};
    struct ss_op_context context = {.plan = &plan};
    struct ss_op *op = NULL;
    ck_assert_int_eq(ss_op_create(&context, 0, &op), SS_ERR_UNSUPPORTED);
    ck_assert_ptr_null(op);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "walk.1: no operation \"walk\""));
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, large_region);
    tcase_add_test(t, one_team);
    tcase_add_loop_test(t, same_bits, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, memory_moves, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, mixed_slots, 0, 3);
    tcase_add_loop_test(t, evaluation, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, learns, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, save_and_load, 0, TEST_GRAPHS);
    tcase_add_test(t, hooks);
    tcase_add_test(t, failure_inside_a_step);
    tcase_add_test(t, priorities);
    tcase_add_test(t, loads_on_the_compute_worker);
    tcase_add_test(t, no_memory_for_a_task);
    tcase_add_test(t, operation_missing);
    tcase_add_loop_test(t, gives_back, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, weights_deferred, 0, 2 * TEST_GRAPHS);
}

static void add_values(TCase *t)
{
    tcase_add_loop_test(t, gradients, 0, TEST_GRAPHS);
    tcase_add_test(t, gradients_elsewhere);
    tcase_add_loop_test(t, gradients_of_first_layers, 0, FIRST_LAYERS);
    tcase_add_test(t, every_flag);
    tcase_add_test(t, momentum);
    tcase_add_test(t, slopes);
    tcase_add_test(t, same_values_in_other_buckets);
    tcase_add_loop_test(t, drops, 0, DROPS);
    tcase_add_test(t, initial_values);
    tcase_add_test(t, clipping);
    tcase_add_loop_test(t, parts_as_copies, 0, 3 * TEST_GRAPHS);
    tcase_add_loop_test(t, unstored_as_stored, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, frozen_weights, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, short_batch, 0, 2 * TEST_GRAPHS);
    tcase_add_loop_test(t, short_batch_of_first_layers, 0, FIRST_LAYERS);
    tcase_add_test(t, groupnorm_as_pytorch);
    tcase_add_test(t, gelu_as_pytorch);
    tcase_add_test(t, join_as_pytorch);
    tcase_add_test(t, readers_as_pytorch);
    tcase_add_test(t, transformer_as_pytorch);
    tcase_add_test(t, adamw_as_pytorch);
}

int main(void)
{
    return run_tests("exec", add_tests, add_values);
}
