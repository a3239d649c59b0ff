/* test_cudnn_plans.c: checks that the real cuDNN accepts the graphs, plans and variant packs of
 * convolutions. No GPU is needed (described_gpu.h). */
#include "tests/gpu/described_gpu.h"

#include "tests/run_suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layers of WideResNet-28-10 and ResNet-50, and shapes with odd sizes. */
static const struct layer {
    int n, ci, padded, co, size, kernel, stride, pad;
} layers[] = {
    {128, 3, 1, 16, 32, 3, 1, 1},    {128, 16, 0, 160, 32, 3, 1, 1},
    {128, 160, 0, 320, 32, 3, 2, 1}, {128, 160, 0, 320, 32, 1, 2, 0},
    {128, 640, 0, 640, 8, 3, 1, 1},  {64, 3, 1, 64, 224, 7, 2, 3},
    {64, 64, 0, 256, 56, 1, 1, 0},   {8, 15, 0, 33, 17, 3, 2, 1},
    {3, 5, 0, 7, 9, 3, 1, 0},        {1, 1, 0, 1, 1, 1, 1, 0},
};
enum { NLAYERS = sizeof layers / sizeof layers[0] };

static struct ss_conv_shape shape_of(const struct layer *l, enum ss_dtype dtype)
{
    const int block = l->padded ? ss_gpu_input_block(dtype) : l->ci;
    const int out = (l->size + 2 * l->pad - l->kernel) / l->stride + 1;
    return (struct ss_conv_shape){.x = {l->n, l->ci, l->size, l->size, block},
                                  .y = {l->n, l->co, out, out, l->co},
                                  .kernel = {l->kernel, l->kernel},
                                  .stride = {l->stride, l->stride},
                                  .padding = {l->pad, l->pad},
                                  .dilation = {1, 1},
                                  .groups = 1};
}

/* Checks that a plan can be made again from its text and has the same workspace, and that its
 * variant pack is accepted, also with other arrays. */
static void check_candidate(struct ss_conv_problem *p, enum ss_conv_pass pass,
                            struct ss_conv_list *list, const struct ss_conv_candidate *c)
{
    struct ss_conv_candidate again = {.workspace = 0};
    strcpy(again.choice, c->choice);
    ck_assert_msg(ss_conv_candidate_make(p, pass, list, &again), "%s is not accepted again",
                  c->choice);
    ck_assert_uint_eq(again.workspace, c->workspace);
    ck_assert_uint_le(c->workspace, ss_conv_workspace_most(&p->shape, p->gpu->options.dtype));
    /* Addresses that are never dereferenced. */
    static _Alignas(256) char memory[5 * 256];
    struct ss_conv_arrays arrays = {memory, memory + 256, memory + 512, NULL};
    described_executions = 0;
    for (int i = 0; i < 3; i++) {
        arrays.y = memory + (i < 2 ? 512 : 768);
        ck_assert_int_eq(
            ss_conv_plan_run(p->gpu, again.plan, &arrays, c->workspace ? memory + 1024 : NULL),
            CUDNN_STATUS_SUCCESS);
    }
    ck_assert_int_eq(described_executions, 3);
    ss_conv_plan_destroy(again.plan);
}

static void check_pass(struct ss_conv_problem *p, enum ss_conv_pass pass)
{
    struct ss_conv_list *list = calloc(1, sizeof *list);
    ck_assert_ptr_nonnull(list);
    ck_assert_int_eq(ss_conv_graph_open(p, pass, list), SS_OK);
    ck_assert_ptr_nonnull(p->graph[pass]);
    ss_conv_graph_list(p, pass, list);
    for (int i = 0; i < list->count; i++)
        if (ss_conv_candidate_make(p, pass, list, &list->at[i])) {
            check_candidate(p, pass, list, &list->at[i]);
            ss_conv_candidate_destroy(&list->at[i]);
        }
    ck_assert_msg(list->refused == 0, "pass %d: %d refused, the last: %s", pass, list->refused,
                  list->message);
    /* At least two acceptable plans exist in every format. */
    ck_assert_int_ge(list->made, 2);
    free(list);
}

START_TEST(plans)
{
    const int tf32 = _i == 3;
    struct ss_device gpu = {
        .options = {.dtype = tf32 ? SS_DTYPE_F32 : (enum ss_dtype)_i, .tf32 = tf32}};
    for (int i = 0; i < NLAYERS; i++) {
        struct ss_conv_problem p = {.gpu = &gpu, .shape = shape_of(&layers[i], gpu.options.dtype)};
        for (int pass = 0; pass < SS_CONV_PASSES; pass++)
            check_pass(&p, (enum ss_conv_pass)pass);
        ss_conv_graph_close(&p);
    }
}
END_TEST

/* Returns the number of plans that can be made for the weight gradient. */
static int count_plans(int nondeterministic)
{
    struct ss_device gpu = {
        .options = {.dtype = SS_DTYPE_F32, .nondeterministic = nondeterministic}};
    struct ss_conv_problem p = {.gpu = &gpu, .shape = shape_of(&layers[1], SS_DTYPE_F32)};
    struct ss_conv_list *list = calloc(1, sizeof *list);
    ck_assert_ptr_nonnull(list);
    ck_assert_int_eq(ss_conv_graph_open(&p, SS_CONV_BACKWARD_FILTER, list), SS_OK);
    ss_conv_graph_list(&p, SS_CONV_BACKWARD_FILTER, list);
    for (int i = 0; i < list->count; i++)
        if (ss_conv_candidate_make(&p, SS_CONV_BACKWARD_FILTER, list, &list->at[i]))
            ss_conv_candidate_destroy(&list->at[i]);
    const int made = list->made;
    ss_conv_graph_close(&p);
    free(list);
    return made;
}

/* fp32 has engines whose order of summation varies; they are used only on request. */
START_TEST(nondeterministic)
{
    ck_assert_int_gt(count_plans(1), count_plans(0));
}
END_TEST

/* A text that is malformed or does not match the problem is refused without a fatal error. */
START_TEST(refusals)
{
    struct ss_device gpu = {.options = {.dtype = SS_DTYPE_F16}};
    struct ss_conv_problem p = {.gpu = &gpu, .shape = shape_of(&layers[1], SS_DTYPE_F16)};
    struct ss_conv_list list = {.count = 0};
    struct ss_conv_candidate c;
    ck_assert_int_eq(ss_conv_graph_open(&p, SS_CONV_FORWARD, &list), SS_OK);
    static const char *const texts[] = {
        "graph:-1:", "graph:99999:", "graph:0:999=1", "graph:62:2=100000", "graph:62", "legacy:1",
        ""};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        strcpy(c.choice, texts[i]);
        ck_assert_msg(!ss_conv_candidate_make(&p, SS_CONV_FORWARD, &list, &c), "%s is accepted",
                      texts[i]);
    }
    ss_conv_graph_close(&p);
}
END_TEST

int main(void)
{
    if (!describe_gpu("h200"))
        return 77;
    Suite *suite = suite_create("cuDNN plans");
    TCase *t = tcase_create("plans");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, plans, 0, 4);
    tcase_add_test(t, nondeterministic);
    tcase_add_test(t, refusals);
    suite_add_tcase(suite, t);
    return run_suite_here(suite);
}
