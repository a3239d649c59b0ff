#include "codelets/update.h"
#include "codelets/lane.h"

_Static_assert((int)SS_UPDATE_STATES <= (int)SS_PLAN_MAX_STATES,
               "a rule has more states than a plan");

static enum ss_status update(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream; /* the device knows it */
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
                          .spans = c->spans[d->task->plan->bucket]};
    const int states = ss_optim_rule_states(&c->optim);
    for (int k = 0; k < states; k++)
        u.state[k] = ss_role(d, SS_ROLE_STATE + k);
    if (c->optim.ema_decay > 0)
        u.ema = ss_role(d, SS_ROLE_STATE + states);
    ss_optim_describe(&c->optim, &u);
    return c->kernels->update(c->device, &u);
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
    return c->kernels->squares(c->device, count, grads + begin, first, ss_role(d, SS_ROLE_SQUARES));
}

static void run_squares(void *buffers[], void *cl_arg)
{
    ss_lane_run_behind_sum(buffers, cl_arg, squares);
}

static void run_update(void *buffers[], void *cl_arg)
{
    ss_lane_run_behind_sum(buffers, cl_arg, update);
}

static struct ss_behind_sum codelet = SS_BEHIND_SUM("update", run_update);
static struct ss_behind_sum squares_codelet = SS_BEHIND_SUM("squares", run_squares);

enum ss_status ss_squares_submit(const struct ss_step_args *args)
{
    return ss_lane_submit_behind_sum(&squares_codelet, args);
}

enum ss_status ss_update_submit(const struct ss_step_args *args)
{
    return ss_lane_submit_behind_sum(&codelet, args);
}
