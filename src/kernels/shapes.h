/* Parameters of the kernels of every device: shapes, layouts and options of operations.
 *
 * Letters: N images, C channels, H and W height and width, B channel block, CB = ceil(C/B)
 * blocks.
 *
 * Activation layout. A tensor (N,C,H,W) is stored as (N,CB,H,W,B): NHWC if B = C (CUDA devices,
 * and CPUs without wide vectors), oneDNN's nChw16c and nChw8c with B = 16 and 8, plain NCHW if B
 * = 1. Channels C .. CB*B-1 are padding and always zero. One formula for all: index(n,c,h,w) =
 * (((n*CB + c/B)*H + h)*W + w)*B + c%B
 *
 * A view of some channels of a tensor of P channels starts at a multiple of B (NHWC: of 16 bytes,
 * as do C and P). It has the strides of that tensor: between images, and in NHWC between pixels.
 * Kernels that support views take P as the pitch; 0: no view. */
#ifndef SS_KERNELS_SHAPES_H
#define SS_KERNELS_SHAPES_H

#include "core/activation.h"
#include "core/dtype.h"
#include "core/status.h"
#include "kernels/any_device.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_INPUT_CHANNELS = 16 }; /* limit of a GPU's convert */
enum { SS_PUT_NUMBERS = 32 };    /* per launch of a GPU's put_numbers; a warp */

/* Shape and layout of an activation. */
struct ss_act {
    int n, c, h, w;
    int block; /* B */
};
static inline int ss_act_blocks(const struct ss_act *a)
{
    return (a->c + a->block - 1) / a->block;
}
/* Elements from one image to the next, except for a view in NHWC. */
static inline size_t ss_act_image(const struct ss_act *a, int pitch)
{
    const int c = pitch ? pitch : a->c;
    return (size_t)((c + a->block - 1) / a->block * a->block) * (size_t)a->h * (size_t)a->w;
}
/* Elements before channel c, at which a view starts. */
static inline size_t ss_act_channel(const struct ss_act *a, int c)
{
    return (size_t)(c / a->block * a->block) * (size_t)a->h * (size_t)a->w + (size_t)(c % a->block);
}
/* A view of this many channels. */
static inline struct ss_act ss_act_view(const struct ss_act *a, int channels)
{
    struct ss_act part = *a;
    part.c = channels;
    part.block = a->block < a->c ? a->block : channels;
    return part;
}
/* Number of elements, including padding. */
static inline size_t ss_act_elements(const struct ss_act *a)
{
    return (size_t)a->n * (size_t)ss_act_blocks(a) * (size_t)a->block * (size_t)a->h * (size_t)a->w;
}

/* 2-D convolution (cross-correlation, as PyTorch's Conv2d); G groups, each of Ci/G inputs and
 * Co/G outputs; s, p, d: stride, padding and dilation of rows and columns:
 *   y(n,k,p,q) = bias(k) + sum over c < Ci/G, i, j of w(k,c,i,j) *
 *       x(n, k / (Co/G) * Ci/G + c, p * s[0] - p[0] + i * d[0], q * s[1] - p[1] + j * d[1])
 * x (N,Ci,H,W), w (Co,Ci/G,kernel), y (N,Co,P,Q), P = (H + 2 p[0] - d[0] (kernel[0] - 1) - 1) /
 * s[0] + 1, likewise Q. */
struct ss_conv_shape {
    struct ss_act x, y;
    int kernel[2], stride[2], padding[2], dilation[2]; /* rows, columns */
    int groups;
    int bias; /* 0 or 1 */
    int sums; /* 1: BatchNorm follows in training: use conv_forward_sums; on a GPU, order varies */
    int makes_x; /* 1: x is computed from z, see struct ss_norm_source; on a CPU */
};
/* Channels of one group. */
static inline int ss_conv_inputs(const struct ss_conv_shape *s)
{
    return s->x.c / s->groups;
}
static inline int ss_conv_outputs(const struct ss_conv_shape *s)
{
    return s->y.c / s->groups;
}
static inline int ss_conv_taps(const struct ss_conv_shape *s)
{
    return s->kernel[0] * s->kernel[1];
}
/* Checks the shape, except for the layouts. Errors: SS_ERR_SHAPE. */
enum ss_status ss_conv_check(const struct ss_conv_shape *s);
/* Checks that a bias, or its gradient, is passed iff the layer has one (check.c). Errors:
 * SS_ERR_INVALID. what: "convolution". */
enum ss_status ss_bias_check(const char *what, int has, const float *bias);
/* Writes the shape as text for messages, "(32,64,8,8) to 64 channels, kernel 3x3, ...". Returns
 * text. */
