#include "runtime/exec.h"
#include "codelets/allreduce.h"
#include "codelets/load.h"
#include "codelets/op.h"
#include "codelets/sgd.h"
#include "core/log.h"
#include "core/rng.h"

#include <stdlib.h>
#include <string.h>

/* Memory known to StarPU under one handle. */
struct region {
    void *data;
    size_t bytes;
    starpu_data_handle_t handle;
};

struct bound_list {
    struct ss_bound_task *task;     /* per plan task */
    starpu_data_handle_t **handles; /* per plan task and slot: one array of its accesses */
};

struct ss_exec {
    struct ss_exec_options options;
    const struct ss_plan *plan;
    struct ss_op **op;       /* per block */
    struct region *buffer;   /* per plan buffer */
    struct region *params;   /* per bucket */
    struct region *grads;    /* per bucket */
    struct region *momentum; /* per bucket; data NULL without momentum */
    struct region *running;  /* per block with BN */
    struct region *images;   /* per slot and slice */
    struct region *labels;   /* per slot and slice */
    struct region *metrics;  /* per slot, then one of evaluation */
    struct region log, token;
    float *image_memory; /* of all slots */
    int32_t *label_memory;
    struct bound_list train, eval;
    struct ss_sgd sgd;
    uint64_t eval_steps;
};

static size_t round64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static enum ss_status register_region(struct region *r, void *data, size_t bytes)
{
    r->data = data;
    r->bytes = bytes;
    starpu_vector_data_register(&r->handle, STARPU_MAIN_RAM, (uintptr_t)data, bytes, 1);
    return SS_OK;
}

static enum ss_status new_region(struct region *r, size_t bytes, const char *what)
{
    bytes = round64(bytes ? bytes : 1);
    void *data = ss_aligned_alloc(bytes);
    if (!data)
        return ss_fail_memory(what, bytes);
    return register_region(r, data, bytes);
}

static void drop_region(struct region *r, int owned)
{
    if (r->handle)
        starpu_data_unregister_no_coherency(r->handle);
    if (owned)
        free(r->data);
    memset(r, 0, sizeof *r);
}

static enum ss_status create_ops(struct ss_exec *e)
{
    struct ss_op_context context = {e->plan, e->options.runtime->cpu, e->options.conv_algo,
                                    e->options.training};
    for (int i = 0; i < e->plan->nblocks; i++)
        SS_TRY(ss_op_create(&context, i, &e->op[i]));
    return SS_OK;
}

static size_t param_bytes(const struct ss_exec *e, const struct ss_plan_param *p)
{
    const struct ss_op *op = e->op[p->block];
    if (ss_graph_param(e->plan->graph, p->graph_param)->role == SS_PARAM_WEIGHT)
        return op->cls->weight_bytes(op);
    return (size_t)p->elements * sizeof(float);
}

/* Lay out each bucket: parameters in plan order, each on a cache line of its own. */
static enum ss_status create_buckets(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    for (int k = 0; k < plan->nbuckets; k++) {
        size_t bytes = 0;
        const struct ss_bucket *b = &plan->bucket[k];
        for (int i = b->first_param; i < b->first_param + b->nparams; i++) {
            const struct ss_plan_param *p = &plan->param[i];
            e->op[p->block]->offset[ss_graph_param(plan->graph, p->graph_param)->role] =
                bytes / sizeof(float);
            bytes += round64(param_bytes(e, p));
        }
        SS_TRY(new_region(&e->params[k], bytes, "parameters"));
        if (!e->options.training)
            continue;
        SS_TRY(new_region(&e->grads[k], bytes, "gradients"));
        /* Without momentum the handle still orders updates, over an empty region. */
        SS_TRY(new_region(&e->momentum[k], e->options.momentum > 0 ? bytes : 1, "momentum"));
    }
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].bn >= 0) {
            size_t channels = (size_t)ss_graph_value(plan->graph, plan->block[i].y)->c;
            SS_TRY(new_region(&e->running[i], 2 * channels * sizeof(float), "running statistics"));
        }
    return SS_OK;
}

