/* op_create.c: which operation runs a block. */
#include "codelets/op.h"
#include "core/log.h"

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

enum ss_status ss_op_create(const struct ss_op_context *context, int block, struct ss_op **out)
{
    static const struct ss_op_class *const classes[] = {SS_OP_CLASSES};
    const struct ss_block *b = &context->plan->block[block];
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(classes[i]->name, b->cls->operation))
            return create(classes[i], context, block, out);
    return ss_fail(SS_ERR_UNSUPPORTED, "%s: no operation \"%s\", which layers of kind %s ask for",
                   b->name, b->cls->operation, b->cls->name);
}

enum ss_status ss_ops_create(const struct ss_op_context *context, struct ss_op **ops)
{
    for (int i = 0; i < context->plan->nblocks; i++) {
        const int shortcut = context->plan->block[i].shortcut; /* an earlier block */
        SS_TRY(ss_op_create(context, i, &ops[i]));
        ops[i]->shortcut = shortcut < 0 ? NULL : ops[shortcut];
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

size_t ss_ops_place(const struct ss_plan *plan, struct ss_op *const *ops, int bucket)
{
    const struct ss_bucket *b = &plan->bucket[bucket];
    size_t bytes = 0;
    for (int i = b->first_param; i < b->first_param + b->nparams; i++) {
        const struct ss_plan_param *p = &plan->param[i];
        ops[p->block]->offset[ss_graph_param(plan->graph, p->graph_param)->role] =
            bytes / sizeof(float);
        bytes += (ss_op_param_bytes(plan, ops, p) + 63) / 64 * 64;
    }
    return bytes;
}

size_t ss_ops_room(const struct ss_plan *plan, size_t bytes)
{
    const size_t unit = 64 * (size_t)(plan->options.shards > 1 ? plan->options.shards : 1);
    return plan->options.device ? (bytes + unit - 1) / unit * unit : bytes;
}
