/* Shared code of the GPU convolution tests: a layer, its data and its reference. */
#ifndef SS_TESTS_TEST_GPU_CONV_H
#define SS_TESTS_TEST_GPU_CONV_H

#include "tests/gpu/test_gpu_kernels.h"

/* Operands x (N,H,W,B), w (Co,kh,kw,B), dy (N,P,Q,Co), rounded to the format, padding channels
 * zero; results in double precision in the same layouts. */
struct conv_case {
    struct ss_conv_shape s;
    size_t nx, nw, ny, nb;
    float *x, *w, *dy, *bias;
    double *y, *dx, *dw, *dbias;
};
/* Makes a case with random operands. block 0: the channels of the input are not padded. */
struct conv_case conv_case_make(enum ss_dtype dtype, int n, int ci, int block, int co, int h, int w,
                                int kernel, int stride, int pad, int bias);
/* Makes a case from a shape. Computes the extents of y; only y.c is read. */
struct conv_case conv_case_of(enum ss_dtype dtype, const struct ss_conv_shape *shape);

/* The layer of a case, with its operands and results on the device. */
struct conv_run {
    struct ss_device *gpu;
    struct ss_conv_kernel *conv;
    void *x, *w, *dy, *y, *dx;
    float *bias, *dw, *dbias;
};
struct conv_run conv_run_make(struct ss_device *gpu, const struct conv_case *c);
/* Run all three passes, into new arrays or into those of the previous run. */
void conv_run_all(struct conv_run *r, const struct conv_case *c);
void conv_run_again(struct conv_run *r);
/* Fails unless the results are within `bound`, all elements were written and padding is zero.
 * With a 2-byte format, dw was rounded to it. */
void conv_run_compare(const struct conv_run *r, const struct conv_case *c, double bound);
void conv_run_destroy(struct conv_run *r);

/* Returns 1 if the GPU is the host emulation, whose algorithms are known. */
int conv_emulated(struct ss_device *gpu);

void gpu_conv_cache_tests(TCase *t); /* test_gpu_conv_cache.c */
void gpu_conv_sums_tests(TCase *t);  /* test_gpu_conv_sums.c */

#endif
