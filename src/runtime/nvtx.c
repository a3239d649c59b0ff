#include "runtime/nvtx.h"
#include "codelets/report.h"
#include "core/log.h"
#include "graph/plan.h"

#ifdef HAVE_NVTX
#    include <inttypes.h>
#    include <nvtx3/nvToolsExt.h>
#    include <stdio.h>
#    include <stdlib.h>

/* Category of steps, after those of the task kinds. NVTX has no category 0. */
enum { CATEGORY_STEP = SS_TASK_REPORT + 2 };

/* The colors of trace export, where color-blind readers can distinguish forward and backward. */
static const uint32_t colours[] = {
    [SS_TASK_LOAD] = 0xff56b4e9,           [SS_TASK_UPLOAD] = 0xff8fa3b8,
    [SS_TASK_CONVERT] = 0xffb5bfcb,        [SS_TASK_FORWARD] = 0xff0072b2,
    [SS_TASK_BACKWARD] = 0xffe69f00,       [SS_TASK_ALLREDUCE] = 0xffcc79a7,
    [SS_TASK_CHECK] = 0xfff0e442,          [SS_TASK_UPDATE] = 0xff009e73,
    [SS_TASK_SCALE] = 0xffc9b400,          [SS_TASK_FETCH] = 0xff7a8796,
    [SS_TASK_REDUCE_METRICS] = 0xff8c5a7d, [SS_TASK_REPORT] = 0xff3d4855,
    [SS_TASK_REDUCE_SCATTER] = 0xffcc79a7, [SS_TASK_GATHER] = 0xffb0608f,
    [SS_TASK_REDUCE_FOUND] = 0xff8c5a7d,   [SS_TASK_ADD] = 0xffd55e00,
    [SS_TASK_SYNC] = 0xffa05195,           [SS_TASK_SQUARES] = 0xfff0e442,
    [SS_TASK_REDUCE_SQUARES] = 0xff8c5a7d, [SS_TASK_SUM] = 0xffd55e00,
};

/* A step in progress. Written by the thread that enqueues, then by the one that reports; StarPU's
 * dependencies order them. */
struct step_range {
    uint64_t step; /* 0: unused */
    nvtxRangeId_t id;
    int open;
};

struct ss_nvtx {
    struct ss_hooks hooks;
    nvtxDomainHandle_t domain;
    const struct ss_plan *plan;
    nvtxStringHandle_t *train, *eval; /* names of tasks, by index */
    uint64_t count;                   /* number of steps stored; earlier ones are reported */
    struct step_range *step;
};

static void name_tasks(const struct ss_nvtx *n, const struct ss_task_list *list,
                       nvtxStringHandle_t *name)
{
    for (int i = 0; i < list->count; i++)
        name[i] = nvtxDomainRegisterStringA(n->domain, list->task[i].name);
}

static nvtxEventAttributes_t attributes(uint32_t category, uint64_t payload)
{
    return (nvtxEventAttributes_t){.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .category = category,
                                   .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                   .payload.ullValue = payload};
}

static void begin_step(const struct ss_nvtx *n, uint64_t step)
{
    struct step_range *s = &n->step[step % n->count];
    if (s->step == step) /* it may already be reported: updates are enqueued late */
        return;
    char name[32];
    snprintf(name, sizeof name, "step %" PRIu64, step);
    nvtxEventAttributes_t a = attributes(CATEGORY_STEP, step);
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = name;
    *s = (struct step_range){step, nvtxDomainRangeStartEx(n->domain, &a), 1};
}

static uint64_t payload_of(const struct ss_nvtx *n, const struct ss_step_args *args)
{
    const struct ss_plan_task *task = args->task->plan;
    if (task->kind == SS_TASK_SYNC)
        return (uint64_t)task->sums * sizeof(double);
    if (ss_task_sums_bucket(task->kind))
        return n->plan->bucket[task->bucket].bytes / sizeof(float) *
               ss_dtype_bytes(n->plan->options.grad_dtype);
    if (task->kind == SS_TASK_GATHER)
        return n->plan->bucket[task->bucket].bytes;
    return task->kind == SS_TASK_REDUCE_METRICS ? sizeof(struct ss_step_facts) : args->step;
}

