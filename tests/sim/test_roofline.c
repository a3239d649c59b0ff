/* test_roofline.c: predicted step times of GPUs and of this CPU. ss_roofline_predict itself
 * checks bytes against the plan's accesses. These tests check that every layer kind passes, that
 * tasks and cost lines sum to the step, and that two models are within bounds predicted by
 * hand. */
#include "codelets/op.h"
#include "core/log.h"
#include "graphs/models.h"
#include "kernels/cpu/cpu.h"
#include "sim/roofline.h"
#include "tests/golden.h"
#include "tests/graph/test_graphs.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct ss_plan *lower_as(const struct ss_graph *g, int batch, enum ss_dtype dtype,
                                int nondeterministic)
{
    const struct ss_plan_options options = {.batch = batch,
                                            .bucket_mb = 10,
                                            .first_bucket_mb = 1,
                                            .slices = 1,
                                            .states = 1,
                                            .dtype = dtype,
                                            .device = 1,
                                            .input_block = ss_gpu_input_block(dtype),
                                            .nondeterministic = nondeterministic,
                                            .loss_scaling = dtype == SS_DTYPE_F16};
    struct ss_plan *plan;
    ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
    return plan;
}

static struct ss_plan *lower(const struct ss_graph *g, int batch, enum ss_dtype dtype)
{
    return lower_as(g, batch, dtype, 0);
}

static const struct ss_machine *machine(const char *name)
{
    const struct ss_machine *m;
    ck_assert_int_eq(ss_machine_find(name, &m), SS_OK);
    return m;
}

static void near(double a, double b)
{
    ck_assert_msg(fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)), "%g and %g", a, b);
}

static void is_sum(const struct ss_roofline_work *part, int n, const struct ss_roofline_work *whole)
{
    struct ss_roofline_work sum = {0};
    for (int i = 0; i < n; i++) {
        sum.launches += part[i].launches;
        sum.read += part[i].read;
        sum.written += part[i].written;
        sum.flop += part[i].flop;
        sum.seconds += part[i].seconds;
    }
    ck_assert_int_eq(sum.launches, whole->launches);
    near(sum.read, whole->read);
    near(sum.written, whole->written);
    near(sum.flop, whole->flop);
    near(sum.seconds, whole->seconds);
}

static void adds_up(const struct ss_roofline *r)
{
    is_sum(r->task, r->plan->train.count, &r->step);
    is_sum(r->line, SS_COST_LINES, &r->step);
    for (int i = 0; i < r->plan->train.count; i++)
        is_sum(r->part[i], SS_COST_LINES, &r->task[i]);
    ck_assert(r->floor > 0 && r->step.seconds > r->floor);
}

/* Every layer kind, in every format. */
START_TEST(small_models)
{
    const enum ss_dtype dtypes[] = {SS_DTYPE_F32, SS_DTYPE_F16, SS_DTYPE_BF16};
    struct ss_graph *g = make_test_graph(_i);
    for (int k = 0; k < 3; k++) {
        struct ss_plan *plan = lower(g, 32, dtypes[k]);
        struct ss_roofline r;
        ck_assert_int_eq(ss_roofline_predict(plan, machine("a100"), 0, &r), SS_OK);
        adds_up(&r);
        for (int i = 0; i < plan->train.count; i++) {
            const struct ss_plan_task *t = &plan->train.task[i];
            const int makes = t->kind == SS_TASK_FORWARD ||
                              (t->kind == SS_TASK_BACKWARD &&
                               (t->role[SS_ROLE_DX] >= 0 || t->role[SS_ROLE_GRADS] >= 0));
            ck_assert(!makes || r.task[i].launches > 0);
        }
        ss_roofline_close(&r);
        ss_plan_destroy(plan);
    }
    ss_graph_destroy(g);
}
END_TEST

