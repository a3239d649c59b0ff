#include "codelets/lane.h"
#include "codelets/load.h"
#include "codelets/model.h"
#include "codelets/scaler.h"
#include "core/clock.h"
#include "core/log.h"
#include "graph/segments.h"
#include "runtime/exec_internal.h"
#include "runtime/step_watch.h"

#include <stdlib.h>
#include <string.h>

static enum ss_status create_ops(struct ss_exec *e)
{
    struct ss_op_context context = {.plan = e->plan,
                                    .kernels = e->kernels,
                                    .device = e->device,
                                    .label_smoothing = e->options.label_smoothing,
                                    .training = e->options.training};
    e->op = calloc((size_t)e->plan->nblocks, sizeof *e->op);
    if (!e->op)
        return ss_fail_memory("operations", (size_t)e->plan->nblocks * sizeof *e->op);
    return ss_ops_create(&context, e->op);
}

static struct ss_region *find_region(struct ss_exec *e, const struct ss_access *a, int slot,
                                     int training)
{
    switch (a->space) {
    case SS_SPACE_BUFFER:
        return &e->buffer[a->index].r;
    case SS_SPACE_IMAGES:
        return &e->images[slot * e->plan->options.slices + a->index].r;
    case SS_SPACE_LABELS:
        return &e->labels[slot * e->plan->options.slices + a->index].r;
    case SS_SPACE_PARAMS:
        return &e->params[a->index].r;
    case SS_SPACE_GRADS:
        return &e->grads[a->index].r;
    case SS_SPACE_STATE:
        return &e->state[a->index].r;
    case SS_SPACE_RUNNING:
        return &e->running[a->index].r;
    case SS_SPACE_METRICS:
        /* All micro-batches of a step accumulate into one region. On a device one region
         * suffices, because the next step's input waits until the metrics are fetched. */
        if (e->plan->options.accumulate > 1 || (e->plan->options.device && e->nstaged == 1))
            slot = 0;
        return &e->metrics[training ? slot : e->options.slots].r;
    case SS_SPACE_LOG:
        return &e->log.r;
    case SS_SPACE_TOKEN:
        return &e->token.r;
    case SS_SPACE_STAGED:
        return &e->staged[slot % e->nstaged].r;
    case SS_SPACE_FETCHED:
        return &e->fetched[slot].r;
    case SS_SPACE_SCALER:
        return &e->scaler.r;
    case SS_SPACE_ACCUM:
        return &e->accum[a->index].r;
    case SS_SPACE_SYNC:
        return &e->sync.r;
    case SS_SPACE_SQUARES:
        return &e->squares.r;
    case SS_SPACE_KEYS:
        return &e->keys.r;
    }
    return NULL;
}

static void *context_of(struct ss_exec *e, enum ss_task_kind kind)
{
    switch (kind) {
    case SS_TASK_SUM:
    case SS_TASK_ADD:
        return &e->adding;
    case SS_TASK_SYNC:
    case SS_TASK_ALLREDUCE:
    case SS_TASK_REDUCE_SCATTER:
    case SS_TASK_GATHER:
    case SS_TASK_REDUCE_METRICS:
    case SS_TASK_REDUCE_FOUND:
    case SS_TASK_REDUCE_SQUARES:
        return &e->allreduce;
    case SS_TASK_SQUARES:
    case SS_TASK_UPDATE:
        return &e->updating;
    case SS_TASK_CONVERT:
        return &e->normalise;
    case SS_TASK_REPORT:
        return &e->options.report;
    case SS_TASK_LOAD:
    case SS_TASK_UPLOAD:
    case SS_TASK_FORWARD:
    case SS_TASK_BACKWARD:
    case SS_TASK_CHECK:
    case SS_TASK_SCALE:
    case SS_TASK_FETCH:
        break;
    }
    return NULL;
}

