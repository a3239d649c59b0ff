/* conv_graph.c: convolutions by the engines of cuDNN's graph API (backend descriptors).
 *
 * Numerical notes describe the results of an engine. These are excluded: sums in no fixed order,
 * unless allowed, or in less than fp32; fp32 inputs rounded to 2-byte formats, or to TF32 (as
 * tensor cores do) unless allowed; Winograd and FFT for 2-byte formats, which transform the
 * inputs and round the intermediate results once more.
 *
 * Behavior notes describe how an engine works. Engines that compile their kernels with NVRTC when
 * a plan is finalized are excluded unless allowed: they cost 0.7 s of CPU time per plan in every
 * process. */
#include "kernels/cuda/conv_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UID_X = 1, UID_W, UID_Y, UID_SUM, UID_SQUARES }; /* unique ids of the tensors */

struct ss_conv_plan {
    desc engine, knobs[SS_CONV_KNOBS], config, plan;
    /* The arrays and the workspace of the last run, also as a descriptor. */
    desc pack;
    struct ss_conv_arrays arrays;
    void *workspace;
    int64_t channels; /* of y */
};

/* Sizes are (N,C,H,W) or (K,C,kh,kw) for every layout; the strides make C the innermost
 * dimension. */
static cudnnStatus_t make_tensor(int64_t uid, cudnnDataType_t type, const int size[4], desc *out)
{
    const int64_t n = size[0], c = size[1], h = size[2], w = size[3];
    const int64_t sizes[4] = {n, c, h, w}, strides[4] = {h * w * c, 1, w * c, c};
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, out));
    TRY(set(*out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    TRY(set(*out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes));
    TRY(set(*out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides));
    TRY(set_int(*out, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid));
    TRY(set_int(*out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16));
    return cudnnBackendFinalize(*out);
}

static cudnnStatus_t make_conv(const struct ss_conv_shape *s, desc *out)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t pads[2] = {s->padding[0], s->padding[1]},
                  strides[2] = {s->stride[0], s->stride[1]},
                  dilations[2] = {s->dilation[0], s->dilation[1]};
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    TRY(set_int(*out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations));
    return cudnnBackendFinalize(*out);
}

static const struct operation {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, conv, alpha, beta;
} operations[] = {
    [SS_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [SS_CONV_BACKWARD_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [SS_CONV_BACKWARD_FILTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnStatus_t make_operation(struct ss_conv_graph *g, const struct operation *o)
{
    const float one = 1, zero = 0; /* result = one * convolution + zero * old result */
    TRY(cudnnBackendCreateDescriptor(o->type, &g->operation));
    TRY(set_desc(g->operation, o->x, g->x));
    TRY(set_desc(g->operation, o->w, g->w));
    TRY(set_desc(g->operation, o->y, g->y));
    TRY(set_desc(g->operation, o->conv, g->conv));
    TRY(set(g->operation, o->alpha, CUDNN_TYPE_FLOAT, 1, &one));
    TRY(set(g->operation, o->beta, CUDNN_TYPE_FLOAT, 1, &zero));
    return cudnnBackendFinalize(g->operation);
}

/* Makes the statistics: per channel, the sums of y and of its square. */
static cudnnStatus_t make_statistics(struct ss_conv_graph *g, int channels)
{
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const int size[4] = {1, channels, 1, 1};
    TRY(make_tensor(UID_SUM, compute, size, &g->sum));
    TRY(make_tensor(UID_SQUARES, compute, size, &g->squares));
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, &g->statistics));
    TRY(set(g->statistics, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode));
    TRY(set(g->statistics, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
            &compute));
    TRY(set_desc(g->statistics, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, g->y));
    TRY(set_desc(g->statistics, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, g->sum));
    TRY(set_desc(g->statistics, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, g->squares));
    return cudnnBackendFinalize(g->statistics);
}

static cudnnStatus_t make_graph(struct ss_conv_problem *p, enum ss_conv_pass pass,
                                struct ss_conv_graph *g)
{
    const struct ss_conv_shape *s = &p->shape;
    const cudnnDataType_t type = ss_conv_data_type(p->gpu->options.dtype);
    /* cuDNN derives the number of groups from the channels of x and of the weight. */
    const int x[4] = {s->x.n, s->x.block, s->x.h, s->x.w},
              w[4] = {s->y.c, ss_conv_width(s), s->kernel[0], s->kernel[1]},
              y[4] = {s->y.n, s->y.c, s->y.h, s->y.w};
    TRY(make_tensor(UID_X, type, x, &g->x));
    TRY(make_tensor(UID_W, type, w, &g->w));
    TRY(make_tensor(UID_Y, type, y, &g->y));
    TRY(make_conv(s, &g->conv));
    const int sums = pass == SS_CONV_FORWARD_SUMS;
    TRY(make_operation(g, &operations[sums ? SS_CONV_FORWARD : pass]));
    if (sums)
        TRY(make_statistics(g, s->y.c));
    const desc all[2] = {g->operation, g->statistics};
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &g->graph));
    TRY(set(g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &p->gpu->cudnn));
    TRY(set(g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, sums ? 2 : 1,
            all));
    return cudnnBackendFinalize(g->graph);
}

