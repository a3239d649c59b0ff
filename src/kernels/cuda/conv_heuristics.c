/* conv_heuristics.c: the engine configurations that cuDNN proposes for a pass.
 *
 * Uses mode A, then FALLBACK, which has slow engines that always work. Mode B predicts better
 * than A, which is irrelevant when the candidates are timed, and is not thread-safe. */
#include "kernels/cuda/conv_graph.h"

#include <string.h>

enum { CONFIGURATIONS = SS_CONV_LISTED / 2 }; /* per mode; A lists about 40 */

static cudnnStatus_t read_knobs(desc config, desc knobs[SS_CONV_KNOBS], struct ss_conv_recipe *r)
{
    int64_t count = 0;
    for (int i = 0; i < SS_CONV_KNOBS; i++)
        TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[i]));
    TRY(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, SS_CONV_KNOBS, &r->nknobs, knobs));
    if (r->nknobs > SS_CONV_KNOBS)
        return CUDNN_STATUS_NOT_SUPPORTED;
    for (int64_t i = 0; i < r->nknobs; i++) {
        TRY(cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                     CUDNN_TYPE_KNOB_TYPE, 1, &count, &r->knobs[i].type));
        TRY(get_int(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &r->knobs[i].value));
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t read_config(desc config, struct ss_conv_recipe *r)
{
    desc engine = NULL, knobs[SS_CONV_KNOBS] = {NULL};
    int64_t count = 0;
    *r = (struct ss_conv_recipe){0};
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = get_int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &r->engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = read_knobs(config, knobs, r);
    for (int i = 0; i < SS_CONV_KNOBS; i++)
        drop(&knobs[i]);
    drop(&engine);
    return status;
}

static cudnnStatus_t ask_heuristics(const struct ss_conv_graph *g, cudnnBackendHeurMode_t mode,
                                    desc *heuristics, desc configs[CONFIGURATIONS], int64_t *count)
{
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, heuristics));
    TRY(set_desc(*heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph));
    TRY(set(*heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    TRY(cudnnBackendFinalize(*heuristics));
    for (int i = 0; i < CONFIGURATIONS; i++)
        TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]));
    return cudnnBackendGetAttribute(*heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGURATIONS, count, configs);
}

static int listed(const struct ss_conv_list *list, const char *choice)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->at[i].choice, choice) == 0)
            return 1;
    return 0;
}

static void append_config(desc config, struct ss_conv_list *list)
{
    struct ss_conv_recipe r;
    char *choice = list->at[list->count].choice;
    const cudnnStatus_t status = read_config(config, &r);
    if (status != CUDNN_STATUS_SUCCESS)
        ss_conv_refused(list, status);
    else
        list->count +=
            ss_conv_recipe_print(&r, choice, sizeof list->at[0].choice) && !listed(list, choice);
}

void ss_conv_graph_list(struct ss_conv_problem *p, enum ss_conv_pass pass,
                        struct ss_conv_list *list)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    for (size_t m = 0; p->graph[pass] && m < sizeof modes / sizeof modes[0]; m++) {
        desc heuristics = NULL, configs[CONFIGURATIONS] = {NULL};
        int64_t count = 0;
        const cudnnStatus_t status =
            ask_heuristics(p->graph[pass], modes[m], &heuristics, configs, &count);
        if (status != CUDNN_STATUS_SUCCESS)
            ss_conv_refused(list, status);
        else
            for (int64_t i = 0; i < count && i < CONFIGURATIONS && list->count < SS_CONV_LISTED;
                 i++)
                append_config(configs[i], list);
        for (int i = 0; i < CONFIGURATIONS; i++)
            drop(&configs[i]);
        drop(&heuristics);
    }
}
