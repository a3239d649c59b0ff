/* bench/gpu_kernels: time of each kernel of a training step on this GPU, compared with its
 * prediction.
 *
 *    bench/gpu_kernels --model resnet50 --image-size 224 --batch-size 256 --precision fp16 ...
 *
 * The operations of the step's tasks run one at a time with random activations, through the
 * functions that the codelets of the compute lane call; one task of each kind. L2 is flushed
 * between runs. Times are measured with CUDA events, as medians: of the whole task, then of each
 * function of the kernel table that it calls. The difference between a task and its functions is
 * the cost of events and gaps. Bytes and operations are those that src/kernels/cost_model counts
 * for the same calls. The prediction is that of `starstep plan --roofline`, assuming no data of
 * other tasks in L2. On SIGTERM, the program prints the totals so far and exits. */
#include "apps/commands/option_help.h"
#include "bench/gpu_timed.h"
#include "codelets/input.h"
#include "codelets/op.h"
#include "codelets/report.h"
#include "core/clock.h"
#include "core/json_value.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/round.h"
#include "sim/roofline_internal.h"
#include "train/gpu_options.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA, TALLY, MOST_CALLS = 32, MOST_REPS = 101, PATTERN = 1 << 22, LEAST_BYTES = 4096 };

struct options {
    long reps, flush_mb, classes;
    const char *roofline, *json;
};

struct call {
    const char *name;
    double ms;
    struct ss_roofline_work work;
};

/* A kind of task: its calls, and the number of equivalent tasks in the step. */
struct kind {
    const struct ss_plan_task *task;
    int count, ncalls;
    double ms, enqueue_us;
    struct call call[MOST_CALLS];
};

struct bench {
    struct options o;
    struct ss_train_options train;
    struct ss_gpu_cache_path gpu_cache;
    const struct ss_plan *plan;
    struct ss_graph *graph;
    struct ss_kernels kernels[2]; /* tables that report calls */
    struct ss_bench_watch watch[2];
    struct ss_device *device[2];
    struct ss_op **op[2];
    size_t *bucket_bytes;
    struct ss_dropout dropout;
    struct ss_roofline roofline; /* its machine is NULL if unknown */
    struct ss_l2 l2;
    ss_event begin, end, around[MOST_CALLS][2];
    void *pattern, *flush;
    struct kind *kind;
    int nkinds;
    struct kind *now;
    int at; /* index in the current calls */
};

static const struct ss_option rows[] = {
    SS_OPTION_INT(struct options, reps, "--reps", 11, 1, MOST_REPS, "N", "runs of each task"),
    SS_OPTION_INT(struct options, flush_mb, "--flush-mb", 512, 1, 1 << 14, "N",
                  "written between two runs"),
    SS_OPTION_INT(struct options, classes, "--classes", 100, 1, 1 << 20, "N",
                  "outputs of the classifier"),
    SS_OPTION_TEXT(struct options, roofline, "--roofline", NULL, "GPU",
                   "machine of the prediction; default: this GPU, if known"),
    SS_OPTION_TEXT(struct options, json, "--json", NULL, "FILE",
                   "also write the results to this file"),
    {0}};

/* ---- reports of calls ---- */

static void call_begins(void *arg, const char *name)
{
    struct bench *b = arg;
    const struct ss_kernels *k = &ss_cuda_kernels;
    if (b->at < MOST_CALLS) {
        b->now->call[b->at].name = name;
        (void)k->record(b->around[b->at][0], k->stream(b->device[CUDA]));
    }
}

static void call_ends(void *arg, const char *name)
{
    struct bench *b = arg;
    const struct ss_kernels *k = &ss_cuda_kernels;
    (void)name;
    if (b->at < MOST_CALLS)
        (void)k->record(b->around[b->at][1], k->stream(b->device[CUDA]));
    b->at++;
}

static void kernel_begins(void *arg, const char *name)
{
    struct bench *b = arg;
    if (b->at < MOST_CALLS)
        b->now->call[b->at].name = name;
}

