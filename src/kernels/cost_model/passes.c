/* passes.c: cost model of passes over tensors: normalization and activation (cuda/norm_act.cu,
 * norm_act_pool.cu, groupnorm.cu), pooling (pool.cu), sums, biases and the input
 * (elementwise.cu), the loss (loss.cu), update.cu and scaler.cu. */
#include "core/log.h"
#include "kernels/cost_model/internal.h"

#include <stdlib.h>

/* Return the bytes of the partial sums that blocks leave to a merge kernel. Same as norm_act.cuh
 * for 132 multiprocessors: tiles of at most 32 vectors of 16 bytes, 256 threads, at most `blocks`
 * blocks per multiprocessor. */
static size_t partial_bytes(const struct ss_device *d, const struct ss_act *s, int blocks,
                            int unroll)
{
    const size_t vectors = ((size_t)s->c * d->element + 15) / 16, tiles = (vectors + 31) / 32;
    const size_t chunk = 256 * tiles / vectors * (size_t)unroll;
    const size_t chunks = ((size_t)s->n * (size_t)s->h * (size_t)s->w + chunk - 1) / chunk;
    const size_t most = (size_t)blocks * 132 / tiles;
    return (chunks < most ? chunks : most) * 2 * (size_t)s->c * sizeof(float);
}
static size_t per_channel(const struct ss_act *s, int n)
{
    return (size_t)n * (size_t)s->c * sizeof(float);
}

/* ---- normalization and activation ---- */

enum ss_status ss_cost_norm_act_reserve(struct ss_device *d, const struct ss_norm_act *op)
{
    (void)d;
    (void)op;
    return SS_OK;
}

enum ss_status ss_cost_norm_act_stats(struct ss_device *d, const struct ss_norm_act *op,
                                      const void *z, float *saved, float *running)
{
    SS_COST_NOTE(
        d, z ? SS_COST_K_STATS : SS_COST_K_MERGE_STATS,
        SS_COST_R(z, z ? ss_cost_bytes(d, &op->shape) : 0),
        SS_COST_RW(z ? ss_cost_scratch(d) : NULL, partial_bytes(d, &op->shape, 4, 4)),
        {saved, per_channel(&op->shape, 2), z ? SS_COST_WRITE : SS_COST_READ | SS_COST_WRITE},
        SS_COST_RW(running, per_channel(&op->shape, 2)));
    return SS_OK;
}

enum ss_status ss_cost_norm_act_sums(struct ss_device *d, const struct ss_norm_act *op,
                                     const void *z, double *sums)
{
    SS_COST_NOTE(d, SS_COST_K_STATS, SS_COST_R(z, ss_cost_bytes(d, &op->shape)),
                 SS_COST_RW(ss_cost_scratch(d), partial_bytes(d, &op->shape, 4, 4)),
                 SS_COST_W(sums, 2 * per_channel(&op->shape, 2)));
    return SS_OK;
}

enum ss_status ss_cost_norm_act_stats_of_sums(struct ss_device *d, const struct ss_norm_act *op,
                                              const double *sums, float *saved, float *running)
{
    SS_COST_NOTE(d, SS_COST_K_MERGE_STATS, SS_COST_R(sums, 2 * per_channel(&op->shape, 2)),
                 SS_COST_W(saved, per_channel(&op->shape, 2)),
                 SS_COST_RW(running, per_channel(&op->shape, 2)));
    return SS_OK;
}

static struct ss_act pooled(const struct ss_norm_act *op)
{
    struct ss_act y = op->shape;
    y.h /= op->pool ? op->pool : 1;
    y.w /= op->pool ? op->pool : 1;
    return y;
}

/* Return the bytes of argmax or of the mask (see list.h). */
static size_t workspace_bytes(const struct ss_device *d, const struct ss_norm_act *op)
{
    const struct ss_act y = pooled(op);
    const size_t elements = ss_act_elements(&y);
    if (op->pool)
        return elements;
    return !op->relu_out                        ? 0
           : (size_t)y.c * d->element % 16 == 0 ? elements * d->element / 16
                                                : elements;
}

