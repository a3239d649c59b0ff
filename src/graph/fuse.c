/* Fusion: which layers run in one task. A block is the longest chain
 *     [conv] [BN] [ReLU] [dropout] [add [ReLU]] [max pool]
 * whose inner values nobody else reads. Pools without overlap only, and only for devices: oneDNN's
 * pooling reads what the activation wrote. */
#include "graph/lower_internal.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

struct fuser {
    const struct ss_graph *g;
    int device;
    char *claimed;   /* per layer: belongs to a block */
    int *last_layer; /* per block: orders the blocks */
};

/* The only layer that reads v, or -1. */
static int single_reader(const struct ss_graph *g, ss_value v)
{
    if (ss_graph_value(g, v)->uses != 1)
        return -1;
    for (int i = 0; i < ss_graph_layers(g); i++) {
        const struct ss_layer *l = ss_graph_layer(g, i);
        if (l->input[0] == v || l->input[1] == v)
            return i;
    }
    return -1;
}

/* The next layer of the chain behind v if it is of this kind and still free, else -1. */
static int next_of(const struct fuser *f, ss_value v, enum ss_layer_kind kind)
{
    int i = single_reader(f->g, v);
    return i >= 0 && !f->claimed[i] && ss_graph_layer(f->g, i)->kind == kind ? i : -1;
}

static ss_value claim(struct fuser *f, struct ss_block *b, int block, int layer)
{
    const struct ss_layer *l = ss_graph_layer(f->g, layer);
    f->claimed[layer] = 1;
    f->last_layer[block] = layer;
    if (!*b->name)
        snprintf(b->name, sizeof b->name, "%s", l->name);
    return b->y = l->output;
}

/* Extend a block over the activation layers behind v. */
static void claim_activation(struct fuser *f, struct ss_block *b, int block, ss_value v)
{
    int i;
    if ((i = next_of(f, v, SS_LAYER_BATCHNORM2D)) >= 0) {
        b->bn = i;
        v = claim(f, b, block, i);
    }
    if ((i = next_of(f, v, SS_LAYER_RELU)) >= 0) {
        b->relu = 1;
        v = claim(f, b, block, i);
    }
    if ((i = next_of(f, v, SS_LAYER_DROPOUT)) >= 0) {
        b->dropout = ss_graph_layer(f->g, i)->p;
        v = claim(f, b, block, i);
    }
    b->act = b->bn >= 0 || b->relu || b->dropout > 0;
    /* A bare convolution leaves the addition to the chain on its other side, which has an
     * activation pass over memory to fuse it into. */
    if (b->act && (i = next_of(f, v, SS_LAYER_ADD)) >= 0) {
        const struct ss_layer *add = ss_graph_layer(f->g, i);
        b->residual = add->input[0] == v ? add->input[1] : add->input[0];
        v = claim(f, b, block, i);
        if ((i = next_of(f, v, SS_LAYER_RELU)) >= 0) {
            b->relu_out = 1;
            claim(f, b, block, i);
        }
    }
}

/* A max pool whose windows are the values' only readers and do not overlap. */
static void claim_pool(struct fuser *f, struct ss_block *b, int block)
{
    int i = b->act ? next_of(f, b->y, SS_LAYER_MAXPOOL2D) : -1;
    const struct ss_layer *l = i >= 0 ? ss_graph_layer(f->g, i) : NULL;
    if (l && l->kernel == l->stride && !l->padding && l->kernel > 1 && l->kernel <= 16) {
        b->pool = l->kernel;
        claim(f, b, block, i);
    }
}

