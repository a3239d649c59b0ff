/* dnnl_shim.c: wrappers of oneDNN's functions (contract in dnnl_shim.h). */
#include "kernels/cpu/dnnl_shim.h"

#include <stdlib.h>

const char *ss_dnnl_status_text(dnnl_status_t status)
{
    /* The other codes differ between versions. */
    static const struct {
        dnnl_status_t status;
        const char *text;
    } known[] = {{dnnl_success, "success"},
                 {dnnl_out_of_memory, "out of memory"},
                 {dnnl_invalid_arguments, "invalid arguments"},
                 {dnnl_unimplemented, "not implemented for these shapes and layouts"},
                 {dnnl_runtime_error, "runtime error"},
                 {dnnl_not_required, "not required"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status)
            return known[i].text;
    return "unknown error";
}

/* Define oneDNN's arrays of a window. */
#define WINDOW_ARRAYS(s)                                                                           \
    const dnnl_dims_t stride = {(s)->stride[0], (s)->stride[1]},                                   \
                      pad = {(s)->padding[0], (s)->padding[1]},                                    \
                      dilation = {(s)->dilation[0] - 1, (s)->dilation[1] - 1}

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t ss_md_create(ss_md *md, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(md, ndims, dims, dnnl_f32, tag);
}

dnnl_status_t ss_md_copy(ss_md *md, ss_md_in from)
{
    return dnnl_memory_desc_clone(md, from);
}

void ss_md_destroy(ss_md md)
{
    if (md)
        dnnl_memory_desc_destroy(md);
}

dnnl_status_t ss_dnnl_conv_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in x,
                               ss_md_in w, ss_md_in bias, ss_md_in y, const struct ss_conv_shape *s,
                               const_dnnl_primitive_attr_t attr)
{
    WINDOW_ARRAYS(s);
    return dnnl_convolution_forward_primitive_desc_create(pd, engine, dnnl_forward_training,
                                                          dnnl_convolution_direct, x, w, bias, y,
                                                          stride, dilation, pad, pad, attr);
}

dnnl_status_t ss_dnnl_conv_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in dx,
                                    ss_md_in w, ss_md_in dy, const struct ss_conv_shape *s,
                                    const_dnnl_primitive_desc_t fwd,
                                    const_dnnl_primitive_attr_t attr)
{
    WINDOW_ARRAYS(s);
    return dnnl_convolution_backward_data_primitive_desc_create(
        pd, engine, dnnl_convolution_direct, dx, w, dy, stride, dilation, pad, pad, fwd, attr);
}

dnnl_status_t ss_dnnl_conv_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in x,
                                       ss_md_in dw, ss_md_in dbias, ss_md_in dy,
                                       const struct ss_conv_shape *s,
                                       const_dnnl_primitive_desc_t fwd,
                                       const_dnnl_primitive_attr_t attr)
{
    WINDOW_ARRAYS(s);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        pd, engine, dnnl_convolution_direct, x, dw, dbias, dy, stride, dilation, pad, pad, fwd,
        attr);
}

#else /* version 2 */

dnnl_status_t ss_md_create(ss_md *md, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    ss_md made = malloc(sizeof *made);
    if (!made)
        return dnnl_out_of_memory;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(made, ndims, dims, dnnl_f32, tag);
    if (status == dnnl_success)
        *md = made;
    else
        free(made);
    return status;
}

dnnl_status_t ss_md_copy(ss_md *md, ss_md_in from)
{
    ss_md made = malloc(sizeof *made);
    if (!made)
        return dnnl_out_of_memory;
    *made = *from;
    *md = made;
    return dnnl_success;
}

void ss_md_destroy(ss_md md)
{
    free(md);
}

/* `init` fills `desc`, from which the primitive descriptor is created. */
#    define CREATE(desc, init, fwd)                                                                \
        do {                                                                                       \
            dnnl_status_t status_ = (init);                                                        \
            return status_ == dnnl_success                                                         \
                       ? dnnl_primitive_desc_create(pd, &(desc), attr, engine, fwd)                \
                       : status_;                                                                  \
        } while (0)

dnnl_status_t ss_dnnl_conv_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in x,
                               ss_md_in w, ss_md_in bias, ss_md_in y, const struct ss_conv_shape *s,
                               const_dnnl_primitive_attr_t attr)
{
    WINDOW_ARRAYS(s);
    dnnl_convolution_desc_t desc;
    CREATE(desc,
           dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_training,
                                                      dnnl_convolution_direct, x, w, bias, y,
                                                      stride, dilation, pad, pad),
           NULL);
}

dnnl_status_t ss_dnnl_conv_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in dx,
                                    ss_md_in w, ss_md_in dy, const struct ss_conv_shape *s,
                                    const_dnnl_primitive_desc_t fwd,
                                    const_dnnl_primitive_attr_t attr)
{
    WINDOW_ARRAYS(s);
    dnnl_convolution_desc_t desc;
    CREATE(desc,
           dnnl_dilated_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, dx, w,
                                                            dy, stride, dilation, pad, pad),
           fwd);
}

dnnl_status_t ss_dnnl_conv_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, ss_md_in x,
                                       ss_md_in dw, ss_md_in dbias, ss_md_in dy,
                                       const struct ss_conv_shape *s,
                                       const_dnnl_primitive_desc_t fwd,
                                       const_dnnl_primitive_attr_t attr)
{
    WINDOW_ARRAYS(s);
    dnnl_convolution_desc_t desc;
    CREATE(desc,
           dnnl_dilated_convolution_backward_weights_desc_init(
               &desc, dnnl_convolution_direct, x, dw, dbias, dy, stride, dilation, pad, pad),
           fwd);
}

#endif