enum ss_status ss_cost_norm_act_forward(struct ss_device *d, const struct ss_norm_act *op,
                                        const void *z, const float *gamma, const float *beta,
                                        const float *saved, const void *r, void *y,
                                        uint8_t *workspace, int training,
                                        const uint64_t *dropout_key)
{
    (void)training;
    (void)dropout_key;
    const struct ss_act out = pooled(op);
    const size_t large = ss_cost_bytes(d, &op->shape);
    SS_COST_NOTE(d, op->pool ? SS_COST_K_POOL_FORWARD : SS_COST_K_FORWARD, SS_COST_R(z, large),
                 SS_COST_R(r, large), SS_COST_W(y, ss_cost_bytes(d, &out)),
                 SS_COST_W(workspace, workspace_bytes(d, op)),
                 SS_COST_R(gamma, per_channel(&op->shape, 1)),
                 SS_COST_R(beta, per_channel(&op->shape, 1)),
                 SS_COST_R(op->has_bn ? saved : NULL, per_channel(&op->shape, 2)));
    return SS_OK;
}

/* Record a pass over z and the gradients of y. made: a previous pass summed the gradients, and
 * only one tensor is read. */
static void gradient_pass(struct ss_device *d, const struct ss_norm_act *op,
                          const struct ss_norm_act_grad *g, enum ss_cost_row row, int made,
                          struct ss_cost_access out)
{
    const struct ss_act small = pooled(op);
    const size_t z = ss_cost_bytes(d, &op->shape), y = ss_cost_bytes(d, &small);
    const int sums = !made && !op->pool && (g->ndy > 1 || op->relu_out);
    const int sums_pass = out.data != g->dz;
    const void *dy[SS_NORM_MAX_DY];
    for (int k = 0; k < SS_NORM_MAX_DY; k++)
        dy[k] = k < g->ndy && (k == 0 || !made) ? g->dy[k] : NULL;
    if (made && (g->ndy > 1 || op->relu_out))
        dy[0] = g->ds;
    const int writes_ds = sums || (op->pool && row == SS_COST_K_POOL_GRADIENT);
    SS_COST_NOTE(d, row, SS_COST_R(g->z, z), SS_COST_R(dy[0], y), SS_COST_R(dy[1], y),
                 SS_COST_R(dy[2], y), SS_COST_R(dy[3], y),
                 SS_COST_R(op->relu_out && op->pool ? g->y : NULL, y),
                 SS_COST_R(made ? NULL : g->workspace, workspace_bytes(d, op)),
                 SS_COST_W(writes_ds ? g->ds : NULL, z), out,
                 SS_COST_R(op->has_bn ? g->saved : NULL, per_channel(&op->shape, 2)),
                 SS_COST_R(sums_pass ? g->gamma : NULL, per_channel(&op->shape, 1)),
                 SS_COST_W(sums_pass ? g->dgamma : NULL, per_channel(&op->shape, 1)),
                 SS_COST_W(sums_pass ? g->dbeta : NULL, per_channel(&op->shape, 1)));
}

/* Return whether the kernel with one vector per tensor in flight, not two, is used. made: dy is a
 * single tensor. */
static int takes_one(const struct ss_device *d, const struct ss_norm_act *op,
                     const struct ss_norm_act_grad *g, int made)
{
    const int plain = ss_act_compares(op->act);
    return !plain || (!made && (g->ndy > 1 || op->relu_out)) ||
           (size_t)op->shape.c * d->element % 16;
}

static void gradient_sums(struct ss_device *d, const struct ss_norm_act *op,
                          const struct ss_norm_act_grad *g)
{
    const int one = takes_one(d, op, g, 0);
    const size_t partial = partial_bytes(d, &op->shape, one ? 4 : 3, one ? 1 : 2);
    gradient_pass(d, op, g,
                  op->pool ? SS_COST_K_POOL_SUMS
                  : one    ? SS_COST_K_GRADIENT_SUMS_ONE
                           : SS_COST_K_GRADIENT_SUMS,
                  0, (struct ss_cost_access)SS_COST_RW(ss_cost_scratch(d), partial));
}

