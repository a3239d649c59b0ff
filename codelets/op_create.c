/* op_create.c: which operation runs a block. */
#include "codelets/op.h"
#include "core/log.h"

#include <string.h>

enum ss_status ss_op_create(const struct ss_op_context *context, int block, struct ss_op **out)
{
    static const struct ss_op_class *const classes[] = {SS_OP_CLASSES};
    const struct ss_block *b = &context->plan->block[block];
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(classes[i]->name, b->cls->operation))
            return classes[i]->create(context, block, out);
    return ss_fail(SS_ERR_UNSUPPORTED, "%s: no operation \"%s\", which layers of kind %s ask for",
                   b->name, b->cls->operation, b->cls->name);
}