/* Slots are contiguous, so that a slot's slices are one batch to the first layer. */
static enum ss_status create_slots(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    const struct ss_value_info *x =
        ss_graph_value(plan->graph, ss_graph_layer(plan->graph, 0)->output);
    size_t pixels = (size_t)x->c * (size_t)x->h * (size_t)x->w;
    size_t batch = (size_t)plan->options.batch, slots = (size_t)e->options.slots;
    size_t image_stride = round64(batch * pixels * sizeof(float)) / sizeof(float);
    size_t label_stride = round64(batch * sizeof(int32_t)) / sizeof(int32_t);
    e->image_memory = ss_aligned_alloc(slots * image_stride * sizeof(float));
    e->label_memory = ss_aligned_alloc(slots * label_stride * sizeof(int32_t));
    if (!e->image_memory || !e->label_memory)
        return ss_fail_memory("input slots", slots * image_stride * sizeof(float));
    for (size_t slot = 0; slot < slots; slot++)
        for (int s = 0; s < plan->options.slices; s++) {
            size_t i = slot * (size_t)plan->options.slices + (size_t)s;
            size_t begin = (size_t)plan->slice_begin[s],
                   n = (size_t)plan->slice_begin[s + 1] - begin;
            SS_TRY(register_region(&e->images[i],
                                   e->image_memory + slot * image_stride + begin * pixels,
                                   n * pixels * sizeof(float)));
            SS_TRY(register_region(&e->labels[i], e->label_memory + slot * label_stride + begin,
                                   n * sizeof(int32_t)));
        }
    for (size_t slot = 0; slot <= slots; slot++)
        SS_TRY(new_region(&e->metrics[slot], sizeof(struct ss_metrics), "metrics"));
    SS_TRY(new_region(&e->log, 1, "report order"));
    return new_region(&e->token, 1, "collective order");
}

static starpu_data_handle_t find_handle(const struct ss_exec *e, const struct ss_access *a,
                                        int slot, int training)
{
    switch (a->space) {
    case SS_SPACE_BUFFER:
        return e->buffer[a->index].handle;
    case SS_SPACE_IMAGES:
        return e->images[slot * e->plan->options.slices + a->index].handle;
    case SS_SPACE_LABELS:
        return e->labels[slot * e->plan->options.slices + a->index].handle;
    case SS_SPACE_PARAMS:
        return e->params[a->index].handle;
    case SS_SPACE_GRADS:
        return e->grads[a->index].handle;
    case SS_SPACE_MOMENTUM:
        return e->momentum[a->index].handle;
    case SS_SPACE_RUNNING:
        return e->running[a->index].handle;
    case SS_SPACE_METRICS:
        return e->metrics[training ? slot : e->options.slots].handle;
    case SS_SPACE_LOG:
        return e->log.handle;
    case SS_SPACE_TOKEN:
        return e->token.handle;
    }
    return NULL;
}

static void *context_of(struct ss_exec *e, enum ss_task_kind kind)
{
    switch (kind) {
    case SS_TASK_ALLREDUCE:
    case SS_TASK_REDUCE_METRICS:
        return e->options.comm;
    case SS_TASK_UPDATE:
        return &e->sgd;
    case SS_TASK_REPORT:
        return &e->options.report;
    default:
        return NULL;
    }
}

static enum ss_status bind_list(struct ss_exec *e, const struct ss_task_list *list, int training,
                                struct bound_list *out)
{
    size_t n = (size_t)list->count, slots = (size_t)e->options.slots;
    out->task = calloc(n, sizeof *out->task);
    out->handles = calloc(n * slots, sizeof *out->handles);
    if (!out->task || !out->handles)
        return ss_fail_memory("bound tasks", n * slots * sizeof *out->handles);
    for (size_t i = 0; i < n; i++) {
        const struct ss_plan_task *t = &list->task[i];
        out->task[i] = (struct ss_bound_task){.plan = t,
                                              .run = &e->options.runtime->run,
                                              .op = t->block >= 0 ? e->op[t->block] : NULL,
                                              .context = context_of(e, t->kind),
                                              .training = training};
        for (size_t slot = 0; slot < slots; slot++) {
            starpu_data_handle_t *h = calloc((size_t)t->naccess, sizeof *h);
            if (!h)
                return ss_fail_memory("task handles", (size_t)t->naccess * sizeof *h);
            out->handles[i * slots + slot] = h;
            for (int a = 0; a < t->naccess; a++)
                h[a] = find_handle(e, &t->access[a], (int)slot, training);
        }
    }
    return SS_OK;
}

