/* model.c: footprints and sizes of tasks (contract in model.h). */
#include "codelets/model.h"
#include "codelets/input.h"
#include "codelets/op.h"
#include "core/rng.h"

#include <string.h>

/* Hash a layer's kind and settings. Real-valued settings such as an epsilon do not affect the
 * cost. */
static uint64_t mix_layer(uint64_t h, const struct ss_layer *l)
{
    h = ss_mix_text(h, l->cls->name);
    for (const struct ss_layer_field *f = l->cls->fields; f && f->name; f++) {
        uint32_t value[2] = {0};
        if (f->type == SS_FIELD_REAL)
            continue;
        memcpy(value, (const char *)l + f->at,
               f->type == SS_FIELD_PAIR ? sizeof value : sizeof *value);
        h = ss_mix64(ss_mix64(h, value[0]), value[1]);
    }
    return h;
}

static uint64_t mix_block(uint64_t h, const struct ss_plan *plan, const struct ss_block *b)
{
    for (int p = 0; p < SS_PLACES; p++)
        h = b->layer[p] < 0 ? ss_mix64(h, 0)
                            : mix_layer(h, ss_graph_layer(plan->graph, b->layer[p]));
    return ss_mix64(h, (uint64_t)(b->frozen_head + 2 * (b->left_to >= 0) + 4 * (b->shortcut >= 0) +
                                  8 * (b->made_by >= 0) + 16 * (b->makes >= 0)));
}

/* For a view this includes the channels of the whole tensor, the distance between pixels. */
static uint64_t mix_tensor(uint64_t h, const struct ss_plan *plan, const struct ss_plan_tensor *t)
{
    const int shape[] = {t->n, t->c, t->h, t->w, t->block, t->of < 0 ? 0 : plan->tensor[t->of].c};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        h = ss_mix64(h, (uint64_t)shape[i]);
    return ss_mix64(h, t->bytes);
}

/* Bytes of a block's own parameters. */
static size_t param_bytes(const struct ss_plan *plan, int block)
{
    size_t sum = 0;
    for (int i = 0; i < plan->nparams; i++)
        if (plan->param[i].block == block)
            sum += (size_t)plan->param[i].elements * sizeof(float);
    return sum;
}

/* Returns the bytes of an access other than a tensor by a task without a block: images, or
 * elements of a bucket. */
static size_t access_bytes(const struct ss_plan *plan, const struct ss_access *a)
{
    const size_t image = ss_input_layout_of(plan).image;
    int bucket = plan->nbuckets;
    if (a->space == SS_SPACE_IMAGES)
        return (size_t)(plan->slice_begin[a->index + 1] - plan->slice_begin[a->index]) * image;
    if (a->space == SS_SPACE_STAGED)
        return (size_t)plan->options.batch * image;
    if (a->space == SS_SPACE_STATE)
        bucket = a->index / plan->options.states;
    else if (a->space == SS_SPACE_PARAMS || a->space == SS_SPACE_GRADS ||
             a->space == SS_SPACE_ACCUM)
        bucket = a->index;
    return bucket < plan->nbuckets ? plan->bucket[bucket].bytes : 0;
}

void ss_model_describe(struct ss_bound_task *task, const struct ss_plan *plan, uint64_t key)
{
    const struct ss_plan_task *t = task->plan;
    const struct ss_plan_options *o = &plan->options;
    const int facts[] = {(int)t->kind,       (int)t->part, task->training, t->ndy,
                         t->adds_dx,         t->sums,      (int)o->dtype,  o->shards,
                         o->batch,           o->norms,     o->input_block, (int)o->grad_dtype,
                         o->nondeterministic};
    uint64_t h = ss_mix64(key, t->count);
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        h = ss_mix64(h, (uint64_t)facts[i]);
    for (int role = 0; role < SS_ROLE_COUNT; role++) {
        const int access = t->role[role], tensor = t->tensor[role];
        if (access < 0)
            continue;
        h = ss_mix64(h, (uint64_t)role);
        if (tensor >= 0) {
            h = mix_tensor(h, plan, &plan->tensor[tensor]);
            bytes += plan->tensor[tensor].bytes;
        } else if (t->block < 0) {
            const size_t n = access_bytes(plan, &t->access[access]);
            h = ss_mix64(h, n);
            bytes += n;
        }
    }
    if (t->block >= 0) {
        h = mix_block(h, plan, &plan->block[t->block]);
        bytes += param_bytes(plan, t->block);
    }
    task->footprint = (uint32_t)(h ^ h >> 32);
    task->bytes = bytes;
}

const char *ss_model_name(const struct ss_plan *plan, const struct ss_plan_task *t)
{
    if (t->kind == SS_TASK_FORWARD || t->kind == SS_TASK_BACKWARD) {
        const struct ss_op_class *cls = ss_op_class_of(&plan->block[t->block]);
        return !cls                         ? NULL
               : t->kind == SS_TASK_FORWARD ? cls->forward_codelet->cl.name
                                            : cls->backward_codelet->cl.name;
    }
    return ss_task_sums(t->kind) ? NULL : ss_task_kind_name(t->kind);
}
