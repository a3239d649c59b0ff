/* transformer.c: cost model of layer normalization (cuda/layernorm.cu), tokens (tokens.cu) and
 * attention (attention.c, softmax.cu). */
#include "core/log.h"
#include "kernels/cost_model/internal.h"

#include <stdlib.h>

static size_t places(const struct ss_act *s)
{
    return (size_t)s->n * (size_t)s->h * (size_t)s->w;
}
static size_t per_channel(const struct ss_act *s)
{
    return (size_t)s->c * sizeof(float);
}

enum ss_status ss_cost_layernorm_reserve(struct ss_device *d, const struct ss_act *shape)
{
    (void)d;
    (void)shape;
    return SS_OK;
}

enum ss_status ss_cost_layernorm_forward(struct ss_device *d, const struct ss_act *shape, float eps,
                                         const void *x, const float *gamma, const float *beta,
                                         float *saved, void *y)
{
    const size_t bytes = ss_cost_bytes(d, shape);
    (void)eps;
    SS_COST_NOTE(d, SS_COST_K_LAYER_FORWARD, SS_COST_R(x, bytes),
                 SS_COST_R(gamma, per_channel(shape)), SS_COST_R(beta, per_channel(shape)),
                 SS_COST_W(saved, 2 * places(shape) * sizeof *saved), SS_COST_W(y, bytes));
    return SS_OK;
}

enum ss_status ss_cost_layernorm_backward(struct ss_device *d, const struct ss_act *shape,
                                          const void *dy, const void *x, const float *gamma,
                                          const float *saved, void *dx, float *dgamma, float *dbeta)
{
    const size_t bytes = ss_cost_bytes(d, shape), stats = 2 * places(shape) * sizeof *saved;
    SS_COST_NOTE(d, SS_COST_K_LAYER_SUMS, SS_COST_R(dy, bytes), SS_COST_R(x, bytes),
                 SS_COST_R(saved, stats));
    SS_COST_NOTE(d, SS_COST_K_LAYER_MERGE, SS_COST_W(dgamma, per_channel(shape)),
                 SS_COST_W(dbeta, per_channel(shape)));
    if (dx)
        SS_COST_NOTE(d, SS_COST_K_LAYER_GRADIENT, SS_COST_R(dy, bytes), SS_COST_R(x, bytes),
                     SS_COST_R(saved, stats), SS_COST_R(gamma, per_channel(shape)),
                     SS_COST_W(dx, bytes));
    return SS_OK;
}

static size_t position_bytes(const struct ss_tokens_shape *s)
{
    return (size_t)s->y.h * (size_t)s->y.w * per_channel(&s->y);
}

enum ss_status ss_cost_tokens_forward(struct ss_device *d, const struct ss_tokens_shape *s,
                                      const void *x, const float *class_token,
                                      const float *positions, void *y)
{
    SS_COST_NOTE(d, SS_COST_K_TOKENS, SS_COST_R(x, ss_cost_bytes(d, &s->x)),
                 SS_COST_R(class_token, per_channel(&s->x)),
                 SS_COST_R(positions, position_bytes(s)), SS_COST_W(y, ss_cost_bytes(d, &s->y)));
    return SS_OK;
}

enum ss_status ss_cost_tokens_backward(struct ss_device *d, const struct ss_tokens_shape *s,
                                       const void *dy, void *dx, float *dclass_token,
                                       float *dpositions)
{
    const size_t bytes = ss_cost_bytes(d, &s->x);
    if (dx)
        SS_COST_NOTE(d, SS_COST_K_TOKENS, SS_COST_R(dy, bytes), SS_COST_W(dx, bytes));
    if (dclass_token || dpositions)
        SS_COST_NOTE(d, SS_COST_K_TOKENS,
                     SS_COST_R(dy, dpositions ? ss_cost_bytes(d, &s->y)
                                              : (size_t)s->x.n * (size_t)s->x.c * d->element),
                     SS_COST_W(dclass_token, per_channel(&s->x)),
                     SS_COST_W(dpositions, position_bytes(s)));
    return SS_OK;
}

