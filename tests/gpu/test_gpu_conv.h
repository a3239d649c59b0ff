/* What the tests of convolutions on a GPU share: a layer with its data and its reference. */
#ifndef SS_TESTS_TEST_GPU_CONV_H
#define SS_TESTS_TEST_GPU_CONV_H

#include "tests/gpu/test_gpu_kernels.h"

/* Operands (N,H,W,B), (Co,kh,kw,B), (N,P,Q,Co), padding zero, as numbers of the format; results in
 * double precision in the same layouts. */
struct conv_case {
    struct ss_conv_shape s;
    size_t nx, nw, ny, nb;
    float *x, *w, *dy, *bias;
    double *y, *dx, *dw, *dbias;
};
/* block 0: channels of the input are not padded. */
struct conv_case conv_case_make(enum ss_dtype dtype, int n, int ci, int block, int co, int h, int w,
                                int kernel, int stride, int pad, int bias);
/* The same of a shape, but for y's extents, which follow. */
struct conv_case conv_case_of(enum ss_dtype dtype, const struct ss_conv_shape *shape);

/* A layer made of the case, its operands and results on the device. */
struct conv_run {
    struct ss_device *gpu;
    struct ss_conv_kernel *conv;
    void *x, *w, *dy, *y, *dx;
    float *bias, *dw, *dbias;
};
struct conv_run conv_run_make(struct ss_device *gpu, const struct conv_case *c);
/* All three passes, into new arrays or those of the last time. */
void conv_run_all(struct conv_run *r, const struct conv_case *c);
void conv_run_again(struct conv_run *r);
/* Within bound; everything was written; padding is zero. dw of a 2-byte format went through it. */
void conv_run_compare(const struct conv_run *r, const struct conv_case *c, double bound);
void conv_run_destroy(struct conv_run *r);

/* Is the GPU the host emulation, whose algorithms are known? */
int conv_emulated(struct ss_device *gpu);

void gpu_conv_cache_tests(TCase *t); /* test_gpu_conv_cache.c */
void gpu_conv_sums_tests(TCase *t);  /* test_gpu_conv_sums.c */

#endif