static void free_list(struct bound_list *l, int count, int slots)
{
    for (int i = 0; l->handles && i < count * slots; i++)
        free(l->handles[i]);
    free(l->handles);
    free(l->task);
}

static enum ss_status create_tables(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    size_t slices = (size_t)e->options.slots * (size_t)plan->options.slices,
           buckets = (size_t)plan->nbuckets;
    e->op = calloc((size_t)plan->nblocks, sizeof *e->op);
    e->buffer = calloc((size_t)plan->nbuffers, sizeof *e->buffer);
    e->params = calloc(buckets, sizeof *e->params);
    e->grads = calloc(buckets, sizeof *e->grads);
    e->momentum = calloc(buckets, sizeof *e->momentum);
    e->running = calloc((size_t)plan->nblocks, sizeof *e->running);
    e->images = calloc(slices, sizeof *e->images);
    e->labels = calloc(slices, sizeof *e->labels);
    e->metrics = calloc((size_t)e->options.slots + 1, sizeof *e->metrics);
    if (!e->op || !e->buffer || !e->params || !e->grads || !e->momentum || !e->running ||
        !e->images || !e->labels || !e->metrics)
        return ss_fail_memory("executor", slices * sizeof *e->images);
    return SS_OK;
}

enum ss_status ss_exec_create(const struct ss_exec_options *options, struct ss_exec **out)
{
    struct ss_exec *e = calloc(1, sizeof *e);
    if (!e)
        return ss_fail_memory("executor", sizeof *e);
    e->options = *options;
    e->plan = options->plan;
    e->sgd = (struct ss_sgd){options->runtime->cpu, options->momentum, options->weight_decay,
                             1.0f / (float)ss_comm_size(options->comm)};
    enum ss_status status = create_tables(e);
    if (status == SS_OK)
        status = create_ops(e);
    if (status == SS_OK)
        status = create_buckets(e);
    for (int i = 0; status == SS_OK && i < e->plan->nbuffers; i++)
        status = new_region(&e->buffer[i], e->plan->buffer_bytes[i], "activations");
    if (status == SS_OK)
        status = create_slots(e);
    if (status == SS_OK && options->training)
        status = bind_list(e, &e->plan->train, 1, &e->train);
    if (status == SS_OK)
        status = bind_list(e, &e->plan->eval, 0, &e->eval);
    if (status != SS_OK) {
        ss_exec_destroy(e);
        return status;
    }
    *out = e;
    return SS_OK;
}

static void drop_regions(struct region *r, size_t n, int owned)
{
    for (size_t i = 0; r && i < n; i++)
        drop_region(&r[i], owned);
    free(r);
}

void ss_exec_destroy(struct ss_exec *e)
{
    if (!e)
        return;
    starpu_task_wait_for_all();
    size_t slices = (size_t)e->options.slots * (size_t)e->plan->options.slices,
           buckets = (size_t)e->plan->nbuckets;
    drop_regions(e->buffer, (size_t)e->plan->nbuffers, 1);
    drop_regions(e->params, buckets, 1);
    drop_regions(e->grads, buckets, 1);
    drop_regions(e->momentum, buckets, 1);
    drop_regions(e->running, (size_t)e->plan->nblocks, 1);
    drop_regions(e->images, slices, 0);
    drop_regions(e->labels, slices, 0);
    drop_regions(e->metrics, (size_t)e->options.slots + 1, 1);
    drop_region(&e->log, 1);
    drop_region(&e->token, 1);
    free(e->image_memory);
    free(e->label_memory);
    free_list(&e->train, e->plan->train.count, e->options.slots);
    free_list(&e->eval, e->plan->eval.count, e->options.slots);
    for (int i = 0; e->op && i < e->plan->nblocks; i++)
        ss_op_destroy(e->op[i]);
    free(e->op);
    free(e);
}