static void print_costs(const struct ss_plan *plan, const char *dtype, FILE *f)
{
    struct ss_roofline r;
    ck_assert_int_eq(ss_roofline_predict(plan, machine("h200"), 0, &r), SS_OK);
    fprintf(f, "%s %s:\n", ss_graph_name(plan->graph), dtype);
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_roofline_work *w = &r.task[i];
        fprintf(f, "%4d: %2d launches, reads %.0f, writes %.0f, %.0f FLOP, %.3f us\n", i,
                w->launches, w->read, w->written, w->flop, 1e6 * w->seconds);
    }
    ss_roofline_close(&r);
}

/* Launches, bytes and FLOP of each task, for every layer kind. Update the golden file only for
 * intended changes. */
START_TEST(tallies)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    for (int i = 0; i < TEST_GRAPHS; i++) {
        struct ss_graph *g = make_test_graph(i);
        struct ss_plan *half = lower(g, 32, SS_DTYPE_F16), *whole = lower(g, 32, SS_DTYPE_F32),
                       *sums = lower_as(g, 32, SS_DTYPE_F16, 1);
        print_costs(half, "fp16", f);
        print_costs(whole, "fp32", f);
        print_costs(sums, "fp16, nondeterministic", f);
        ss_plan_destroy(half);
        ss_plan_destroy(whole);
        ss_plan_destroy(sums);
        ss_graph_destroy(g);
    }
    fclose(f);
    golden("sim/costs.golden", text);
    free(text);
}
END_TEST

static struct ss_graph *model(const char *name, int side)
{
    const struct ss_model_options options = {NULL, -1, side > 32 ? 1000 : 100, 3, side, side};
    struct ss_graph *g;
    ck_assert_int_eq(ss_model_build(name, &options, &g), SS_OK);
    return g;
}

/* Bounds of the step time: wide enough for faster kernels, narrow enough to detect a missing cost
 * line. FLOP per step: three times those of each convolution, without the first one's data
 * gradient. */
static const struct {
    const char *name;
    int side;
    double least_ms, most_ms, flop;
} models[] = {{"resnet50", 224, 22, 35, 6.2177e12}, {"wideresnet", 32, 9, 12, 3.7050e12}};

