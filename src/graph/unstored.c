/* unstored.c: activations that are not stored. If the only reader of a block's y is a convolution
 * that can recompute it while reading, forward stores z (or uses x, if no convolution begins the
 * block) and its statistics. The reader's forward and weight gradient recompute y tile by tile.
 * The block's own backward needs no y.
 *
 * An activation is stored if BatchNorm's statistics are synchronized over ranks, the block ends
 * in an addition, the reader is a 1x1 or strided convolution or works in NHWC, or the reader's
 * weight gradient is deferred. The plan option makes_x = NULL stores all activations; results are
 * bit-identical. */
#include "graph/lower_internal.h"

/* z is overwritten with its gradient in the block's backward: all readers of z must precede it. */
static int can_make(const struct ss_lowerer *lo, int i, int reader)
{
    const struct ss_plan *plan = lo->plan;
    const struct ss_block *b = &plan->block[i], *r = &plan->block[reader];
    return r->x == b->y && ss_graph_value(plan->graph, b->y)->uses == 1 &&
           ss_lower_writes_y_alone(b) && (b->cls->keeps_z || b->layer[SS_PLACE_NORM] >= 0) &&
           b->layer[SS_PLACE_ORDER] < 0 && lo->part[b->y].block < 0 &&
           (b->cls->keeps_z || (b->x != lo->input && lo->part[b->x].block < 0)) &&
           ss_lower_layout_block(plan, b->y) == ss_lower_layout_block(plan, r->y) &&
           !ss_plan_puts_off(plan, reader) && r->cls->keeps_z &&
           plan->options.makes_x(plan, reader);
}

void ss_lower_leave_unstored(const struct ss_lowerer *lo)
{
    struct ss_plan *plan = lo->plan;
    if (!plan->options.makes_x || plan->options.sync_stats > 1)
        return;
    for (int i = 0; i < plan->nblocks; i++)
        for (int j = i + 1; j < plan->nblocks; j++)
            if (can_make(lo, i, j)) {
                plan->block[i].made_by = j;
                plan->block[j].makes = i;
            }
}