static enum ss_status bind_list(struct ss_exec *e, const struct ss_task_list *list, int training,
                                struct bound_list *out)
{
    size_t n = (size_t)list->count, slots = (size_t)e->options.slots;
    out->task = calloc(n, sizeof *out->task);
    out->regions = calloc(n * slots, sizeof *out->regions);
    if (e->options.timeout_s > 0)
        out->progress = calloc(n, sizeof *out->progress);
    if (!out->task || !out->regions || (e->options.timeout_s > 0 && !out->progress))
        return ss_fail_memory("bound tasks", n * slots * sizeof *out->regions);
    for (size_t i = 0; i < n; i++) {
        const struct ss_plan_task *t = &list->task[i];
        out->task[i] = (struct ss_bound_task){.plan = t,
                                              .name = t->name,
                                              .index = (int)i,
                                              .naccess = t->naccess,
                                              .access = t->access,
                                              .run = &e->options.runtime->run,
                                              .op = t->block >= 0 ? e->op[t->block] : NULL,
                                              .context = context_of(e, t->kind),
                                              .lanes = e->options.runtime->lanes,
                                              .training = training,
                                              .shards = e->plan->options.shards,
                                              .shard = ss_comm_rank(e->options.comm),
                                              .hooks = &e->hooks,
                                              .progress = out->progress ? &out->progress[i] : NULL};
        for (size_t slot = 0; slot < slots; slot++) {
            struct ss_region **r = calloc((size_t)t->naccess, sizeof *r);
            if (!r)
                return ss_fail_memory("a task's regions", (size_t)t->naccess * sizeof *r);
            out->regions[i * slots + slot] = r;
            for (int a = 0; a < t->naccess; a++)
                r[a] = find_region(e, &t->access[a], (int)slot, training);
        }
        ss_model_describe(&out->task[i], e->plan, e->options.model_key);
    }
    return SS_OK;
}

static void free_list(struct bound_list *l, int count, int slots)
{
    for (int i = 0; l->regions && i < count * slots; i++)
        free(l->regions[i]);
    free(l->regions);
    free(l->progress);
    free(l->task);
}

static enum ss_status start_watch(struct ss_exec *e)
{
    const struct ss_step_tasks train = {&e->plan->train, e->train.progress},
                               eval = {&e->plan->eval, e->eval.progress};
    if (!(e->options.timeout_s > 0))
        return SS_OK;
    return ss_step_watch_start(&train, &eval, &e->options.runtime->run, e->options.timeout_s,
                               &e->watch);
}

static enum ss_status fill_normalise(struct ss_exec *e)
{
    const struct ss_plan *plan = e->plan;
    const struct ss_value_info *x =
        ss_graph_value(plan->graph, ss_graph_layer(plan->graph, 0)->output);
    struct ss_normalise *n = &e->normalise;
    if (!plan->options.device)
        return SS_OK;
    if (x->c > SS_INPUT_CHANNELS)
        return ss_fail(SS_ERR_UNSUPPORTED, "images have %d channels; GPUs support at most %d", x->c,
                       SS_INPUT_CHANNELS);
    n->plain = (struct ss_act){plan->options.batch, x->c, x->h, x->w, x->c};
    n->x = n->plain;
    n->x.block = ss_plan_input_block(plan, x->c);
    memcpy(n->mean, e->options.mean, sizeof n->mean);
    memcpy(n->std, e->options.std, sizeof n->std);
    n->dropout = &e->dropout;
    return SS_OK;
}

static enum ss_status open_replay(struct ss_exec *e)
{
    return ss_replay_open(&(struct ss_replay_options){.mode = e->options.replay,
                                                      .predicted_s = e->options.predicted_s,
                                                      .plan = e->plan,
                                                      .lanes = e->options.runtime->lanes,
                                                      .task = e->train.task,
                                                      .regions = e->train.regions,
                                                      .slots = e->options.slots},
                          &e->replay);
}

/* The service updater is not used for optimizers with norms: norms are summed differently on a
 * CPU, and need a device's scratch memory. */