enum ss_status ss_cost_token_forward(struct ss_device *d, const struct ss_act *x, int index,
                                     const void *in, void *y)
{
    const size_t bytes = (size_t)x->n * (size_t)x->c * d->element;
    (void)index;
    SS_COST_NOTE(d, SS_COST_K_TOKENS, SS_COST_R(in, bytes), SS_COST_W(y, bytes));
    return SS_OK;
}

enum ss_status ss_cost_token_backward(struct ss_device *d, const struct ss_act *x, int index,
                                      const void *dy, void *dx)
{
    (void)index;
    SS_COST_NOTE(d, SS_COST_K_TOKENS, SS_COST_R(dy, (size_t)x->n * (size_t)x->c * d->element),
                 SS_COST_W(dx, ss_cost_bytes(d, x)));
    return SS_OK;
}

/* ---- attention ---- */

struct ss_attention_kernel {
    struct ss_device *device;
    int loop, batch; /* as in cuda/attention.c */
    double s, d;
    size_t head, scores; /* per batch: bytes of q, k or v; number of scores */
    size_t saved;
};

enum ss_status ss_cost_attention_create(struct ss_device *device,
                                        const struct ss_attention_shape *shape, int training,
                                        struct ss_attention_kernel **out)
{
    const int images = shape->x.n < shape->heads, s = shape->x.h * shape->x.w;
    (void)training;
    struct ss_attention_kernel *a = calloc(1, sizeof *a);
    if (!a)
        return ss_fail_memory("attention", sizeof *a);
    a->device = device;
    a->loop = images ? shape->x.n : shape->heads;
    a->batch = images ? shape->heads : shape->x.n;
    a->s = s;
    a->d = (double)shape->y.c / shape->heads;
    a->head = ss_cost_bytes(device, &shape->y) / (size_t)a->loop;
    a->scores = (size_t)a->batch * (size_t)s * (size_t)s;
    a->saved = (size_t)a->batch * (size_t)s * sizeof(float);
    *out = a;
    return SS_OK;
}

void ss_cost_attention_destroy(struct ss_attention_kernel *a)
{
    free(a);
}

/* Record a product of one batch between tensors and the scores. Scores are written in fp32
 * (makes_scores) and read in the activations' format. */
static void product(struct ss_attention_kernel *a, const void *from, const void *other,
                    const void *made, int makes_scores)
{
    struct ss_device *d = a->device;
    const size_t each = makes_scores ? sizeof(float) : d->element;
    const void *scratch = ss_cost_scratch(d);
    const struct ss_cost_access scores = {scratch, a->scores * each,
                                          makes_scores ? SS_COST_WRITE : SS_COST_READ};
    SS_COST_NOTE(d, SS_COST_K_ATTENTION, SS_COST_R(from, a->head), SS_COST_R(other, a->head),
                 SS_COST_W(made, a->head), scores);
    ss_cost_product(d, 2 * a->batch * a->s * a->s * a->d, a->batch * a->s, a->s, a->d, 0);
}

enum ss_status ss_cost_attention_forward(struct ss_attention_kernel *a, const void *x, float *saved,
                                         void *y)
{
    struct ss_device *d = a->device;
    for (int i = 0; i < a->loop; i++) {
        product(a, x, x, NULL, 1);
        SS_COST_NOTE(d, SS_COST_K_SOFTMAX,
                     SS_COST_RW(ss_cost_scratch(d), a->scores * (sizeof(float) + d->element) / 2),
                     SS_COST_W(saved, a->saved));
        product(a, x, NULL, y, 0);
    }
    return SS_OK;
}

enum ss_status ss_cost_attention_backward(struct ss_attention_kernel *a, const void *x,
                                          const void *dy, const float *saved, void *dx)
{
    struct ss_device *d = a->device;
    for (int i = 0; i < a->loop; i++) {
        product(a, x, x, NULL, 1);
        product(a, x, dy, NULL, 1);
        SS_COST_NOTE(d, SS_COST_K_SOFTMAX,
                     SS_COST_RW(ss_cost_scratch(d), a->scores * (sizeof(float) + d->element)),
                     SS_COST_R(saved, a->saved));
        product(a, dy, NULL, dx, 0);
        product(a, x, NULL, dx, 0);
        product(a, x, NULL, dx, 0);
    }
    return SS_OK;
}