static enum ss_status enqueue_begins(void *arg, const struct ss_step_args *args, int lane,
                                     ss_stream stream)
{
    const struct ss_nvtx *n = arg;
    (void)lane;
    (void)stream;
    if (args->task->training)
        begin_step(n, args->step);
    enum ss_task_kind kind = args->task->plan->kind;
    nvtxEventAttributes_t a = attributes((uint32_t)kind + 1, payload_of(n, args));
    a.colorType = NVTX_COLOR_ARGB;
    a.color = colours[kind];
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = (args->task->training ? n->train : n->eval)[args->task->index];
    nvtxDomainRangePushEx(n->domain, &a);
    return SS_OK;
}

static enum ss_status enqueue_ends(void *arg, const struct ss_step_args *args, ss_stream stream)
{
    const struct ss_nvtx *n = arg;
    (void)args;
    (void)stream;
    nvtxDomainRangePop(n->domain);
    return SS_OK;
}

static enum ss_status step_ends(void *arg, const struct ss_step_args *args)
{
    const struct ss_nvtx *n = arg;
    struct step_range *s = &n->step[args->step % n->count];
    if (s->step == args->step && s->open) {
        s->open = 0;
        nvtxDomainRangeEnd(n->domain, s->id);
    }
    return SS_OK;
}

enum ss_status ss_nvtx_open(const struct ss_plan *plan, int slots, struct ss_nvtx **out)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("starstep");
    *out = NULL;
    if (!domain) /* no tool is attached */
        return SS_OK;
    struct ss_nvtx *n = calloc(1, sizeof *n);
    if (!n) {
        nvtxDomainDestroy(domain);
        return ss_fail_memory("NVTX ranges", sizeof *n);
    }
    n->hooks = (struct ss_hooks){.arg = n,
                                 .last = UINT64_MAX,
                                 .step_ends = step_ends,
                                 .enqueued = SS_HOOKS_ALL,
                                 .evaluation = 1,
                                 .enqueue_begins = enqueue_begins,
                                 .enqueue_ends = enqueue_ends};
    n->domain = domain;
    n->plan = plan;
    n->count = 2 * (uint64_t)slots + 2;
    n->step = calloc(n->count, sizeof *n->step);
    n->train = calloc((size_t)plan->train.count + 1, sizeof(nvtxStringHandle_t));
    n->eval = calloc((size_t)plan->eval.count + 1, sizeof(nvtxStringHandle_t));
    if (!n->step || !n->train || !n->eval) {
        ss_nvtx_close(n);
        return ss_fail_memory("NVTX ranges", n->count * sizeof *n->step);
    }
    for (int kind = 0; kind <= SS_TASK_REPORT; kind++)
        nvtxDomainNameCategoryA(domain, (uint32_t)kind + 1,
                                ss_task_kind_name((enum ss_task_kind)kind));
    nvtxDomainNameCategoryA(domain, CATEGORY_STEP, "step");
    name_tasks(n, &plan->train, n->train);
    name_tasks(n, &plan->eval, n->eval);
    *out = n;
    return SS_OK;
}

struct ss_hooks *ss_nvtx_hooks(struct ss_nvtx *n)
{
    return &n->hooks;
}

void ss_nvtx_close(struct ss_nvtx *n)
{
    if (!n)
        return;
    for (uint64_t i = 0; n->step && i < n->count; i++)
        if (n->step[i].open)
            nvtxDomainRangeEnd(n->domain, n->step[i].id);
    nvtxDomainDestroy(n->domain);
    free(n->step);
    free(n->train);
    free(n->eval);
    free(n);
}

#else
enum ss_status ss_nvtx_open(const struct ss_plan *plan, int slots, struct ss_nvtx **out)
{
    (void)plan;
    (void)slots;
    *out = NULL;
    return SS_OK;
}

struct ss_hooks *ss_nvtx_hooks(struct ss_nvtx *n)
{
    (void)n;
    return NULL;
}

void ss_nvtx_close(struct ss_nvtx *n)
{
    (void)n;
}
#endif