static void describe_service(struct ss_exec *e)
{
    struct ss_device *device = e->options.runtime->service_device;
    e->updating.compute.spans = e->spans;
    if (device && !ss_optim_has_norms(&e->options.optim))
        e->updating.service = (struct ss_updater){&ss_cpu_kernels, device, e->host_spans};
}

enum ss_status ss_exec_create(const struct ss_exec_options *options, struct ss_exec **out)
{
    struct ss_exec *e = calloc(1, sizeof *e);
    if (!e)
        return ss_fail_memory("executor", sizeof *e);
    e->options = *options;
    if (options->runtime->lanes)
        options->runtime->lanes->comm = options->comm;
    e->plan = options->plan;
    e->kernels = options->runtime->kernels;
    e->device = options->runtime->device;
    e->updating = (struct ss_updating){.compute = {.kernels = e->kernels, .device = e->device},
                                       .optim = options->optim,
                                       .scale = 1.0f / (float)ss_comm_size(options->comm),
                                       .element = ss_dtype_bytes(e->plan->options.dtype)};
    e->adding = (struct ss_adding){e->kernels, e->device, e->plan->options.accumulate};
    e->allreduce.comm = options->comm;
    e->nstaged = e->plan->options.no_overlap && options->slots > 1 ? 2 : 1;
    e->allreduce.wire = e->plan->options.grad_dtype;
    e->allreduce.weights = e->plan->options.dtype;
    enum ss_status status = fill_normalise(e);
    if (status == SS_OK)
        status = ss_dropout_open(&e->dropout, e->plan, options->seed, ss_comm_rank(options->comm));
    if (status == SS_OK)
        status = ss_input_stats_open(&e->feed, e->plan, options->slots, options->runtime->lanes);
    ss_exec_hook(e, &e->feed.hooks);
    if (status == SS_OK)
        status = create_ops(e);
    if (status == SS_OK)
        status = ss_exec_create_memory(e);
    describe_service(e);
    if (status == SS_OK && options->training)
        status = bind_list(e, &e->plan->train, 1, &e->train);
    if (status == SS_OK)
        status = bind_list(e, &e->plan->eval, 0, &e->eval);
    if (status == SS_OK && options->training)
        status = open_replay(e);
    if (status == SS_OK)
        status = start_watch(e);
    if (status != SS_OK) {
        ss_exec_destroy(e);
        return status;
    }
    *out = e;
    return SS_OK;
}

void ss_exec_destroy(struct ss_exec *e)
{
    if (!e)
        return;
    starpu_task_wait_for_all();
    ss_step_watch_stop(e->watch);
    e->kernels->synchronize(e->device);
    ss_replay_close(e->replay);
    ss_exec_destroy_memory(e);
    free_list(&e->train, e->plan->train.count, e->options.slots);
    free_list(&e->eval, e->plan->eval.count, e->options.slots);
    for (int i = 0; e->op && i < e->plan->nblocks; i++)
        ss_op_destroy(e->op[i]);
    free(e->op);
    ss_input_stats_close(&e->feed);
    ss_dropout_close(&e->dropout);
    free(e);
}

static void *spare_images(const struct ss_exec *e, int slot, int slice)
{
    const size_t number = (size_t)slot * (size_t)e->plan->options.slices + (size_t)slice;
    return e->spare ? e->spare + number * e->spare_bytes : NULL;
}

static const uint32_t *samples_of(const struct ss_exec *e, const struct ss_exec_step *step,
                                  int micro)
{
    return step->sample + micro * e->plan->options.batch;
}

/* Returns the number of missing images at the end of a batch. An empty batch counts as full: it
 * consists of black images without gradient, because BatchNorm cannot run on an empty batch. */
