/* oneDNN's convolutions. Weights and gradients are in a layout chosen by oneDNN; import converts
 * plain weights (Co,Ci/G,rows,columns) to it. */
#ifndef SS_KERNELS_CPU_CONV_DNNL_H
#define SS_KERNELS_CPU_CONV_DNNL_H

#include "kernels/cpu/internal.h"

enum ss_conv_pass {
    SS_CONV_FORWARD,
    SS_CONV_BACKWARD_DATA,
    SS_CONV_BACKWARD_WEIGHTS,
    SS_CONV_PASSES
};

struct ss_dnnl_conv;

/* bias, dbias may be NULL. Errors: SS_ERR_LIBRARY, SS_ERR_MEMORY. */
struct ss_conv_library {
    /* *out NULL: oneDNN has no code, or only reference code, for the forward pass or the weight
     * gradient. The data gradient may be missing. For a depthwise convolution only some passes
     * may exist; its weight is then in depthwise.c's layout. */
    enum ss_status (*create)(struct ss_device *cpu, const struct ss_conv_shape *s, int training,
                             struct ss_dnnl_conv **out);
    void (*destroy)(struct ss_dnnl_conv *c); /* c may be NULL */
    int (*has)(const struct ss_dnnl_conv *c, enum ss_conv_pass pass);
    /* Appends oneDNN's name of the implementation, such as "jit:avx512_core + weight reorder". */
    void (*describe)(const struct ss_dnnl_conv *c, enum ss_conv_pass pass, char *text, size_t size);
    size_t (*weight_bytes)(const struct ss_dnnl_conv *c);   /* 0: depthwise.c's layout */
    size_t (*export_scratch)(const struct ss_dnnl_conv *c); /* bytes that export needs */
    enum ss_status (*import)(struct ss_dnnl_conv *c, const float *plain, float *native);
    enum ss_status (*export)(struct ss_dnnl_conv *c, const float *native, float *plain);
    enum ss_status (*forward)(struct ss_dnnl_conv *c, const void *x, const void *w,
                              const float *bias, void *y);
    enum ss_status (*backward_data)(struct ss_dnnl_conv *c, const void *dy, const void *w,
                                    void *dx);
    enum ss_status (*backward_weights)(struct ss_dnnl_conv *c, const void *x, const void *dy,
                                       float *dw, float *dbias);
};

extern const struct ss_conv_library *const ss_conv_library; /* NULL: build without oneDNN */

#endif
