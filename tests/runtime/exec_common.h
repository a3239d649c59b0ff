/* exec_common.h: for tests of executors: a small data set, a plan bound to a runtime, and steps. */
#ifndef SS_TESTS_EXEC_COMMON_H
#define SS_TESTS_EXEC_COMMON_H

#include "core/log.h"
#include "core/rng.h"
#include "graphs/models.h"
#include "kernels/cpu/cpu.h"
#include "runtime/exec_internal.h"
#include "tests/graph/freeze.h"
#include "tests/graph/test_graphs.h"
#include "tests/leaks.h"
#include "train/model_file.h"
#include "train/safetensors.h"

#include "tests/run_suite.h"
#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGES = 30, RECORD = 1 + 3 * TEST_SIDE * TEST_SIDE, BATCH = 6, NONE = -1 };

#define OK(call) ck_assert_msg((call) == SS_OK, #call ": %s", ss_log_last_error())

/* Shared by all tests. */
static struct ss_dataset data;
static uint8_t records[IMAGES * RECORD];
static struct ss_comm *comm;

/* Images of random noise whose mean color correlates with the label. */
static inline void make_data(void)
{
    struct ss_rng rng;
    data = (struct ss_dataset){.ops = &ss_record_ops,
                               .name = "test",
                               .path = "test",
                               .count = IMAGES,
                               .channels = 3,
                               .height = TEST_SIDE,
                               .width = TEST_SIDE,
                               .classes = TEST_CLASSES,
                               .mean = {0.5f, 0.5f, 0.5f},
                               .std = {0.25f, 0.25f, 0.25f},
                               .records = records,
                               .record_bytes = RECORD,
                               .image_offset = 1,
                               .label_offset = 0};
    ss_dataset_fill_table(&data);
    ss_rng_open(&rng, 7, SS_RNG_SYNTHETIC, 0, 0);
    for (int i = 0; i < IMAGES; i++) {
        uint8_t *r = records + (size_t)i * RECORD;
        r[0] = (uint8_t)ss_rng_below(&rng, TEST_CLASSES);
        for (int k = 1; k < RECORD; k++)
            r[k] = (uint8_t)(20 * r[0] + ss_rng_below(&rng, 170));
    }
}

/* Load a record as an image with any number of channels, each from another offset of the record. */
static inline enum ss_status load_channels(const struct ss_dataset *d, size_t i,
                                           const struct ss_load_how *how, void *out, int32_t *label)
{
    enum { PLANE = TEST_SIDE * TEST_SIDE };
    const uint8_t *record = ss_dataset_image(d, i);
    *label = ss_dataset_label(d, i);
    for (int k = 0; k < d->channels * PLANE; k++) {
        const int c = k / PLANE % 3;
        const uint8_t byte = record[(k + 29 * (k / PLANE)) % (3 * PLANE)];
        if (how->bytes)
            ((uint8_t *)out)[k] = byte;
        else
            ((float *)out)[k] = ((float)byte / 255.0f - d->mean[c]) / d->std[c];
    }
    return SS_OK;
}

/* Give the data set's images `channels` channels; make_data() restores 3. */
static inline void use_channels(int channels)
{
    static const struct ss_dataset_ops ops = {.load = load_channels};
    data.ops = &ops;
    data.channels = channels;
}

/* One model, bound. */
struct bound {
    struct ss_graph *graph;
    struct ss_plan *plan;
    struct ss_runtime *runtime;
    struct ss_exec *exec;
    struct ss_exec_options options; /* of exec */
    sem_t in_flight;
    double loss; /* mean, of the last step reported */
    uint64_t reported;
    int in_order;
    double lr;
    int augment;
    int lacks, whole, spoils;
};

static inline void on_report(void *arg, uint64_t step, double lr, const struct ss_step_facts *facts)
{
    struct bound *b = arg;
    (void)lr;
    b->in_order &= step > b->reported || step == 1;
    b->reported = step;
    b->loss = facts ? facts->metrics.loss / facts->metrics.count : NAN;
    sem_post(&b->in_flight);
}