static void noted_ends(void *arg, const char *name)
{
    struct bench *b = arg;
    int count;
    (void)name;
    const struct ss_cost_launch *launch = ss_cost_take(b->device[TALLY], &count);
    for (int i = 0; i < count && b->at < MOST_CALLS; i++)
        ss_roofline_count(&b->roofline, &b->l2, &launch[i], &b->now->call[b->at].work);
    b->at++;
}

/* ---- memory ---- */

static size_t bytes_of(const struct bench *b, const struct ss_plan_task *t, int i)
{
    const struct ss_access *a = &t->access[i];
    for (int role = 0; role < SS_ROLE_COUNT; role++)
        if (t->role[role] == i && t->tensor[role] >= 0)
            return b->plan->tensor[t->tensor[role]].bytes;
    if (a->space == SS_SPACE_PARAMS || a->space == SS_SPACE_GRADS)
        return b->bucket_bytes[a->index];
    if (a->space == SS_SPACE_STATE)
        return b->bucket_bytes[a->index / b->plan->options.states];
    if (a->space == SS_SPACE_RUNNING)
        return (size_t)b->plan->block[a->index].running * sizeof(float);
    if (a->space == SS_SPACE_KEYS)
        return (size_t)ss_plan_count_drops(b->plan, b->plan->nblocks) * sizeof(uint64_t);
    return a->space == SS_SPACE_STAGED ? ss_input_layout_of(b->plan).bytes : LEAST_BYTES;
}

/* Randomize activations and gradients, but nothing that may hold indices. */
static int is_random(const struct bench *b, const struct ss_plan_task *t, int i)
{
    for (int role = 0; role < SS_ROLE_COUNT; role++)
        if (t->role[role] == i && t->tensor[role] >= 0)
            return b->plan->tensor[t->tensor[role]].n > 0;
    return t->access[i].space == SS_SPACE_PARAMS;
}

static enum ss_status fill(const struct bench *b, void *data, size_t bytes)
{
    const size_t most = (size_t)PATTERN * ss_dtype_bytes(b->plan->options.dtype);
    for (size_t at = 0; at < bytes; at += most)
        SS_TRY(ss_cuda_kernels.copy(b->device[CUDA], (char *)data + at, b->pattern,
                                    bytes - at < most ? bytes - at : most));
    return SS_OK;
}

static enum ss_status make_region(const struct bench *b, const struct ss_plan_task *t, int i,
                                  struct ss_region *r, void **data)
{
    const size_t element = ss_dtype_bytes(b->plan->options.dtype);
    const size_t bytes = bytes_of(b, t, i), capacity = ss_round_up(bytes + LEAST_BYTES, 256);
    const int copied = t->access[i].space == SS_SPACE_PARAMS && element != sizeof(float);
    *r = (struct ss_region){.bytes = bytes, .copy_at = copied ? capacity : 0};
    SS_TRY(ss_cuda_kernels.alloc(b->device[CUDA], (copied + 1) * capacity, "a tensor", data));
    if (copied)
        return fill(b, (char *)*data + capacity, bytes / sizeof(float) * element);
    return is_random(b, t, i) ? fill(b, *data, bytes) : SS_OK;
}

/* ---- running ---- */

static enum ss_status update(const struct bench *b, int which, const struct ss_task_data *d)
{
    struct ss_update u = {.count = ss_role_count(d, SS_ROLE_PARAMS),
                          .w = ss_role(d, SS_ROLE_PARAMS),
                          .copy = ss_role_copy(d, SS_ROLE_PARAMS),
                          .g = ss_role(d, SS_ROLE_GRADS),
                          .scale = 1,
                          .step = 1,
                          .scaler = ss_role(d, SS_ROLE_SCALER)};
    for (int k = 0; k < SS_UPDATE_STATES; k++)
        u.state[k] = ss_role(d, SS_ROLE_STATE + k);
    return b->kernels[which].update(b->device[which], &u);
}

static int is_measured(const struct ss_plan_task *t)
{
    return t->kind == SS_TASK_FORWARD || t->kind == SS_TASK_BACKWARD ||
           t->kind == SS_TASK_CONVERT || t->kind == SS_TASK_CHECK || t->kind == SS_TASK_UPDATE ||
           t->kind == SS_TASK_SCALE;
}

