/* roofline.c: runs a step's tasks on the cost-model device, which only records accesses and
 * operations (contract in roofline.h). */
#include "codelets/add.h"
#include "codelets/input.h"
#include "codelets/op.h"
#include "core/log.h"
#include "sim/roofline_internal.h"

#include <stdlib.h>
#include <string.h>

/* The step's memory: an address range per tensor, and per region other than tensors. */
struct memory {
    const struct ss_plan *plan;
    struct ss_device *device;
    struct ss_op **op;    /* per block */
    size_t *bucket_bytes; /* in native layouts */
    struct ss_dropout dropout;
};

enum { ADDRESS_BITS = 36, COPY = SS_SPACE_KEYS + 1, INDICES = 1 << 14 };

static uintptr_t address(size_t number)
{
    return (uintptr_t)((uint64_t)(number + 1) << ADDRESS_BITS);
}

static uintptr_t address_of(const struct ss_plan *plan, int space, int index)
{
    return address((size_t)plan->ntensors + (size_t)space * INDICES + (size_t)index);
}

static size_t bytes_of(const struct memory *m, const struct ss_access *a)
{
    switch (a->space) {
    case SS_SPACE_PARAMS:
    case SS_SPACE_GRADS:
    case SS_SPACE_ACCUM:
        return m->bucket_bytes[a->index];
    case SS_SPACE_STATE:
        return ss_share_begin(m->bucket_bytes[a->index / m->plan->options.states] / sizeof(float),
                              m->plan->options.shards > 1 ? m->plan->options.shards : 1, 1) *
               sizeof(float);
    case SS_SPACE_RUNNING:
        return (size_t)m->plan->block[a->index].running * sizeof(float);
    case SS_SPACE_STAGED:
        return ss_input_layout_of(m->plan).bytes;
    case SS_SPACE_METRICS:
        return sizeof(struct ss_metrics);
    case SS_SPACE_SCALER:
        return sizeof(struct ss_scaler);
    case SS_SPACE_SQUARES:
        return sizeof(double);
    case SS_SPACE_KEYS:
        return (size_t)ss_plan_count_drops(m->plan, m->plan->nblocks) * sizeof(uint64_t);
    case SS_SPACE_IMAGES:
        return ss_input_layout_of(m->plan).labels;
    case SS_SPACE_LABELS:
        return ss_input_layout_of(m->plan).bytes - ss_input_layout_of(m->plan).labels;
    case SS_SPACE_BUFFER:
    case SS_SPACE_LOG:
    case SS_SPACE_TOKEN:
    case SS_SPACE_SYNC:
    case SS_SPACE_FETCHED:
        break;
    }
    return 0;
}

/* Returns the region of access i of a task, and its address. Tensors that share a buffer have
 * separate addresses. */
static struct ss_region region_of(const struct memory *m, const struct ss_plan_task *t, int i,
                                  uintptr_t *at)
{
    const struct ss_access *a = &t->access[i];
    const size_t element = ss_dtype_bytes(m->plan->options.dtype);
    for (int role = 0; role < SS_ROLE_COUNT; role++)
        if (t->role[role] == i && t->tensor[role] >= 0) {
            const int of = m->plan->tensor[t->tensor[role]].of,
                      whole = of < 0 ? t->tensor[role] : of;
            *at = address((size_t)whole);
            return (struct ss_region){.bytes = m->plan->tensor[whole].bytes};
        }
    struct ss_region r = {.bytes = bytes_of(m, a)};
    *at = address_of(m->plan, (int)a->space, a->index);
    if (a->space == SS_SPACE_PARAMS && element != sizeof(float))
        r.copy_at = address_of(m->plan, COPY, a->index) - *at;
    return r;
}

static void close_memory(struct memory *m)
{
    for (int i = 0; m->op && i < m->plan->nblocks; i++)
        ss_op_destroy(m->op[i]);
    free(m->op);
    free(m->bucket_bytes);
    ss_dropout_close(&m->dropout);
    ss_cost_kernels.close(m->device);
}

/* As in the executor: each parameter at a multiple of 64 bytes of its bucket. */
static enum ss_status open_memory(struct memory *m, const struct ss_plan *plan)
{
    const struct ss_device_options options = {.dtype = plan->options.dtype};
    *m = (struct memory){.plan = plan};
    SS_TRY(ss_cost_kernels.open(&options, &m->device));
    if (!plan->options.device)
        ss_cost_as_cpu(m->device);
    m->op = calloc((size_t)plan->nblocks, sizeof *m->op);
    m->bucket_bytes = calloc((size_t)(plan->nbuckets + plan->nfrozen) + 1, sizeof *m->bucket_bytes);
    if (!m->op || !m->bucket_bytes)
        return ss_fail_memory("predictions", (size_t)plan->nblocks * sizeof *m->op);
    SS_TRY(ss_dropout_open(&m->dropout, plan, 0, 0));
    const struct ss_op_context context = {
        .plan = plan, .kernels = &ss_cost_kernels, .device = m->device, .training = 1};
    SS_TRY(ss_ops_create(&context, m->op));
    for (int k = 0; k < plan->nbuckets + plan->nfrozen; k++)
        m->bucket_bytes[k] = ss_ops_place(plan, m->op, k).capacity;
    return SS_OK;
}