struct setting {
    int which, batch, slots, slices, block;
    double bucket_mb;
    float momentum, weight_decay;
    enum ss_conv_algo algo;
    enum ss_dtype dtype; /* GPU */
    int no_overlap;
    const char *optimizer;
    double clip, ema_decay;
    const char *lr_factor;
    const char *model, *width; /* of graphs/, for the data's size; NULL: test_graphs[which] */
    int accumulate;            /* 0: as 1 */
    struct ss_mix_how mix;
    double random_erasing;
    void (*build)(struct ss_graph *g); /* replaces the above; NULL: not used */
    const struct first_layer *first;   /* the same, by build_with; see use_channels */
    int behind;                        /* argument of build_with */
    int copy_parts;
    int stores; /* store all activations */
    int defer_weight_grads;
    uint32_t frozen; /* seed: about half of the parameters are frozen; 0: no parameters */
    enum ss_replay_mode replay; /* GPU */
    double predicted_s;         /* GPU */
    int nondeterministic;       /* GPU */
    int lacks;                  /* number of images missing at the end of a batch */
    int whole;                  /* number of full batches before each short one */
    int spoils;                 /* fill buffers with NaN before each step */
};
static const struct setting usual = {.batch = BATCH,
                                     .slots = 4,
                                     .slices = 3,
                                     .block = NONE,
                                     .bucket_mb = 25,
                                     .algo = SS_CONV_DIRECT,
                                     .dtype = SS_DTYPE_F32,
                                     .optimizer = "sgd",
                                     .replay = SS_REPLAY_AUTO};

/* Runtime and executors of the current test that are still open. */
static struct ss_runtime runtime_of_test;
static struct bound bound_of_test[4];
static int nbound_of_test;

static inline struct ss_runtime *start_runtime(int threads, int workers)
{
    struct ss_runtime *runtime = &runtime_of_test;
    struct ss_placement placement;
    OK(ss_placement_decide(threads, workers, 0, 1, &placement));
    OK(ss_runtime_start(runtime, &placement, SS_DTYPE_F32, NULL));
    return runtime;
}

static inline struct ss_graph *make_whole_graph(const struct setting *s)
{
    const struct ss_model_options images = {s->width,      -1,          TEST_CLASSES,
                                            data.channels, data.height, data.width};
    struct ss_graph *g;
    if (s->build || s->first) {
        g = ss_graph_create(s->first ? s->first->name : "own");
        if (s->first)
            build_with(g, s->first, s->behind);
        else
            s->build(g);
        OK(ss_graph_finish(g));
        return g;
    }
    if (!s->model)
        return make_test_graph(s->which);
    OK(ss_model_build(s->model, &images, &g));
    return g;
}

static inline struct ss_graph *make_graph(const struct setting *s)
{
    struct ss_graph *g = make_whole_graph(s);
    return s->frozen ? freeze_some(g, s->frozen) : g;
}

/* Write "NAME=0,...": learning-rate factor 0 for the parameters that s->frozen freezes. */
static inline void rates_of_frozen(const struct setting *s, char *text, size_t capacity)
{
    struct ss_graph *g = make_graph(s);
    size_t n = 0;
    for (int i = 0; i < ss_graph_params(g); i++)
        if (ss_graph_param(g, i)->frozen)
            n += (size_t)snprintf(text + n, capacity - n, "%s%s=0", n ? "," : "",
                                  ss_graph_param(g, i)->name);
    ck_assert_uint_lt(n, capacity);
    ck_assert_uint_gt(n, 0);
    ss_graph_destroy(g);
}

