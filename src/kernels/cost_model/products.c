/* products.c: cost model of convolutions and linear layers (cuda/conv.c, cuda/linear.c). */
#include "core/log.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cost_model/internal.h"

#include <stdlib.h>

struct ss_conv_kernel {
    struct ss_device *device;
    struct ss_conv_shape shape;
    size_t x, y, weights; /* bytes read of x, bytes of y; elements of the native weight */
    int inputs;           /* channels, including padding */
    double flop;
    struct ss_cpu_conv_work work; /* only with device->cpu */
};

struct ss_linear_kernel {
    struct ss_device *device;
    struct ss_act x, y;
    size_t weights;
};

/* Return the bytes of x that are read: a large stride skips the pixels between windows. */
static size_t touched_bytes(const struct ss_device *d, const struct ss_conv_shape *s)
{
    const size_t h = (size_t)(s->y.h * s->kernel[0]), w = (size_t)(s->y.w * s->kernel[1]);
    struct ss_act x = s->x;
    x.h = s->kernel[0] < s->stride[0] && h < (size_t)x.h ? (int)h : x.h;
    x.w = s->kernel[1] < s->stride[1] && w < (size_t)x.w ? (int)w : x.w;
    return ss_cost_bytes(d, &x);
}

enum ss_status ss_cost_conv_create(struct ss_device *d, const struct ss_conv_shape *s,
                                   enum ss_conv_algo algo, int training,
                                   struct ss_conv_kernel **out)
{
    (void)training;
    struct ss_conv_kernel *c = calloc(1, sizeof *c);
    if (!c)
        return ss_fail_memory("convolution", sizeof *c);
    c->device = d;
    c->shape = *s;
    c->x = touched_bytes(d, s);
    c->y = ss_cost_bytes(d, &s->y);
    c->inputs = ss_act_blocks(&s->x) * s->x.block;
    c->weights = (size_t)s->y.c * (size_t)ss_conv_taps(s) * (size_t)(c->inputs / s->groups);
    c->flop = 2.0 * s->y.n * s->y.c * s->y.h * s->y.w * ss_conv_taps(s) * ss_conv_inputs(s);
    if (d->cpu)
        c->work = ss_cpu_conv_work(s, d->dtype, algo);
    *out = c;
    return SS_OK;
}

void ss_cost_conv_destroy(struct ss_conv_kernel *c)
{
    free(c);
}

/* The tensors from which x is computed are counted as x. */
enum ss_status ss_cost_conv_source(struct ss_conv_kernel *c, const struct ss_norm_source *source)
{
    (void)c;
    (void)source;
    return SS_OK;
}

size_t ss_cost_conv_weight_bytes(const struct ss_conv_kernel *c)
{
    return c->weights * sizeof(float);
}

/* Set the operations of the last launch, as a matrix product (rows, k) x (k, cols). */
static void product(const struct ss_conv_kernel *c, double rows, double cols, double k)
{
    if (c->device->cpu)
        ss_cost_flop(c->device, c->flop, c->work.cost, c->work.pairs);
    else
        ss_cost_product(c->device, c->flop, rows, cols, k, 0);
}
static double pixels(const struct ss_act *a)
{
    return (double)a->n * a->h * a->w;
}
/* Return the number of terms of an output, or of an input's gradient. Groups narrower than a tile
 * are assumed to share one: at best, such a tile has no more work than any other. */
static double summed(const struct ss_conv_kernel *c, int channels)
{
    return (double)ss_conv_taps(&c->shape) * channels / c->shape.groups;
}

enum ss_status ss_cost_conv_forward(struct ss_conv_kernel *c, const void *x, const void *w,
                                    const float *bias, void *y)
{
    struct ss_device *d = c->device;
    const struct ss_conv_shape *s = &c->shape;
    SS_COST_NOTE(d, SS_COST_K_CONV_FORWARD, SS_COST_R(x, c->x),
                 SS_COST_R(w, c->weights * d->element), SS_COST_W(y, c->y));
    product(c, pixels(&s->y), s->y.c, summed(c, c->inputs));
    if (bias)
        ss_cost_bias_forward(d, &s->y, y, bias);
    return SS_OK;
}

enum ss_status ss_cost_conv_forward_add(struct ss_conv_kernel *c, const void *x, const void *w,
                                        const float *bias, const void *r, void *y)
{
    (void)bias; /* a few KB, not counted */
    struct ss_device *d = c->device;
    SS_COST_NOTE(d, SS_COST_K_CONV_FORWARD, SS_COST_R(x, c->x),
                 SS_COST_R(w, c->weights * d->element), SS_COST_R(r, c->y), SS_COST_W(y, c->y));
    product(c, pixels(&c->shape.y), c->shape.y.c, summed(c, c->inputs));
    return SS_OK;
}

int ss_cost_conv_has_sums(const struct ss_conv_kernel *c)
{
    return c->device->cpu ? c->work.sums : ss_gpu_conv_sums(&c->shape, c->device->dtype);
}

enum ss_status ss_cost_conv_forward_sums(struct ss_conv_kernel *c, const void *x, const void *w,
                                         const float *bias, void *y, float *sums)
{
    (void)bias; /* always NULL */
    struct ss_device *d = c->device;
    const struct ss_conv_shape *s = &c->shape;
    SS_COST_NOTE(d, SS_COST_K_CONV_FORWARD, SS_COST_R(x, c->x),
                 SS_COST_R(w, c->weights * d->element), SS_COST_W(y, c->y),
                 SS_COST_W(sums, 2 * (size_t)s->y.c * sizeof(float)));
    product(c, pixels(&s->y), s->y.c, summed(c, c->inputs));
    return SS_OK;
}