static int count_absent(const struct ss_exec *e, const struct ss_exec_step *step, int micro)
{
    const uint32_t *sample = samples_of(e, step, micro);
    const int batch = e->plan->options.batch;
    int n = 0;
    while (n < batch && sample[batch - 1 - n] == UINT32_MAX)
        n++;
    return n < batch ? n : 0;
}

static int lacks_images(const struct ss_exec *e, const struct ss_exec_step *step)
{
    int lacks = 0;
    for (int micro = 0; micro < e->plan->options.accumulate; micro++)
        lacks |= count_absent(e, step, micro) > 0;
    return lacks;
}

static enum ss_status submit_load(struct ss_exec *e, const struct ss_step_args *head, int slot,
                                  const struct ss_exec_step *step)
{
    int slice = head->task->plan->slice, begin = e->plan->slice_begin[slice];
    int n = e->plan->slice_begin[slice + 1] - begin, batch = e->plan->options.batch;
    size_t bytes = sizeof(struct ss_load_args) + (size_t)(n + 1) * sizeof(uint32_t);
    struct ss_load_args *args = malloc(bytes);
    if (!args)
        return ss_fail_memory("a load task", bytes);
    args->head = *head;
    args->dataset = step->dataset;
    args->how = (struct ss_load_how){.seed = e->options.seed,
                                     .epoch = step->epoch,
                                     .augment = step->augment,
                                     .replace = head->task->training,
                                     .bytes = e->plan->options.device};
    args->count = n;
    args->mix = (struct ss_mix_how){0};
    args->dtype = ss_input_layout_of(e->plan).dtype;
    args->spare = spare_images(e, slot, slice);
    if (head->task->training) {
        args->how.erase = e->options.random_erasing;
        args->mix = e->options.mix;
    }
    const uint32_t *sample = samples_of(e, step, head->task->plan->micro);
    memcpy(args->sample, sample + begin, (size_t)n * sizeof *args->sample);
    args->sample[n] = sample[(begin ? begin : batch - head->absent) - 1];
    enum ss_status status = ss_load_submit(args);
    free(args);
    return status;
}

static enum ss_status submit_task(struct ss_exec *e, const struct bound_list *list, int i, int slot,
                                  const struct ss_exec_step *step, int absent, uint64_t now_ns)
{
    const struct ss_bound_task *task = &list->task[i];
    struct ss_step_args args = {.task = task,
                                .region = list->regions[i * e->options.slots + slot],
                                .step = step->step,
                                .absent = absent,
                                .lr = step->lr,
                                .submitted_ns = now_ns};
    switch (task->plan->kind) {
    case SS_TASK_LOAD:
        return submit_load(e, &args, slot, step);
    case SS_TASK_UPLOAD:
        return ss_upload_submit(&args);
    case SS_TASK_CONVERT:
        return ss_convert_submit(&args);
    case SS_TASK_FORWARD:
    case SS_TASK_BACKWARD:
        args.dropout_key =
            ss_dropout_key(&e->dropout, step->step, task->plan->micro, task->plan->block);
        if (e->plan->block[task->plan->block].makes >= 0)
            args.source_key = ss_dropout_key(&e->dropout, step->step, task->plan->micro,
                                             e->plan->block[task->plan->block].makes);
        return ss_op_submit(&args);
    case SS_TASK_SUM:
        return ss_sum_submit(&args);
    case SS_TASK_ADD:
        return ss_add_submit(&args);
    case SS_TASK_SYNC:
    case SS_TASK_ALLREDUCE:
    case SS_TASK_REDUCE_SCATTER:
    case SS_TASK_GATHER:
    case SS_TASK_REDUCE_METRICS:
    case SS_TASK_REDUCE_FOUND:
    case SS_TASK_REDUCE_SQUARES:
        return ss_allreduce_submit(&args);
    case SS_TASK_CHECK:
        return ss_check_submit(&args);
    case SS_TASK_SQUARES:
        return ss_squares_submit(&args);
    case SS_TASK_UPDATE:
        return ss_update_submit(&args);
    case SS_TASK_SCALE:
        return ss_scale_submit(&args);
    case SS_TASK_FETCH:
        return ss_fetch_submit(&args);
    case SS_TASK_REPORT:
        return ss_report_submit(&args);
    }
    return SS_OK;
}

