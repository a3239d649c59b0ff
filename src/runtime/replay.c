#include "runtime/replay.h"
#include "codelets/segment.h"
#include "core/log.h"
#include "graph/segments.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PLAIN_STEPS = 3,    /* first steps, task by task */
    MEASURED_STEPS = 3, /* steps after them, in which AUTO measures enqueuing */
    KINDS = SS_HOOKS_KIND(SS_TASK_FORWARD) | SS_HOOKS_KIND(SS_TASK_BACKWARD) |
            SS_HOOKS_KIND(SS_TASK_SUM),
};
/* StarPU's cost of a task from submission to end, in addition to its enqueuing. */
static const double task_s = 4e-6;
/* Predictions are lower bounds, and the thread that drives the GPU is not always on time. */
static const double margin = 0.8;

struct segment {
    struct ss_segment_work work;
    struct ss_bound_task task;
    char name[2 * SS_NAME_BYTES + 8];
    struct ss_region **region;
};

struct ss_replay {
    struct ss_replay_options options;
    struct ss_segments found;
    struct segment *segment;
    enum ss_replay_mode mode; /* AUTO: undecided */
    uint64_t steps;           /* begun */
    uint64_t fed, busy_ns;    /* AUTO: lane counters when measuring began; fed 0: not begun */
};

static const struct ss_hooks *const no_hooks;

/* Index of the segment's access that refers to the same data as a member's access. */
static int find_access(const struct ss_segment *s, const struct ss_access *a)
{
    int n = 0;
    while (s->access[n].space != a->space || s->access[n].index != a->index)
        n++;
    return n;
}

/* Adds training task i, and merges its regions into the segment's. */
static void add_member(const struct ss_replay_options *o, const struct ss_segment *found, int i,
                       struct ss_region **region, struct ss_segment_member *m)
{
    m->task = &o->task[i];
    m->region = o->regions[i * o->slots];
    for (int a = 0; a < m->task->naccess; a++) {
        m->buffer[a] = find_access(found, &m->task->access[a]);
        region[m->buffer[a]] = m->region[a];
    }
}

static enum ss_status open_segment(struct ss_replay *r, int n)
{
    const struct ss_replay_options *o = &r->options;
    const struct ss_segment *found = &r->found.at[n];
    const int *member = r->found.member + found->first;
    const struct ss_bound_task *first = &o->task[member[0]],
                               *last = &o->task[member[found->count - 1]];
    struct segment *s = &r->segment[n];
    s->work = (struct ss_segment_work){
        .kernels = o->lanes->kernels, .count = found->count, .required = o->mode == SS_REPLAY_ON};
    s->work.member = calloc((size_t)found->count, sizeof *s->work.member);
    s->region = calloc((size_t)found->naccess, sizeof *s->region);
    if (!s->work.member || !s->region)
        return ss_fail_memory("a segment of the step", (size_t)found->naccess * sizeof *s->region);
    for (int k = 0; k < found->count; k++)
        add_member(o, found, member[k], s->region, &s->work.member[k]);
    if (first == last)
        snprintf(s->name, sizeof s->name, "%s", first->name);
    else
        snprintf(s->name, sizeof s->name, "%s to %s", first->name, last->name);
    s->task = *first;
    s->task.name = s->name;
    s->task.op = NULL;
    s->task.context = &s->work;
    s->task.naccess = found->naccess;
    s->task.access = found->access;
    s->task.hooks = (struct ss_hooks *const *)&no_hooks; /* its members have their own hooks */
    return SS_OK;
}

/* 1 if the members' regions are the same in every slot. */
static int is_fixed(const struct ss_replay_options *o)
{
    for (int i = 0; i < o->plan->train.count; i++)
        for (int slot = 1; ss_segments_take(o->plan->train.task[i].kind) && slot < o->slots; slot++)
            for (int a = 0; a < o->task[i].naccess; a++)
                if (o->regions[i * o->slots + slot][a] != o->regions[i * o->slots][a])
                    return 0;
    return 1;
}

/* Returns why replay is not possible, or NULL. */
static const char *obstacle(const struct ss_replay_options *o)
{
    if (!o->lanes->ordered)
        return "--gpu-mode async runs tasks one by one";
    if (!is_fixed(o))
        return "--no-overlap alternates between two input buffers";
    return NULL;
}

