/* Fusion of layers into blocks. Each block runs as one task. A block is the longest chain of
 * layers, each at a later place than its predecessor, that its first layer's class permits and
 * whose inner values have no other reader. On devices a block may also delegate its end to the
 * addition that reads it.
 *
 * A convolution that adds the shortcut while it stores its output (head_adds) has no z, and the
 * gradient of its output is also that of the shortcut. Therefore this fusion is not used with
 * deferred weight gradients, nor before an activation. Results are bit-identical, but the order
 * of the buckets may differ. */
#include "core/log.h"
#include "graph/lower_internal.h"

#include <stdlib.h>

/* Places that may directly precede each place. A bare head leaves the addition to the chain on
 * the other input, which has a pass over memory to fuse it into, unless the head adds while
 * storing (head_adds). */
static const unsigned before[SS_PLACES] = {
    [SS_PLACE_ORDER] = SS_AT(HEAD),
    [SS_PLACE_NORM] = SS_AT(HEAD),
    [SS_PLACE_ACT] = SS_AT(HEAD) | SS_AT(NORM),
    [SS_PLACE_DROP] = SS_AT(HEAD) | SS_AT(NORM) | SS_AT(ACT),
    [SS_PLACE_ADD] = SS_AT(NORM) | SS_AT(ACT) | SS_AT(DROP),
    [SS_PLACE_OUT] = SS_AT(ADD),
    [SS_PLACE_POOL] = SS_AT(NORM) | SS_AT(ACT) | SS_AT(DROP) | SS_AT(ADD) | SS_AT(OUT),
};

struct fuser {
    struct ss_plan *plan;
    char *claimed; /* per layer: belongs to a block */
};

/* Returns the only layer that reads v, or -1. */
static int single_reader(const struct ss_graph *g, ss_value v)
{
    if (v < 0 || ss_graph_value(g, v)->uses != 1)
        return -1;
    for (int i = 0; i < ss_graph_layers(g); i++) {
        const struct ss_layer *l = ss_graph_layer(g, i);
        for (int k = 0; k < l->ninputs; k++)
            if (l->input[k] == v)
                return i;
    }
    return -1;
}

static void claim(struct fuser *f, struct ss_block *b, enum ss_place place, int layer)
{
    const struct ss_layer *l = ss_graph_layer(f->plan->graph, layer);
    f->claimed[layer] = 1;
    b->layer[place] = layer;
    b->last = place;
    if (place == SS_PLACE_ADD)
        b->residual = l->input[l->input[0] == b->y];
    b->y = l->output;
    if (!*b->name)
        snprintf(b->name, sizeof b->name, "%s", l->name);
}

/* Returns whether a bare convolution can fuse addition i. A subsequent activation would need a
 * separate pass anyway. The gradient of y is also the residual's, so no separate task may read it
 * later. */
static int head_adds(const struct fuser *f, const struct ss_block *b, int i)
{
    const struct ss_plan *plan = f->plan;
    const struct ss_layer *add = ss_graph_layer(plan->graph, i);
    const int behind = single_reader(plan->graph, add->output);
    return plan->options.adds && !plan->options.defer_weight_grads && b->cls->keeps_z &&
           (behind < 0 || !(ss_graph_layer(plan->graph, behind)->cls->places & SS_AT(OUT))) &&
           ss_lower_layout_block(plan, add->input[add->input[0] == b->y]) ==
               ss_lower_layout_block(plan, add->output) &&
           plan->options.adds(plan, plan->nblocks - 1);
}

/* Fuse the layer that follows the block if there is a place for it. */
static int extend(struct fuser *f, struct ss_block *b)
{
    int i = single_reader(f->plan->graph, b->y);
    if (i < 0 || f->claimed[i])
        return 0;
    const struct ss_layer *l = ss_graph_layer(f->plan->graph, i);
    unsigned open = l->cls->places & b->cls->behind;
    /* Pooling passes cannot be split. */
    if (!f->plan->options.device || ss_lower_syncs(f->plan, b))
        open &= ~SS_AT(POOL);
    for (int p = (int)b->last + 1; p < SS_PLACES; p++)
        if (open >> p & 1 &&
            (before[p] >> b->last & 1 ||
             (p == SS_PLACE_ADD && b->last == SS_PLACE_HEAD && head_adds(f, b, i))) &&
            (!l->cls->joins || l->cls->joins(l))) {
            claim(f, b, (enum ss_place)p, i);
            return 1;
        }
    return 0;
}

/* Returns whether a layer has frozen parameters: all of its trainable ones, or, with `any`, at
 * least one. */