/* Call the functions of the compute lane's codelets. */
static enum ss_status run(const struct bench *b, int which, const struct ss_task_data *d)
{
    const struct ss_kernels *k = &b->kernels[which];
    struct ss_device *device = b->device[which];
    const struct ss_plan_task *t = d->task->plan;
    if (t->kind == SS_TASK_FORWARD)
        return d->task->op->cls->forward(d->task->op, d);
    if (t->kind == SS_TASK_BACKWARD)
        return ss_op_backward(d);
    if (t->kind == SS_TASK_UPDATE)
        return update(b, which, d);
    if (t->kind == SS_TASK_SCALE)
        return k->scaler_update(device, ss_role(d, SS_ROLE_SCALER));
    if (t->kind == SS_TASK_CHECK)
        return k->scaler_check(device, ss_role_count(d, SS_ROLE_GRADS), ss_role(d, SS_ROLE_GRADS),
                               ss_role(d, SS_ROLE_SCALER));
    const struct ss_act x = ss_tensor_act(b->plan, t->tensor[SS_ROLE_Y]);
    const struct ss_value_info *input =
        ss_graph_value(b->plan->graph, ss_graph_layer(b->plan->graph, 0)->output);
    const struct ss_normalise n = {.x = {x.n, input->c, x.h, x.w, x.block},
                                   .mean = {0.5f, 0.5f, 0.5f, 0.5f},
                                   .std = {0.25f, 0.25f, 0.25f, 0.25f},
                                   .dropout = &b->dropout};
    return ss_convert_run(k, device, &n, d);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, long n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

/* Flush L2; meanwhile the host runs ahead of the GPU. */
static enum ss_status flush(const struct bench *b)
{
    return ss_cuda_kernels.zero_async(b->flush, (size_t)b->o.flush_mb << 20,
                                      ss_cuda_kernels.stream(b->device[CUDA]));
}

static enum ss_status elapsed(const struct bench *b, ss_event begin, ss_event end, double *ms)
{
    float got;
    SS_TRY(ss_cuda_kernels.elapsed(b->device[CUDA], begin, end, &got));
    *ms = (double)got;
    return SS_OK;
}

static enum ss_status time_task(struct bench *b, const struct ss_task_data *d)
{
    const struct ss_kernels *k = &ss_cuda_kernels;
    const ss_stream stream = k->stream(b->device[CUDA]);
    double ms[MOST_REPS], us[MOST_REPS];
    SS_TRY(run(b, CUDA, d));
    for (long r = 0; r < b->o.reps; r++) {
        SS_TRY(flush(b));
        SS_TRY(k->record(b->begin, stream));
        const uint64_t begin_ns = ss_now_ns();
        SS_TRY(run(b, CUDA, d));
        us[r] = 1e-3 * (double)(ss_now_ns() - begin_ns);
        SS_TRY(k->record(b->end, stream));
        SS_TRY(k->synchronize(b->device[CUDA]));
        SS_TRY(elapsed(b, b->begin, b->end, &ms[r]));
    }
    b->now->ms = median(ms, b->o.reps);
    b->now->enqueue_us = median(us, b->o.reps);
    return SS_OK;
}

static enum ss_status time_calls(struct bench *b, const struct ss_task_data *d)
{
    static double ms[MOST_CALLS][MOST_REPS];
    for (long r = 0; r < b->o.reps; r++) {
        b->at = 0;
        SS_TRY(flush(b));
        b->watch[CUDA].on = 1;
        enum ss_status status = run(b, CUDA, d);
        b->watch[CUDA].on = 0;
        SS_TRY(status);
        SS_TRY(ss_cuda_kernels.synchronize(b->device[CUDA]));
        if (b->at != b->now->ncalls)
            return ss_fail(SS_ERR_MISMATCH, "%s: %d calls on the GPU, %d in its prediction",
                           b->now->task->name, b->at, b->now->ncalls);
        for (int i = 0; i < b->at; i++)
            SS_TRY(elapsed(b, b->around[i][0], b->around[i][1], &ms[i][r]));
    }
    for (int i = 0; i < b->now->ncalls; i++)
        b->now->call[i].ms = median(ms[i], b->o.reps);
    return SS_OK;
}

static int is_same(const struct kind *a, const struct kind *b)
{
    if (a->ncalls != b->ncalls || a->task->kind != b->task->kind)
        return 0;
    for (int i = 0; i < a->ncalls; i++) {
        const struct ss_roofline_work *x = &a->call[i].work, *y = &b->call[i].work;
        if (strcmp(a->call[i].name, b->call[i].name) || x->launches != y->launches ||
            x->read < y->read || x->read > y->read || x->written < y->written ||
            x->written > y->written || x->flop < y->flop || x->flop > y->flop)
            return 0;
    }
    return 1;
}

/* Record the calls of a task. *again: 1 if an equivalent task was recorded. */
static enum ss_status note(struct bench *b, const struct ss_task_data *d, int *again)
{
    b->at = 0;
    b->l2 = (struct ss_l2){0};
    b->watch[TALLY].on = 1;
    enum ss_status status = run(b, TALLY, d);
    b->watch[TALLY].on = 0;
    SS_TRY(status);
    if (b->at > MOST_CALLS)
        return ss_fail(SS_ERR_INVALID, "%s: more than %d calls", b->now->task->name, MOST_CALLS);
    b->now->ncalls = b->at;
    *again = 0;
    for (int i = 0; i < b->nkinds; i++)
        if (is_same(&b->kind[i], b->now)) {
            b->kind[i].count++;
            *again = 1;
        }
    return SS_OK;
}

/* memory: buffers of all accesses, which the caller frees. */
static enum ss_status measure_in(struct bench *b, int i, void **memory)
{
    const struct ss_plan_task *t = &b->plan->train.task[i];
    struct ss_accessed accessed;
    int again = 0;
    for (int a = 0; a < t->naccess; a++) {
        struct ss_region region;
        SS_TRY(make_region(b, t, a, &region, &memory[a]));
        ss_accessed_set(&accessed, a, region, (uintptr_t)memory[a]);
    }
    struct ss_bound_task task[2];
    struct ss_step_args args[2];
    struct ss_task_data d[2];
    for (int which = 0; which < 2; which++) {
        task[which] = (struct ss_bound_task){.plan = t,
                                             .index = i,
                                             .op = t->block >= 0 ? b->op[which][t->block] : NULL,
                                             .training = 1};
        args[which] =
            (struct ss_step_args){.task = &task[which], .region = accessed.regions, .step = 1};
        d[which] = (struct ss_task_data){&task[which], &args[which], accessed.buffers};
    }
    b->now = &b->kind[b->nkinds];
    *b->now = (struct kind){.task = t, .count = 1};
    SS_TRY(note(b, &d[TALLY], &again));
    if (again)
        return SS_OK;
    SS_TRY(time_task(b, &d[CUDA]));
    SS_TRY(time_calls(b, &d[CUDA]));
    b->nkinds++;
    return SS_OK;
}

static enum ss_status measure(struct bench *b, int i)
{
    void *memory[SS_PLAN_MAX_ACCESSES] = {NULL};
    enum ss_status status = measure_in(b, i, memory);
    for (int a = 0; a < SS_PLAN_MAX_ACCESSES; a++)
        ss_cuda_kernels.free(memory[a]);
    return status;
}

/* ---- output ---- */

static void print_head(const char *of)
{
    printf("%-44s %4s %9s %9s %6s %8s %8s\n", of, "", "predicted", "ms", "ratio", "GB/s",
           "TFLOP/s");
}

static void print_row(const struct bench *b, const char *name, int count, double ms,
                      const struct ss_roofline_work *w)
{
    char times[16] = "", predicted[32] = "", ratio[32] = "";
    if (count > 1)
        snprintf(times, sizeof times, "x%d", count);
    if (b->roofline.machine)
        snprintf(predicted, sizeof predicted, "%.3f", 1e3 * w->seconds);
    if (b->roofline.machine && w->seconds > 0)
        snprintf(ratio, sizeof ratio, "%.2f", 1e-3 * ms / w->seconds);
    printf("%-44.44s %4s %9s %9.3f %6s %8.0f %8.1f\n", name, times, predicted, ms, ratio,
           ms > 0 ? 1e-6 * (w->read + w->written) / ms : 0, ms > 0 ? 1e-9 * w->flop / ms : 0);
}

static void print_kind(const struct bench *b, const struct kind *k)
{
    struct ss_roofline_work all = {0};
    char name[SS_NAME_BYTES];
    for (int i = 0; i < k->ncalls; i++)
        ss_roofline_add(&all, &k->call[i].work);
    print_row(b, k->task->name, k->count, k->ms, &all);
    for (int i = 0; i < k->ncalls && k->ncalls > 1; i++) {
        snprintf(name, sizeof name, "    %s", k->call[i].name);
        print_row(b, name, 1, k->call[i].ms, &k->call[i].work);
    }
    fflush(stdout); /* preserves the results so far */
}

/* Print totals over the step, by function. */
static void print_sums(const struct bench *b)
{
    const char *name[MOST_CALLS];
    struct ss_roofline_work work[MOST_CALLS] = {{0}}, all = {0};
    double ms[MOST_CALLS] = {0}, tasks = 0, calls = 0, enqueue_us = 0;
    int n = 0;
    for (int k = 0; k < b->nkinds; k++) {
        const struct kind *kind = &b->kind[k];
        tasks += kind->count * kind->ms;
        enqueue_us += kind->count * kind->enqueue_us;
        for (int i = 0; i < kind->ncalls; i++) {
            int at = 0;
            while (at < n && strcmp(name[at], kind->call[i].name))
                at++;
            if (at == MOST_CALLS)
                continue;
            if (at == n)
                name[n++] = kind->call[i].name;
            ms[at] += kind->count * kind->call[i].ms;
            calls += kind->count * kind->call[i].ms;
            for (int times = 0; times < kind->count; times++)
                ss_roofline_add(&work[at], &kind->call[i].work);
        }
    }
    printf("\nSummary: milliseconds of a step of %s, batch %d, %s, by function\n",
           ss_graph_name(b->graph), b->plan->options.batch, ss_dtype_name(b->plan->options.dtype));
    print_head("function");
    for (int i = 0; i < n; i++) {
        print_row(b, name[i], 1, ms[i], &work[i]);
        ss_roofline_add(&all, &work[i]);
    }
    print_row(b, "sum of the functions", 1, calls, &all);
    print_row(b, "sum of the tasks", 1, tasks, &all);
    printf("%d launches; the host enqueued them in %.3f ms\n", all.launches, 1e-3 * enqueue_us);
}

static json_t *of_calls(const struct kind *kind)
{
    json_t *out = json_array();
    for (int i = 0; i < kind->ncalls; i++) {
        const struct ss_roofline_work *w = &kind->call[i].work;
        ss_json_append(
            &out, json_pack("{s:o,s:o,s:o,s:i,s:o,s:o}", "name", ss_json_text(kind->call[i].name),
                            "ms", ss_json_number(kind->call[i].ms), "predicted_ms",
                            ss_json_number(1e3 * w->seconds), "launches", w->launches, "bytes",
                            ss_json_number(w->read + w->written), "flop", ss_json_number(w->flop)));
    }
    return out;
}

static enum ss_status write_json(const struct bench *b)
{
    json_t *tasks = json_array();
    for (int k = 0; k < b->nkinds; k++) {
        const struct kind *kind = &b->kind[k];
        ss_json_append(&tasks,
                       json_pack("{s:o,s:i,s:o,s:o,s:o}", "task", ss_json_text(kind->task->name),
                                 "count", kind->count, "ms", ss_json_number(kind->ms), "enqueue_us",
                                 ss_json_number(kind->enqueue_us), "kernels", of_calls(kind)));
    }
    return ss_json_save(
        json_pack("{s:o,s:o,s:i,s:s,s:s,s:o}", "gpu",
                  ss_json_text(ss_cuda_kernels.info(b->device[CUDA])), "model",
                  ss_json_text(ss_graph_name(b->graph)), "batch", b->plan->options.batch,
                  "precision", ss_dtype_name(b->plan->options.dtype), "machine",
                  b->roofline.machine ? b->roofline.machine->name : "", "tasks", tasks),
        b->o.json);
}

/* ---- setup ---- */

static int device_of(const struct bench *b)
{
    return b->train.gpu >= 0 ? (int)b->train.gpu : 0;
}

static enum ss_status find_machine(struct bench *b)
{
    char name[256];
    b->roofline = (struct ss_roofline){.plan = b->plan, .tf32 = b->train.tf32};
    if (b->o.roofline)
        return ss_machine_find(b->o.roofline, &b->roofline.machine);
    SS_TRY(ss_cuda_kernels.name(device_of(b), name, sizeof name));
    b->roofline.machine = ss_machine_of_gpu(name);
    return SS_OK;
}

/* Lay out parameters as the executor does: each at a multiple of 64 bytes of its bucket. */
static enum ss_status make_ops(struct bench *b, int which)
{
    const struct ss_plan *plan = b->plan;
    const struct ss_op_context context = {
        .plan = plan, .kernels = &b->kernels[which], .device = b->device[which], .training = 1};
    b->op[which] = calloc((size_t)plan->nblocks, sizeof *b->op[which]);
    if (!b->op[which])
        return ss_fail_memory("operations", (size_t)plan->nblocks * sizeof *b->op[which]);
    SS_TRY(ss_ops_create(&context, b->op[which]));
    for (int k = 0; k < plan->nbuckets; k++)
        b->bucket_bytes[k] = ss_ops_place(plan, b->op[which], k).used;
    return SS_OK;
}

static enum ss_status make_pattern(struct bench *b)
{
    const struct ss_kernels *k = &ss_cuda_kernels;
    const size_t bytes = (size_t)PATTERN * sizeof(float);
    struct ss_rng rng;
    void *device;
    float *host = malloc(bytes);
    if (!host)
        return ss_fail_memory("random numbers", bytes);
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, 0, 0);
    for (size_t i = 0; i < PATTERN; i++)
        host[i] = ss_rng_uniform(&rng) - 0.5f;
    enum ss_status status = k->alloc(b->device[CUDA], bytes, "random numbers", &b->pattern);
    if (status == SS_OK)
        status = k->copy(b->device[CUDA], b->pattern, host, bytes);
    free(host);
    SS_TRY(status);
    if (b->plan->options.dtype == SS_DTYPE_F32)
        return SS_OK;
    device = b->pattern;
    SS_TRY(k->alloc(b->device[CUDA], bytes, "random numbers", &b->pattern));
    SS_TRY(k->cast(b->device[CUDA], device, b->pattern, PATTERN));
    SS_TRY(k->synchronize(b->device[CUDA]));
    k->free(device);
    return SS_OK;
}