START_TEST(built_in_models)
{
    struct ss_graph *g = model(models[_i].name, models[_i].side);
    struct ss_plan *plan = lower(g, 256, SS_DTYPE_F16);
    struct ss_roofline r, slow;
    ck_assert_int_eq(ss_roofline_predict(plan, machine("h200"), 0, &r), SS_OK);
    ck_assert_int_eq(ss_roofline_predict(plan, machine("a100"), 0, &slow), SS_OK);
    adds_up(&r);
    const double ms = r.step.seconds * 1e3;
    ck_assert_msg(ms > models[_i].least_ms && ms < models[_i].most_ms, "%s: %.2f ms",
                  models[_i].name, ms);
    ck_assert_msg(fabs(r.step.flop / models[_i].flop - 1) < 1e-3, "%.5g FLOP", r.step.flop);
    /* Half the bandwidth and a third of the tensor core rate. */
    ck_assert(slow.step.seconds > 1.9 * r.step.seconds && slow.step.seconds < 3.3 * r.step.seconds);
    ck_assert_int_eq(slow.step.launches, r.step.launches);
    ss_roofline_close(&r);
    ss_roofline_close(&slow);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

/* A plan that declares less access than the operation needs is refused. This detects changes of
 * only one of the two. */
START_TEST(unsaid_access)
{
    struct ss_graph *g = make_test_graph(0);
    struct ss_plan *plan = lower(g, 8, SS_DTYPE_F16);
    struct ss_roofline r;
    for (int i = 0; i < plan->train.count; i++) {
        struct ss_plan_task *t = &plan->train.task[i];
        if (t->kind == SS_TASK_FORWARD && t->role[SS_ROLE_Y] >= 0)
            t->access[t->role[SS_ROLE_Y]].mode = SS_READ;
    }
    ck_assert_int_eq(ss_roofline_predict(plan, machine("h200"), 0, &r), SS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "writes"));
    ss_plan_destroy(plan);
    plan = lower(g, 8, SS_DTYPE_F16);
    for (int i = 0; i < plan->ntensors; i++)
        plan->tensor[i].bytes /= 2;
    ck_assert_int_eq(ss_roofline_predict(plan, machine("h200"), 0, &r), SS_ERR_MISMATCH);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

static struct ss_plan *lower_for_cpu(const struct ss_graph *g, int batch, int algo,
                                     enum ss_dtype dtype)
{
    const struct ss_plan_options options = {.batch = batch,
                                            .dtype = dtype,
                                            .channel_block = ss_cpu_preferred_block(),
                                            .bucket_mb = 10,
                                            .first_bucket_mb = 1,
                                            .slices = 2,
                                            .states = 1,
                                            .algo = algo,
                                            .makes_x = ss_op_makes_x,
                                            .adds = ss_op_adds};
    struct ss_plan *plan;
    ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
    return plan;
}

/* Every layer kind, on this CPU. */
START_TEST(small_models_here)
{
    struct ss_machine here;
    struct ss_graph *g = make_test_graph(_i);
    ck_assert_int_eq(ss_machine_measure(1, &here), SS_OK);
    ck_assert(here.single > 1e8 && here.bandwidth > 1e8 && !here.sms);
    for (int k = 0; k < 2 * (SS_CONV_PRODUCT + 1); k++) {
        struct ss_plan *plan = lower_for_cpu(g, 32, k / 2, k % 2 ? SS_DTYPE_BF16 : SS_DTYPE_F32);
        struct ss_roofline r;
        ck_assert_int_eq(ss_roofline_predict(plan, &here, 0, &r), SS_OK);
        adds_up(&r);
        for (int i = 0; i < plan->train.count; i++)
            ck_assert(plan->train.task[i].kind != SS_TASK_FORWARD || r.task[i].launches > 0);
        ss_roofline_close(&r);
        ss_plan_destroy(plan);
    }
    ss_graph_destroy(g);
}
END_TEST

static double seconds_here(const struct ss_graph *g, const struct ss_machine *here, int algo,
                           enum ss_dtype dtype, double *flop)
{
    struct ss_plan *plan = lower_for_cpu(g, 8, algo, dtype);
    struct ss_roofline r;
    ck_assert_int_eq(ss_roofline_predict(plan, here, 0, &r), SS_OK);
    const double seconds = r.step.seconds - r.step.by[SS_BOUND_LAUNCH];
    *flop = r.step.flop;
    ss_roofline_close(&r);
    ss_plan_destroy(plan);
    return seconds;
}

/* Half the speed doubles the time. Winograd takes less time; the reported FLOP are the same. */
START_TEST(speed_of_a_cpu)
{
    struct ss_machine here, half;
    struct ss_graph *g = model("wideresnet", 32);
    double flop, winograd;
    ck_assert_int_eq(ss_machine_measure(1, &here), SS_OK);
    here.single = 1e11;
    here.bandwidth = 1e10;
    half = here;
    half.single /= 2;
    half.bandwidth /= 2;
    const double seconds = seconds_here(g, &here, SS_CONV_DIRECT, SS_DTYPE_F32, &flop);
    ck_assert_msg(fabs(flop / (3.7050e12 * 8 / 256) - 1) < 1e-3, "%.5g FLOP", flop);
    near(seconds_here(g, &half, SS_CONV_DIRECT, SS_DTYPE_F32, &flop), 2 * seconds);
    ck_assert(seconds_here(g, &here, SS_CONV_WINOGRAD, SS_DTYPE_F32, &winograd) < seconds / 2);
    near(winograd, flop);
    ss_graph_destroy(g);
}
END_TEST

/* With bf16 pair products, direct convolutions become much faster, Winograd only slightly. */
START_TEST(speed_of_a_cpu_in_bf16)
{
    struct ss_machine here;
    struct ss_graph *g = model("wideresnet", 32);
    double flop, seconds[2][2];
    ck_assert_int_eq(ss_machine_measure(1, &here), SS_OK);
    ck_assert(here.half > 1e8);
    here.single = 1e11;
    here.bandwidth = 1e14; /* compute-bound */
    for (int k = 0; k < 4; k++) {
        here.half = k / 2 ? 3e11 : 1e11;
        seconds[k / 2][k % 2] =
            seconds_here(g, &here, k % 2 ? SS_CONV_WINOGRAD : SS_CONV_DIRECT, SS_DTYPE_BF16, &flop);
    }
    if (ss_cpu_has_pairs(SS_DTYPE_BF16)) {
        ck_assert_double_lt(seconds[1][0], 0.4 * seconds[0][0]);
        ck_assert_double_lt(seconds[1][1], seconds[0][1]);
    } else {
        near(seconds[1][0], seconds[0][0]);
        near(seconds[1][1], seconds[0][1]);
    }
    ck_assert_double_gt(seconds[1][1], 0.5 * seconds[0][1]);
    ck_assert_int_eq(ss_cpu_has_pairs(SS_DTYPE_F32), 0);
    ss_graph_destroy(g);
}
END_TEST

/* A GPU is refused for a CPU plan, and a CPU for a GPU plan. */
START_TEST(other_machine)
{
    struct ss_graph *g = make_test_graph(0);
    struct ss_plan *gpu = lower(g, 8, SS_DTYPE_F16),
                   *cpu = lower_for_cpu(g, 8, SS_CONV_AUTO, SS_DTYPE_F32);
    struct ss_machine here;
    struct ss_roofline r;
    ck_assert_int_eq(ss_machine_measure(0, &here), SS_ERR_INVALID);
    ck_assert_int_eq(ss_machine_measure(1, &here), SS_OK);
    ck_assert_int_eq(ss_roofline_predict(cpu, machine("h200"), 0, &r), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "add --device cuda"));
    ck_assert_int_eq(ss_roofline_predict(gpu, &here, 0, &r), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "leave out --device cuda"));
    ss_plan_destroy(gpu);
    ss_plan_destroy(cpu);
    ss_graph_destroy(g);
}
END_TEST