static void gradient_dz(struct ss_device *d, const struct ss_norm_act *op,
                        const struct ss_norm_act_grad *g)
{
    const struct ss_cost_access dz = {g->dz, ss_cost_bytes(d, &op->shape),
                                      g->adds ? SS_COST_READ | SS_COST_WRITE : SS_COST_WRITE};
    gradient_pass(d, op, g,
                  op->pool                                     ? SS_COST_K_POOL_GRADIENT
                  : g->adds || takes_one(d, op, g, op->has_bn) ? SS_COST_K_GRADIENT_ONE
                                                               : SS_COST_K_GRADIENT,
                  op->has_bn && !op->pool, dz);
}

enum ss_status ss_cost_norm_act_backward(struct ss_device *d, const struct ss_norm_act *op,
                                         const struct ss_norm_act_grad *g)
{
    if (op->has_bn)
        gradient_sums(d, op, g);
    gradient_dz(d, op, g);
    return SS_OK;
}

enum ss_status ss_cost_norm_act_backward_sums(struct ss_device *d, const struct ss_norm_act *op,
                                              const struct ss_norm_act_grad *g, double *sums)
{
    gradient_sums(d, op, g);
    (void)sums; /* a few KB, not counted */
    return SS_OK;
}

enum ss_status ss_cost_norm_act_backward_apply(struct ss_device *d, const struct ss_norm_act *op,
                                               const struct ss_norm_act_grad *g, const double *sums)
{
    struct ss_norm_act_grad made = *g;
    made.ndy = 1;
    made.dy[0] = g->ds;
    SS_COST_NOTE(d, SS_COST_K_MERGE_GRADIENT, SS_COST_R(sums, 4 * per_channel(&op->shape, 2)),
                 SS_COST_R(g->gamma, per_channel(&op->shape, 1)),
                 SS_COST_R(g->saved, per_channel(&op->shape, 2)),
                 SS_COST_W(g->dgamma, per_channel(&op->shape, 1)),
                 SS_COST_W(g->dbeta, per_channel(&op->shape, 1)));
    gradient_dz(d, op, &made);
    return SS_OK;
}

enum ss_status ss_cost_norm_shortcut_forward(struct ss_device *d, const struct ss_norm_act *op,
                                             const void *z, const float *gamma, const float *beta,
                                             const float *saved, const struct ss_norm_shortcut *s,
                                             void *y, uint8_t *mask, int training,
                                             const uint64_t *dropout_key)
{
    const size_t large = ss_cost_bytes(d, &op->shape), c = per_channel(&op->shape, 1);
    (void)training;
    (void)dropout_key;
    SS_COST_NOTE(d, SS_COST_K_SHORTCUT_FORWARD, SS_COST_R(z, large), SS_COST_R(s->r, large),
                 SS_COST_W(y, large), SS_COST_W(mask, workspace_bytes(d, op)), SS_COST_R(gamma, c),
                 SS_COST_R(beta, c), SS_COST_R(saved, 2 * c), SS_COST_R(s->gamma, c),
                 SS_COST_R(s->beta, c), SS_COST_R(s->saved, 2 * c));
    return SS_OK;
}

/* Both passes read all tensors. If only a bias is summed, pass 2 reads the gradient that pass 1
 * stored. */