const char *ss_conv_text(const struct ss_conv_shape *s, char *text, size_t capacity);

/* BatchNorm, an activation f, dropout, residual add and a ReLU:
 *   u = gamma * (z - mean) * invstd + beta        (has_bn; else u = z)
 *   v = f(u)                                      see activation.h
 *   d = dropout ? v * keep / (1 - p) : v          keep = 0 with probability p, see dropout.h
 *   s = residual ? d + r : d
 *   y = relu_out ? max(s, 0) : s
 * With pool > 0, followed by max pooling of y, kernel = stride = pool, no padding (enum
 * ss_pool_kind): CUDA only. Training statistics are over N,H,W per channel, with biased variance;
 * running statistics use the unbiased one, as PyTorch's BatchNorm2d: running = (1 - momentum) *
 * running + momentum * batch. Source: Ioffe and Szegedy 2015, eq. 1-4 and section 3; PyTorch
 * BatchNorm2d's documentation. */
enum ss_shortcut { SS_SHORTCUT_NONE, SS_SHORTCUT_BIAS, SS_SHORTCUT_BN };
struct ss_norm_act {
    struct ss_act shape;  /* of z */
    int z_pitch, y_pitch; /* of z and dz; of y, dy and ds: 0 with a residual, shortcut or pool */
    enum ss_activation act;
    float slope; /* LEAKY_RELU's */
    int has_bn, residual, relu_out;
    enum ss_shortcut shortcut; /* applied to r first, CUDA only: struct ss_norm_shortcut */
    int pool;
    float dropout; /* p in [0, 1); 0: none */
    enum ss_drop drop;
    float eps, momentum;
    int ranks; /* over which BN statistics are computed: N ranks images; 0, 1: this rank */
};
/* Number of values in a channel's statistics. */
static inline double ss_norm_values(const struct ss_norm_act *op)
{
    return (double)op->shape.n * op->shape.h * op->shape.w * (op->ranks > 1 ? op->ranks : 1);
}
enum { SS_NORM_MAX_DY = 4 }; /* contributions to one gradient */

struct ss_norm_act_grad {
    const void *dy[SS_NORM_MAX_DY]; /* contributions to the gradient of y, to be summed */
    int ndy;                        /* 1 .. SS_NORM_MAX_DY */
    /* The gradient of s = sum of dy, through the second ReLU: the gradient of the residual input.
     * Written if ndy > 1 or relu_out, and may be dy[0] then; else it must be dy[0] and is only
     * read. */
    void *ds;
    const void *y; /* needed only with relu_out if forward wrote no mask */
    /* With pooling: dy and y have the pooled shape; the sum of dy, rounded to the dtype, goes to
     * each window's argmax; the rest of the window and uncovered rows and columns get 0. ds has
     * z's shape then, must differ from all dy, and is always written unless NULL. */
    const uint8_t *workspace; /* written by norm_act_forward: argmax or mask */
    const void *z;            /* input of forward */
    void *dz;                 /* gradient of z; may be z, and must be with pooling or a shortcut */
    int adds; /* 1: adds dz to its old value, in a separate tensor; on a GPU only in a view */
    const float *gamma, *beta, *saved;
    float *dgamma, *dbeta;       /* (C), overwritten; NULL without BN */
    const uint64_t *dropout_key; /* as in forward */
};

/* Source of an activation that is not stored: the reader computes it as y of norm_act_forward
 * with these arguments, without residual, shortcut or pool, from z, which is not a view. */
struct ss_norm_source {
    struct ss_norm_act op;
    const float *gamma, *beta, *saved; /* NULL without BN */
    const uint64_t *dropout_key;
    int training;
};

/* The operation on the residual before it is added, with shortcut:
 *   BN    r = gamma * (z' - mean) * invstd + beta, with neither activation nor dropout
 *   BIAS  r = z' + beta, with no activation or ReLU
 * z' has z's shape; op has BN and does not pool. */
struct ss_norm_shortcut {
    void *r;                           /* z'; backward, BN: becomes its gradient (BIAS: ds) */
    const float *gamma, *beta, *saved; /* saved (2,C); BIAS: beta only */
    float *dgamma, *dbeta;             /* backward: overwritten */
};