START_TEST(machines)
{
    const struct ss_machine *m;
    ck_assert_int_eq(ss_machine_find("v100", &m), SS_ERR_INVALID);
    ck_assert_str_eq(ss_log_last_error(), "unknown GPU v100; known: "
                                          "h200, gh200, h100, a100");
    ck_assert_str_eq(ss_machine_of_gpu("NVIDIA GH200 480GB")->name, "gh200");
    ck_assert_str_eq(ss_machine_of_gpu("NVIDIA H200 (sm_90), CUDA 13.0")->name, "h200");
    ck_assert_ptr_null(ss_machine_of_gpu("NVIDIA H200 NVL"));
    ck_assert_str_eq(ss_machine_of_gpu("NVIDIA A100-SXM4-80GB")->name, "a100");
    ck_assert_ptr_null(ss_machine_of_gpu("NVIDIA GeForce GTX 1080"));
}
END_TEST

int main(void)
{
    ss_log_set_quiet(1);
    Suite *suite = suite_create("roofline");
    TCase *t = tcase_create("roofline");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, small_models, 0, TEST_GRAPHS);
    tcase_add_test(t, tallies);
    tcase_add_loop_test(t, built_in_models, 0, 2);
    tcase_add_test(t, unsaid_access);
    tcase_add_test(t, machines);
    tcase_add_loop_test(t, small_models_here, 0, TEST_GRAPHS);
    tcase_add_test(t, speed_of_a_cpu);
    tcase_add_test(t, speed_of_a_cpu_in_bf16);
    tcase_add_test(t, other_machine);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