enum ss_status ss_cost_norm_shortcut_backward(struct ss_device *d, const struct ss_norm_act *op,
                                              const struct ss_norm_act_grad *g,
                                              const struct ss_norm_shortcut *s)
{
    const size_t large = ss_cost_bytes(d, &op->shape), c = per_channel(&op->shape, 1);
    const size_t partial = 2 * partial_bytes(d, &op->shape, 3, 1), mask = workspace_bytes(d, op);
    const int bn = op->shortcut == SS_SHORTCUT_BN;
    const int made = !bn && (g->ndy > 1 || op->relu_out);
    SS_COST_NOTE(d, SS_COST_K_SHORTCUT_SUMS, SS_COST_R(g->z, large),
                 SS_COST_R(bn ? s->r : NULL, large), SS_COST_R(g->dy[0], large),
                 SS_COST_R(g->ndy > 1 ? g->dy[1] : NULL, large),
                 SS_COST_R(g->ndy > 2 ? g->dy[2] : NULL, large),
                 SS_COST_R(g->ndy > 3 ? g->dy[3] : NULL, large), SS_COST_R(g->workspace, mask),
                 SS_COST_W(made ? g->ds : NULL, large), SS_COST_W(ss_cost_scratch(d), partial),
                 SS_COST_R(g->saved, 2 * c), SS_COST_R(bn ? s->saved : NULL, 2 * c));
    SS_COST_NOTE(d, SS_COST_K_MERGE_GRADIENT, SS_COST_R(ss_cost_scratch(d), partial),
                 SS_COST_R(g->gamma, c), SS_COST_R(g->saved, 2 * c), SS_COST_W(g->dgamma, c),
                 SS_COST_W(g->dbeta, c), SS_COST_W(s->dgamma, c), SS_COST_W(s->dbeta, c));
    SS_COST_NOTE(d, SS_COST_K_SHORTCUT_GRADIENT, SS_COST_RW(g->dz, large),
                 SS_COST_RW(bn ? s->r : NULL, large), SS_COST_R(made ? g->ds : g->dy[0], large),
                 SS_COST_R(g->ndy > 1 && !made ? g->dy[1] : NULL, large),
                 SS_COST_R(g->ndy > 2 && !made ? g->dy[2] : NULL, large),
                 SS_COST_R(g->ndy > 3 && !made ? g->dy[3] : NULL, large),
                 SS_COST_R(made ? NULL : g->workspace, mask), SS_COST_R(g->saved, 2 * c));
    return SS_OK;
}

enum ss_status ss_cost_groupnorm_reserve(struct ss_device *d, const struct ss_norm_act *op,
                                         int groups)
{
    (void)d;
    (void)op;
    (void)groups;
    return SS_OK;
}

static size_t saved_bytes(const struct ss_norm_act *op, int groups)
{
    return 2 * (size_t)op->shape.n * (size_t)groups * sizeof(float);
}

enum ss_status ss_cost_groupnorm_forward(struct ss_device *d, const struct ss_norm_act *op,
                                         int groups, const void *x, const float *gamma,
                                         const float *beta, float *saved, void *y)
{
    const size_t bytes = ss_cost_bytes(d, &op->shape);
    SS_COST_NOTE(d, SS_COST_K_GROUP_STATS, SS_COST_R(x, bytes));
    SS_COST_NOTE(d, SS_COST_K_MERGE_STATS, SS_COST_W(saved, saved_bytes(op, groups)));
    SS_COST_NOTE(d, SS_COST_K_GROUP_FORWARD, SS_COST_R(x, bytes),
                 SS_COST_R(gamma, per_channel(&op->shape, 1)),
                 SS_COST_R(beta, per_channel(&op->shape, 1)),
                 SS_COST_R(saved, saved_bytes(op, groups)), SS_COST_W(y, bytes));
    return SS_OK;
}

enum ss_status ss_cost_groupnorm_backward(struct ss_device *d, const struct ss_norm_act *op,
                                          int groups, const void *dy, void *x, const float *gamma,
                                          const float *beta, const float *saved, float *dgamma,
                                          float *dbeta)
{
    const size_t bytes = ss_cost_bytes(d, &op->shape);
    (void)beta;
    SS_COST_NOTE(d, SS_COST_K_GROUP_SUMS, SS_COST_R(dy, bytes), SS_COST_R(x, bytes));
    SS_COST_NOTE(d, SS_COST_K_MERGE_GRADIENT, SS_COST_R(saved, saved_bytes(op, groups)),
                 SS_COST_R(gamma, per_channel(&op->shape, 1)));
    SS_COST_NOTE(d, SS_COST_K_MERGE_GRADIENT, SS_COST_W(dgamma, per_channel(&op->shape, 1)),
                 SS_COST_W(dbeta, per_channel(&op->shape, 1)));
    SS_COST_NOTE(d, SS_COST_K_GROUP_GRADIENT, SS_COST_R(dy, bytes), SS_COST_RW(x, bytes));
    return SS_OK;
}