static inline void bind_plan(struct bound *b, const struct setting *s, struct ss_runtime *runtime)
{
    memset(b, 0, sizeof *b);
    b->in_order = b->augment = 1;
    b->lr = 0.05;
    b->runtime = runtime;
    b->lacks = s->lacks;
    b->whole = s->whole;
    b->spoils = s->spoils;
    b->graph = make_graph(s);
    ck_assert_msg(b->graph != NULL, "%s", ss_log_last_error());
    struct ss_plan_options options = {.batch = s->batch,
                                      .accumulate = s->accumulate,
                                      .channel_block =
                                          s->block == NONE ? ss_cpu_preferred_block() : s->block,
                                      .bucket_mb = s->bucket_mb,
                                      .first_bucket_mb = s->bucket_mb,
                                      .no_overlap = s->no_overlap,
                                      .slices = s->slices,
                                      .copy_parts = s->copy_parts,
                                      .makes_x = s->stores ? NULL : ss_op_makes_x,
                                      .adds = s->stores ? NULL : ss_op_adds,
                                      .algo = (int)s->algo,
                                      .defer_weight_grads = s->defer_weight_grads};
    if (runtime->lanes) {
        options.device = 1;
        options.nondeterministic = s->nondeterministic;
        options.channel_block = 0;
        options.dtype = s->dtype;
        options.input_block = ss_gpu_input_block(s->dtype);
        options.loss_scaling = s->dtype == SS_DTYPE_F16;
    }
    struct ss_optim optim;
    OK(ss_optim_find(s->optimizer, &optim));
    ss_optim_set(&optim, "--momentum", (double)s->momentum);
    ss_optim_set(&optim, "--weight-decay", (double)s->weight_decay);
    optim.clip = s->clip;
    optim.ema_decay = s->ema_decay;
    optim.lr_factor = s->lr_factor;
    options.states = ss_optim_states(&optim);
    options.clipping = optim.clip > 0;
    options.norms = ss_optim_has_norms(&optim);
    OK(ss_plan_lower(b->graph, &options, &b->plan));
    sem_init(&b->in_flight, 0, (unsigned)s->slots);
    struct ss_exec_options exec = {.runtime = runtime,
                                   .comm = comm,
                                   .plan = b->plan,
                                   .training = 1,
                                   .slots = s->slots,
                                   .seed = 11,
                                   .optim = optim,
                                   .mix = s->mix,
                                   .random_erasing = s->random_erasing,
                                   .init_scale = 1024,
                                   .replay = s->replay,
                                   .predicted_s = s->predicted_s,
                                   .scale_interval = 2000,
                                   .report = {on_report, b}};
    for (int c = 0; c < SS_INPUT_CHANNELS; c++) {
        exec.mean[c] = data.mean[c % 3];
        exec.std[c] = data.std[c % 3];
    }
    b->options = exec;
    OK(ss_exec_create(&exec, &b->exec));
    if (nbound_of_test < 4) /* failed tests fill the array if end_test() is not used */
        bound_of_test[nbound_of_test++] = *b;
    OK(ss_model_init(b->exec, b->plan, 3));
}

static inline void unbind(struct bound *b)
{
    for (int i = 0; i < nbound_of_test; i++)
        if (bound_of_test[i].exec == b->exec)
            bound_of_test[i--] = bound_of_test[--nbound_of_test];
    ss_exec_destroy(b->exec);
    ss_plan_destroy(b->plan);
    ss_graph_destroy(b->graph);
    sem_destroy(&b->in_flight);
}

/* All tests run in one process: clean up the runtime and records of failed tests. */
static inline void begin_test(void)
{
    make_data();
}

static inline void end_test(void)
{
    while (nbound_of_test > 0) {
        struct bound b = bound_of_test[nbound_of_test - 1];
        unbind(&b);
    }
    if (runtime_of_test.device)
        ss_runtime_stop(&runtime_of_test);
}

static inline void add_tagged(Suite *suite, const char *name, void (*add)(TCase *t))
{
    TCase *t = tcase_create(name);
    tcase_add_checked_fixture(t, begin_test, end_test);
    tcase_set_tags(t, name);
    add(t);
    suite_add_tcase(suite, t);
}

/* Main program of a test: run the tests that add() adds, in one process, because StarPU does not
 * survive a fork. `values` (or NULL) adds tests of numerical results, which the thread sanitizer
 * can skip (CK_EXCLUDE_TAGS=values). Returns the exit code. */
static inline int run_tests(const char *name, void (*add)(TCase *t), void (*values)(TCase *t))
{
    struct ss_comm_config config = {"self", 10};
    setenv("OMP_WAIT_POLICY", "passive", 0);
    ss_log_set_quiet(1);
    if (ss_comm_open(&config, &comm) != SS_OK)
        return 99;
    Suite *suite = suite_create(name);
    add_tagged(suite, name, add);
    if (values)
        add_tagged(suite, "values", values);
    const int code = run_suite_here(suite);
    ss_comm_close(comm);
    return code;
}