/* ---- running ---- */

static enum ss_status update(const struct memory *m, const struct ss_task_data *d)
{
    size_t begin;
    struct ss_update u = {.rule = m->plan->options.norms ? SS_RULE_LARS : SS_RULE_SGD,
                          .count = ss_role_share(d, SS_ROLE_PARAMS, &begin),
                          .w = ss_role(d, SS_ROLE_PARAMS),
                          .copy = ss_role_copy(d, SS_ROLE_PARAMS),
                          .g = ss_role(d, SS_ROLE_GRADS),
                          .scaler = ss_role(d, SS_ROLE_SCALER),
                          .squares = ss_role(d, SS_ROLE_SQUARES)};
    for (int k = 0; k < SS_UPDATE_STATES; k++)
        u.state[k] = ss_role(d, SS_ROLE_STATE + k);
    u.ema = ss_role(d, SS_ROLE_STATE + SS_UPDATE_STATES); /* or it is one of these */
    return ss_cost_kernels.update(m->device, &u);
}

/* Run a task of the compute lane. */
static enum ss_status run(const struct memory *m, const struct ss_task_data *d)
{
    const struct ss_kernels *k = &ss_cost_kernels;
    const struct ss_plan_task *t = d->task->plan;
    switch (t->kind) {
    case SS_TASK_FORWARD:
        return d->task->op->cls->forward(d->task->op, d);
    case SS_TASK_BACKWARD:
        return ss_op_backward(d);
    case SS_TASK_CONVERT: {
        struct ss_normalise n = {.dropout = &m->dropout};
        if (t->tensor[SS_ROLE_Y] >= 0)
            n.x = ss_tensor_act(m->plan, t->tensor[SS_ROLE_Y]);
        if (t->tensor[SS_ROLE_Z] >= 0)
            n.plain = ss_tensor_act(m->plan, t->tensor[SS_ROLE_Z]);
        return ss_convert_run(k, m->device, &n, d);
    }
    case SS_TASK_CHECK: {
        size_t begin;
        return k->scaler_check(m->device, ss_role_share(d, SS_ROLE_GRADS, &begin),
                               ss_role(d, SS_ROLE_GRADS), ss_role(d, SS_ROLE_SCALER));
    }
    case SS_TASK_SUM:
    case SS_TASK_ADD: {
        const struct ss_adding adding = {k, m->device, m->plan->options.accumulate};
        return ss_add_run(&adding, d);
    }
    case SS_TASK_SQUARES: {
        size_t begin;
        const size_t count = ss_role_share(d, SS_ROLE_GRADS, &begin);
        return k->squares(m->device, count, (const float *)ss_role(d, SS_ROLE_GRADS) + begin, 0,
                          ss_role(d, SS_ROLE_SQUARES));
    }
    case SS_TASK_UPDATE:
        return update(m, d);
    case SS_TASK_SCALE:
        return k->scaler_update(m->device, ss_role(d, SS_ROLE_SCALER));
    case SS_TASK_LOAD:
    case SS_TASK_UPLOAD:
    case SS_TASK_SYNC:
    case SS_TASK_ALLREDUCE:
    case SS_TASK_REDUCE_SCATTER:
    case SS_TASK_GATHER:
    case SS_TASK_FETCH:
    case SS_TASK_REDUCE_METRICS:
    case SS_TASK_REDUCE_FOUND:
    case SS_TASK_REDUCE_SQUARES:
    case SS_TASK_REPORT:
        break;
    }
    return SS_OK;
}

/* Returns whether the accessed memory is within a declared access of the task. Memory that the
 * task writes may also be read. */
static int is_counted(const struct ss_plan_task *t, const struct ss_accessed *accessed,
                      const struct ss_cost_access *a)
{
    const uintptr_t at = (uintptr_t)a->data;
    for (int i = 0; i < t->naccess; i++) {
        const struct ss_region *r = &accessed->region[i];
        const uintptr_t begin = accessed->vector[i].ptr, copy = begin + r->copy_at;
        const int in = at >= begin && at + a->bytes <= begin + r->bytes;
        const int in_copy = r->copy_at && at >= copy && at + a->bytes <= copy + r->bytes;
        if ((in || in_copy) && (!(a->mode & SS_COST_WRITE) || t->access[i].mode & SS_WRITE))
            return 1;
    }
    return 0;
}