/* ---- pooling ---- */

struct ss_pool_kernel {
    struct ss_device *device;
    struct ss_pool_shape shape;
};

enum ss_status ss_cost_pool_create(struct ss_device *d, const struct ss_pool_shape *shape,
                                   int training, struct ss_pool_kernel **out)
{
    (void)training;
    struct ss_pool_kernel *p = calloc(1, sizeof *p);
    if (!p)
        return ss_fail_memory("pooling", sizeof *p);
    *p = (struct ss_pool_kernel){d, *shape};
    *out = p;
    return SS_OK;
}

void ss_cost_pool_destroy(struct ss_pool_kernel *p)
{
    free(p);
}

size_t ss_cost_pool_workspace_bytes(const struct ss_pool_kernel *p)
{
    return p->shape.kind == SS_POOL_MAX ? ss_act_elements(&p->shape.y) : 0;
}

enum ss_status ss_cost_pool_forward(struct ss_pool_kernel *p, const void *x, void *y,
                                    void *workspace)
{
    SS_COST_NOTE(p->device, SS_COST_K_POOL, SS_COST_R(x, ss_cost_bytes(p->device, &p->shape.x)),
                 SS_COST_W(y, ss_cost_bytes(p->device, &p->shape.y)),
                 SS_COST_W(workspace, ss_cost_pool_workspace_bytes(p)));
    return SS_OK;
}

enum ss_status ss_cost_pool_backward(struct ss_pool_kernel *p, const void *dy,
                                     const void *workspace, void *dx)
{
    SS_COST_NOTE(p->device, SS_COST_K_POOL, SS_COST_R(dy, ss_cost_bytes(p->device, &p->shape.y)),
                 SS_COST_R(workspace, ss_cost_pool_workspace_bytes(p)),
                 SS_COST_W(dx, ss_cost_bytes(p->device, &p->shape.x)));
    return SS_OK;
}

/* ---- channels and products ---- */

/* Only the selected channels of each input are read. */
enum ss_status ss_cost_gather(struct ss_device *d, const struct ss_gather *op, const void *const *x,
                              int n, void *y)
{
    struct ss_cost_access access[SS_GATHER_PARTS + 1];
    for (int k = 0; k < n; k++) {
        const struct ss_gather_part *p = &op->part[op->nparts > 1 ? k : 0];
        const size_t pixels = (size_t)p->x.n * (size_t)p->x.h * (size_t)p->x.w;
        access[k] = (struct ss_cost_access)SS_COST_R(x[k], pixels * (size_t)p->count * d->element);
    }
    access[n] = (struct ss_cost_access)SS_COST_W(y, ss_cost_bytes(d, &op->y));
    ss_cost_note(d, SS_COST_K_GATHER, n + 1, access);
    return SS_OK;
}

enum ss_status ss_cost_mul_reserve(struct ss_device *d, const struct ss_mul *op)
{
    (void)d;
    (void)op;
    return SS_OK;
}

static size_t factor_bytes(const struct ss_device *d, const struct ss_mul *op)
{
    return op->kind == SS_MUL_PARAM ? per_channel(&op->x, 1) : ss_cost_bytes(d, &op->s);
}

enum ss_status ss_cost_mul_forward(struct ss_device *d, const struct ss_mul *op, const void *x,
                                   const void *s, void *y)
{
    const size_t bytes = ss_cost_bytes(d, &op->x);
    SS_COST_NOTE(d, SS_COST_K_PRODUCT, SS_COST_R(x, bytes), SS_COST_R(s, factor_bytes(d, op)),
                 SS_COST_W(y, bytes));
    return SS_OK;
}