static inline int step_images(const struct bound *b)
{
    return b->plan->options.batch * b->plan->options.accumulate - (b->whole ? 0 : b->lacks);
}

/* Fill all buffers with NaN, so that a step cannot read values of a previous step. */
static inline void spoil(const struct bound *b)
{
    OK(ss_exec_wait(b->exec));
    for (int i = 0; i < b->plan->nbuffers; i++) {
        const struct region *x = &b->exec->buffer[i];
        void *nan = malloc(x->r.bytes);
        ck_assert_ptr_nonnull(nan);
        memset(nan, 0xff, x->r.bytes);
        OK(ss_region_put(b->exec, x, 0, nan, x->r.bytes));
        free(nan);
    }
}

/* Submit training step `number` on the images from index `first`, without waiting. */
static inline void submit(struct bound *b, uint64_t number, double lr, int first)
{
    uint32_t sample[64];
    const int all = b->plan->options.batch * b->plan->options.accumulate,
              lacks = number % (uint64_t)(b->whole + 1) ? 0 : b->lacks;
    for (int i = 0; i < all; i++)
        sample[i] = i < all - lacks ? (uint32_t)((first + i) % IMAGES) : UINT32_MAX;
    struct ss_exec_step step = {.step = number,
                                .lr = lr,
                                .dataset = &data,
                                .epoch = 0,
                                .augment = b->augment,
                                .sample = sample};
    if (b->spoils)
        spoil(b);
    sem_wait(&b->in_flight);
    OK(ss_exec_submit_train(b->exec, &step));
}

/* Run one step and return the loss before the update. Always step 1, so dropout is the same. */
static inline double one_step(struct bound *b, double lr)
{
    submit(b, 1, lr, 0);
    OK(ss_exec_wait(b->exec));
    return b->loss;
}

static inline uint64_t hash_of(const struct ss_exec *exec)
{
    uint64_t hash;
    int finite;
    OK(ss_exec_hash_params(exec, &hash, &finite));
    ck_assert(finite);
    return hash;
}

static inline uint64_t train(struct bound *b, int steps)
{
    for (int k = 1; k <= steps; k++)
        submit(b, (uint64_t)k, b->lr, k * step_images(b));
    OK(ss_exec_wait(b->exec));
    ck_assert(b->in_order);
    ck_assert_uint_eq(b->reported, (uint64_t)steps);
    return hash_of(b->exec);
}

/* Move regions between steps: copy the content to new memory and fill the old memory with NaN. */
static inline void move_regions(const struct bound *b, struct region *x, size_t n)
{
    const struct ss_exec *e = b->exec;
    for (; n--; x++) {
        if (x->home != REGION_DEVICE)
            continue;
        const size_t bytes = starpu_data_get_size(x->r.handle), used = x->r.bytes;
        void *old = x->data, *now, *nan = malloc(bytes);
        ck_assert_ptr_nonnull(nan);
        memset(nan, 0xff, bytes);
        OK(e->kernels->alloc(e->device, bytes, "a test's region", &now));
        OK(e->kernels->copy(e->device, now, old, bytes));
        starpu_data_unregister_no_coherency(x->r.handle);
        ss_region_register(e, x, now, bytes);
        x->r.bytes = used;
        OK(e->kernels->copy(e->device, old, nan, bytes));
        e->kernels->free(old);
        free(nan);
    }
}

static inline void move_memory(const struct bound *b)
{
    struct ss_exec *e = b->exec;
    const size_t buckets = (size_t)b->plan->nbuckets;
    move_regions(b, e->buffer, (size_t)b->plan->nbuffers);
    move_regions(b, e->params, buckets + (size_t)b->plan->nfrozen);
    move_regions(b, e->grads, buckets + 1);
    move_regions(b, e->accum, buckets);
    move_regions(b, e->state, buckets * (size_t)b->plan->options.states);
    move_regions(b, e->running, (size_t)b->plan->nblocks);
    move_regions(b, e->metrics, (size_t)e->options.slots + 1);
    move_regions(b, e->staged, (size_t)e->nstaged);
    move_regions(b, &e->scaler, 1);
    move_regions(b, &e->squares, 1);
    move_regions(b, &e->keys, 1);
}

