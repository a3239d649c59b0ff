/* What kernels of every device are told: shapes, layouts and the parameters of an operation.
 *
 * Letters: N images, C channels, H and W height and width, B channel block, CB = ceil(C/B) blocks.
 *
 * Activation layout. A tensor (N,C,H,W) is stored as (N,CB,H,W,B): NHWC when B = C (CUDA devices,
 * and CPUs without wide vectors), oneDNN's nChw16c and nChw8c with B = 16 and 8, plain NCHW when B
 * = 1. Channels C .. CB*B-1 are padding and always zero. One formula serves all: index(n,c,h,w) =
 * (((n*CB + c/B)*H + h)*W + w)*B + c%B
 *
 * A part of a tensor of P channels, from a multiple of B on (NHWC: of 16 bytes, as C and P), lies as that
 * does: its images are as far apart as those of P channels, its pixels in NHWC too. Kernels that take parts
 * are told P, the pitch; 0: no part. */
#ifndef SS_KERNELS_SHAPES_H
#define SS_KERNELS_SHAPES_H

#include "core/activation.h"
#include "core/dtype.h"
#include "core/status.h"
#include "kernels/any_device.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_INPUT_CHANNELS = 16 }; /* that a GPU's convert takes */
enum { SS_PUT_NUMBERS = 32 };    /* that one launch of a GPU's put_numbers carries; a warp */

/* Shape and layout of an activation. */
struct ss_act {
    int n, c, h, w;
    int block; /* B */
};
static inline int ss_act_blocks(const struct ss_act *a)
{
    return (a->c + a->block - 1) / a->block;
}
/* Elements from one image to the next, but for a part in NHWC. */
static inline size_t ss_act_image(const struct ss_act *a, int pitch)
{
    const int c = pitch ? pitch : a->c;
    return (size_t)((c + a->block - 1) / a->block * a->block) * (size_t)a->h * (size_t)a->w;
}
/* Elements before channel c, with which a part begins. */
static inline size_t ss_act_channel(const struct ss_act *a, int c)
{
    return (size_t)(c / a->block * a->block) * (size_t)a->h * (size_t)a->w + (size_t)(c % a->block);
}
/* A part of so many channels. */
static inline struct ss_act ss_act_view(const struct ss_act *a, int channels)
{
    struct ss_act part = *a;
    part.c = channels;
    part.block = a->block < a->c ? a->block : channels;
    return part;
}
/* Padding included. */
static inline size_t ss_act_elements(const struct ss_act *a)
{
    return (size_t)a->n * (size_t)ss_act_blocks(a) * (size_t)a->block * (size_t)a->h * (size_t)a->w;
}

/* 2-D convolution (cross-correlation, as PyTorch's Conv2d); G groups, each of Ci/G inputs and Co/G
 * outputs; s, p, d: stride, padding and dilation of rows and columns:
 *   y(n,k,p,q) = bias(k) + sum over c < Ci/G, i, j of w(k,c,i,j) *
 *       x(n, k / (Co/G) * Ci/G + c, p * s[0] - p[0] + i * d[0], q * s[1] - p[1] + j * d[1])
 * x (N,Ci,H,W), w (Co,Ci/G,kernel), y (N,Co,P,Q), P = (H + 2 p[0] - d[0] (kernel[0] - 1) - 1) / s[0] + 1,
 * likewise Q. */