enum ss_status ss_cost_mul_backward(struct ss_device *d, const struct ss_mul *op,
                                    const void *const *dy, int n, const void *x, const void *s,
                                    void *dx, void *ds)
{
    const size_t bytes = ss_cost_bytes(d, &op->x), factors = factor_bytes(d, op);
    const int equal = op->kind == SS_MUL_EQUAL;
    SS_COST_NOTE(d, SS_COST_K_PRODUCT_GRADIENTS, SS_COST_R(dy[0], bytes),
                 SS_COST_R(n > 1 ? dy[1] : NULL, bytes), SS_COST_R(n > 2 ? dy[2] : NULL, bytes),
                 SS_COST_R(n > 3 ? dy[3] : NULL, bytes), SS_COST_R(x, bytes), SS_COST_R(s, factors),
                 SS_COST_W(dx, bytes), SS_COST_W(equal ? ds : NULL, bytes));
    if (!equal && ds) /* a few partial sums */
        SS_COST_NOTE(d, SS_COST_K_PRODUCT_MERGE, SS_COST_W(ds, factors));
    return SS_OK;
}

/* ---- other kernels ---- */

enum ss_status ss_cost_sum(struct ss_device *d, const void *const *src, int n, void *dst,
                           size_t count)
{
    const size_t bytes = count * d->element;
    SS_COST_NOTE(d, SS_COST_K_SUM, SS_COST_R(src[0], bytes),
                 SS_COST_R(n > 1 ? src[1] : NULL, bytes), SS_COST_R(n > 2 ? src[2] : NULL, bytes),
                 SS_COST_R(n > 3 ? src[3] : NULL, bytes), SS_COST_W(dst, bytes));
    return SS_OK;
}

enum ss_status ss_cost_accumulate(struct ss_device *d, size_t count, const float *src, int add,
                                  float factor, float *dst)
{
    const size_t bytes = count * sizeof *dst;
    (void)factor;
    if (add)
        SS_COST_NOTE(d, SS_COST_K_ACCUMULATE, SS_COST_R(src, bytes), SS_COST_RW(dst, bytes));
    else
        SS_COST_NOTE(d, SS_COST_K_ACCUMULATE, SS_COST_R(src, bytes), SS_COST_W(dst, bytes));
    return SS_OK;
}

enum ss_status ss_cost_copy_async(void *dst, const void *src, size_t bytes, ss_stream stream)
{
    struct ss_device *d = (struct ss_device *)(uintptr_t)stream; /* ss_cost_stream */
    SS_COST_NOTE(d, SS_COST_K_COPY, SS_COST_R(src, bytes), SS_COST_W(dst, bytes));
    return SS_OK;
}

void ss_cost_bias_forward(struct ss_device *d, const struct ss_act *y, void *data,
                          const float *bias)
{
    SS_COST_NOTE(d, SS_COST_K_BIAS, SS_COST_RW(data, ss_cost_bytes(d, y)),
                 SS_COST_R(bias, per_channel(y, 1)));
}

void ss_cost_bias_backward(struct ss_device *d, const struct ss_act *y, const void *dy,
                           float *dbias)
{
    SS_COST_NOTE(d, SS_COST_K_BIAS_SHARES, SS_COST_R(dy, ss_cost_bytes(d, y)));
    SS_COST_NOTE(d, SS_COST_K_BIAS_MERGE, SS_COST_W(dbias, per_channel(y, 1)));
}

enum ss_status ss_cost_loss_reserve(struct ss_device *d, int n, int k)
{
    (void)d;
    (void)n;
    (void)k;
    return SS_OK;
}

enum ss_status ss_cost_loss(struct ss_device *d, int n, int k, const void *logits,
                            const struct ss_label *labels, float smoothing,
                            const struct ss_scaler *scaler, struct ss_metrics *metrics,
                            int accumulate, void *dlogits)
{
    const size_t bytes = (size_t)n * (size_t)k * d->element;
    (void)smoothing;
    (void)accumulate;
    SS_COST_NOTE(d, SS_COST_K_LOSS, SS_COST_R(logits, bytes),
                 SS_COST_R(labels, (size_t)n * sizeof *labels), SS_COST_W(dlogits, bytes),
                 SS_COST_R(scaler, sizeof *scaler));
    SS_COST_NOTE(d, SS_COST_K_LOSS_SUMS, SS_COST_W(metrics, sizeof *metrics));
    return SS_OK;
}