/* Tasks get addresses only from StarPU: if all memory moves before each step, results are
 * bit-identical. */
static inline void same_bits_elsewhere(const struct setting *s, struct ss_runtime *runtime)
{
    enum { STEPS = 4 };
    struct bound b;
    bind_plan(&b, s, runtime);
    const uint64_t want = train(&b, STEPS);
    unbind(&b);
    bind_plan(&b, s, runtime);
    for (int k = 1; k <= STEPS; k++) {
        OK(ss_exec_wait(b.exec));
        move_memory(&b);
        submit(&b, (uint64_t)k, b.lr, k * step_images(&b));
    }
    OK(ss_exec_wait(b.exec));
    ck_assert_uint_eq(hash_of(b.exec), want);
    unbind(&b);
    ss_runtime_stop(runtime);
}

static const struct ss_param *param_of(const struct bound *b, int i)
{
    return ss_graph_param(b->graph, b->plan->param[i].graph_param);
}

static inline float **get_params(const struct bound *b)
{
    float **all = calloc((size_t)b->plan->nparams, sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (int i = 0; i < b->plan->nparams; i++) {
        if (param_of(b, i)->role == SS_PARAM_NUM_BATCHES)
            continue;
        all[i] = malloc((size_t)b->plan->param[i].elements * sizeof **all);
        ck_assert_ptr_nonnull(all[i]);
        OK(ss_exec_get_param(b->exec, i, all[i]));
    }
    return all;
}

static inline void set_params(const struct bound *b, float *const *all)
{
    for (int i = 0; i < b->plan->nparams; i++)
        if (all[i])
            OK(ss_exec_set_param(b->exec, i, all[i]));
}

static inline void free_params(const struct bound *b, float **all)
{
    for (int i = 0; i < b->plan->nparams; i++)
        free(all[i]);
    free(all);
}

/* Hash of all parameters in the graph's order, independent of blocks and buckets. */
static inline uint64_t hash_in_order(const struct bound *b)
{
    uint64_t hash = 0;
    float **params = get_params(b);
    for (int p = 0; p < ss_graph_params(b->graph); p++)
        for (int i = 0; i < b->plan->nparams; i++)
            for (int64_t k = 0;
                 b->plan->param[i].graph_param == p && params[i] && k < b->plan->param[i].elements;
                 k++) {
                uint32_t bits;
                memcpy(&bits, &params[i][k], sizeof bits);
                hash = ss_mix64(hash, bits);
            }
    free_params(b, params);
    return hash;
}

struct in_order {
    uint64_t hash;
    int deferred;       /* number of tasks that compute only weight gradients */
    int shortcuts_left; /* blocks whose residual another block adds, with different rounding */
};

/* Train and stop the runtime. */
static inline struct in_order train_in_order(const struct setting *s, struct ss_runtime *runtime)
{
    struct bound b;
    struct in_order o = {0};
    bind_plan(&b, s, runtime);
    train(&b, 5);
    o.hash = hash_in_order(&b);
    for (int i = 0; i < b.plan->train.count; i++)
        o.deferred += b.plan->train.task[i].part == SS_PART_WEIGHTS;
    for (int i = 0; i < b.plan->nblocks; i++)
        o.shortcuts_left += b.plan->block[i].shortcut >= 0;
    unbind(&b);
    ss_runtime_stop(runtime);
    return o;
}

/* Check the relative error of `got` in norm against a recorded tensor of doubles. */
static inline void check_recorded(const struct ss_safetensors *file, const char *what,
                                  const char *param, const float *got, int64_t n, double bound)
{
    char name[256];
    snprintf(name, sizeof name, "%s.%s", what, param);
    const double *want = ss_safetensors_find(file, name)->data;
    double error = 0, size = 0;
    for (int64_t k = 0; k < n; k++) {
        error += pow((double)got[k] - want[k], 2);
        size += want[k] * want[k];
    }
    ck_assert_msg(sqrt(error / size) <= bound, "%s is off by %.3g", name, sqrt(error / size));
}

/* Train 20 steps as tests/reference/record_small.py did with the model `name` of test_graphs.h,
 * on its images and from its weights. The error of losses and weights against PyTorch's fp64 must
 * be at most a few times the error of PyTorch's fp32. micros: number of micro-batches into which
 * the batch is split; for models without BatchNorm. */
static inline void as_pytorch_in(const char *name, const char *optimizer,
                                 struct ss_runtime *runtime, int micros)
{
    char path[1024];
    const char *srcdir = getenv("srcdir");
    struct ss_safetensors *file;
    struct bound b;
    struct setting s = usual;
    const int adamw = !strcmp(optimizer, "adamw");
    snprintf(path, sizeof path, "%s/tests/reference/small/%s%s.safetensors", srcdir ? srcdir : ".",
             name, adamw ? "-adamw" : "");
    OK(ss_safetensors_open(path, &file));
    const uint8_t *images = ss_safetensors_find(file, "records")->data;
    const double *losses = ss_safetensors_find(file, "losses")->data,
                 *off = ss_safetensors_find(file, "fp32")->data;
    uint8_t mine[sizeof records];
    memcpy(mine, records, sizeof records);
    memcpy(records, images, sizeof records);
    while (strcmp(test_graphs[s.which].name, name))
        s.which++;
    s.optimizer = optimizer;
    s.momentum = 0.9f;
    s.weight_decay = adamw ? 0.5f : 0.01f;
    s.batch = BATCH / micros;
    s.slices = 1;
    s.accumulate = micros;
    bind_plan(&b, &s, runtime);
    b.augment = 0;
    float **params = get_params(&b);
    for (int i = 0; i < b.plan->nparams; i++) {
        snprintf(path, sizeof path, "first.%s", param_of(&b, i)->name);
        memcpy(params[i], ss_safetensors_find(file, path)->data,
               (size_t)b.plan->param[i].elements * sizeof **params);
    }
    set_params(&b, params);
    free_params(&b, params);
    for (int k = 0; k < 20; k++) {
        submit(&b, (uint64_t)k + 1, adamw ? 0.002 : 0.05, k * BATCH);
        OK(ss_exec_wait(b.exec));
        ck_assert_msg(fabs(b.loss / losses[k] - 1) <= 4 * off[0],
                      "step %d: loss %.9g, PyTorch has %.9g", k + 1, b.loss, losses[k]);
    }
    params = get_params(&b);
    for (int i = 0; i < b.plan->nparams; i++) {
        const int64_t n = b.plan->param[i].elements;
        check_recorded(file, "last", param_of(&b, i)->name, params[i], n, 4 * off[1]);
        /* The first moment sums gradients that cancel: depending on the instruction set, the error
         * is 2 to 4 times PyTorch's. */
        for (int k = 0; adamw && k < 2; k++) {
            OK(ss_exec_get_state(b.exec, i, k, params[i]));
            check_recorded(file, k ? "exp_avg_sq" : "exp_avg", param_of(&b, i)->name, params[i], n,
                           8 * off[1]);
        }
    }
    free_params(&b, params);
    memcpy(records, mine, sizeof records);
    unbind(&b);
    ss_safetensors_close(file);
    ss_runtime_stop(runtime);
}

static inline void as_pytorch(const char *name, const char *optimizer, struct ss_runtime *runtime)
{
    as_pytorch_in(name, optimizer, runtime, 1);
}

/* Evaluate the whole data set; the last batch may be short. */
static inline struct ss_metrics evaluate(struct bound *b)
{
    uint32_t sample[64];
    int batch = b->plan->options.batch;
    struct ss_exec_step step = {.dataset = &data, .sample = sample};
    OK(ss_exec_reset_eval(b->exec));
    for (int first = 0; first < IMAGES; first += batch) {
        for (int i = 0; i < batch; i++)
            sample[i] = first + i < IMAGES ? (uint32_t)(first + i) : UINT32_MAX;
        OK(ss_exec_submit_eval(b->exec, &step));
    }
    OK(ss_exec_wait(b->exec));
    struct ss_metrics metrics;
    OK(ss_exec_eval_metrics(b->exec, &metrics));
    return metrics;
}

struct outcome {
    double loss; /* of the last step */
    struct ss_metrics eval;
    int nparams;
    float **params;
    int64_t *elements;
    uint64_t hash, replayed;
};

/* Train, evaluate, save the results, and stop the runtime. */
static inline struct outcome run(const struct setting *s, struct ss_runtime *runtime, int steps,
                                 double lr)
{
    struct bound b;
    struct outcome o;
    bind_plan(&b, s, runtime);
    o.nparams = b.plan->nparams;
    ck_assert_int_gt(o.nparams, 0);
    b.lr = lr;
    o.hash = train(&b, steps);
    o.replayed = ss_exec_fed(b.exec).replayed;
    if (s->replay == SS_REPLAY_ON && !s->lacks)
        ck_assert_uint_eq(o.replayed, (uint64_t)steps - 3);
    o.loss = b.loss;
    o.eval = evaluate(&b);
    o.params = get_params(&b);
    o.elements = calloc((size_t)o.nparams, sizeof *o.elements);
    ck_assert_ptr_nonnull(o.elements);
    for (int i = 0; i < o.nparams; i++)
        o.elements[i] = b.plan->param[i].elements;
    unbind(&b);
    ss_runtime_stop(runtime);
    return o;
}

static inline void free_outcome(struct outcome *o)
{
    for (int i = 0; i < o->nparams; i++)
        free(o->params[i]);
    free(o->params);
    free(o->elements);
}

/* Relative distance in norm; relative to `small` per element if b is smaller. */
static inline double distance(const float *a, const float *b, int64_t n, double small)
{
    double off = 0, size = 0;
    for (int64_t k = 0; k < n; k++) {
        off += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
        size += (double)b[k] * (double)b[k];
    }
    return sqrt(off) / fmax(sqrt(size), small * sqrt((double)n));
}

/* Compare losses, all parameters and running statistics. */
static inline void check_close(const struct outcome *got, const struct outcome *want, double bound)
{
    ck_assert_msg(fabs(got->loss - want->loss) <= bound * want->loss, "loss %.7g, not %.7g",
                  got->loss, want->loss);
    ck_assert_msg(fabs(got->eval.loss - want->eval.loss) <= bound * want->eval.loss,
                  "evaluation %.7g, not %.7g", got->eval.loss, want->eval.loss);
    ck_assert(got->eval.count == want->eval.count && got->eval.bad == 0);
    for (int i = 0; i < want->nparams; i++) {
        if (!want->params[i])
            continue;
        double d = distance(got->params[i], want->params[i], want->elements[i], 1e-2);
        ck_assert_msg(d <= 10 * bound, "parameter %d differs by %.3g", i, d);
    }
}

/* A model with five activations that are the same for all images. Some are dropped before the
 * loss, so that the loss is random only through dropout. */
enum { DROP_ELEMENTS, DROP_ROW, DROP_BATCH, DROPS };
static const float drop_rate = 0.3f;
static const float drop_from[TEST_CLASSES] = {1.5f, -0.5f, 0.75f, -2, 0.25f};
static inline void build_drop(struct ss_graph *g, int how)
{
    ss_value x = ss_linear(g, ss_input(g, 3, TEST_SIDE, TEST_SIDE), "numbers", TEST_CLASSES);
    x = how == DROP_ELEMENTS ? ss_dropout(g, x, drop_rate)
                             : ss_stochastic_depth(g, x, drop_rate, how == DROP_BATCH);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "same", TEST_CLASSES));
}
static inline void build_drop_elements(struct ss_graph *g)
{
    build_drop(g, DROP_ELEMENTS);
}
static inline void build_drop_row(struct ss_graph *g)
{
    build_drop(g, DROP_ROW);
}
static inline void build_drop_batch(struct ss_graph *g)
{
    build_drop(g, DROP_BATCH);
}