static void drop_graph(struct ss_conv_graph *g)
{
    desc *const all[] = {&g->graph, &g->statistics, &g->squares, &g->sum, &g->operation,
                         &g->conv,  &g->y,          &g->w,       &g->x};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        drop(all[i]);
    free(g);
}

enum ss_status ss_conv_graph_open(struct ss_conv_problem *p, enum ss_conv_pass pass,
                                  struct ss_conv_list *list)
{
    struct ss_conv_graph *g = calloc(1, sizeof *g);
    if (!g)
        return ss_fail_memory("a convolution's graph", sizeof *g);
    const cudnnStatus_t status = make_graph(p, pass, g);
    if (status == CUDNN_STATUS_SUCCESS) {
        p->graph[pass] = g;
        return SS_OK;
    }
    ss_conv_refused(list, status);
    drop_graph(g);
    return SS_OK;
}

void ss_conv_graph_close(struct ss_conv_problem *p)
{
    for (int i = 0; i < SS_CONV_ALL_PASSES; i++)
        if (p->graph[i])
            drop_graph(p->graph[i]);
}

/* Engines with notes of later versions, which are unknown here, are excluded. */
static int acceptable(const struct ss_device *gpu, cudnnBackendNumericalNote_t note)
{
    const int fp32 = gpu->options.dtype == SS_DTYPE_F32;
#if CUDNN_VERSION >= 90100
    if (note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
        return 1;
#endif
    if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
        return !fp32 || gpu->options.tf32;
    if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
        return gpu->options.nondeterministic;
    /* Excluded: REDUCED_PRECISION_REDUCTION, DOWN_CONVERT_INPUTS, 13x13 tiles. */
    return fp32 && (note == CUDNN_NUMERICAL_NOTE_FFT || note == CUDNN_NUMERICAL_NOTE_WINOGRAD ||
                    note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
                    note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6);
}

/* Sets *accepted if the engine's results and behavior are acceptable. `engine` is finalized. */
static cudnnStatus_t check_engine(const struct ss_device *gpu, desc engine, int *accepted)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    int compiles;
    TRY(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                 notes));
    TRY(ss_conv_engine_compiles(engine, &compiles));
    *accepted = !compiles || gpu->options.runtime_compilation;
    for (int64_t i = 0; i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
        *accepted &= acceptable(gpu, notes[i]);
    return CUDNN_STATUS_SUCCESS;
}

int ss_conv_recipe_print(const struct ss_conv_recipe *r, char *out, size_t capacity)
{
    int n = snprintf(out, capacity, "graph:%lld:", (long long)r->engine);
    for (int64_t i = 0; i < r->nknobs && n < (int)capacity; i++)
        n += snprintf(out + n, capacity - (size_t)n, "%s%d=%lld", i ? "," : "",
                      (int)r->knobs[i].type, (long long)r->knobs[i].value);
    return n < (int)capacity;
}

/* Parses the output of ss_conv_recipe_print, strictly: the parsed recipe must print as the same
 * text. */
static int scan_recipe(const char *text, struct ss_conv_recipe *r)
{
    long long engine, value;
    int type, n = 0;
    *r = (struct ss_conv_recipe){0};
    if (sscanf(text, "graph:%18lld:%n", &engine, &n) != 1 || n == 0)
        return 0;
    r->engine = engine;
    for (const char *at = text + n; *at && r->nknobs < SS_CONV_KNOBS; at += n + (at[n] == ',')) {
        n = 0;
        if (sscanf(at, "%9d=%18lld%n", &type, &value, &n) != 2 || n == 0)
            return 0;
        r->knobs[r->nknobs].type = (cudnnBackendKnobType_t)type;
        r->knobs[r->nknobs++].value = value;
    }
    char back[SS_CONV_CHOICE];
    return ss_conv_recipe_print(r, back, sizeof back) && strcmp(back, text) == 0;
}

static cudnnStatus_t make_engine(const struct ss_conv_graph *g, int64_t engine, desc *out)
{
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, out));
    TRY(set_desc(*out, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g->graph));
    TRY(set_int(*out, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine));
    return cudnnBackendFinalize(*out);
}

