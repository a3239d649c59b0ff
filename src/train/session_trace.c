/* session_trace.c: trace, NVTX ranges and calibration of a session (interface in session.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/log.h"
#include "runtime/fxt.h"
#include "runtime/gpu_times.h"
#include "runtime/model_files.h"
#include "runtime/nvtx.h"
#include "sim/roofline.h"
#include "trace/record.h"
#include "trace/steps.h"
#include "train/session.h"
#include "train/task_times.h"

#include <stdlib.h>

/* Parse --trace-steps; without it all steps are traced. */
static enum ss_status parse_steps(const char *text, uint64_t *first, uint64_t *last)
{
    int64_t from = 1, to = 0;
    SS_TRY(ss_trace_parse_steps("--trace-steps", text, &from, &to));
    *first = (uint64_t)from;
    *last = to ? (uint64_t)to : UINT64_MAX;
    return SS_OK;
}

enum ss_status ss_session_check_trace(const struct ss_train_options *o)
{
    uint64_t first, last;
    if (o->trace_steps && !o->trace)
        return ss_fail(SS_ERR_INVALID, "--trace-steps %s needs --trace DIR", o->trace_steps);
    if (o->roofline && !o->trace)
        return ss_fail(SS_ERR_INVALID, "--roofline %s needs --trace DIR", o->roofline);
    if (o->roofline)
        SS_TRY(ss_times_check(o->roofline));
    return parse_steps(o->trace_steps, &first, &last);
}

static void observe(void *arg, struct ss_comm_tag tag, uint64_t begin_ns, uint64_t end_ns)
{
    const struct ss_session *s = arg;
    const int gather = tag.bucket >= SS_COMM_GATHERED; /* their rows follow those of all-reduces */
    ss_trace_collective(s->trace, tag.step,
                        gather ? tag.bucket - SS_COMM_GATHERED + s->plan->nbuckets : tag.bucket,
                        begin_ns, end_ns);
}

static enum ss_status compare_clocks(struct ss_session *s, const char *at)
{
    int64_t offset;
    uint64_t error;
    SS_TRY(ss_comm_clock(s->comm, &offset, &error));
    ss_trace_write_clock(s->trace, at, offset, error);
    return SS_OK;
}

static enum ss_status open_nvtx(struct ss_session *s)
{
    if (s->device.gpu) {
        SS_TRY(ss_nvtx_open(s->plan, (int)s->options->slots, &s->nvtx));
        ss_exec_hook(s->exec, s->nvtx ? ss_nvtx_hooks(s->nvtx) : NULL);
    }
    return SS_OK;
}

enum ss_status ss_session_time_gpu(struct ss_session *s, uint64_t first, uint64_t last,
                                   struct ss_gpu_times_listener listener)
{
    SS_TRY(ss_gpu_times_open(s->runtime.lanes, (size_t)s->plan->train.count, (int)s->options->slots,
                             first, last, listener, &s->gpu_times));
    ss_exec_hook(s->exec, ss_gpu_times_hooks(s->gpu_times));
    return SS_OK;
}

/* Name of the machine for predictions; NULL: a GPU without known peak rates has none. */
static const char *predicted_for(const struct ss_session *s)
{
    const struct ss_runtime *rt = &s->runtime;
    const struct ss_machine *machine = NULL;
    if (s->options->roofline)
        return s->options->roofline;
    if (s->device.gpu)
        machine = ss_machine_of_gpu(rt->kernels->info(rt->device));
    return machine ? machine->name : NULL;
}

static enum ss_status open_file(struct ss_session *s, struct ss_trace_options *options)
{
    double *predicted = NULL;
    options->machine = predicted_for(s);
    if (options->machine)
        SS_TRY(ss_times_take(options->machine, s->plan, ss_session_model_key(s),
                             s->placement.threads, s->options->tf32, &predicted));
    options->predicted = predicted;
    enum ss_status status = ss_trace_open(options, &s->trace);
    free(predicted);
    return status;
}

static enum ss_status open_trace(struct ss_session *s)
{
    const struct ss_train_options *o = s->options;
    struct ss_trace_options options = {.dir = o->trace,
                                       .rank = ss_comm_rank(s->comm),
                                       .ranks = ss_comm_size(s->comm),
                                       .slots = (int)o->slots,
                                       .model = o->model,
                                       .backend =
                                           s->device.sums ? "nccl" : ss_comm_backend(s->comm),
                                       .gpu = s->device.gpu,
                                       .device_bytes = ss_exec_memory(s->exec).device_used,
                                       .plan = s->plan};
    SS_TRY(parse_steps(o->trace_steps, &options.first, &options.last));
    SS_TRY(open_file(s, &options));
    ss_exec_hook(s->exec, ss_trace_hooks(s->trace));
    ss_exec_hook(s->exec, ss_fxt_hooks(options.first, options.last));
    struct ss_gpu_times_listener listener = {ss_trace_write_gpu, s->trace};
    if (s->device.gpu)
        return ss_session_time_gpu(s, options.first, options.last, listener);
    return SS_OK;
}

static enum ss_status open_calibration(struct ss_session *s)
{
    if (!s->device.gpu || !s->runtime.lanes->ordered || !ss_model_files_calibrates())
        return SS_OK;
    SS_TRY(ss_calibrate_open(s->runtime.lanes, s->plan, ss_session_model_key(s),
                             (int)s->options->slots, &s->calibrate));
    ss_exec_hook(s->exec, ss_calibrate_hooks(s->calibrate));
    return SS_OK;
}

static enum ss_status open_listeners(struct ss_session *s)
{
    SS_TRY(open_nvtx(s));
    return open_calibration(s);
}

enum ss_status ss_session_open_trace(struct ss_session *s)
{
    SS_TRY(ss_session_agree(s, open_listeners(s), "opening NVTX ranges and performance models"));
    if (!s->options->trace)
        return SS_OK;
    SS_TRY(ss_session_agree(s, open_trace(s), "opening the trace"));
    SS_TRY(compare_clocks(s, "begin"));
    ss_comm_observe(s->comm, observe, s);
    return SS_OK;
}

enum ss_status ss_session_end_trace(struct ss_session *s)
{
    if (!s->options->trace)
        return SS_OK;
    SS_TRY(compare_clocks(s, "end"));
    return ss_session_agree(s, ss_session_close_trace(s), "closing the trace");
}

enum ss_status ss_session_close_trace(struct ss_session *s)
{
    if (s->comm)
        ss_comm_observe(s->comm, NULL, NULL);
    if (s->exec && s->trace)
        ss_exec_unhook(s->exec, ss_trace_hooks(s->trace));
    if (s->exec && s->nvtx)
        ss_exec_unhook(s->exec, ss_nvtx_hooks(s->nvtx));
    if (s->exec && s->gpu_times)
        ss_exec_unhook(s->exec, ss_gpu_times_hooks(s->gpu_times));
    if (s->exec && s->calibrate)
        ss_exec_unhook(s->exec, ss_calibrate_hooks(s->calibrate));
    ss_nvtx_close(s->nvtx);
    const int whole = ss_run_ok(&s->runtime.run);
    enum ss_status status = ss_gpu_times_close(s->gpu_times, whole);
    enum ss_status calibrated = ss_calibrate_end(s->calibrate, whole);
    enum ss_status closed = ss_trace_close(s->trace);
    s->nvtx = NULL;
    s->gpu_times = NULL;
    s->trace = NULL;
    return status != SS_OK ? status : calibrated != SS_OK ? calibrated : closed;
}