/* An activation block that no convolution begins. */
static void claim_bare_activation(struct fuser *f, struct ss_block *b, int block, int layer)
{
    const struct ss_layer *l = ss_graph_layer(f->g, layer);
    b->kind = SS_BLOCK_ACT;
    b->act = 1;
    ss_value v = claim(f, b, block, layer);
    int i;
    switch (l->kind) {
    case SS_LAYER_BATCHNORM2D:
        b->bn = layer;
        claim_activation(f, b, block, v);
        break;
    case SS_LAYER_RELU:
        b->relu = 1;
        if ((i = next_of(f, v, SS_LAYER_DROPOUT)) >= 0) {
            b->dropout = ss_graph_layer(f->g, i)->p;
            claim(f, b, block, i);
        }
        break;
    case SS_LAYER_DROPOUT:
        b->dropout = l->p;
        break;
    default: /* add */
        b->residual = l->input[1];
        if ((i = next_of(f, v, SS_LAYER_RELU)) >= 0) {
            b->relu_out = 1;
            claim(f, b, block, i);
        }
    }
    b->act = 1;
    if (!*b->name)
        snprintf(b->name, sizeof b->name, "act.%d", layer);
}

static void start_block(struct fuser *f, struct ss_block *b, int block, int layer)
{
    const struct ss_layer *l = ss_graph_layer(f->g, layer);
    *b = (struct ss_block){.first_layer = layer,
                           .conv = -1,
                           .bn = -1,
                           .x = l->input[0],
                           .residual = -1,
                           .y = -1,
                           .bucket = -1,
                           .z = -1,
                           .saved = -1,
                           .workspace = -1};
    switch (l->kind) {
    case SS_LAYER_CONV2D:
        b->kind = SS_BLOCK_CONV;
        b->conv = layer;
        claim_activation(f, b, block, claim(f, b, block, layer));
        if (f->device)
            claim_pool(f, b, block);
        break;
    case SS_LAYER_MAXPOOL2D:
    case SS_LAYER_AVGPOOL2D:
        b->kind = l->kind == SS_LAYER_MAXPOOL2D ? SS_BLOCK_MAXPOOL : SS_BLOCK_AVGPOOL;
        claim(f, b, block, layer);
        snprintf(b->name, sizeof b->name, "%s.%d",
                 b->kind == SS_BLOCK_MAXPOOL ? "maxpool" : "avgpool", layer);
        break;
    case SS_LAYER_LINEAR:
        b->kind = SS_BLOCK_LINEAR;
        b->conv = layer;
        claim(f, b, block, layer);
        break;
    case SS_LAYER_LOSS:
        b->kind = SS_BLOCK_LOSS;
        claim(f, b, block, layer);
        snprintf(b->name, sizeof b->name, "loss");
        break;
    default:
        claim_bare_activation(f, b, block, layer);
    }
}

/* A fused block runs when its last layer would: what it adds from elsewhere is ready by then. */
static void sort_blocks(struct ss_plan *plan, int *last_layer)
{
    for (int i = 1; i < plan->nblocks; i++)
        for (int j = i; j > 0 && last_layer[j - 1] > last_layer[j]; j--) {
            struct ss_block b = plan->block[j];
            plan->block[j] = plan->block[j - 1];
            plan->block[j - 1] = b;
            int l = last_layer[j];
            last_layer[j] = last_layer[j - 1];
            last_layer[j - 1] = l;
        }
}

enum ss_status ss_plan_fuse(struct ss_plan *plan)
{
    int layers = ss_graph_layers(plan->graph);
    struct fuser f = {plan->graph, plan->options.device, calloc((size_t)layers, 1),
                      calloc((size_t)layers, sizeof(int))};
    plan->block = calloc((size_t)layers, sizeof *plan->block);
    if (!f.claimed || !f.last_layer || !plan->block) {
        free(f.claimed);
        free(f.last_layer);
        return ss_fail_memory("blocks of the plan", (size_t)layers * sizeof *plan->block);
    }
    for (int i = 0; i < layers; i++)
        if (!f.claimed[i] && ss_graph_layer(plan->graph, i)->kind != SS_LAYER_INPUT) {
            start_block(&f, &plan->block[plan->nblocks], plan->nblocks, i);
            plan->nblocks++;
        }
    sort_blocks(plan, f.last_layer);
    free(f.claimed);
    free(f.last_layer);
    return SS_OK;
}