/* Max and average pooling, as PyTorch's MaxPool2d, AvgPool2d and AdaptiveAvgPool2d.
 * x (N,C,H,W), y (N,C,P,Q) of equal block. With a kernel, P = floor((H + 2 pad - kernel)/stride)
 * + 1, or with ceil instead of floor, except for a last window that would start past the map and
 * its leading padding; likewise Q. Positions of a window outside the map are minus infinity for
 * maxima. An average is over the positions in the map, or with count_pad over those in map and
 * padding; with ceil a window may extend past the padding.
 * ADAPTIVE, no kernel: window p is [floor(p H / P), ceil((p + 1) H / P)).
 * Rows and columns of x that no window covers (7x7 over 8x8) are unused and get gradient 0. Max
 * pooling backward gives the whole gradient to the first maximum of the window in row-major
 * order. */
enum ss_pool_kind { SS_POOL_MAX, SS_POOL_AVG, SS_POOL_ADAPTIVE };
struct ss_pool_shape {
    enum ss_pool_kind kind;
    struct ss_act x, y;
    int kernel[2], stride[2], pad[2]; /* rows, columns */
    int count_pad;
};

/* Converts ADAPTIVE pooling without overlapping windows to average pooling. */
static inline struct ss_pool_shape ss_pool_simplest(struct ss_pool_shape s)
{
    if (s.kind != SS_POOL_ADAPTIVE || s.y.h < 1 || s.y.w < 1 || s.x.h % s.y.h || s.x.w % s.y.w)
        return s;
    s.kind = SS_POOL_AVG;
    s.kernel[0] = s.stride[0] = s.x.h / s.y.h;
    s.kernel[1] = s.stride[1] = s.x.w / s.y.w;
    s.pad[0] = s.pad[1] = 0;
    return s;
}
/* Returns how far the last window of an axis (0: rows) extends past map and padding; negative:
 * the uncovered rest. */
static inline int ss_pool_beyond(const struct ss_pool_shape *s, int axis)
{
    const int in = axis ? s->x.w : s->x.h, out = axis ? s->y.w : s->y.h;
    return (out - 1) * s->stride[axis] + s->kernel[axis] - in - 2 * s->pad[axis];
}
/* Returns whether y matches x: the last window starts in map and padding, and no further window
 * fits. */
static inline int ss_pool_follows(const struct ss_pool_shape *s)
{
    if (s->y.n != s->x.n || s->y.c != s->x.c || s->y.block != s->x.block || s->y.h < 1 ||
        s->y.w < 1)
        return 0;
    for (int a = 0; a < 2 && s->kind != SS_POOL_ADAPTIVE; a++) {
        const int in = a ? s->x.w : s->x.h, out = a ? s->y.w : s->y.h, k = s->kernel[a],
                  step = s->stride[a], pad = s->pad[a];
        if (k < 1 || step < 1 || pad < 0 || pad > k / 2 || ss_pool_beyond(s, a) <= -step ||
            ss_pool_beyond(s, a) >= step || (out - 1) * step >= in + pad)
            return 0;
    }
    return 1;
}
/* Sets the rows (columns) [*begin, *end) of x that window o covers; returns the divisor of an
 * average. */
SS_ANY_DEVICE static inline int ss_pool_window(const struct ss_pool_shape *s, int axis, int o,
                                               int *begin, int *end)
{
    const int in = axis ? s->x.w : s->x.h, out = axis ? s->y.w : s->y.h, pad = s->pad[axis];
    if (s->kind == SS_POOL_ADAPTIVE) {
        *begin = (int)((int64_t)o * in / out);
        *end = (int)(((int64_t)(o + 1) * in + out - 1) / out);
        return *end - *begin;
    }
    const int first = o * s->stride[axis] - pad, behind = first + s->kernel[axis];
    *begin = first < 0 ? 0 : first;
    *end = behind > in ? in : behind;
    return s->count_pad ? (behind > in + pad ? in + pad : behind) - first : *end - *begin;
}

/* Makes y from channels of other tensors: concatenation, a slice, a shuffle, another layout, and
 * their gradients. For each part, and 0 <= c < count:
 *   y'(n, to + c, h, w) = x'(n, from + c, h, w)
 * where x' and y' are x and y with permuted channels, or unchanged for groups = 1:
 *   x'(i) = x(s(i)) and y(i) = y'(s(i)), with s(i) = (i mod groups) * (C / groups) + i / groups
 * each with its own groups and C. This is channel_shuffle of Zhang, Zhou, Lin, Sun 2017, section
 * 3.1, and C / groups inverts it. Channels that no part provides are 0. Parts do not overlap.
 * Layouts may differ; N, H and W are equal. */