enum ss_status ss_replay_open(const struct ss_replay_options *options, struct ss_replay **out)
{
    *out = NULL;
    if (!options->lanes || options->mode == SS_REPLAY_OFF)
        return SS_OK;
    const char *why = obstacle(options);
    if (why && options->mode == SS_REPLAY_ON)
        return ss_fail(SS_ERR_UNSUPPORTED, "--gpu-graphs on: %s; leave one of them out", why);
    if (why || (options->mode == SS_REPLAY_AUTO && !(options->predicted_s > 0)))
        return SS_OK;
    struct ss_replay *r = calloc(1, sizeof *r);
    if (!r)
        return ss_fail_memory("segments of the step", sizeof *r);
    r->options = *options;
    r->mode = options->mode;
    enum ss_status status = ss_segments_find(options->plan, &r->found);
    r->segment = calloc((size_t)r->found.count + 1, sizeof *r->segment);
    if (status == SS_OK && !r->segment)
        status = ss_fail_memory("segments of the step", sizeof *r->segment);
    for (int i = 0; i < r->found.count && status == SS_OK; i++)
        status = open_segment(r, i);
    if (status == SS_OK)
        *out = r;
    else
        ss_replay_close(r);
    return status;
}

void ss_replay_close(struct ss_replay *r)
{
    if (!r)
        return;
    for (int i = 0; r->segment && i < r->found.count; i++) {
        if (r->segment[i].work.graph)
            r->options.lanes->kernels->graph_destroy(r->segment[i].work.graph);
        free(r->segment[i].work.member);
        free(r->segment[i].region);
    }
    free(r->segment);
    ss_segments_free(&r->found);
    free(r);
}

/* Tasks of a step that are enqueued by the thread that drives the lanes. */
static uint64_t fed_tasks(const struct ss_plan *plan)
{
    uint64_t n = 0;
    for (int i = 0; i < plan->train.count; i++) {
        const enum ss_task_kind kind = plan->train.task[i].kind;
        n += kind != SS_TASK_LOAD && kind != SS_TASK_REPORT && !ss_task_sums(kind);
    }
    return n;
}

/* Steps are submitted ahead: the number of enqueued tasks determines how many were measured. */
static enum ss_replay_mode decide(struct ss_replay *r)
{
    const struct ss_replay_options *o = &r->options;
    const uint64_t each = fed_tasks(o->plan), fed = atomic_load(&o->lanes->fed),
                   busy_ns = atomic_load(&o->lanes->busy_ns);
    if (!r->fed && fed >= PLAIN_STEPS * each) {
        r->fed = fed;
        r->busy_ns = busy_ns;
    }
    if (!r->fed || fed - r->fed < MEASURED_STEPS * each)
        return SS_REPLAY_AUTO;
    const double task = 1e-9 * (double)(busy_ns - r->busy_ns) / (double)(fed - r->fed),
                 host_s = task * (double)each + task_s * (double)o->plan->train.count;
    return host_s > margin * o->predicted_s ? SS_REPLAY_ON : SS_REPLAY_OFF;
}

static int is_measured(const struct ss_hooks *hooks, uint64_t step)
{
    for (const struct ss_hooks *h = hooks; h; h = h->next)
        if (!h->replayed && ss_hooks_want_step(h, step) && ((h->enqueued | h->ended) & KINDS))
            return 1;
    return 0;
}

int ss_replay_begin_step(struct ss_replay *r, const struct ss_hooks *hooks, uint64_t step)
{
    if (!r)
        return 0;
    r->steps++;
    if (r->mode == SS_REPLAY_AUTO)
        r->mode = decide(r);
    return r->mode == SS_REPLAY_ON && r->steps > PLAIN_STEPS && !is_measured(hooks, step);
}

enum ss_status ss_replay_submit(struct ss_replay *r, int i, uint64_t step, uint64_t submitted_ns)
{
    const int n = r->found.of[i];
    if (r->found.member[r->found.at[n].first] != i)
        return SS_OK;
    const struct segment *s = &r->segment[n];
    return ss_segment_submit(&(struct ss_step_args){
        .task = &s->task, .region = s->region, .step = step, .submitted_ns = submitted_ns});
}