static int is_frozen(const struct ss_graph *g, const struct ss_layer *l, int any)
{
    int trained = 0, frozen = 0;
    for (int i = l->first_param; i < l->first_param + l->nparams; i++) {
        const struct ss_param *p = ss_graph_param(g, i);
        frozen += p->frozen;
        trained += p->trainable && !p->frozen;
    }
    return frozen && (any || !trained);
}

static enum ss_status start_block(struct fuser *f, int layer)
{
    const struct ss_graph *g = f->plan->graph;
    const struct ss_layer *l = ss_graph_layer(g, layer);
    if (!l->cls->operation || !l->cls->places)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "model %s: layer %d (%s) of kind %s cannot begin a block, and no block can "
                       "fuse it",
                       ss_graph_name(g), layer, *l->name ? l->name : "no name", l->cls->name);
    struct ss_block *b = &f->plan->block[f->plan->nblocks++];
    *b = (struct ss_block){.cls = l->cls,
                           .first_layer = layer,
                           .x = l->input[0],
                           .residual = -1,
                           .y = l->input[0],
                           .bucket = -1,
                           .left_to = -1,
                           .shortcut = -1,
                           .made_by = -1,
                           .makes = -1};
    for (int p = 0; p < SS_PLACES; p++)
        b->layer[p] = -1;
    int place = 0;
    while (!(l->cls->places >> place & 1))
        place++;
    claim(f, b, (enum ss_place)place, layer);
    while (extend(f, b))
        ;
    b->frozen_head = is_frozen(g, l, 0);
    if (!*b->name && b->y >= 0)
        snprintf(b->name, sizeof b->name, "%s.%d", l->cls->operation, layer);
    else if (!*b->name)
        snprintf(b->name, sizeof b->name, "%s", l->cls->operation);
    return SS_OK;
}

/* A fused block runs when its last layer would, so that its residual is ready. */
static void sort_blocks(struct ss_plan *plan)
{
    struct ss_block *b = plan->block;
    for (int i = 1; i < plan->nblocks; i++)
        for (int j = i; j > 0 && b[j - 1].layer[b[j - 1].last] > b[j].layer[b[j].last]; j--) {
            struct ss_block later = b[j - 1];
            b[j - 1] = b[j];
            b[j] = later;
        }
}

static int has_bias(const struct ss_graph *g, const struct ss_layer *l)
{
    for (int i = l->first_param; i < l->first_param + l->nparams; i++)
        if (ss_graph_param(g, i)->role == SS_PARAM_BIAS)
            return 1;
    return 0;
}

/* Returns whether block `to` can apply the end of `from`, whose y is its residual, in its own
 * passes. These reduce over NORM's channels anyway, and support an addition of two NORMs, or of a
 * bias and an activation that compares. All of from's parameters are trained. */
static int can_leave(const struct ss_plan *plan, const struct ss_block *from,
                     const struct ss_block *to)
{
    const struct ss_graph *g = plan->graph;
    for (int p = 0; p <= SS_PLACE_NORM; p++)
        if (from->layer[p] >= 0 && is_frozen(g, ss_graph_layer(g, from->layer[p]), 1))
            return 0;
    if (!from->cls->keeps_z || from->last > SS_PLACE_NORM || single_reader(g, from->y) < 0 ||
        to->residual != from->y || to->layer[SS_PLACE_NORM] < 0 || to->layer[SS_PLACE_POOL] >= 0)
        return 0;
    int act = to->layer[SS_PLACE_ACT];
    if (from->last == SS_PLACE_NORM)
        return act < 0 && to->layer[SS_PLACE_DROP] < 0;
    return has_bias(g, ss_graph_layer(g, from->first_layer)) &&
           (act < 0 || ss_act_compares(ss_graph_layer(g, act)->cls->act));
}

static void leave_ends(struct ss_plan *plan)
{
    for (int i = 0; i < plan->nblocks; i++)
        for (int j = i + 1; j < plan->nblocks; j++)
            if (can_leave(plan, &plan->block[i], &plan->block[j])) {
                plan->block[i].left_to = j;
                plan->block[j].shortcut = i;
            }
}

enum ss_status ss_plan_fuse(struct ss_plan *plan)
{
    size_t layers = (size_t)ss_graph_layers(plan->graph);
    struct fuser f = {plan, calloc(layers, 1)};
    plan->block = calloc(layers, sizeof *plan->block);
    enum ss_status status = f.claimed && plan->block ? SS_OK
                                                     : ss_fail_memory("blocks of the plan",
                                                                      layers * sizeof *plan->block);
    for (int i = 1; i < (int)layers && status == SS_OK; i++) /* 0 is the input */
        if (!f.claimed[i])
            status = start_block(&f, i);
    free(f.claimed);
    if (status == SS_OK)
        sort_blocks(plan);
    if (status == SS_OK && plan->options.device && plan->options.sync_stats <= 1)
        leave_ends(plan);
    return status;
}
