/* Buckets: parameters in the order in which backward finishes their gradients, that is blocks in
 * reverse. A block's parameters stay together, so that its backward task writes one bucket. */
#include "graph/lower_internal.h"
#include "core/log.h"

#include <stdlib.h>

/* Append the parameters of one layer of block b; trainable picks which. */
static void add_layer_params(struct ss_plan *plan, int block, int layer, int trainable)
{
    if (layer < 0)
        return;
    struct ss_block *b = &plan->block[block];
    const struct ss_layer *l = ss_graph_layer(plan->graph, layer);
    for (int i = l->first_param; i < l->first_param + l->nparams; i++) {
        const struct ss_param *p = ss_graph_param(plan->graph, i);
        if (p->trainable != trainable)
            continue;
        b->param[b->nparams++] = plan->nparams;
        plan->param[plan->nparams++] =
            (struct ss_plan_param){i, block, trainable ? b->bucket : -1, ss_param_elements(p)};
    }
}

static size_t trainable_bytes(const struct ss_plan *plan, const struct ss_block *b)
{
    size_t bytes = 0;
    int layers[2] = {b->conv, b->bn};
    for (int j = 0; j < 2; j++) {
        if (layers[j] < 0)
            continue;
        const struct ss_layer *l = ss_graph_layer(plan->graph, layers[j]);
        for (int i = l->first_param; i < l->first_param + l->nparams; i++) {
            const struct ss_param *p = ss_graph_param(plan->graph, i);
            if (p->trainable)
                bytes += (size_t)ss_param_elements(p) * sizeof(float);
        }
    }
    return bytes;
}

enum ss_status ss_plan_make_buckets(struct ss_plan *plan)
{
    int params = ss_graph_params(plan->graph);
    plan->param = calloc((size_t)params + 1, sizeof *plan->param);
    plan->bucket = calloc((size_t)plan->nblocks + 1, sizeof *plan->bucket);
    if (!plan->param || !plan->bucket)
        return ss_fail_memory("buckets of the plan", (size_t)params * sizeof *plan->param);

    for (int i = plan->nblocks - 1; i >= 0; i--) {
        struct ss_block *b = &plan->block[i];
        size_t bytes = trainable_bytes(plan, b);
        if (!bytes)
            continue;
        struct ss_bucket *k = plan->nbuckets ? &plan->bucket[plan->nbuckets - 1] : NULL;
        double mb = plan->nbuckets == 1 ? plan->options.first_bucket_mb : plan->options.bucket_mb;
        if (!k || (double)(k->bytes + bytes) > mb * 1048576.0) {
            k = &plan->bucket[plan->nbuckets++];
            k->first_param = plan->nparams;
        }
        b->bucket = plan->nbuckets - 1;
        add_layer_params(plan, i, b->conv, 1);
        add_layer_params(plan, i, b->bn, 1);
        k->bytes += bytes;
        k->nparams = plan->nparams - k->first_param;
    }
    for (int i = 0; i < plan->nblocks; i++)
        add_layer_params(plan, i, plan->block[i].bn, 0);
    if (!plan->nbuckets)
        return ss_fail(SS_ERR_UNSUPPORTED, "model %s has nothing to train",
                       ss_graph_name(plan->graph));
    return SS_OK;
}
