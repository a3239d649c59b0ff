/* Matrix products by cuBLASLt, D = op(A) op(B), column-major: a row-major matrix (R,S) is a
 * column-major matrix (S,R) with leading dimension S, its transpose.
 *
 * Reproducible: partial sums of a split product are stored in fp32 and added in a second pass,
 * never in the order in which blocks end. */
#ifndef SS_KERNELS_CUDA_MATMUL_H
#define SS_KERNELS_CUDA_MATMUL_H

#include "kernels/cuda/internal.h"

/* All zero: not created. */
struct ss_matmul {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    uint32_t alignment;
};

/* op(A) is (m,k), op(B) (k,n), D (m,n); A and B of the device's dtype. */
struct ss_matmul_shape {
    int m, n, k;
    int transpose_a, transpose_b;
    int64_t lda, ldb, ldd; /* leading dimensions, in elements */
    cudaDataType_t d_type;
    int batch; /* number of products; the strides are in elements */
    int64_t stride_a, stride_b, stride_d;
    uint32_t alignment; /* of all addresses, in bytes: a power of two up to 16 */
};

cudaDataType_t ss_cuda_data_type(enum ss_dtype dtype);

/* Creates the descriptors. Call ss_matmul_destroy() also after an error. */
enum ss_status ss_matmul_describe(struct ss_device *gpu, struct ss_matmul *p,
                                  const struct ss_matmul_shape *shape);
enum ss_status ss_matmul_set(struct ss_matmul *p, cublasLtMatmulDescAttributes_t attribute,
                             const void *value, size_t bytes);
/* Chooses an algorithm and sets workspace_bytes. *found: whether cuBLASLt has an algorithm. */
enum ss_status ss_matmul_choose(struct ss_device *gpu, struct ss_matmul *p, int *found);
/* Runs the product. workspace: workspace_bytes, 256-byte aligned. */
enum ss_status ss_matmul_run(struct ss_device *gpu, const struct ss_matmul *p, const void *a,
                             const void *b, void *d, void *workspace);
void ss_matmul_destroy(struct ss_matmul *p);

#endif
