#include "codelets/allreduce.h"
#include "codelets/lane.h"
#include "codelets/report.h"
#include "comm/comm.h"
#include "comm/nccl.h"
#include "core/log.h"
#include "kernels/cpu/wire.h"

#include <stdlib.h>

/* As "sync bwd conv1", in messages after the step. */
static enum ss_status start_sync(const struct ss_task_data *d, struct starpu_task *task)
{
    const struct ss_allreduce *a = d->task->context;
    return ss_comm_allreduce_start_small(
        a->comm, ss_role(d, SS_ROLE_SUMS), (size_t)d->task->plan->sums,
        (struct ss_comm_tag){d->args->step, -1}, d->task->plan->name, ss_task_end, task);
}

/* An all-gather of weights whose copies are computed from them at its end. */
struct gathering {
    struct starpu_task *task;
    const float *masters;
    void *copy;
    size_t count;
    enum ss_dtype dtype;
};

/* On the communication thread. */
static void end_gather(void *arg)
{
    const struct gathering *g = arg;
    ss_wire_pack(g->dtype, g->masters, 1, g->copy, g->count);
    ss_task_end(g->task);
    free(arg);
}

static enum ss_status start_gather(const struct ss_task_data *d, struct starpu_task *task)
{
    const struct ss_allreduce *a = d->task->context;
    float *masters = ss_role(d, SS_ROLE_PARAMS);
    void *copy = ss_role_copy(d, SS_ROLE_PARAMS);
    const size_t count = ss_role_count(d, SS_ROLE_PARAMS);
    const struct ss_comm_tag tag = {d->args->step, SS_COMM_GATHERED + d->task->plan->bucket};
    if (!copy)
        return ss_comm_allgather_start_f32(a->comm, masters, count, tag, ss_task_end, task);
    struct gathering *g = malloc(sizeof *g);
    if (!g)
        return ss_fail_memory("a gather of weights", sizeof *g);
    *g = (struct gathering){task, masters, copy, count, a->weights};
    enum ss_status status =
        ss_comm_allgather_start_f32(a->comm, masters, count, tag, end_gather, g);
    if (status != SS_OK)
        free(g);
    return status;
}

static enum ss_status start(const struct ss_task_data *d, struct starpu_task *task)
{
    const struct ss_plan_task *plan = d->task->plan;
    const struct ss_allreduce *a = d->task->context;
    struct ss_comm_tag tag = {d->args->step, plan->bucket};
    if (plan->kind == SS_TASK_SYNC)
        return start_sync(d, task);
    if (plan->kind == SS_TASK_REDUCE_SQUARES)
        return ss_comm_allreduce_start_small(a->comm, ss_role(d, SS_ROLE_SQUARES), 1, tag,
                                             plan->name, ss_task_end, task);
    if (plan->kind == SS_TASK_REDUCE_METRICS)
        return ss_comm_allreduce_start_f64(a->comm, (double *)ss_step_facts_of(d), SS_STEP_FACTS,
                                           tag, ss_task_end, task);
    if (plan->kind == SS_TASK_GATHER)
        return start_gather(d, task);
    return (plan->kind == SS_TASK_REDUCE_SCATTER ? ss_comm_reduce_scatter_start_f32
                                                 : ss_comm_allreduce_start_f32)(
        a->comm, ss_role(d, SS_ROLE_GRADS), ss_role_count(d, SS_ROLE_GRADS), a->wire, tag,
        ss_task_end, task);
}

static void cpu_start(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_unpack(buffers, cl_arg);
    if (!ss_run_ok(d.task->run))
        return;
    if (d.task->plan->kind == SS_TASK_REDUCE_METRICS)
        ss_step_facts_of(&d)->stop = ss_run_asked_to_stop(d.task->run);
    const struct ss_allreduce *a = d.task->context;
    if (ss_comm_size(a->comm) == 1)
        return;
    struct starpu_task *task = starpu_task_get_current();
    starpu_task_end_dep_add(task, 1);
    enum ss_status status = start(&d, task);
    if (status != SS_OK) {
        ss_run_fail(d.task->run, status);
        ss_task_end(task);
    }
}

#ifdef HAVE_NCCL
static enum ss_status sum_bucket(const struct ss_task_data *d, void *data, size_t count,
                                 enum ss_dtype wire, struct ss_comm_tag tag, ss_stream stream)
{
    struct ss_nccl *nccl = d->task->lanes->nccl;
    return d->task->plan->kind == SS_TASK_REDUCE_SCATTER
               ? ss_nccl_reduce_scatter(nccl, data, count, wire, tag, stream)
               : ss_nccl_allreduce(nccl, data, count, wire, tag, NULL, stream);
}