enum { SS_GATHER_PARTS = 4 };
struct ss_gather_part {
    struct ss_act x;
    int from, to, count, groups; /* groups: of x */
};
SS_ANY_DEVICE static inline int ss_shuffled(int i, int channels, int groups)
{
    return groups > 1 ? i % groups * (channels / groups) + i / groups : i;
}
struct ss_gather {
    struct ss_act y;
    int nparts; /* 1 .. SS_GATHER_PARTS */
    struct ss_gather_part part[SS_GATHER_PARTS];
    int x_pitch, y_pitch; /* of all x, and of y */
    int groups;           /* of y; 0: 1 */
};
/* Checks the operation for n tensors (check.c). Errors: SS_ERR_SHAPE, SS_ERR_INVALID. */
enum ss_status ss_gather_check(const struct ss_gather *op, int n);

/* y = x s, elementwise, or with one factor per channel: of each image, or a parameter. */
enum ss_mul_kind { SS_MUL_EQUAL, SS_MUL_IMAGE, SS_MUL_PARAM };
struct ss_mul {
    enum ss_mul_kind kind;
    struct ss_act x; /* and of y, dx */
    struct ss_act s; /* EQUAL: as x; IMAGE: (N,C,1,1); PARAM: not used, s is (C) fp32 */
};
/* Checks the operation for n tensors whose sum is dy. Errors: SS_ERR_SHAPE, SS_ERR_INVALID. */
enum ss_status ss_mul_check(const struct ss_mul *op, int n);
/* A sequence of vectors is a map of one column: C, H = S tokens, W = 1. The tokens are the pixels
 * of a map (N,C,H,W) in row-major order, preceded by class_token if any:
 *   y(n,s) = (class_token and s = 0 ? class_token : x(n, s - class_token)) + positions(s)
 * x and y have equal block, in NHWC both C. Source: Dosovitskiy et al. 2020, eq. 1. */
struct ss_tokens_shape {
    struct ss_act x, y;
    int class_token, positions; /* 0 or 1 */
};

/* Scaled dot-product attention as PyTorch's scaled_dot_product_attention, without mask and
 * dropout. x (N,3E,H,W) holds q, k and v consecutively along channels, each of `heads` heads of D
 * = E / heads channels. For each image and head, over the S = H W pixels,
 *   y = softmax(q k^T / sqrt(D)) v        (S,D), heads side by side in y (N,E,H,W)
 * x and y have equal blocks, or are both NHWC. Source: Vaswani et al. 2017, eq. 1. */
struct ss_attention_shape {
    struct ss_act x, y;
    int heads;
};
/* Errors: SS_ERR_SHAPE if x, y and heads do not match. */
enum ss_status ss_attention_check(const struct ss_attention_shape *s);

/* The target of a sample: a share of one class, the rest of another. For a single class: other =
 * label, share = 1. */
struct ss_label {
    int32_t label, other; /* 0 .. K-1; label -1: the sample does not count */
    float share;          /* of label, 0 .. 1 */
};
static inline struct ss_label ss_label_of(int32_t label)
{
    return (struct ss_label){label, label, 1};
}

enum { SS_TOP = 5 };

/* Metrics of steps; sums, so that they can be added over ranks and batches. For a sample of two
 * classes, the one with the larger share is correct. */
struct ss_metrics {
    double loss;    /* sum of per-sample losses */
    double correct; /* samples whose largest logit (the first of equal ones) is the label's */
    double count;   /* valid samples */
    double bad;     /* samples whose loss is not finite */
    double scale;   /* the step's loss scale; 1 if unused (summed over ranks too) */
    double top5;    /* samples whose label is among the SS_TOP largest logits (of equals, the first
                       ones); not if the loss is NaN */
};

/* Dynamic loss scaling entirely on the device, as PyTorch's GradScaler (init_scale 65536,
 * growth_factor 2, backoff_factor 0.5, growth_interval 2000; torch.amp documentation and
 * _amp_update_scale_):
 *   found = any gradient is infinite or NaN
 *   found: the step's updates are skipped, scale *= backoff, tracker = 0
 *   else:  tracker += 1; when it reaches interval: scale *= growth unless that is infinite,
 *          tracker = 0
 * Stored in the device's memory. */
struct ss_scaler {
    float scale;
    int found;   /* in this step so far */
    int tracker; /* steps since the last change */
    int skipped; /* steps skipped since the start */
    float growth, backoff;
    int interval, unused;
};

/* Returns GradScaler's defaults, for the host to copy to the device. */
static inline struct ss_scaler ss_scaler_defaults(void)
{
    struct ss_scaler s = {65536, 0, 0, 0, 2, 0.5f, 2000, 0};
    return s;
}

#endif
