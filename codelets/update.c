#include "codelets/update.h"
#include "codelets/lane.h"

_Static_assert((int)SS_UPDATE_STATES <= (int)SS_PLAN_MAX_STATES,
               "a rule has more states than a plan");

static enum ss_status update_on(const struct ss_task_data *d, const struct ss_updater *on)
{
    const struct ss_updating *c = d->task->context;
    char *copy = ss_role_copy(d, SS_ROLE_PARAMS);
    size_t begin;
    const size_t count = ss_role_share(d, SS_ROLE_PARAMS, &begin);
    struct ss_update u = {.count = count,
                          .w = (float *)ss_role(d, SS_ROLE_PARAMS) + begin,
                          .g = (const float *)ss_role(d, SS_ROLE_GRADS) + begin,
                          .scale = c->scale,
                          .lr = d->args->lr,
                          .step = d->args->step - (uint64_t)c->skipped,
                          .copy = copy ? copy + begin * c->element : NULL,
                          .scaler = ss_role(d, SS_ROLE_SCALER),
                          .squares = ss_role(d, SS_ROLE_SQUARES),
                          .spans = on->spans[d->task->plan->bucket]};
    const int states = ss_optim_rule_states(&c->optim);
    for (int k = 0; k < states; k++)
        u.state[k] = ss_role(d, SS_ROLE_STATE + k);
    if (c->optim.ema_decay > 0)
        u.ema = ss_role(d, SS_ROLE_STATE + states);
    ss_optim_describe(&c->optim, &u);
    return on->kernels->update(on->device, &u);
}

static enum ss_status update(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream; /* the device has the stream */
    return update_on(d, &((const struct ss_updating *)d->task->context)->compute);
}

static enum ss_status squares(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream;
    const struct ss_updating *c = d->task->context;
    const float *grads = ss_role(d, SS_ROLE_GRADS);
    const struct ss_plan_task *t = d->task->plan;
    const int first = t->access[t->role[SS_ROLE_SQUARES]].mode == SS_WRITE;
    size_t begin;
    const size_t count = ss_role_share(d, SS_ROLE_GRADS, &begin);
    return c->compute.kernels->squares(c->compute.device, count, grads + begin, first,
                                       ss_role(d, SS_ROLE_SQUARES));
}

static void run_squares(void *buffers[], void *cl_arg)
{
    ss_lane_run_behind_sum(buffers, cl_arg, squares);
}

static void run_update(void *buffers[], void *cl_arg)
{
    ss_lane_run_behind_sum(buffers, cl_arg, update);
}

/* Runs on a service worker, in main memory, where StarPU has transferred the data. */
static void run_update_as_service(void *buffers[], void *cl_arg)
{
    const struct ss_task_data d = ss_task_unpack(buffers, cl_arg);
    const struct ss_updating *c = d.task->context;
    if (ss_run_ok(d.task->run))
        ss_run_fail(d.task->run, update_on(&d, &c->service));
}

enum { AS_SERVICE = 1 }; /* index of the codelet's cpu_funcs */

static int can_update(unsigned worker, struct starpu_task *task, unsigned nimpl)
{
    const struct ss_step_args *args = task->cl_arg;
    const struct ss_updating *c = args->task->context;
    if (nimpl == AS_SERVICE)
        return c->service.device && ss_can_serve(worker, task, nimpl);
    return ss_can_follow_sum(worker, task, nimpl);
}

static struct ss_codelet squares_codelet = SS_BEHIND_SUM_CODELET("squares", run_squares);
static struct ss_codelet codelet = SS_CODELET(
    "update", STARPU_HISTORY_BASED, .cuda_funcs = {run_update},
    .cpu_funcs = {run_update, [AS_SERVICE] = run_update_as_service}, .can_execute = can_update);

enum ss_status ss_squares_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&squares_codelet, args, sizeof *args);
}

enum ss_status ss_update_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&codelet, args, sizeof *args);
}