static cudnnStatus_t make_config(const struct ss_conv_recipe *r, struct ss_conv_plan *plan)
{
    for (int64_t i = 0; i < r->nknobs; i++) {
        desc *knob = &plan->knobs[i];
        TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, knob));
        TRY(set(*knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                &r->knobs[i].type));
        TRY(set_int(*knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, r->knobs[i].value));
        TRY(cudnnBackendFinalize(*knob));
    }
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &plan->config));
    TRY(set_desc(plan->config, CUDNN_ATTR_ENGINECFG_ENGINE, plan->engine));
    if (r->nknobs > 0)
        TRY(set(plan->config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                r->nknobs, plan->knobs));
    return cudnnBackendFinalize(plan->config);
}

/* Makes the plan only if the engine is acceptable, because finalizing a plan may compile its
 * kernels. */
static cudnnStatus_t make_plan(const struct ss_device *gpu, const struct ss_conv_graph *g,
                               const struct ss_conv_recipe *r, struct ss_conv_plan *plan,
                               int64_t *workspace, int *accepted)
{
    TRY(make_engine(g, r->engine, &plan->engine));
    TRY(check_engine(gpu, plan->engine, accepted));
    if (!*accepted)
        return CUDNN_STATUS_SUCCESS;
    TRY(make_config(r, plan));
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->plan));
    TRY(set(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &gpu->cudnn));
    TRY(set_desc(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, plan->config));
    TRY(cudnnBackendFinalize(plan->plan));
    return get_int(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, workspace);
}

int ss_conv_candidate_make(struct ss_conv_problem *p, enum ss_conv_pass pass,
                           struct ss_conv_list *list, struct ss_conv_candidate *c)
{
    struct ss_conv_recipe r;
    int64_t workspace = 0;
    int usable = 0;
    if (!p->graph[pass] || !scan_recipe(c->choice, &r))
        return 0;
    struct ss_conv_plan *plan = calloc(1, sizeof *plan);
    const cudnnStatus_t status =
        plan ? make_plan(p->gpu, p->graph[pass], &r, plan, &workspace, &usable)
             : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    if (status != CUDNN_STATUS_SUCCESS)
        ss_conv_refused(list, status);
    usable &= status == CUDNN_STATUS_SUCCESS && workspace >= 0 &&
              (size_t)workspace <= ss_conv_workspace_most(&p->shape, p->gpu->options.dtype);
    if (!usable) {
        ss_conv_plan_destroy(plan);
        return 0;
    }
    plan->channels = p->shape.y.c;
    c->workspace = (size_t)workspace;
    c->plan = plan;
    list->made++;
    return 1;
}

static cudnnStatus_t make_pack(const struct ss_conv_plan *plan, desc *pack)
{
    const int64_t uids[] = {UID_X, UID_W, UID_Y, UID_SUM, UID_SQUARES};
    float *const sums = plan->arrays.sums;
    void *const arrays[] = {plan->arrays.x, plan->arrays.w, plan->arrays.y, sums,
                            sums ? sums + plan->channels : NULL};
    const int64_t n = sums ? 5 : 3;
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack));
    TRY(set(*pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uids));
    TRY(set(*pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, arrays));
    TRY(set(*pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &plan->workspace));
    return cudnnBackendFinalize(*pack);
}

cudnnStatus_t ss_conv_plan_run(struct ss_device *gpu, struct ss_conv_plan *plan,
                               const struct ss_conv_arrays *arrays, void *workspace)
{
    /* A layer uses the same arrays in every step, so the pack is made once. */
    if (!plan->pack || plan->workspace != workspace || plan->arrays.x != arrays->x ||
        plan->arrays.w != arrays->w || plan->arrays.y != arrays->y ||
        plan->arrays.sums != arrays->sums) {
        drop(&plan->pack);
        plan->arrays = *arrays;
        plan->workspace = workspace;
        desc pack = NULL;
        const cudnnStatus_t status = make_pack(plan, &pack);
        if (status != CUDNN_STATUS_SUCCESS) {
            drop(&pack);
            return status;
        }
        plan->pack = pack;
    }
    return cudnnBackendExecute(gpu->cudnn, plan->plan, plan->pack);
}

void ss_conv_plan_destroy(struct ss_conv_plan *plan)
{
    if (!plan)
        return;
    drop(&plan->pack);
    drop(&plan->plan);
    drop(&plan->config);
    for (int i = 0; i < SS_CONV_KNOBS; i++)
        drop(&plan->knobs[i]);
    drop(&plan->engine);
    free(plan);
}