/* Loss of an image with this label if the activations of this bit set are not dropped. */
static inline double drop_loss(unsigned kept, int label)
{
    double sum = 0, own = 0;
    for (int k = 0; k < TEST_CLASSES; k++) {
        const double v = kept >> k & 1 ? (double)drop_from[k] / (1 - (double)drop_rate) : 0;
        sum += exp(v);
        own = k == label ? v : own;
    }
    return log(sum) - own;
}

/* Mean and variance of the loss of a step on `count` images from index `first`, by the formulas
 * of dropout (Srivastava et al. 2014, section 4) and stochastic depth (Huang et al. 2016, eq. 2;
 * per sample and per batch as torchvision.ops.StochasticDepth): sum over all outcomes with their
 * probabilities. */
static inline void drop_moments(int how, int first, int count, double *mean, double *variance)
{
    const unsigned all = (1u << TEST_CLASSES) - 1;
    double batch[2] = {0}; /* loss if all are dropped, and if none is */
    *mean = *variance = 0;
    for (int i = 0; i < count; i++) {
        const int label = records[(size_t)((first + i) % IMAGES) * RECORD];
        double m = 0, square = 0;
        for (unsigned kept = 0; kept <= all; kept++) {
            const int bits = __builtin_popcount(kept);
            double p =
                pow(1 - (double)drop_rate, bits) * pow((double)drop_rate, TEST_CLASSES - bits);
            if (how != DROP_ELEMENTS)
                p = kept == all ? 1 - (double)drop_rate : kept ? 0 : (double)drop_rate;
            m += p * drop_loss(kept, label);
            square += p * pow(drop_loss(kept, label), 2);
        }
        *mean += m / count;
        *variance += (square - m * m) / count / count;
        batch[0] += drop_loss(0, label) / count;
        batch[1] += drop_loss(all, label) / count;
    }
    if (how == DROP_BATCH)
        *variance = (double)drop_rate * (1 - (double)drop_rate) * pow(batch[1] - batch[0], 2);
}

