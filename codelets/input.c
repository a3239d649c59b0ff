#include "codelets/input.h"
#include "codelets/lane.h"
#include "codelets/op.h"
#include "codelets/report.h"
#include "core/round.h"

struct ss_input_layout ss_input_layout_of(const struct ss_plan *plan)
{
    const struct ss_value_info *x =
        ss_graph_value(plan->graph, ss_graph_layer(plan->graph, 0)->output);
    size_t n = (size_t)plan->options.batch, pixels = (size_t)x->c * (size_t)x->h * (size_t)x->w;
    struct ss_input_layout l = {.loaded = pixels * (plan->options.device ? 1 : sizeof(float)),
                                .dtype = plan->options.device ? SS_DTYPE_F32 : plan->options.dtype};
    l.image = l.dtype == SS_DTYPE_F32 ? l.loaded : pixels * ss_dtype_bytes(l.dtype);
    l.labels = ss_round_up(n * l.image, 256);
    l.bytes = l.labels + ss_round_up(n * sizeof(struct ss_label), 256);
    return l;
}

/* The slot begins with the first slice's images. */
static enum ss_status enqueue_upload(const struct ss_task_data *d, ss_stream stream)
{
    return d->task->lanes->kernels->copy_async(ss_role(d, SS_ROLE_STAGED), ss_role(d, SS_ROLE_X),
                                               ss_role_region(d, SS_ROLE_STAGED)->bytes, stream);
}

enum ss_status ss_convert_run(const struct ss_kernels *k, struct ss_device *gpu,
                              const struct ss_normalise *n, const struct ss_task_data *d)
{
    void *padded = ss_role(d, SS_ROLE_Y), *plain = ss_role(d, SS_ROLE_Z);
    const void *staged = ss_role(d, SS_ROLE_STAGED);
    uint64_t *keys = ss_role(d, SS_ROLE_KEYS);
    if (keys)
        SS_TRY(ss_dropout_put(n->dropout, k, gpu, d->args->step, d->task->plan->micro, keys));
    if (padded)
        SS_TRY(k->convert(gpu, &n->x, staged, n->mean, n->std, padded));
    return plain ? k->convert(gpu, &n->plain, staged, n->mean, n->std, plain) : SS_OK;
}

static enum ss_status enqueue_convert(const struct ss_task_data *d, ss_stream stream)
{
    (void)stream;
    return ss_convert_run(d->task->lanes->kernels, d->task->lanes->gpu, d->task->context, d);
}

static enum ss_status enqueue_fetch(const struct ss_task_data *d, ss_stream stream)
{
    return d->task->lanes->kernels->copy_async(ss_role(d, SS_ROLE_FETCHED),
                                               ss_role(d, SS_ROLE_METRICS),
                                               sizeof(struct ss_step_facts), stream);
}

static void run_upload(void *buffers[], void *cl_arg)
{
    ss_lane_run(buffers, cl_arg, SS_LANE_COPY, enqueue_upload);
}

static void run_convert(void *buffers[], void *cl_arg)
{
    ss_lane_run(buffers, cl_arg, SS_LANE_COMPUTE, enqueue_convert);
}

static void run_fetch(void *buffers[], void *cl_arg)
{
    ss_lane_run(buffers, cl_arg, SS_LANE_COPY, enqueue_fetch);
}

static struct ss_codelet upload_codelet = SS_COPY_CODELET("upload", run_upload);
static struct ss_codelet convert_codelet = SS_COMPUTE_CODELET("convert", run_convert);
static struct ss_codelet fetch_codelet = SS_COPY_CODELET("fetch", run_fetch);

enum ss_status ss_upload_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&upload_codelet, args, sizeof *args);
}

enum ss_status ss_convert_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&convert_codelet, args, sizeof *args);
}

enum ss_status ss_fetch_submit(const struct ss_step_args *args)
{
    return ss_task_submit(&fetch_codelet, args, sizeof *args);
}