struct ss_conv_shape {
    struct ss_act x, y;
    int kernel[2], stride[2], padding[2], dilation[2]; /* rows, columns */
    int groups;
    int bias; /* 0 or 1 */
    int sums; /* 1: BatchNorm follows in training, on a GPU in any order: conv_forward_sums is wanted */
    int makes_x; /* 1: x is not stored but made of z, see struct ss_norm_source; on a CPU */
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
/* Does everything but the layouts fit together? Errors: SS_ERR_SHAPE. */
enum ss_status ss_conv_check(const struct ss_conv_shape *s);
/* A layer's bias, or the gradient of it, is given iff it has one (check.c): SS_ERR_INVALID. what:
 * "convolution". */
enum ss_status ss_bias_check(const char *what, int has, const float *bias);
/* The shape in words, for messages, "(32,64,8,8) to 64 channels, kernel 3x3, ...". Returns text. */
const char *ss_conv_text(const struct ss_conv_shape *s, char *text, size_t room);

/* BatchNorm, an activation f, dropout, residual add and a ReLU:
 *   u = gamma * (z - mean) * invstd + beta        (has_bn; else u = z)
 *   v = f(u)                                    see activation.h
 *   d = dropout ? v * keep / (1 - p) : v          keep = 0 with probability p, see dropout.h
 *   s = residual ? d + r : d
 *   y = relu_out ? max(s, 0) : s
 * With pool > 0 then max pooling of y, kernel = stride = pool, no padding (enum ss_pool_kind): CUDA
 * only.
 * Training statistics are over N,H,W per channel, biased variance; running statistics take the
 * unbiased one, as PyTorch's BatchNorm2d: running = (1 - momentum) * running + momentum * batch.
 * Source: Ioffe and Szegedy 2015, eq. 1-4 and section 3; PyTorch BatchNorm2d's documentation. */
enum ss_shortcut { SS_SHORTCUT_NONE, SS_SHORTCUT_BIAS, SS_SHORTCUT_BN };
struct ss_norm_act {
    struct ss_act shape; /* of z */
    int z_pitch,
        y_pitch; /* of z and dz; of y, dy and ds, which is 0 with a residual, shortcut or pool */
    enum ss_activation act;
    float slope; /* LEAKY_RELU's */
    int has_bn, residual, relu_out;
    enum ss_shortcut shortcut; /* what is applied to r first, CUDA only: struct ss_norm_shortcut */
    int pool;
    float dropout; /* p in [0, 1); 0: none */
    enum ss_drop drop;
    float eps, momentum;
    int ranks; /* whose batches BN's statistics are over: N ranks images; 0, 1: this one's alone */
};
/* What a channel's statistics are over. */
static inline double ss_norm_values(const struct ss_norm_act *op)
{
    return (double)op->shape.n * op->shape.h * op->shape.w * (op->ranks > 1 ? op->ranks : 1);
}
enum { SS_NORM_MAX_DY = 4 }; /* contributions to one gradient */

struct ss_norm_act_grad {
    const void *dy[SS_NORM_MAX_DY]; /* contributions to the gradient of y; their sum is meant */
    int ndy;                        /* 1 .. SS_NORM_MAX_DY */
    /* The gradient of s = sum of dy, through the second ReLU: what the residual input gets. Written
     * when ndy > 1 or relu_out, may be dy[0]; else it must be dy[0] and is only read. */
    void *ds;
    const void *y; /* needed with relu_out only, where forward left no mask */
    /* With pooling: dy and y are of the pooled shape; the sum of dy, rounded to the dtype, goes to
     * each window's argmax, the rest of the window and uncovered rows and columns get 0. ds is of
     * z's shape then, never one of dy, and always written unless NULL. */
    const uint8_t *workspace; /* what norm_act_forward wrote there: argmax or mask */
    const void *z;            /* what forward read */
    void *dz; /* its gradient, which may take z's place, and must with pooling or a shortcut */
    int adds; /* dz is added to what is there, in a tensor of its own; on a GPU where it is a part */
    const float *gamma, *beta, *saved;
    float *dgamma, *dbeta; /* (C), overwritten; NULL without BN */
    const uint64_t *dropout_key; /* as in forward */
};

/* Who reads an activation that is not stored makes it: y of norm_act_forward with these arguments, without
 * residual, shortcut or pool, of z, which is no part. */
struct ss_norm_source {
    struct ss_norm_act op;
    const float *gamma, *beta, *saved; /* NULL without BN */
    const uint64_t *dropout_key;
    int training;
};

/* What becomes of the residual before it is added, with shortcut:
 *   BN    r = gamma * (z' - mean) * invstd + beta, where there is neither activation nor dropout
 *   BIAS  r = z' + beta, with no activation or ReLU
 * z' has z's shape, and op has BN and does not pool. */
struct ss_norm_shortcut {
    void *r;                         /* z'; backward, BN: out: its gradient. BIAS: that is ds */
    const float *gamma, *beta, *saved; /* saved (2,C); BIAS: beta alone */
    float *dgamma, *dbeta;           /* backward: overwritten */
};

/* Max and average pooling, as PyTorch's MaxPool2d, AvgPool2d and AdaptiveAvgPool2d.
 * x (N,C,H,W), y (N,C,P,Q) of equal block. With a kernel P = floor((H + 2 pad - kernel)/stride) + 1, or
 * with the ceiling instead of the floor, but for a last window that would begin behind the map and the
 * padding in front of it; likewise Q. A part of a window beyond the map is minus infinity for maxima. An
 * average is over the places in the map, or with count_pad over those in map and padding, which a
 * window may reach beyond where P is the ceiling.
 * ADAPTIVE, no kernel: window p begins at floor(p H / P) and ends before ceil((p + 1) H / P).
 * Rows and columns of x that no window covers (7x7 over 8x8) take no part and get gradient 0. Max
 * pooling backward gives the whole gradient to the first maximum of the window in row-major order. */
enum ss_pool_kind { SS_POOL_MAX, SS_POOL_AVG, SS_POOL_ADAPTIVE };
struct ss_pool_shape {
    enum ss_pool_kind kind;
    struct ss_act x, y;
    int kernel[2], stride[2], pad[2]; /* rows, columns */
    int count_pad;
};

/* What the windows of an axis (0: rows) are: those of ADAPTIVE, where they do not overlap, are an
 * average's. */
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
/* How far the last window of an axis reaches beyond map and padding; negative: what is left of them. */
static inline int ss_pool_beyond(const struct ss_pool_shape *s, int axis)
{
    const int in = axis ? s->x.w : s->x.h, out = axis ? s->y.w : s->y.h;
    return (out - 1) * s->stride[axis] + s->kernel[axis] - in - 2 * s->pad[axis];
}
/* Does y follow from x? The last window begins in map and padding, and no other would fit behind it. */
static inline int ss_pool_follows(const struct ss_pool_shape *s)
{
    if (s->y.n != s->x.n || s->y.c != s->x.c || s->y.block != s->x.block || s->y.h < 1 || s->y.w < 1)
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
/* Rows (columns) of x that window o covers: from *begin to before *end; returns how many count. */
SS_ANY_DEVICE static inline int ss_pool_window(const struct ss_pool_shape *s, int axis, int o, int *begin, int *end)
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


/* y made of channels of other tensors: concatenation, a slice, a shuffle, another layout, and their
 * gradients. For each part, and 0 <= c < count:
 *   y'(n, to + c, h, w) = x'(n, from + c, h, w)
 * where x' and y' are x and y in another order of channels, or in the same for groups = 1:
 *   x'(i) = x(s(i)) and y(i) = y'(s(i)), with s(i) = (i mod groups) * (C / groups) + i / groups
 * each with its own groups and C. That is channel_shuffle of Zhang, Zhou, Lin, Sun 2017, section 3.1, and
 * C / groups undoes it. All channels that no part gives are 0. Parts do not overlap. Layouts may differ; N,
 * H and W are equal. */
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
    int x_pitch, y_pitch; /* of all x, and y */
    int groups;           /* of y; 0: 1 */
};
/* Of n tensors as the kernels take them (check.c): SS_ERR_SHAPE, SS_ERR_INVALID. */
enum ss_status ss_gather_check(const struct ss_gather *op, int n);

/* y = x s, element by element, or one factor for each channel: of each image, or a parameter. */
enum ss_mul_kind { SS_MUL_EQUAL, SS_MUL_IMAGE, SS_MUL_PARAM };
struct ss_mul {
    enum ss_mul_kind kind;
    struct ss_act x; /* and of y, dx */
    struct ss_act s; /* EQUAL: as x; IMAGE: (N,C,1,1); PARAM: not used, s is (C) fp32 */
};
/* Of n tensors that are added up to dy: SS_ERR_SHAPE, SS_ERR_INVALID. */
enum ss_status ss_mul_check(const struct ss_mul *op, int n);
/* A sequence of vectors is a map of one column: C, H = S places, W = 1. From a map (N,C,H,W) come its
 * places in row-major order, with class_token one more in front:
 *   y(n,s) = (class_token and s = 0 ? class_token : x(n, s - class_token)) + positions(s)
 * x and y are of equal block, in NHWC both of C. Source: Dosovitskiy et al. 2020, eq. 1. */
struct ss_tokens_shape {
    struct ss_act x, y;
    int class_token, positions; /* 0 or 1 */
};

/* Scaled dot-product attention as PyTorch's scaled_dot_product_attention, without mask and dropout.
 * x (N,3E,H,W) holds q, k and v behind each other along channels, each of `heads` heads of D = E /
 * heads channels; of each image and head, over the S = H W places,
 *   y = softmax(q k^T / sqrt(D)) v        (S,D), heads side by side in y (N,E,H,W)
 * x and y are in equal blocks, or both NHWC. Source: Vaswani et al. 2017, eq. 1. */
struct ss_attention_shape {
    struct ss_act x, y;
    int heads;
};
/* SS_ERR_SHAPE where x, y and heads do not fit each other. */
enum ss_status ss_attention_check(const struct ss_attention_shape *s);

/* What a sample shows: a share of one class, the rest of another. Of one class alone: other = label,
 * share = 1. */
struct ss_label {
    int32_t label, other; /* 0 .. K-1; label -1: the sample does not count */
    float share;          /* of label, 0 .. 1 */
};
static inline struct ss_label ss_label_of(int32_t label)
{
    return (struct ss_label){label, label, 1};
}

enum { SS_TOP = 5 };

/* What steps are judged by; sums, so that ranks and batches add up. Of a sample of two classes the
 * one with the larger share is the right one. */
struct ss_metrics {
    double loss;    /* sum of per-sample losses */
    double correct; /* samples whose largest logit (the first of equals) is the label's */
    double count;   /* valid samples */
    double bad;     /* samples whose loss is not finite */
    double scale;   /* the step's loss scale; 1 where none is used (summed over ranks too) */
    double top5;    /* samples whose label is among the SS_TOP largest logits (of equals, the first
                       ones); none whose loss is NaN */
};

/* Dynamic loss scaling wholly on the device, as PyTorch's GradScaler (init_scale 65536,
 * growth_factor 2, backoff_factor 0.5, growth_interval 2000; torch.amp documentation and
 * _amp_update_scale_):
 *   found = any gradient is infinite or NaN
 *   found: the step's updates are left out, scale *= backoff, tracker = 0
 *   else:  tracker += 1; when it reaches interval: scale *= growth unless that is infinite,
 *          tracker = 0
 * Lives in the device's memory. */
struct ss_scaler {
    float scale;
    int found;   /* in this step so far */
    int tracker; /* steps since the last change */
    int skipped; /* steps left out since the start */
    float growth, backoff;
    int interval, unused;
};

/* GradScaler's defaults, for the host to copy to the device. */
static inline struct ss_scaler ss_scaler_defaults(void)
{
    struct ss_scaler s = {65536, 0, 0, 0, 2, 0.5f, 2000, 0};
    return s;
}

#endif
