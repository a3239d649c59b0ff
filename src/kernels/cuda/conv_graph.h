/* Internals of the convolutions' use of cuDNN's graph API: descriptors and their attributes.
 *
 * A pass is described as a graph of one operation, or of two with the sums of the result. A graph
 * can be computed by several engines, each with knobs. An engine with values of its knobs is a
 * configuration, from which an execution plan is made (conv_graph.c). cuDNN's heuristics list
 * configurations, best first (conv_heuristics.c). A configuration is stored as numbers or text,
 * and plans are always made from those, so that choices from the cache file and from the
 * heuristics use the same code. */
#ifndef SS_KERNELS_CUDA_CONV_GRAPH_H
#define SS_KERNELS_CUDA_CONV_GRAPH_H

#include "kernels/cuda/conv_internal.h"

/* Returns the status of a failed call; the caller counts it as a refusal. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        const cudnnStatus_t try_status_ = (call);                                                  \
        if (try_status_ != CUDNN_STATUS_SUCCESS)                                                   \
            return try_status_;                                                                    \
    } while (0)

typedef cudnnBackendDescriptor_t desc;

enum { SS_CONV_KNOBS = CUDNN_KNOB_TYPE_COUNTS };

struct ss_conv_graph {
    desc x, w, y, conv, operation, graph;
    desc sum, squares, statistics; /* of y, for SS_CONV_FORWARD_SUMS */
};

/* An engine and values of its knobs. */
struct ss_conv_recipe {
    int64_t engine, nknobs;
    struct {
        cudnnBackendKnobType_t type;
        int64_t value;
    } knobs[SS_CONV_KNOBS];
};

static inline void drop(desc *d)
{
    if (*d)
        cudnnBackendDestroyDescriptor(*d);
    *d = NULL;
}

static inline cudnnStatus_t set(desc d, cudnnBackendAttributeName_t name,
                                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    return cudnnBackendSetAttribute(d, name, type, count, values);
}

static inline cudnnStatus_t set_int(desc d, cudnnBackendAttributeName_t name, int64_t value)
{
    return set(d, name, CUDNN_TYPE_INT64, 1, &value);
}

static inline cudnnStatus_t set_desc(desc d, cudnnBackendAttributeName_t name, desc value)
{
    return set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static inline cudnnStatus_t get_int(desc d, cudnnBackendAttributeName_t name, int64_t *value)
{
    int64_t count = 0;
    return cudnnBackendGetAttribute(d, name, CUDNN_TYPE_INT64, 1, &count, value);
}

/* Sets *compiles if the engine compiles its kernels when a plan is finalized. `engine` is
 * finalized. */
static inline cudnnStatus_t ss_conv_engine_compiles(desc engine, int *compiles)
{
    cudnnBackendBehaviorNote_t notes[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t count = 0;
    TRY(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                 CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &count, notes));
    *compiles = 0;
    for (int64_t i = 0; i < count && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
        *compiles |= notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    return CUDNN_STATUS_SUCCESS;
}

/* Prints "graph:ENGINE:KNOB=VALUE,...". Returns 0 if it does not fit. */
int ss_conv_recipe_print(const struct ss_conv_recipe *r, char *out, size_t capacity);

#endif
