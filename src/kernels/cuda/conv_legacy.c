/* conv_legacy.c: convolution by cuDNN's numbered algorithms.
 *
 * Mathematics: 2-byte formats may use tensor cores, which multiply them exactly and add in fp32.
 * fp32 keeps to fused multiply-add, or with tf32 to CUDNN_DEFAULT_MATH, where tensor cores round
 * fp32 inputs to TF32 (CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION could even round them to fp16).
 *
 * Left out are algorithms that add in no fixed order and, for 2-byte formats, Winograd and FFT:
 * these transform the inputs and round the intermediate results to the format once more. */
#include "kernels/cuda/conv_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What cuDNN's three kinds of results have in common. */
struct ranked {
    int algorithm;
    cudnnStatus_t status;
    cudnnDeterminism_t determinism;
    size_t workspace;
};
enum { RESULTS = 32 }; /* every algorithm in every mathematics mode, and more */

static cudnnMathType_t math_type(const struct ss_device *gpu)
{
    if (gpu->options.dtype != SS_DTYPE_F32)
        return CUDNN_TENSOR_OP_MATH;
    return gpu->options.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

enum ss_status ss_conv_legacy_open(struct ss_conv_problem *p)
{
    const struct ss_conv_shape *s = &p->shape;
    const cudnnDataType_t t = ss_conv_data_type(p->gpu->options.dtype);
    const int ci = ss_conv_inputs(s);
    SS_CUDNN_TRY(cudnnCreateTensorDescriptor(&p->x));
    SS_CUDNN_TRY(cudnnCreateTensorDescriptor(&p->y));
    SS_CUDNN_TRY(cudnnCreateFilterDescriptor(&p->w));
    SS_CUDNN_TRY(cudnnCreateConvolutionDescriptor(&p->conv));
    SS_CUDNN_TRY(
        cudnnSetTensor4dDescriptor(p->x, CUDNN_TENSOR_NHWC, t, s->x.n, ci, s->x.h, s->x.w));
    SS_CUDNN_TRY(
        cudnnSetTensor4dDescriptor(p->y, CUDNN_TENSOR_NHWC, t, s->y.n, s->y.c, s->y.h, s->y.w));
    SS_CUDNN_TRY(cudnnSetFilter4dDescriptor(p->w, t, CUDNN_TENSOR_NHWC, s->y.c, ci, s->kh, s->kw));
    SS_CUDNN_TRY(cudnnSetConvolution2dDescriptor(p->conv, s->pad, s->pad, s->stride, s->stride, 1,
                                                 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    SS_CUDNN_TRY(cudnnSetConvolutionMathType(p->conv, math_type(p->gpu)));
    return SS_OK;
}

void ss_conv_legacy_close(struct ss_conv_problem *p)
{
    if (p->conv)
        cudnnDestroyConvolutionDescriptor(p->conv);
    if (p->w)
        cudnnDestroyFilterDescriptor(p->w);
    if (p->y)
        cudnnDestroyTensorDescriptor(p->y);
    if (p->x)
        cudnnDestroyTensorDescriptor(p->x);
}

/* The library's ranking of a pass. */
static cudnnStatus_t rank_forward(struct ss_conv_problem *p, struct ranked *out, int *count)
{
    cudnnConvolutionFwdAlgoPerf_t perf[RESULTS];
    const cudnnStatus_t status = cudnnGetConvolutionForwardAlgorithm_v7(
        p->gpu->cudnn, p->x, p->w, p->conv, p->y, RESULTS, count, perf);
    for (int i = 0; status == CUDNN_STATUS_SUCCESS && i < *count; i++)
        out[i] = (struct ranked){(int)perf[i].algo, perf[i].status, perf[i].determinism, 0};
    return status;
}

static cudnnStatus_t rank_backward_data(struct ss_conv_problem *p, struct ranked *out, int *count)
{
    cudnnConvolutionBwdDataAlgoPerf_t perf[RESULTS];
    const cudnnStatus_t status = cudnnGetConvolutionBackwardDataAlgorithm_v7(
        p->gpu->cudnn, p->w, p->y, p->conv, p->x, RESULTS, count, perf);
    for (int i = 0; status == CUDNN_STATUS_SUCCESS && i < *count; i++)
        out[i] = (struct ranked){(int)perf[i].algo, perf[i].status, perf[i].determinism, 0};
    return status;
}

static cudnnStatus_t rank_backward_filter(struct ss_conv_problem *p, struct ranked *out, int *count)
{
    cudnnConvolutionBwdFilterAlgoPerf_t perf[RESULTS];
    const cudnnStatus_t status = cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        p->gpu->cudnn, p->x, p->y, p->conv, p->w, RESULTS, count, perf);
    for (int i = 0; status == CUDNN_STATUS_SUCCESS && i < *count; i++)
        out[i] = (struct ranked){(int)perf[i].algo, perf[i].status, perf[i].determinism, 0};
    return status;
}

static cudnnStatus_t workspace_of(struct ss_conv_problem *p, enum ss_conv_pass pass, int algorithm,
                                  size_t *bytes)
{
    cudnnHandle_t h = p->gpu->cudnn;
    switch (pass) {
    case SS_CONV_FORWARD:
        return cudnnGetConvolutionForwardWorkspaceSize(h, p->x, p->w, p->conv, p->y,
                                                       (cudnnConvolutionFwdAlgo_t)algorithm, bytes);
    case SS_CONV_BACKWARD_DATA:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            h, p->w, p->y, p->conv, p->x, (cudnnConvolutionBwdDataAlgo_t)algorithm, bytes);
    case SS_CONV_BACKWARD_FILTER:
        break;
    }
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(
        h, p->x, p->y, p->conv, p->w, (cudnnConvolutionBwdFilterAlgo_t)algorithm, bytes);
}

static int transforms_inputs(enum ss_conv_pass pass, int algorithm)
{
    switch (pass) {
    case SS_CONV_FORWARD:
        return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT ||
               algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
               algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD ||
               algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    case SS_CONV_BACKWARD_DATA:
        return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT ||
               algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
               algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD ||
               algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
    case SS_CONV_BACKWARD_FILTER:
        break;
    }
    return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT ||
           algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING ||
           algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD ||
           algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

/* The acceptable ones, best first; an algorithm may come in several mathematics modes. */
static cudnnStatus_t rank(struct ss_conv_problem *p, enum ss_conv_pass pass, struct ranked *out,
                          int *kept)
{
    struct ranked all[RESULTS];
    int count = 0;
    const cudnnStatus_t status = pass == SS_CONV_FORWARD ? rank_forward(p, all, &count)
                                 : pass == SS_CONV_BACKWARD_DATA
                                     ? rank_backward_data(p, all, &count)
                                     : rank_backward_filter(p, all, &count);
    *kept = 0;
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    for (int i = 0; i < count; i++) {
        struct ranked *r = &all[i];
        int seen = 0;
        for (int j = 0; j < *kept; j++)
            seen |= out[j].algorithm == r->algorithm;
        if (seen || r->status != CUDNN_STATUS_SUCCESS || r->determinism != CUDNN_DETERMINISTIC)
            continue;
        if (p->gpu->options.dtype != SS_DTYPE_F32 && transforms_inputs(pass, r->algorithm))
            continue;
        if (workspace_of(p, pass, r->algorithm, &r->workspace) != CUDNN_STATUS_SUCCESS ||
            r->workspace > SS_CONV_WORKSPACE)
            continue;
        out[(*kept)++] = *r;
    }
    return CUDNN_STATUS_SUCCESS;
}

static void describe(const struct ranked *r, struct ss_conv_candidate *c)
{
    *c = (struct ss_conv_candidate){.workspace = r->workspace, .algorithm = r->algorithm};
    snprintf(c->choice, sizeof c->choice, "legacy:%d", r->algorithm);
}

void ss_conv_legacy_list(struct ss_conv_problem *p, enum ss_conv_pass pass,
                         struct ss_conv_list *list)
{
    struct ranked ranked[RESULTS];
    int count;
    const cudnnStatus_t status = rank(p, pass, ranked, &count);
    if (status != CUDNN_STATUS_SUCCESS)
        ss_conv_refused(list, status);
    for (int i = 0; i < count && list->count < SS_CONV_CANDIDATES; i++)
        describe(&ranked[i], &list->at[list->count++]);
}

int ss_conv_legacy_parse(struct ss_conv_problem *p, enum ss_conv_pass pass, const char *choice,
                         struct ss_conv_candidate *out)
{
    struct ranked ranked[RESULTS];
    int count;
    if (rank(p, pass, ranked, &count) != CUDNN_STATUS_SUCCESS)
        return 0;
    for (int i = 0; i < count; i++) {
        describe(&ranked[i], out);
        if (strcmp(out->choice, choice) == 0)
            return 1;
    }
    return 0;
}

cudnnStatus_t ss_conv_legacy_run(struct ss_conv_problem *p, enum ss_conv_pass pass, int algorithm,
                                 const struct ss_conv_arrays *a, void *workspace, size_t bytes)
{
    const float one = 1, zero = 0;
    cudnnHandle_t h = p->gpu->cudnn;
    switch (pass) {
    case SS_CONV_FORWARD:
        return cudnnConvolutionForward(h, &one, p->x, a->x, p->w, a->w, p->conv,
                                       (cudnnConvolutionFwdAlgo_t)algorithm, workspace, bytes,
                                       &zero, p->y, a->y);
    case SS_CONV_BACKWARD_DATA:
        return cudnnConvolutionBackwardData(h, &one, p->w, a->w, p->y, a->y, p->conv,
                                            (cudnnConvolutionBwdDataAlgo_t)algorithm, workspace,
                                            bytes, &zero, p->x, a->x);
    case SS_CONV_BACKWARD_FILTER:
        break;
    }
    return cudnnConvolutionBackwardFilter(h, &one, p->x, a->x, p->y, a->y, p->conv,
                                          (cudnnConvolutionBwdFilterAlgo_t)algorithm, workspace,
                                          bytes, &zero, p->w, a->w);
}