static enum ss_status check(const struct memory *m, const struct ss_plan_task *t,
                            const struct ss_accessed *accessed, const struct ss_cost_launch *l)
{
    for (int i = 0; i < l->naccess; i++)
        if (l->access[i].data != ss_cost_scratch(m->device) &&
            !is_counted(t, accessed, &l->access[i]))
            return ss_fail(SS_ERR_MISMATCH,
                           "task %s: %s %s %zu bytes outside of the task's accesses", t->name,
                           l->kernel->name, l->access[i].mode & SS_COST_WRITE ? "writes" : "reads",
                           l->access[i].bytes);
    return SS_OK;
}

static enum ss_status predict_task(struct ss_roofline *r, const struct memory *m, struct ss_l2 *l2,
                                   int i)
{
    const struct ss_plan_task *t = &r->plan->train.task[i];
    struct ss_accessed accessed;
    for (int a = 0; a < t->naccess; a++) {
        uintptr_t at;
        const struct ss_region region = region_of(m, t, a, &at);
        ss_accessed_set(&accessed, a, region, at);
    }
    const struct ss_bound_task task = {.plan = t,
                                       .index = i,
                                       .op = t->block >= 0 ? m->op[t->block] : NULL,
                                       .training = 1,
                                       .shards = r->plan->options.shards}; /* as rank 0 */
    const struct ss_step_args args = {.task = &task, .region = accessed.regions, .step = 1};
    SS_TRY(run(m, &(struct ss_task_data){&task, &args, accessed.buffers}));
    SS_TRY(ss_cost_kernels.synchronize(m->device));
    int count;
    const struct ss_cost_launch *launch = ss_cost_take(m->device, &count);
    for (int k = 0; k < count; k++) {
        SS_TRY(check(m, t, &accessed, &launch[k]));
        ss_roofline_count(r, l2, &launch[k], &r->part[i][launch[k].kernel->line]);
        r->floor += ss_roofline_floor(r, &launch[k]);
    }
    for (int line = 0; line < SS_COST_LINES; line++) {
        ss_roofline_add(&r->task[i], &r->part[i][line]);
        ss_roofline_add(&r->line[line], &r->part[i][line]);
    }
    ss_roofline_add(&r->step, &r->task[i]);
    return SS_OK;
}

static enum ss_status predict(struct ss_roofline *r)
{
    struct memory m;
    struct ss_l2 l2 = {0};
    enum ss_status status = open_memory(&m, r->plan);
    for (int i = 0; i < r->plan->train.count && status == SS_OK; i++)
        status = predict_task(r, &m, &l2, i);
    close_memory(&m);
    return status;
}

static enum ss_status check_machine(const struct ss_plan *plan, const struct ss_machine *m)
{
    if (!plan->options.device && m && m->sms)
        return ss_fail(
            SS_ERR_INVALID,
            "--roofline %s predicts steps of a GPU: add --device cuda, or give host for this CPU",
            m->name);
    if (plan->options.device && m && !m->sms)
        return ss_fail(
            SS_ERR_INVALID,
            "--roofline %s predicts steps of this CPU: leave out --device cuda, or give a GPU",
            m->name);
    return SS_OK;
}

enum ss_status ss_roofline_predict(const struct ss_plan *plan, const struct ss_machine *machine,
                                   int tf32, struct ss_roofline *out)
{
    const size_t n = (size_t)plan->train.count;
    SS_TRY(check_machine(plan, machine));
    *out = (struct ss_roofline){.plan = plan, .machine = machine, .tf32 = tf32};
    out->task = calloc(n, sizeof *out->task);
    out->part = calloc(n, sizeof *out->part);
    enum ss_status status =
        out->task && out->part ? SS_OK : ss_fail_memory("predictions", n * sizeof *out->part);
    if (status == SS_OK)
        status = predict(out);
    if (status != SS_OK)
        ss_roofline_close(out);
    return status;
}

void ss_roofline_close(struct ss_roofline *r)
{
    free(r->task);
    free(r->part);
    *r = (struct ss_roofline){0};
}

enum ss_status ss_roofline_seconds(const struct ss_plan *plan, const struct ss_machine *machine,
                                   int tf32, double **out)
{
    const size_t tasks = (size_t)plan->train.count;
    struct ss_roofline r;
    SS_TRY(ss_roofline_predict(plan, machine, tf32, &r));
    *out = calloc(tasks, sizeof **out);
    for (size_t i = 0; *out && i < tasks; i++)
        (*out)[i] = r.task[i].seconds;
    ss_roofline_close(&r);
    return *out ? SS_OK : ss_fail_memory("predictions", tasks * sizeof **out);
}