static enum ss_status prepare(struct bench *b)
{
    const struct ss_kernels *k = &ss_cuda_kernels;
    const struct ss_device_options options =
        ss_train_gpu_options(&b->train, device_of(b), b->plan->options.dtype, &b->gpu_cache);
    b->watch[CUDA] = (struct ss_bench_watch){call_begins, call_ends, b, 0};
    b->watch[TALLY] = (struct ss_bench_watch){kernel_begins, noted_ends, b, 0};
    ss_bench_watch(CUDA, k, &b->watch[CUDA], &b->kernels[CUDA]);
    ss_bench_watch(TALLY, &ss_cost_kernels, &b->watch[TALLY], &b->kernels[TALLY]);
    SS_TRY(k->open(&options, &b->device[CUDA]));
    SS_TRY(ss_cost_kernels.open(&options, &b->device[TALLY]));
    b->bucket_bytes = calloc((size_t)b->plan->nbuckets + 1, sizeof *b->bucket_bytes);
    b->kind = calloc((size_t)b->plan->train.count + 1, sizeof *b->kind);
    if (!b->bucket_bytes || !b->kind)
        return ss_fail_memory("figures", (size_t)b->plan->train.count * sizeof *b->kind);
    SS_TRY(ss_dropout_open(&b->dropout, b->plan, 0, 0));
    SS_TRY(find_machine(b));
    SS_TRY(make_ops(b, TALLY));
    SS_TRY(make_ops(b, CUDA)); /* its sizes stay */
    SS_TRY(make_pattern(b));
    SS_TRY(k->alloc(b->device[CUDA], (size_t)b->o.flush_mb << 20, "the buffer that flushes L2",
                    &b->flush));
    SS_TRY(k->event_create(b->device[CUDA], 1, &b->begin));
    SS_TRY(k->event_create(b->device[CUDA], 1, &b->end));
    for (int i = 0; i < 2 * MOST_CALLS; i++)
        SS_TRY(k->event_create(b->device[CUDA], 1, &b->around[i / 2][i % 2]));
    return SS_OK;
}

