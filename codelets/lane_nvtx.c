#include "codelets/lane_nvtx.h"
#include "core/log.h"
#include "graph/plan.h"

#ifdef HAVE_NVTX
#    include <inttypes.h>
#    include <nvtx3/nvToolsExt.h>
#    include <stdio.h>
#    include <stdlib.h>

/* Of steps, behind those of the kinds of tasks. NVTX has no category 0. */
enum { CATEGORY_STEP = SS_TASK_REPORT + 2 };

/* As on the page of trace export, where backward is not forward for colour-blind readers either. */
static const uint32_t colours[] = {
    [SS_TASK_LOAD] = 0xff56b4e9,           [SS_TASK_UPLOAD] = 0xff8fa3b8,
    [SS_TASK_CONVERT] = 0xffb5bfcb,        [SS_TASK_FORWARD] = 0xff0072b2,
    [SS_TASK_BACKWARD] = 0xffe69f00,       [SS_TASK_ALLREDUCE] = 0xffcc79a7,
    [SS_TASK_CHECK] = 0xfff0e442,          [SS_TASK_UPDATE] = 0xff009e73,
    [SS_TASK_SCALE] = 0xffc9b400,          [SS_TASK_FETCH] = 0xff7a8796,
    [SS_TASK_REDUCE_METRICS] = 0xff8c5a7d, [SS_TASK_REPORT] = 0xff3d4855,
};

/* A step under way. Written by the thread that enqueues, then, StarPU's dependencies between, by
 * the one that reports. */
struct step_range {
    uint64_t step; /* 0: none yet */
    nvtxRangeId_t id;
    int open;
};

struct ss_lane_nvtx {
    nvtxDomainHandle_t domain;
    const struct ss_plan *plan;
    nvtxStringHandle_t *train, *eval; /* names of tasks, by index */
    uint64_t count; /* steps that are kept: those behind them have been reported */
    struct step_range *step;
};

static void name_tasks(const struct ss_lane_nvtx *n, const struct ss_task_list *list,
                       nvtxStringHandle_t *name)
{
    for (int i = 0; i < list->count; i++)
        name[i] = nvtxDomainRegisterStringA(n->domain, list->task[i].name);
}

enum ss_status ss_lane_nvtx_open(struct ss_lanes *lanes, const struct ss_plan *plan, int slots)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("starstep");
    if (!domain) /* nobody listens */
        return SS_OK;
    struct ss_lane_nvtx *n = calloc(1, sizeof *n);
    lanes->nvtx = n;
    if (!n) {
        nvtxDomainDestroy(domain);
        return ss_fail_memory("NVTX ranges", sizeof *n);
    }
    n->domain = domain;
    n->plan = plan;
    n->count = 2 * (uint64_t)slots + 2;
    n->step = calloc(n->count, sizeof *n->step);
    n->train = calloc((size_t)plan->train.count + 1, sizeof(nvtxStringHandle_t));
    n->eval = calloc((size_t)plan->eval.count + 1, sizeof(nvtxStringHandle_t));
    if (!n->step || !n->train || !n->eval)
        return ss_fail_memory("NVTX ranges", n->count * sizeof *n->step);
    for (int kind = 0; kind <= SS_TASK_REPORT; kind++)
        nvtxDomainNameCategoryA(domain, (uint32_t)kind + 1,
                                ss_task_kind_name((enum ss_task_kind)kind));
    nvtxDomainNameCategoryA(domain, CATEGORY_STEP, "step");
    name_tasks(n, &plan->train, n->train);
    name_tasks(n, &plan->eval, n->eval);
    return SS_OK;
}

void ss_lane_nvtx_close(struct ss_lanes *lanes)
{
    struct ss_lane_nvtx *n = lanes->nvtx;
    if (!n)
        return;
    lanes->nvtx = NULL;
    for (uint64_t i = 0; n->step && i < n->count; i++)
        if (n->step[i].open)
            nvtxDomainRangeEnd(n->domain, n->step[i].id);
    nvtxDomainDestroy(n->domain);
    free(n->step);
    free(n->train);
    free(n->eval);
    free(n);
}

static nvtxEventAttributes_t attributes(uint32_t category, uint64_t payload)
{
    return (nvtxEventAttributes_t){.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .category = category,
                                   .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                   .payload.ullValue = payload};
}

static void begin_step(const struct ss_lane_nvtx *n, uint64_t step)
{
    struct step_range *s = &n->step[step % n->count];
    if (s->step == step) /* it may even have been reported: updates come late */
        return;
    char name[32];
    snprintf(name, sizeof name, "step %" PRIu64, step);
    nvtxEventAttributes_t a = attributes(CATEGORY_STEP, step);
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = name;
    *s = (struct step_range){step, nvtxDomainRangeStartEx(n->domain, &a), 1};
}

static uint64_t payload_of(const struct ss_lane_nvtx *n, const struct ss_task_data *d)
{
    const struct ss_plan_task *task = d->task->plan;
    if (task->kind == SS_TASK_ALLREDUCE)
        return n->plan->bucket[task->bucket].bytes / sizeof(float) *
               ss_dtype_bytes(n->plan->options.grad_dtype);
    return task->kind == SS_TASK_REDUCE_METRICS ? sizeof(struct ss_metrics) : d->args->step;
}

void ss_lane_nvtx_begin(const struct ss_task_data *d)
{
    const struct ss_lane_nvtx *n = d->task->lanes->nvtx;
    if (!n)
        return;
    if (d->task->training)
        begin_step(n, d->args->step);
    enum ss_task_kind kind = d->task->plan->kind;
    nvtxEventAttributes_t a = attributes((uint32_t)kind + 1, payload_of(n, d));
    a.colorType = NVTX_COLOR_ARGB;
    a.color = colours[kind];
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = (d->task->training ? n->train : n->eval)[d->task->index];
    nvtxDomainRangePushEx(n->domain, &a);
}

void ss_lane_nvtx_end(const struct ss_task_data *d)
{
    const struct ss_lane_nvtx *n = d->task->lanes->nvtx;
    if (n)
        nvtxDomainRangePop(n->domain);
}

void ss_lane_nvtx_reported(const struct ss_lanes *lanes, uint64_t step)
{
    const struct ss_lane_nvtx *n = lanes->nvtx;
    struct step_range *s = n ? &n->step[step % n->count] : NULL;
    if (!s || s->step != step || !s->open)
        return;
    s->open = 0;
    nvtxDomainRangeEnd(n->domain, s->id);
}

#else
enum ss_status ss_lane_nvtx_open(struct ss_lanes *lanes, const struct ss_plan *plan, int slots)
{
    (void)lanes;
    (void)plan;
    (void)slots;
    return SS_OK;
}

void ss_lane_nvtx_close(struct ss_lanes *lanes)
{
    (void)lanes;
}

void ss_lane_nvtx_begin(const struct ss_task_data *d)
{
    (void)d;
}

void ss_lane_nvtx_end(const struct ss_task_data *d)
{
    (void)d;
}

void ss_lane_nvtx_reported(const struct ss_lanes *lanes, uint64_t step)
{
    (void)lanes;
    (void)step;
}
#endif