/* With a stride, the pixels of each phase are a separate product with its share of the taps; the
 * total is the same. */
enum ss_status ss_cost_conv_backward_data(struct ss_conv_kernel *c, const void *dy, const void *w,
                                          void *dx)
{
    struct ss_device *d = c->device;
    const struct ss_conv_shape *s = &c->shape;
    SS_COST_NOTE(d, SS_COST_K_CONV_DATA, SS_COST_R(dy, c->y), SS_COST_R(w, c->weights * d->element),
                 SS_COST_W(dx, ss_cost_bytes(d, &s->x)));
    product(c, pixels(&s->y), c->inputs, summed(c, s->y.c));
    return SS_OK;
}

/* In 2-byte formats cuDNN's gradient is cast to fp32. */
enum ss_status ss_cost_conv_backward_weights(struct ss_conv_kernel *c, const void *x,
                                             const void *dy, float *dweight, float *dbias)
{
    struct ss_device *d = c->device;
    const struct ss_conv_shape *s = &c->shape;
    const int narrow = d->element != sizeof(float);
    void *made = narrow ? ss_cost_scratch(d) : dweight;
    SS_COST_NOTE(d, SS_COST_K_CONV_WEIGHTS, SS_COST_R(x, c->x), SS_COST_R(dy, c->y),
                 SS_COST_W(made, c->weights * d->element));
    product(c, s->y.c, summed(c, c->inputs), pixels(&s->y));
    if (narrow)
        SS_COST_NOTE(d, SS_COST_K_UNCAST, SS_COST_R(made, c->weights * d->element),
                     SS_COST_W(dweight, c->weights * sizeof(float)));
    if (dbias)
        ss_cost_bias_backward(d, &s->y, dy, dbias);
    return SS_OK;
}

enum ss_status ss_cost_linear_create(struct ss_device *d, const struct ss_act *x, int outputs,
                                     int bias, int training, struct ss_linear_kernel **out)
{
    (void)bias;
    (void)training;
    struct ss_linear_kernel *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("linear layer", sizeof *l);
    l->device = d;
    l->x = *x;
    l->y = (struct ss_act){.n = x->n, .c = outputs, .h = 1, .w = 1, .block = outputs};
    l->weights = (size_t)outputs * (size_t)x->c * (size_t)x->h * (size_t)x->w;
    *out = l;
    return SS_OK;
}

void ss_cost_linear_destroy(struct ss_linear_kernel *l)
{
    free(l);
}

size_t ss_cost_linear_weight_bytes(const struct ss_linear_kernel *l)
{
    return l->weights * sizeof(float);
}

/* Record the product of a and b, which writes `made`. bias may be NULL. */
static void linear(struct ss_linear_kernel *l, struct ss_cost_access a, struct ss_cost_access b,
                   struct ss_cost_access made, const float *bias)
{
    const double n = l->x.n, k = l->y.c, f = (double)l->weights / k;
    SS_COST_NOTE(l->device, SS_COST_K_LINEAR, a, b, made,
                 SS_COST_R(bias, (size_t)l->y.c * l->device->element));
    ss_cost_product(l->device, 2 * n * k * f, n, k, f, ss_cpu_has_pairs(l->device->dtype));
}

/* The epilogue of the product adds the bias, in y's format. */
enum ss_status ss_cost_linear_forward(struct ss_linear_kernel *l, const void *x, const void *w,
                                      const float *bias, void *y)
{
    struct ss_device *d = l->device;
    const size_t k = (size_t)l->y.c;
    const float *added = bias;
    if (bias && d->element != sizeof(float)) {
        added = ss_cost_scratch(d);
        SS_COST_NOTE(d, SS_COST_K_CAST, SS_COST_R(bias, k * sizeof(float)),
                     SS_COST_W(added, k * d->element));
    }
    linear(l, (struct ss_cost_access)SS_COST_R(x, ss_cost_bytes(d, &l->x)),
           (struct ss_cost_access)SS_COST_R(w, l->weights * d->element),
           (struct ss_cost_access)SS_COST_W(y, ss_cost_bytes(d, &l->y)), added);
    return SS_OK;
}

enum ss_status ss_cost_linear_backward_data(struct ss_linear_kernel *l, const void *dy,
                                            const void *w, void *dx)
{
    struct ss_device *d = l->device;
    linear(l, (struct ss_cost_access)SS_COST_R(dy, ss_cost_bytes(d, &l->y)),
           (struct ss_cost_access)SS_COST_R(w, l->weights * d->element),
           (struct ss_cost_access)SS_COST_W(dx, ss_cost_bytes(d, &l->x)), NULL);
    return SS_OK;
}

enum ss_status ss_cost_linear_backward_weights(struct ss_linear_kernel *l, const void *x,
                                               const void *dy, float *dweight, float *dbias)
{
    struct ss_device *d = l->device;
    linear(l, (struct ss_cost_access)SS_COST_R(x, ss_cost_bytes(d, &l->x)),
           (struct ss_cost_access)SS_COST_R(dy, ss_cost_bytes(d, &l->y)),
           (struct ss_cost_access)SS_COST_W(dweight, l->weights * sizeof(float)), NULL);
    if (d->scaler)
        SS_TRY(ss_cost_scaler_check(d, l->weights, dweight, d->scaler));
    if (dbias)
        ss_cost_bias_backward(d, &l->y, dy, dbias);
    return SS_OK;
}
