/* Definition of struct ss_device, for CUDA kernels only. C and CUDA C++. */
#ifndef SS_KERNELS_CUDA_INTERNAL_H
#define SS_KERNELS_CUDA_INTERNAL_H

#ifndef __cplusplus
#    pragma GCC diagnostic push /* the header declares a function without a prototype */
#    pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
#include <cublasLt.h>
#ifndef __cplusplus
#    pragma GCC diagnostic pop
#endif
#include <cuda_runtime.h>
#include <cudnn.h>
#include "kernels/cuda/gpu.h"
#include "core/log.h"

struct ss_device {
    struct ss_device_options options;
    cudaStream_t stream;
    cudaStream_t own_stream; /* used until ss_cuda_set_stream */
    cudnnHandle_t cudnn;
    cublasLtHandle_t cublaslt;
    struct ss_scaler *scaler; /* for non-finite gradients; NULL: none */
    int sms;                  /* multiprocessors */
    int capability;           /* 90 for compute capability 9.0 */
    int warm;                 /* clocks have risen: conv_tune.c */
    size_t l2_bytes;
    struct ss_scratch {
        void *data;
        size_t bytes;
    } scratch, update_scratch; /* the latter for updates, concurrent with the rest */
    unsigned *done; /* number of finished blocks of the running kernel; all 0 between kernels */
    size_t ndone;
    size_t used_bytes, device_bytes;
    char info[192];
};

/* As ss_cuda_reserve, for the scratch of updates. */
enum ss_status ss_cuda_reserve_update(struct ss_device *gpu, size_t bytes);
/* Provides at least n numbers at gpu->done, all 0. Call before step 1 as well (gpu.c). */
enum ss_status ss_cuda_reserve_done(struct ss_device *gpu, size_t n);

/* Returns an error if a call fails. It names the call, not file and line. */
#define SS_CUDA_TRY(call)                                                                          \
    do {                                                                                           \
        cudaError_t ss_cuda_ret_ = (call);                                                         \
        if (ss_cuda_ret_ != cudaSuccess)                                                           \
            return ss_fail(SS_ERR_LIBRARY, "CUDA: %s: %s", #call,                                  \
                           cudaGetErrorString(ss_cuda_ret_));                                      \
    } while (0)
#define SS_CUDNN_TRY(call)                                                                         \
    do {                                                                                           \
        cudnnStatus_t ss_cudnn_ret_ = (call);                                                      \
        if (ss_cudnn_ret_ != CUDNN_STATUS_SUCCESS)                                                 \
            return ss_fail(SS_ERR_LIBRARY, "cuDNN: %s: %s", #call,                                 \
                           cudnnGetErrorString(ss_cudnn_ret_));                                    \
    } while (0)
#define SS_CUBLASLT_TRY(call)                                                                      \
    do {                                                                                           \
        cublasStatus_t ss_cublas_ret_ = (call);                                                    \
        if (ss_cublas_ret_ != CUBLAS_STATUS_SUCCESS)                                               \
            return ss_fail(SS_ERR_LIBRARY, "cuBLASLt: %s: status %d", #call, (int)ss_cublas_ret_); \
    } while (0)

#endif
