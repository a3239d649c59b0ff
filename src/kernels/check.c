/* check.c: shape checks of operations on several tensors, for every device. */
#include "core/log.h"
#include "kernels/shapes.h"

enum ss_status ss_bias_check(const char *what, int has, const float *bias)
{
    if (has != (bias != NULL))
        return ss_fail(SS_ERR_INVALID, "%s: a bias is %s, but the layer has %s", what,
                       bias ? "given" : "missing", has ? "one" : "none");
    return SS_OK;
}

static enum ss_status check_part(const struct ss_act *y, const struct ss_gather_part *p)
{
    const struct ss_act *x = &p->x;
    if (x->n != y->n || x->h != y->h || x->w != y->w)
        return ss_fail(SS_ERR_SHAPE, "channels of (%d,%d,%d,%d) do not fit (%d,%d,%d,%d)", x->n,
                       x->c, x->h, x->w, y->n, y->c, y->h, y->w);
    if (p->count < 1 || p->from < 0 || p->to < 0 || p->from > x->c - p->count ||
        p->to > y->c - p->count || p->groups < 1 || p->x.c % p->groups)
        return ss_fail(SS_ERR_SHAPE,
                       "channels: invalid range: %d channels from %d of %d, to %d of %d, in %d "
                       "groups",
                       p->count, p->from, x->c, p->to, y->c, p->groups);
    return SS_OK;
}

enum ss_status ss_gather_check(const struct ss_gather *op, int n)
{
    if (op->nparts < 1 || op->nparts > SS_GATHER_PARTS || n < 1 ||
        (op->nparts > 1 ? n != op->nparts : n > SS_NORM_MAX_DY))
        return ss_fail(SS_ERR_INVALID, "channels of %d parts and %d tensors; 1 to %d are supported",
                       op->nparts, n, SS_GATHER_PARTS);
    if (op->groups < 0 || (op->groups > 1 && op->y.c % op->groups))
        return ss_fail(SS_ERR_SHAPE, "channels: %d are not %d groups", op->y.c, op->groups);
    for (int k = 0; k < op->nparts; k++)
        SS_TRY(check_part(&op->y, &op->part[k]));
    return SS_OK;
}

enum ss_status ss_mul_check(const struct ss_mul *op, int n)
{
    const struct ss_act *x = &op->x, *s = &op->s;
    const int equal = op->kind == SS_MUL_EQUAL;
    if (n < 1 || n > SS_NORM_MAX_DY)
        return ss_fail(SS_ERR_INVALID, "a product's gradient of %d tensors; 1 to %d can be added",
                       n, SS_NORM_MAX_DY);
    if (op->kind != SS_MUL_PARAM && (s->n != x->n || s->c != x->c || s->h != (equal ? x->h : 1) ||
                                     s->w != (equal ? x->w : 1) || (equal && s->block != x->block)))
        return ss_fail(
            SS_ERR_SHAPE,
            "a product of (%d,%d,%d,%d) in blocks of %d and (%d,%d,%d,%d) in blocks of %d", x->n,
            x->c, x->h, x->w, x->block, s->n, s->c, s->h, s->w, s->block);
    return SS_OK;
}

enum ss_status ss_attention_check(const struct ss_attention_shape *s)
{
    if (s->heads < 1 || s->y.c % s->heads || s->x.c != 3 * s->y.c || s->y.n != s->x.n ||
        s->y.h != s->x.h || s->y.w != s->x.w)
        return ss_fail(
            SS_ERR_SHAPE,
            "attention: (%d,%d,%d,%d) -> (%d,%d,%d,%d) with %d heads; the input must have three "
            "times the output's channels, which must be a multiple of the heads",
            s->x.n, s->x.c, s->x.h, s->x.w, s->y.n, s->y.c, s->y.h, s->y.w, s->heads);
    return SS_OK;
}