/* Set by SIGTERM: print the results so far. */
static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

static enum ss_status run_all(struct bench *b)
{
    SS_TRY(prepare(b));
    signal(SIGTERM, end);
    printf("%s, batch %d, %s on %s\n", ss_graph_name(b->graph), b->plan->options.batch,
           ss_dtype_name(b->plan->options.dtype), ss_cuda_kernels.info(b->device[CUDA]));
    if (b->roofline.machine)
        printf("predicted (no measurement): of %s\n", b->roofline.machine->title);
    else
        printf("no prediction: unknown GPU; --roofline selects another machine\n");
    print_head("task, and its functions");
    for (int i = 0; i < b->plan->train.count && !ended; i++) {
        const int before = b->nkinds;
        if (is_measured(&b->plan->train.task[i]))
            SS_TRY(measure(b, i));
        if (b->nkinds > before)
            print_kind(b, &b->kind[before]);
    }
    print_sums(b);
    if (b->o.json)
        SS_TRY(write_json(b));
    return ended ? ss_fail(SS_ERR_INTERRUPTED, "ended by SIGTERM: not all tasks were timed")
                 : SS_OK;
}

/* Other resources are released at process exit. */
static void close_ops(struct bench *b)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; b->op[which] && i < b->plan->nblocks; i++)
            ss_op_destroy(b->op[which][i]);
        free(b->op[which]);
    }
    ss_cuda_kernels.close(b->device[CUDA]);
    ss_cost_kernels.close(b->device[TALLY]);
    free(b->bucket_bytes);
    ss_dropout_close(&b->dropout);
    free(b->kind);
}

