/* graph.c: captures stream work as a CUDA graph. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "kernels/cuda/internal.h"

#include <stdlib.h>

struct ss_gpu_graph {
    cudaGraphExec_t exec;
};

/* The capture affects this thread only: other threads may allocate and wait. */
enum ss_status ss_cuda_capture_begin(struct ss_device *gpu, ss_stream stream)
{
    SS_CUDA_TRY(cudaSetDevice(gpu->options.device));
    SS_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    return SS_OK;
}

static enum ss_status refused(struct ss_device *gpu, const char *call, cudaError_t error)
{
    cudaGetLastError(); /* else the next launch reports it */
    return ss_fail(SS_ERR_UNSUPPORTED, "GPU %d: cannot capture these tasks as a CUDA graph: %s: %s",
                   gpu->options.device, call, cudaGetErrorString(error));
}

/* Instantiates and uploads the graph, so that its first launch is as fast as the others. */
static enum ss_status instantiate(struct ss_device *gpu, ss_stream stream, cudaGraph_t graph,
                                  cudaGraphExec_t *exec)
{
    cudaError_t error = cudaGraphInstantiate(exec, graph, 0);
    if (error != cudaSuccess)
        return refused(gpu, "cudaGraphInstantiate", error);
    error = cudaGraphUpload(*exec, stream);
    if (error == cudaSuccess)
        return SS_OK;
    cudaGraphExecDestroy(*exec);
    return refused(gpu, "cudaGraphUpload", error);
}

enum ss_status ss_cuda_capture_end(struct ss_device *gpu, ss_stream stream,
                                   struct ss_gpu_graph **out)
{
    cudaGraph_t captured = NULL;
    *out = NULL;
    const cudaError_t error = cudaStreamEndCapture(stream, &captured);
    if (error != cudaSuccess)
        return refused(gpu, "cudaStreamEndCapture", error);
    struct ss_gpu_graph *graph = malloc(sizeof *graph);
    enum ss_status status = graph ? instantiate(gpu, stream, captured, &graph->exec)
                                  : ss_fail_memory("a CUDA graph", sizeof *graph);
    cudaGraphDestroy(captured);
    if (status == SS_OK)
        *out = graph;
    else
        free(graph);
    return status;
}

enum ss_status ss_cuda_graph_launch(struct ss_gpu_graph *graph, ss_stream stream)
{
    SS_CUDA_TRY(cudaGraphLaunch(graph->exec, stream));
    return SS_OK;
}

void ss_cuda_graph_destroy(struct ss_gpu_graph *graph)
{
    if (!graph)
        return;
    cudaGraphExecDestroy(graph->exec);
    free(graph);
}
