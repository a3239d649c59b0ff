/* tensor_views.c: in-place concatenation. An input of a concatenation is written directly into
 * its output if all tasks that access it support views of a tensor. The output of a concatenation
 * may itself be a view of a longer one: all outputs of a chain are views of the last one's
 * output.
 *
 * The same holds for gradients. The readers of the whole contribute to its gradient, and views of
 * that are the gradients of the inputs. Another reader of a view runs before the concatenation in
 * forward and therefore after it in backward, and adds its contribution to the view. If there are
 * several contributions they are summed first, so that all values are identical to those with
 * copies.
 *
 * Outputs of bare convolutions and of pools are copied, and all of them in NHWC on CPUs. StarPU
 * also orders tasks that access different views of one buffer, which costs nothing, as they run
 * on one worker. The gradient of the whole lives until its last view has been used, which may
 * take more memory than copies (GoogLeNet). */
#include "core/log.h"
#include "graph/lower_internal.h"

/* Returns the alignment of views in channels: a block; on a device 16 bytes; 0: no kernel
 * supports views in this layout. */
static int unit_of(const struct ss_plan_options *o)
{
    return o->copy_parts ? 0 : o->device ? 16 / (int)ss_dtype_bytes(o->dtype) : o->channel_block;
}

/* Returns whether v has the layout of feature maps. */
static int lies_as_maps(const struct ss_plan *plan, ss_value v)
{
    return ss_lower_layout_block(plan, v) == (plan->options.channel_block
                                                  ? plan->options.channel_block
                                                  : ss_graph_value(plan->graph, v)->c);
}

/* Returns whether inputs can be views of block b's y. A channel block may be padded only after
 * the last input. */
static int has_space(const struct ss_plan *plan, const struct ss_block *b)
{
    const struct ss_layer *l = ss_graph_layer(plan->graph, b->first_layer);
    const int unit = unit_of(&plan->options);
    if (!unit || !b->cls->concatenates || b->last > SS_PLACE_HEAD || !lies_as_maps(plan, b->y))
        return 0;
    for (int k = 0; k < l->ninputs - !plan->options.device; k++)
        if (ss_graph_value(plan->graph, l->input[k])->c % unit)
            return 0;
    return 1;
}

static unsigned places_of(const struct ss_block *b)
{
    unsigned places = 0;
    for (int p = 0; p < SS_PLACES; p++)
        places |= b->layer[p] >= 0 ? 1u << p : 0;
    return places;
}

int ss_lower_writes_y_alone(const struct ss_block *b)
{
    const unsigned places = places_of(b);
    return b->cls->writes_parts & places && b->left_to < 0 &&
           !(places & (SS_AT(ADD) | SS_AT(POOL)));
}

static int writes_parts(const struct ss_block *b)
{
    return b->cls->concatenates || ss_lower_writes_y_alone(b);
}

static int count_inputs(const struct ss_graph *g, const struct ss_block *b, ss_value v)
{
    const struct ss_layer *l = ss_graph_layer(g, b->first_layer);
    int n = b->residual == v && b->layer[SS_PLACE_ADD] != b->first_layer;
    for (int k = 0; k < l->ninputs; k++)
        n += l->input[k] == v;
    return n;
}

/* Returns whether v can be a view of block `whole`'s y. Its other readers run before that block
 * and must support views. */
static int fits(const struct ss_lowerer *lo, ss_value v, int whole)
{
    const struct ss_plan *plan = lo->plan;
    int made = 0;
    if (lo->part[v].block >= 0 || !lies_as_maps(plan, v))
        return 0;
    for (int i = 0; i < plan->nblocks; i++) {
        const struct ss_block *b = &plan->block[i];
        const int reads = count_inputs(plan->graph, b, v);
        made |= b->y == v && writes_parts(b);
        if (reads > 1 || (reads && i > whole))
            return 0;
        if (reads && i < whole &&
            (b->x != v || b->shortcut >= 0 || !(b->cls->reads_parts & places_of(b))))
            return 0;
    }
    return made;
}

static int is_graded(const struct ss_plan *plan, ss_value v)
{
    return v >= 0 && ss_graph_value(plan->graph, v)->graded;
}

/* v's other readers add their gradients to that of the concatenation b, which must exist. If v
 * needs no gradient, no reader may compute one in place. */
static int graded_alike(const struct ss_plan *plan, const struct ss_block *b, ss_value v)
{
    if (is_graded(plan, v))
        return is_graded(plan, b->y);
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].x == v && plan->block[i].cls->needs_dx &&
            is_graded(plan, plan->block[i].y))
            return 0;
    return 1;
}

void ss_lower_place_views(struct ss_lowerer *lo)
{
    struct ss_plan *plan = lo->plan;
    for (int v = 0; v < ss_graph_values(plan->graph); v++)
        lo->part[v] = (struct ss_lower_view){-1, 0};
    for (int i = 0; i < plan->nblocks; i++) {
        struct ss_block *b = &plan->block[i];
        const struct ss_layer *l = ss_graph_layer(plan->graph, b->first_layer);
        for (int k = 0, at = 0; has_space(plan, b) && k < l->ninputs; k++) {
            if (fits(lo, l->input[k], i) && graded_alike(plan, b, l->input[k])) {
                lo->part[l->input[k]] = (struct ss_lower_view){i, at};
                b->in_place |= 1u << k;
            }
            at += ss_graph_value(plan->graph, l->input[k])->c;
        }
    }
}

int ss_lower_add_output(struct ss_lowerer *lo, int i)
{
    const struct ss_block *b = &lo->plan->block[i];
    const struct ss_lower_view *part = &lo->part[b->y];
    int *tensor = &lo->value_tensor[b->y];
    if (*tensor >= 0) /* added with its first view */
        return *tensor;
    *tensor = part->block < 0 ? ss_lower_add_activation(lo, b->name, "y", b->y)
                              : ss_lower_add_view(lo, b->name, "y", b->y,
                                                  ss_lower_add_output(lo, part->block), part->at);
    return *tensor;
}

int ss_lower_adds_to_views(const struct ss_lowerer *lo, int i)
{
    const struct ss_plan *plan = lo->plan;
    const struct ss_layer *l = ss_graph_layer(plan->graph, plan->block[i].first_layer);
    for (int k = 0; k < l->ninputs; k++) {
        if (!(plan->block[i].in_place >> k & 1))
            continue;
        if (ss_graph_value(plan->graph, l->input[k])->uses > 1)
            return 1;
        for (int j = 0; j < i; j++)
            if (plan->block[j].y == l->input[k] && ss_lower_adds_to_views(lo, j))
                return 1;
    }
    return 0;
}
