/* op_create.c: creates the operations of blocks. */
#include "codelets/op.h"
#include "core/log.h"
#include "core/round.h"

#include <stdlib.h>
#include <string.h>

void ss_op_destroy(struct ss_op *op)
{
    if (op && op->cls->destroy)
        op->cls->destroy(op);
    free(op);
}

static enum ss_status create(const struct ss_op_class *cls, const struct ss_op_context *context,
                             int block, struct ss_op **out)
{
    struct ss_op *op = calloc(1, cls->bytes);
    if (!op)
        return ss_fail_memory("an operation", cls->bytes);
    op->cls = cls;
    op->kernels = context->kernels;
    op->device = context->device;
    op->element = ss_dtype_bytes(context->plan->options.dtype);
    op->plan = context->plan;
    op->block = &context->plan->block[block];
    for (int role = 0; role < SS_PARAM_TRAINED; role++)
        op->offset[role] = SIZE_MAX;
    enum ss_status status = cls->init(op, context, block);
    if (status != SS_OK) {
        ss_op_destroy(op);
        return status;
    }
    *out = op;
    return SS_OK;
}

const struct ss_op_class *ss_op_class_of(const struct ss_block *b)
{
    static const struct ss_op_class *const classes[] = {SS_OP_CLASSES};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(classes[i]->name, b->cls->operation))
            return classes[i];
    return NULL;
}

enum ss_status ss_op_create(const struct ss_op_context *context, int block, struct ss_op **out)
{
    const struct ss_block *b = &context->plan->block[block];
    const struct ss_op_class *cls = ss_op_class_of(b);
    if (cls)
        return create(cls, context, block, out);
    return ss_fail(SS_ERR_UNSUPPORTED, "%s: no operation \"%s\", which layers of kind %s require",
                   b->name, b->cls->operation, b->cls->name);
}

enum ss_status ss_ops_create(const struct ss_op_context *context, struct ss_op **ops)
{
    for (int i = 0; i < context->plan->nblocks; i++) {
        const int shortcut = context->plan->block[i].shortcut, /* earlier blocks */
            makes = context->plan->block[i].makes;
        SS_TRY(ss_op_create(context, i, &ops[i]));
        ops[i]->shortcut = shortcut < 0 ? NULL : ops[shortcut];
        ops[i]->made = makes < 0 ? NULL : ops[makes];
    }
    return SS_OK;
}

size_t ss_op_param_bytes(const struct ss_plan *plan, struct ss_op *const *ops,
                         const struct ss_plan_param *p)
{
    const struct ss_op *op = ops[p->block];
    if (ss_graph_param(plan->graph, p->graph_param)->role == SS_PARAM_WEIGHT)
        return op->cls->weight_bytes(op);
    return (size_t)p->elements * sizeof(float);
}

/* Place n parameters from `first` on consecutively, starting at byte `at`. Returns their end. */
static size_t place(const struct ss_plan *plan, struct ss_op *const *ops, int first, int n,
                    size_t at)
{
    for (const struct ss_plan_param *p = &plan->param[first]; p < &plan->param[first + n]; p++) {
        ops[p->block]->offset[ss_graph_param(plan->graph, p->graph_param)->role] =
            at / sizeof(float);
        at += ss_round_up(ss_op_param_bytes(plan, ops, p), 64);
    }
    return at;
}

struct ss_bucket_bytes ss_ops_place(const struct ss_plan *plan, struct ss_op *const *ops,
                                    int bucket)
{
    const struct ss_bucket *b = &plan->bucket[bucket];
    const size_t unit = 64 * (size_t)(plan->options.shards > 1 ? plan->options.shards : 1),
                 used = place(plan, ops, b->first_param, b->nparams, 0),
                 capacity = plan->options.device ? (used + unit - 1) / unit * unit : used;
    return (struct ss_bucket_bytes){
        used, capacity, place(plan, ops, b->first_frozen, b->nfrozen, capacity) - capacity};
}
