/* session_trace.c: the trace of a session (contract in session.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "codelets/lane_nvtx.h"
#include "codelets/lane_trace.h"
#include "core/log.h"
#include "trace/record.h"
#include "trace/steps.h"
#include "train/session.h"

/* To the end without --trace-steps. */
static enum ss_status parse_steps(const char *text, uint64_t *first, uint64_t *last)
{
    int64_t from = 1, to = 0;
    SS_TRY(ss_trace_parse_steps("--trace-steps", text, &from, &to));
    *first = (uint64_t)from;
    *last = (uint64_t)to;
    return SS_OK;
}

enum ss_status ss_session_check_trace(const struct ss_train_options *o)
{
    uint64_t first, last;
    if (o->trace_steps && !o->trace)
        return ss_fail(SS_ERR_INVALID, "--trace-steps %s needs --trace DIR", o->trace_steps);
    return parse_steps(o->trace_steps, &first, &last);
}

static void observe(void *arg, struct ss_comm_tag tag, uint64_t begin_ns, uint64_t end_ns)
{
    struct ss_trace *trace = arg;
    if (ss_trace_wants(trace, tag.step))
        ss_trace_collective(trace, tag.step, tag.bucket, begin_ns, end_ns);
}

static enum ss_status compare_clocks(struct ss_session *s, const char *at)
{
    int64_t offset;
    uint64_t error;
    SS_TRY(ss_comm_clock(s->comm, &offset, &error));
    ss_trace_clock(s->runtime.run.trace, at, offset, error);
    return SS_OK;
}

enum ss_status ss_session_open_trace(struct ss_session *s)
{
    const struct ss_train_options *o = s->options;
#ifdef HAVE_CUDA
    if (s->runtime.lanes)
        SS_TRY(ss_session_agree(s, ss_lane_nvtx_open(s->runtime.lanes, s->plan, (int)o->slots),
                                "opening NVTX ranges"));
#endif
    if (!o->trace)
        return SS_OK;
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
    enum ss_status status = parse_steps(o->trace_steps, &options.first, &options.last);
    if (status == SS_OK)
        status = ss_trace_open(&options, &s->runtime.run.trace);
#ifdef HAVE_CUDA
    if (status == SS_OK && s->runtime.lanes)
        status = ss_lane_trace_open(s->runtime.lanes, s->runtime.run.trace,
                                    (size_t)s->plan->train.count, (int)s->options->slots);
#endif
    SS_TRY(ss_session_agree(s, status, "opening the trace"));
    SS_TRY(compare_clocks(s, "begin"));
    ss_comm_observe(s->comm, observe, s->runtime.run.trace);
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
    struct ss_trace *trace = s->runtime.run.trace;
    enum ss_status status = SS_OK;
#ifdef HAVE_CUDA
    if (s->runtime.lanes) {
        ss_lane_nvtx_close(s->runtime.lanes);
        status = ss_lane_trace_close(s->runtime.lanes, ss_run_ok(&s->runtime.run));
    }
#endif
    if (s->comm)
        ss_comm_observe(s->comm, NULL, NULL);
    s->runtime.run.trace = NULL;
    enum ss_status closed = ss_trace_close(trace);
    return status != SS_OK ? status : closed;
}