static enum ss_status enqueue_bucket(const struct ss_task_data *d, struct ss_comm_tag tag,
                                     ss_stream stream)
{
    const struct ss_allreduce *a = d->task->context;
    const struct ss_lanes *lanes = d->task->lanes;
    const size_t count = ss_role_count(d, SS_ROLE_GRADS);
    float *grads = ss_role(d, SS_ROLE_GRADS);
    char *wire = ss_role_copy(d, SS_ROLE_GRADS);
    const float ranks = (float)ss_comm_size(a->comm);
    size_t begin;
    const size_t share = ss_role_share(d, SS_ROLE_GRADS, &begin);
    if (!wire)
        return sum_bucket(d, grads, count, SS_DTYPE_F32, tag, stream);
    SS_TRY(lanes->kernels->wire_pack(lanes->gpu, a->wire, grads, 1 / ranks, wire, count, stream));
    SS_TRY(sum_bucket(d, wire, count, a->wire, tag, stream));
    return lanes->kernels->wire_unpack(lanes->gpu, a->wire, wire + begin * ss_dtype_bytes(a->wire),
                                       ranks, grads + begin, share, stream);
}

static enum ss_status enqueue_gather(const struct ss_task_data *d, struct ss_comm_tag tag,
                                     ss_stream stream)
{
    const struct ss_allreduce *a = d->task->context;
    const size_t count = ss_role_count(d, SS_ROLE_PARAMS);
    const struct ss_lanes *lanes = d->task->lanes;
    float *masters = ss_role(d, SS_ROLE_PARAMS);
    void *copy = ss_role_copy(d, SS_ROLE_PARAMS);
    tag.bucket += SS_COMM_GATHERED;
    SS_TRY(ss_nccl_allgather(lanes->nccl, masters, count, SS_DTYPE_F32, tag, NULL, stream));
    return copy ? lanes->kernels->wire_pack(lanes->gpu, a->weights, masters, 1, copy, count, stream)
                : SS_OK;
}

static enum ss_status enqueue_sum(const struct ss_task_data *d, ss_stream stream)
{
    const struct ss_plan_task *plan = d->task->plan;
    struct ss_lanes *lanes = d->task->lanes;
    struct ss_comm_tag tag = {d->args->step, plan->bucket};
    if (ss_task_sums_bucket(plan->kind))
        return enqueue_bucket(d, tag, stream);
    if (plan->kind == SS_TASK_GATHER)
        return enqueue_gather(d, tag, stream);
    if (plan->kind == SS_TASK_REDUCE_FOUND)
        return ss_nccl_max_i32(lanes->nccl,
                               &((struct ss_scaler *)ss_role(d, SS_ROLE_SCALER))->found, tag,
                               "infinities of all ranks", stream);
    if (plan->kind == SS_TASK_REDUCE_SQUARES)
        return ss_nccl_allreduce_f64(lanes->nccl, ss_role(d, SS_ROLE_SQUARES), 1, tag,
                                     "squares of all ranks", stream);
    struct ss_step_facts *facts = ss_role(d, SS_ROLE_METRICS);
    const double *stop = &lanes->stop[ss_run_asked_to_stop(d->task->run) != 0];
    SS_TRY(lanes->kernels->copy_async(&facts->stop, stop, sizeof *stop, stream));
    return ss_nccl_allreduce_f64(lanes->nccl, (double *)facts, SS_STEP_FACTS, tag, NULL, stream);
}

/* On the compute lane's stream, which has the work before and after it. A separate communicator
 * prevents it from waiting for buckets. */
static enum ss_status enqueue_sync(const struct ss_task_data *d, ss_stream stream)
{
    return ss_nccl_allreduce_small(
        d->task->lanes->nccl, ss_role(d, SS_ROLE_SUMS), (size_t)d->task->plan->sums,
        (struct ss_comm_tag){d->args->step, -1}, d->task->plan->name, stream);
}

static void cuda_sync(void *buffers[], void *cl_arg)
{
    ss_lane_run(buffers, cl_arg, SS_LANE_COMPUTE, enqueue_sync);
}

static struct ss_codelet gpu_sync_codelet = SS_COMPUTE_CODELET("sync", cuda_sync);

static void cuda_sum(void *buffers[], void *cl_arg)
{
    ss_lane_pass(buffers, cl_arg, enqueue_sum);
}

static struct ss_codelet gpu_codelet = SS_COMM_CODELET("allreduce", cuda_sum);
#endif

static struct ss_codelet codelet = SS_SERVICE_CODELET("allreduce", cpu_start);
/* For one rank: only orders the task among the others. */
static struct ss_codelet alone_codelet = {
    .cl = {.where = STARPU_NOWHERE, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "allreduce"}};

enum ss_status ss_allreduce_submit(const struct ss_step_args *args)
{
#ifdef HAVE_NCCL
    if (args->task->lanes && args->task->lanes->nccl && args->task->plan->kind == SS_TASK_SYNC)
        return ss_task_submit(&gpu_sync_codelet, args, sizeof *args);
    if (args->task->lanes && args->task->lanes->nccl)
        return ss_task_submit(&gpu_codelet, args, sizeof *args);
#endif
    const struct ss_allreduce *a = args->task->context;
    const int alone =
        ss_comm_size(a->comm) == 1 && args->task->plan->kind != SS_TASK_REDUCE_METRICS;
    return ss_task_submit(alone ? &alone_codelet : &codelet, args, sizeof *args);
}
