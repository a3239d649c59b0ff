/* conv_shape.c: checks of a convolution's shape, for every device. */
#include "core/log.h"
#include "kernels/shapes.h"

#include <stdio.h>

const char *ss_conv_text(const struct ss_conv_shape *s, char *text, size_t capacity)
{
    snprintf(text, capacity,
             "(%d,%d,%d,%d) to %d channels, kernel %dx%d, stride %d,%d, padding %d,%d, dilation "
             "%d,%d, %d group%s",
             s->x.n, s->x.c, s->x.h, s->x.w, s->y.c, s->kernel[0], s->kernel[1], s->stride[0],
             s->stride[1], s->padding[0], s->padding[1], s->dilation[0], s->dilation[1], s->groups,
             s->groups == 1 ? "" : "s");
    return text;
}

/* Returns the output extent; 0: the window is invalid or does not fit. */
static int extent(const struct ss_conv_shape *s, int axis)
{
    const int64_t size = axis ? s->x.w : s->x.h, kernel = s->kernel[axis], stride = s->stride[axis],
                  padding = s->padding[axis], dilation = s->dilation[axis];
    if (kernel < 1 || stride < 1 || padding < 0 || dilation < 1)
        return 0;
    const int64_t last = size + 2 * padding - dilation * (kernel - 1) - 1;
    return last < 0 ? 0 : (int)(last / stride + 1);
}

enum ss_status ss_conv_check(const struct ss_conv_shape *s)
{
    char text[256];
    ss_conv_text(s, text, sizeof text);
    if (s->groups < 1 || s->x.c % s->groups || s->y.c % s->groups)
        return ss_fail(SS_ERR_SHAPE,
                       "convolution %s: both sides' channels must be multiples of the groups",
                       text);
    const int p = extent(s, 0), q = extent(s, 1);
    if (!p || !q)
        return ss_fail(SS_ERR_SHAPE, "convolution %s: the kernel does not fit into the input",
                       text);
    if (s->y.n != s->x.n || s->y.h != p || s->y.w != q)
        return ss_fail(SS_ERR_SHAPE,
                       "convolution %s: the output shape is (%d,%d,%d,%d), but must be "
                       "(%d,%d,%d,%d)",
                       text, s->y.n, s->y.c, s->y.h, s->y.w, s->x.n, s->y.c, p, q);
    return SS_OK;
}