/* Over many steps with learning rate 0, mean and variance of the loss must match the formulas. */
static inline void drops_by_formula(int how, struct ss_runtime *runtime)
{
    static void (*const build[DROPS])(struct ss_graph *) = {build_drop_elements, build_drop_row,
                                                            build_drop_batch};
    enum { STEPS = 1000 };
    struct bound b;
    struct setting s = usual;
    s.build = build[how];
    bind_plan(&b, &s, runtime);
    float **all = get_params(&b);
    for (int i = 0; i < b.plan->nparams; i++) {
        memset(all[i], 0, (size_t)b.plan->param[i].elements * sizeof **all);
        if (!strcmp(param_of(&b, i)->name, "numbers.bias"))
            memcpy(all[i], drop_from, sizeof drop_from);
        for (int k = 0; k < TEST_CLASSES && !strcmp(param_of(&b, i)->name, "same.weight"); k++)
            all[i][k * TEST_CLASSES + k] = 1;
    }
    set_params(&b, all);
    free_params(&b, all);
    double off = 0, square = 0, mean, variance, total = 0;
    for (int k = 1; k <= STEPS; k++) {
        submit(&b, (uint64_t)k, 0, k * BATCH);
        OK(ss_exec_wait(b.exec));
        drop_moments(how, k * BATCH, BATCH, &mean, &variance);
        off += b.loss - mean;
        square += pow(b.loss - mean, 2);
        total += variance;
    }
    ck_assert_msg(fabs(off) <= 4 * sqrt(total), "mean loss is off by %g, %g standard deviations",
                  off / STEPS, fabs(off) / sqrt(total));
    /* 4 standard deviations of the variance of STEPS normal samples; two-valued ones have less. */
    ck_assert_msg(fabs(square / total - 1) <= 4 * sqrt(2.0 / STEPS),
                  "variance is %g times the expected one", square / total);
    const struct ss_metrics m = evaluate(&b);
    double plain = 0;
    for (int i = 0; i < IMAGES; i++) {
        double sum = 0;
        for (int k = 0; k < TEST_CLASSES; k++)
            sum += exp((double)drop_from[k]);
        plain += log(sum) - (double)drop_from[records[(size_t)i * RECORD]];
    }
    ck_assert_double_eq_tol(m.loss, plain, 1e-5 * plain);
    unbind(&b);
    ss_runtime_stop(runtime);
}

#endif