static enum ss_status submit_load(struct ss_exec *e, const starpu_data_handle_t *handles,
                                  const struct ss_step_args *head, const struct ss_exec_step *step)
{
    int slice = head->task->plan->slice, begin = e->plan->slice_begin[slice];
    int n = e->plan->slice_begin[slice + 1] - begin;
    size_t bytes = sizeof(struct ss_load_args) + (size_t)n * sizeof(uint32_t);
    struct ss_load_args *args = malloc(bytes);
    if (!args)
        return ss_fail_memory("a load task", bytes);
    args->head = *head;
    args->dataset = step->dataset;
    args->seed = e->options.seed;
    args->epoch = step->epoch;
    args->augment = step->augment;
    args->count = n;
    memcpy(args->sample, step->sample + begin, (size_t)n * sizeof *args->sample);
    enum ss_status status = ss_load_submit(handles, args);
    free(args);
    return status;
}

/* One dropout key per (seed, step, block, rank). */
static uint64_t dropout_key(const struct ss_exec *e, uint64_t step, int block)
{
    uint64_t stream = ss_mix64(e->options.seed, SS_RNG_DROPOUT);
    uint64_t where = ((uint64_t)ss_comm_rank(e->options.comm) << 32) | (uint32_t)block;
    return ss_mix64(ss_mix64(stream, step), where);
}

static enum ss_status submit_task(struct ss_exec *e, const struct bound_list *list, int i, int slot,
                                  const struct ss_exec_step *step)
{
    const struct ss_bound_task *task = &list->task[i];
    const starpu_data_handle_t *handles = list->handles[i * e->options.slots + slot];
    struct ss_step_args args = {.task = task, .step = step->step, .lr = step->lr};
    switch (task->plan->kind) {
    case SS_TASK_LOAD:
        return submit_load(e, handles, &args, step);
    case SS_TASK_FORWARD:
    case SS_TASK_BACKWARD:
        args.dropout_key = dropout_key(e, step->step, task->plan->block);
        return ss_op_submit(handles, &args);
    case SS_TASK_ALLREDUCE:
    case SS_TASK_REDUCE_METRICS:
        return ss_allreduce_submit(handles, &args);
    case SS_TASK_UPDATE:
        return ss_sgd_submit(handles, &args);
    case SS_TASK_REPORT:
        return ss_report_submit(handles, &args);
    }
    return SS_OK;
}

enum ss_status ss_exec_submit_train(struct ss_exec *e, const struct ss_exec_step *step)
{
    int slot = (int)(step->step % (uint64_t)e->options.slots);
    starpu_iteration_push((unsigned long)step->step);
    enum ss_status status = SS_OK;
    for (int i = 0; status == SS_OK && i < e->plan->train.count; i++)
        status = submit_task(e, &e->train, i, slot, step);
    starpu_iteration_pop();
    ss_run_fail(&e->options.runtime->run, status); /* half a step cannot be taken back */
    return status;
}

enum ss_status ss_exec_submit_eval(struct ss_exec *e, const struct ss_exec_step *step)
{
    int slot = (int)(e->eval_steps++ % (uint64_t)e->options.slots);
    enum ss_status status = SS_OK;
    for (int i = 0; status == SS_OK && i < e->plan->eval.count; i++)
        status = submit_task(e, &e->eval, i, slot, step);
    ss_run_fail(&e->options.runtime->run, status);
    return status;
}

enum ss_status ss_exec_wait(struct ss_exec *e)
{
    SS_STARPU_TRY(starpu_task_wait_for_all());
    return (enum ss_status)atomic_load(&e->options.runtime->run.status);
}

void ss_exec_reset_eval(struct ss_exec *e)
{
    memset(e->metrics[e->options.slots].data, 0, sizeof(struct ss_metrics));
}

struct ss_metrics ss_exec_eval_metrics(const struct ss_exec *e)
{
    return *(const struct ss_metrics *)e->metrics[e->options.slots].data;
}