/* Limits the memory of tasks in flight: at most `slots` micro-batches. */
static void throttle(const struct ss_exec *e)
{
    const int of_each = e->plan->train.count / e->plan->options.accumulate + 1;
    starpu_task_wait_for_n_submitted((unsigned)(of_each * e->options.slots));
}

enum ss_status ss_exec_submit_train(struct ss_exec *e, const struct ss_exec_step *step)
{
    const struct ss_task_list *list = &e->plan->train;
    const uint64_t slots = (uint64_t)e->options.slots,
                   micros = (uint64_t)e->plan->options.accumulate;
    for (const struct ss_hooks *h = e->hooks; h; h = h->next)
        if (h->step_begins && ss_hooks_want_step(h, step->step))
            h->step_begins(h->arg, step->step);
    uint64_t now_ns = ss_now_ns();
    const int lacks = lacks_images(e, step),
              replays = ss_replay_begin_step(e->replay, e->hooks, step->step) && !lacks;
    e->steps++;
    e->replayed += (uint64_t)replays;
    starpu_iteration_push((unsigned long)step->step);
    enum ss_status status = SS_OK;
    for (int i = 0; status == SS_OK && i < list->count; i++) {
        const uint64_t micro = (uint64_t)list->task[i].micro;
        if (micro && list->task[i].micro != list->task[i - 1].micro)
            throttle(e);
        if (replays && ss_segments_take(list->task[i].kind))
            status = ss_replay_submit(e->replay, i, step->step, now_ns);
        else
            status = submit_task(e, &e->train, i, (int)((step->step * micros + micro) % slots),
                                 step, lacks ? count_absent(e, step, (int)micro) : 0, now_ns);
    }
    starpu_iteration_pop();
    ss_run_fail(&e->options.runtime->run, status); /* a partial step cannot be withdrawn */
    return status;
}

enum ss_status ss_exec_submit_eval(struct ss_exec *e, const struct ss_exec_step *step)
{
    int slot = (int)(e->eval_steps++ % (uint64_t)e->options.slots);
    enum ss_status status = SS_OK;
    for (int i = 0; status == SS_OK && i < e->plan->eval.count; i++)
        status = submit_task(e, &e->eval, i, slot, step, 0, 0);
    ss_run_fail(&e->options.runtime->run, status);
    return status;
}

void ss_exec_hook(struct ss_exec *e, struct ss_hooks *hooks)
{
    if (!hooks)
        return;
    hooks->next = e->hooks;
    e->hooks = hooks;
}

void ss_exec_unhook(struct ss_exec *e, struct ss_hooks *hooks)
{
    for (struct ss_hooks **at = &e->hooks; *at; at = &(*at)->next)
        if (*at == hooks) {
            *at = hooks->next;
            return;
        }
}

struct ss_exec_fed ss_exec_fed(const struct ss_exec *e)
{
    const struct ss_lanes *lanes = e->options.runtime->lanes;
    if (!lanes)
        return (struct ss_exec_fed){0};
    return (struct ss_exec_fed){.seconds = 1e-9 * (double)atomic_load(&lanes->busy_ns),
                                .steps = e->steps,
                                .replayed = e->replayed};
}

struct ss_input_totals ss_exec_input_stats(const struct ss_exec *e)
{
    return ss_input_stats_totals(&e->feed);
}

enum ss_status ss_exec_wait(struct ss_exec *e)
{
    SS_STARPU_TRY(starpu_task_wait_for_all());
    /* In stream order, tasks end for StarPU before the GPU has run them. */
    SS_TRY(e->kernels->synchronize(e->device));
    return (enum ss_status)atomic_load(&e->options.runtime->run.status);
}