enum ss_status ss_cost_convert(struct ss_device *d, const struct ss_act *x, const uint8_t *images,
                               const float *mean, const float *std, void *out)
{
    (void)mean;
    (void)std;
    SS_COST_NOTE(d, SS_COST_K_CONVERT,
                 SS_COST_R(images, (size_t)x->n * (size_t)x->c * (size_t)x->h * (size_t)x->w),
                 SS_COST_W(out, ss_cost_bytes(d, x)));
    return SS_OK;
}

enum ss_status ss_cost_put_numbers(struct ss_device *d, const uint64_t *values, size_t count,
                                   uint64_t *dst)
{
    (void)values;
    for (size_t at = 0; at < count; at += SS_PUT_NUMBERS) {
        const size_t most = SS_PUT_NUMBERS, n = count - at < most ? count - at : most;
        SS_COST_NOTE(d, SS_COST_K_NUMBERS, SS_COST_W(dst + at, n * sizeof *dst));
    }
    return SS_OK;
}

/* The tables of spans are small and stay in the cache. */
enum ss_status ss_cost_update(struct ss_device *d, const struct ss_update *u)
{
    const size_t bytes = u->count * sizeof(float);
    if (ss_rule_has_norms(u->rule)) {
        SS_COST_NOTE(d, SS_COST_K_NORMS, SS_COST_R(u->g, bytes), SS_COST_R(u->w, bytes),
                     SS_COST_R(u->state[0], bytes), SS_COST_R(u->state[1], bytes),
                     SS_COST_R(u->squares, sizeof *u->squares));
        SS_COST_NOTE(d, SS_COST_K_RATIOS, SS_COST_R(u->scaler, sizeof *u->scaler));
    }
    SS_COST_NOTE(d, SS_COST_K_UPDATE, SS_COST_R(u->g, bytes), SS_COST_RW(u->w, bytes),
                 SS_COST_RW(u->state[0], bytes), SS_COST_RW(u->state[1], bytes),
                 SS_COST_RW(u->ema, bytes), SS_COST_W(u->copy, u->count * d->element),
                 SS_COST_R(u->scaler, sizeof *u->scaler),
                 SS_COST_R(u->squares, sizeof *u->squares));
    return SS_OK;
}

enum ss_status ss_cost_update_reserve(struct ss_device *d, size_t chunks)
{
    (void)d;
    (void)chunks;
    return SS_OK;
}

enum ss_status ss_cost_squares(struct ss_device *d, size_t count, const float *g, int first,
                               double *sum)
{
    (void)first;
    SS_COST_NOTE(d, SS_COST_K_SQUARES, SS_COST_R(g, count * sizeof *g));
    SS_COST_NOTE(d, SS_COST_K_ADD_SQUARES, SS_COST_RW(sum, sizeof *sum));
    return SS_OK;
}

/* Afterwards most gradients are checked by the kernel that computes them, without extra reads. */
void ss_cost_watch_gradients(struct ss_device *d, struct ss_scaler *scaler)
{
    d->scaler = scaler;
}

enum ss_status ss_cost_scaler_check(struct ss_device *d, size_t count, const float *grads,
                                    struct ss_scaler *scaler)
{
    SS_COST_NOTE(d, SS_COST_K_CHECK, SS_COST_R(grads, count * sizeof *grads),
                 SS_COST_RW(scaler, sizeof *scaler));
    return SS_OK;
}

enum ss_status ss_cost_scaler_update(struct ss_device *d, struct ss_scaler *scaler)
{
    SS_COST_NOTE(d, SS_COST_K_SCALE, SS_COST_RW(scaler, sizeof *scaler));
    return SS_OK;
}