/* Where parameter i lives, in its native layout. */
static float *param_data(const struct ss_exec *e, int i, enum ss_param_role *role)
{
    const struct ss_plan_param *p = &e->plan->param[i];
    *role = ss_graph_param(e->plan->graph, p->graph_param)->role;
    if (*role == SS_PARAM_RUNNING_MEAN)
        return e->running[p->block].data;
    if (*role == SS_PARAM_RUNNING_VAR)
        return (float *)e->running[p->block].data + p->elements;
    return (float *)e->params[p->bucket].data + e->op[p->block]->offset[*role];
}

enum ss_status ss_exec_set_param(struct ss_exec *e, int i, const float *plain)
{
    enum ss_param_role role;
    float *data = param_data(e, i, &role);
    struct ss_op *op = e->op[e->plan->param[i].block];
    if (role == SS_PARAM_WEIGHT)
        return op->cls->weight_import(op, plain, data);
    memcpy(data, plain, (size_t)e->plan->param[i].elements * sizeof *plain);
    return SS_OK;
}

enum ss_status ss_exec_get_param(struct ss_exec *e, int i, float *plain)
{
    enum ss_param_role role;
    const float *data = param_data(e, i, &role);
    struct ss_op *op = e->op[e->plan->param[i].block];
    if (role == SS_PARAM_WEIGHT)
        return op->cls->weight_export(op, data, plain);
    memcpy(plain, data, (size_t)e->plan->param[i].elements * sizeof *plain);
    return SS_OK;
}

enum ss_status ss_exec_broadcast_params(struct ss_exec *e)
{
    for (int k = 0; k < e->plan->nbuckets; k++)
        SS_TRY(ss_comm_bcast(e->options.comm, e->params[k].data, e->params[k].bytes, 0,
                             "broadcast of the initial parameters"));
    return ss_exec_broadcast_running(e);
}

enum ss_status ss_exec_broadcast_running(struct ss_exec *e)
{
    for (int i = 0; i < e->plan->nblocks; i++)
        if (e->running[i].data)
            SS_TRY(ss_comm_bcast(e->options.comm, e->running[i].data, e->running[i].bytes, 0,
                                 "broadcast of running statistics"));
    return SS_OK;
}

static uint64_t hash_words(uint64_t h, const void *data, size_t bytes)
{
    const uint64_t *w = data;
    for (size_t i = 0; i < bytes / sizeof *w; i++)
        h = ss_mix64(h, w[i]);
    return h;
}

uint64_t ss_exec_hash_params(const struct ss_exec *e)
{
    uint64_t h = 0;
    for (int k = 0; k < e->plan->nbuckets; k++)
        h = hash_words(h, e->params[k].data, e->params[k].bytes);
    return h;
}

struct ss_exec_memory ss_exec_memory(const struct ss_exec *e)
{
    struct ss_exec_memory m = {.scratch = ss_cpu_scratch_bytes(e->options.runtime->cpu)};
    for (int i = 0; i < e->plan->nbuffers; i++)
        m.activations += e->buffer[i].bytes;
    for (int k = 0; k < e->plan->nbuckets; k++)
        m.parameters += e->params[k].bytes + e->grads[k].bytes + e->momentum[k].bytes;
    for (int i = 0; i < e->options.slots * e->plan->options.slices; i++)
        m.input += e->images[i].bytes + e->labels[i].bytes;
    return m;
}

void ss_exec_bucket_counts(const struct ss_exec *e, size_t *counts)
{
    for (int k = 0; k < e->plan->nbuckets; k++)
        counts[k] = e->params[k].bytes / sizeof(float);
}

uint64_t ss_exec_layout_hash(const struct ss_exec *e)
{
    uint64_t h = ss_cpu_fingerprint();
    for (int k = 0; k < e->plan->nbuckets; k++)
        h = ss_mix64(h, e->params[k].bytes);
    for (int i = 0; i < e->plan->nblocks; i++)
        for (int r = 0; r <= SS_PARAM_BETA; r++)
            h = ss_mix64(h, e->op[i]->offset[r]);
    return h;
}
