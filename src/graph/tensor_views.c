/* tensor_views.c: concatenation in place. A value that is concatenated, and all whose tasks can work on a part
 * of a tensor, is made in the concatenation's output from the start. What a concatenation makes may
 * itself be a part of a longer one: of a chain all lies in the last one's output.
 *
 * So with the gradients. Those who read the whole contribute to its gradient, and what they leave there is
 * the gradient of the parts. Another reader of a part runs backward after the concatenation would, as it
 * runs forward before it, and adds its share where that is. Several contributions are added up before, so
 * that all numbers are those that copying would have made.
 *
 * Outputs of bare convolutions and of pools are copied, and all of them in NHWC on CPUs. StarPU
 * also orders tasks that access different views of one buffer, which costs nothing, as they run on
 * one worker. The gradient of the whole lives until its last view has been used, which may take
 * more memory than copies (GoogLeNet). */
#include "core/log.h"
#include "graph/lower_internal.h"

/* Parts begin and end at multiples of so many channels: blocks, on a device 16 bytes; 0: no kernel works on
 * parts in this layout. */
static int unit_of(const struct ss_plan_options *o)
{
    return o->copy_parts ? 0 : o->device ? 16 / (int)ss_dtype_bytes(o->dtype) : o->channel_block;
}

/* Does it lie in memory as maps do? */
static int lies_as_maps(const struct ss_plan *plan, ss_value v)
{
    return ss_lower_layout_block(plan, v) == (plan->options.channel_block
                                                  ? plan->options.channel_block
                                                  : ss_graph_value(plan->graph, v)->c);
}

/* Can anything lie in block b's y? Behind the last one a block of channels may have padding. */
static int has_room(const struct ss_plan *plan, const struct ss_block *b)
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

/* Can v be made in block `whole`'s y? Its other readers come first, and do with a part. */
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

/* v's other readers add their gradients to what concatenation b's has brought, which must be there. Where v
 * needs none, nobody works in place in one. */
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
        for (int k = 0, at = 0; has_room(plan, b) && k < l->ninputs; k++) {
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
    if (*tensor >= 0) /* with its first part */
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