static enum ss_status bench(struct bench *b)
{
    const struct ss_size size = b->train.image_size.height ? b->train.image_size : ss_square(32);
    const struct ss_model_options images = {
        .classes = (int)b->o.classes, .channels = 3, .height = size.height, .width_px = size.width};
    struct ss_plan *plan;
    int batch;
    b->train.device = SS_DEVICE_CUDA;
    SS_TRY(ss_train_check(&b->train));
    const struct ss_train_device device = ss_train_choose_device(&b->train);
    SS_TRY(ss_train_rank_batch(&b->train, 1, &batch));
    SS_TRY(ss_train_make_plan(&b->train, &device, &images, batch, 0, &b->graph, &plan));
    b->plan = plan;
    enum ss_status status = run_all(b);
    close_ops(b);
    ss_plan_destroy(plan);
    ss_graph_destroy(b->graph);
    return status;
}

int main(int argc, char **argv)
{
    static struct bench b;
    const struct ss_option_set sets[] = {
        ss_train_option_set(&b.train, SS_TRAIN_OF_PLAN | SS_TRAIN_COMPUTE),
        {.rows = rows, .values = &b.o},
        {0}};
    argv[0] = "gpu_kernels";
    int code = ss_options_command("usage: gpu_kernels [OPTION...]\n"
                                  "Time each kernel of a training step on this GPU. Options:\n",
                                  sets, argc, argv);
    if (code >= 0)
        return code;
    return bench(&b) == SS_OK ? 0 : 1;
}
