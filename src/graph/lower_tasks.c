/* lower_tasks.c: adds tensors, tasks and their accesses. */
#include "core/log.h"
#include "graph/lower_internal.h"

#include <stdio.h>
#include <stdlib.h>

int ss_lower_add_tensor(struct ss_lowerer *lo, const char *block, const char *what,
                        struct ss_plan_tensor t)
{
    struct ss_plan *plan = lo->plan;
    if (plan->ntensors == lo->capacity) {
        int capacity = lo->capacity ? 2 * lo->capacity : 64;
        struct ss_plan_tensor *p = realloc(plan->tensor, (size_t)capacity * sizeof *p);
        if (!p) {
            lo->status = ss_fail_memory("tensors of the plan", (size_t)capacity * sizeof *p);
            return -1;
        }
        plan->tensor = p;
        lo->capacity = capacity;
    }
    struct ss_plan_tensor *p = &plan->tensor[plan->ntensors];
    *p = t;
    snprintf(p->name, sizeof p->name, "%.70s.%s", block, what);
    p->first = p->last = p->buffer = -1;
    p->of = -1;
    return plan->ntensors++;
}

/* Returns the channel block of a value's layout. For a device's input: the layout without
 * padding. */
int ss_lower_layout_block(const struct ss_plan *plan, ss_value v)
{
    const struct ss_value_info *info = ss_graph_value(plan->graph, v);
    const struct ss_layer *l = ss_graph_layer(plan->graph, info->producer);
    switch (l->cls->layout) {
    case SS_LAYOUT_SAMPLES:
        return plan->options.device ? info->c : 1;
    case SS_LAYOUT_PLAIN:
        return info->c;
    case SS_LAYOUT_CHOSEN:
        return plan->options.channel_block ? plan->options.channel_block : info->c;
    case SS_LAYOUT_KEPT:
        break;
    }
    return ss_lower_layout_block(plan, l->input[0]); /* same number of channels */
}

int ss_lower_add_activation(struct ss_lowerer *lo, const char *block, const char *what, ss_value v)
{
    return ss_lower_add_blocked(lo, block, what, v, ss_lower_layout_block(lo->plan, v));
}

int ss_lower_add_blocked(struct ss_lowerer *lo, const char *block, const char *what, ss_value v,
                         int channel_block)
{
    const struct ss_graph *g = lo->plan->graph;
    const struct ss_value_info *info = ss_graph_value(g, v);
    struct ss_plan_tensor t = {
        .n = lo->plan->options.batch, .c = info->c, .h = info->h, .w = info->w};
    t.block = channel_block;
    size_t blocks = (size_t)(t.c + t.block - 1) / (size_t)t.block;
    t.bytes = ss_dtype_bytes(lo->plan->options.dtype) * (size_t)t.n * blocks * (size_t)t.block *
              (size_t)t.h * (size_t)t.w;
    return ss_lower_add_tensor(lo, block, what, t);
}

int ss_lower_add_view(struct ss_lowerer *lo, const char *block, const char *what, ss_value v,
                      int whole, int at)
{
    const int t = ss_lower_add_activation(lo, block, what, v);
    if (t < 0 || whole < 0)
        return -1;
    struct ss_plan_tensor *in = &lo->plan->tensor[whole], *p = &lo->plan->tensor[t];
    p->of = in->of < 0 ? whole : in->of;
    p->at = (in->of < 0 ? 0 : in->at) + at;
    return t;
}

struct ss_plan_task *ss_lower_add_task(struct ss_lowerer *lo, enum ss_task_kind kind,
                                       const char *name, int priority)
{
    struct ss_task_list *list = lo->list;
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        struct ss_plan_task *p = realloc(list->task, (size_t)capacity * sizeof *p);
        if (!p) {
            lo->status = ss_fail_memory("tasks of the plan", (size_t)capacity * sizeof *p);
            return NULL;
        }
        list->task = p;
        list->capacity = capacity;
    }
    struct ss_plan_task *t = &list->task[list->count++];
    *t = (struct ss_plan_task){
        .kind = kind, .block = -1, .bucket = -1, .slice = -1, .priority = priority};
    t->micro = list == &lo->plan->train ? lo->plan->options.accumulate - 1 : 0;
    snprintf(t->name, sizeof t->name, "%s", name);
    for (int r = 0; r < SS_ROLE_COUNT; r++)
        t->role[r] = t->tensor[r] = -1;
    return t;
}

enum ss_status ss_plan_touch(struct ss_plan_task *t, enum ss_role_kind role, enum ss_space space,
                             int index, enum ss_mode mode)
{
    int i = 0;
    while (i < t->naccess && (t->access[i].space != space || t->access[i].index != index))
        i++;
    if (i == SS_PLAN_MAX_ACCESSES)
        return ss_fail(SS_ERR_UNSUPPORTED, "task %s touches more than %d data", t->name, i);
    if (i == t->naccess)
        t->access[t->naccess++] = (struct ss_access){space, index, 0};
    t->access[i].mode |= mode;
    t->role[role] = i;
    return SS_OK;
}

void ss_lower_touch(struct ss_lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                    enum ss_space space, int index, enum ss_mode mode)
{
    enum ss_status status = ss_plan_touch(t, role, space, index, mode);
    if (status != SS_OK)
        lo->status = status;
}

static void see(struct ss_plan_tensor *t, int at)
{
    if (t->first < 0)
        t->first = at;
    t->last = at;
}

/* As ss_lower_touch, for a tensor. Until buffers are assigned, the index is -1 - tensor. */
void ss_lower_touch_tensor(struct ss_lowerer *lo, struct ss_plan_task *t, enum ss_role_kind role,
                           int tensor, enum ss_mode mode)
{
    if (tensor < 0)
        return;
    const int at = (int)(t - lo->list->task), of = lo->plan->tensor[tensor].of,
              whole = of < 0 ? tensor : of;
    /* Preserve other views of the tensor that have been written before. */
    const int first = lo->plan->tensor[whole].first;
    if (mode == SS_WRITE && first >= 0 && first < at)
        mode = SS_READ_WRITE;
    see(&lo->plan->tensor[tensor], at);
    see(&lo->plan->tensor[whole], at);
    t->tensor[role] = tensor;
    ss_lower_touch(lo, t, role, SS_SPACE_BUFFER, -1 - whole, mode);
}
