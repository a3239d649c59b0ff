/* test_gpu_roofline.c: checks that each task of a step makes the predicted number of launches on
 * the emulated GPU, so that src/kernels/cost_model stays consistent with src/kernels/cuda. */
#include "sim/roofline.h"
#include "tests/runtime/exec_common.h"

enum { MOST_TASKS = 512, SIDE = 32 };
unsigned long hostgpu_enqueued(void); /* hostgpu/hostgpu.h, which is C++ */

/* Launch counts per task, by its index: before the task, and in it. */
static unsigned long before[MOST_TASKS], launches[MOST_TASKS];

static enum ss_status begins(void *arg, const struct ss_step_args *args, int lane, ss_stream stream)
{
    (void)arg;
    (void)lane;
    (void)stream;
    before[args->task->index] = hostgpu_enqueued();
    return SS_OK;
}

static enum ss_status ends(void *arg, const struct ss_step_args *args, ss_stream stream)
{
    (void)arg;
    (void)stream;
    launches[args->task->index] += hostgpu_enqueued() - before[args->task->index];
    return SS_OK;
}

static void compare(const struct setting *s)
{
    struct ss_runtime runtime;
    struct ss_placement placement;
    const struct ss_runtime_gpu gpu = {
        .gpu = {.dtype = s->dtype, .nondeterministic = s->nondeterministic}, .ordered = 1};
    struct bound b;
    struct ss_roofline r;
    const struct ss_machine *h200;
    struct ss_hooks hooks = {.first = 2,
                             .last = 2,
                             .enqueued =
                                 SS_HOOKS_KIND(SS_TASK_FORWARD) | SS_HOOKS_KIND(SS_TASK_BACKWARD) |
                                 SS_HOOKS_KIND(SS_TASK_CONVERT) | SS_HOOKS_KIND(SS_TASK_ADD) |
                                 SS_HOOKS_KIND(SS_TASK_CHECK) | SS_HOOKS_KIND(SS_TASK_SUM) |
                                 SS_HOOKS_KIND(SS_TASK_UPDATE) | SS_HOOKS_KIND(SS_TASK_SCALE) |
                                 SS_HOOKS_KIND(SS_TASK_SQUARES),
                             .enqueue_begins = begins,
                             .enqueue_ends = ends};
    memset(launches, 0, sizeof launches);
    OK(ss_placement_decide_gpu(comm, 1, "", &placement));
    OK(ss_runtime_start(&runtime, &placement, gpu.gpu.dtype, &gpu));
    bind_plan(&b, s, &runtime);
    ck_assert_int_le(b.plan->train.count, MOST_TASKS);
    ss_exec_hook(b.exec, &hooks);
    train(&b, 2);
    ss_exec_unhook(b.exec, &hooks);
    OK(ss_machine_find("h200", &h200));
    OK(ss_roofline_predict(b.plan, h200, 0, &r));
    for (int i = 0; i < b.plan->train.count; i++)
        ck_assert_msg(launches[i] == (unsigned long)r.task[i].launches,
                      "%s, %s, task %s: %lu launches, %d predicted", ss_graph_name(b.graph),
                      ss_dtype_name(s->dtype), b.plan->train.task[i].name, launches[i],
                      r.task[i].launches);
    ck_assert_int_gt(r.step.launches, b.plan->nblocks);
    ss_roofline_close(&r);
    unbind(&b);
    ss_runtime_stop(&runtime);
}

START_TEST(small_models)
{
    struct setting s = usual;
    s.which = _i / 2;
    s.dtype = _i % 2 ? SS_DTYPE_F16 : SS_DTYPE_F32;
    compare(&s);
}
END_TEST

START_TEST(micro_batches)
{
    struct setting s = usual;
    s.dtype = SS_DTYPE_F16;
    s.batch = 2;
    s.slices = 1;
    s.accumulate = 3;
    compare(&s);
}
END_TEST

/* LAMB with norms of each parameter, clipping and EMA; AdamW with spans. */
START_TEST(optimizers)
{
    struct setting s = usual;
    s.dtype = SS_DTYPE_F16;
    s.bucket_mb = 0.01;
    s.optimizer = _i ? "adamw" : "lamb";
    s.clip = 0.5;
    s.ema_decay = 0.9;
    s.lr_factor = "fc.*=2";
    compare(&s);
}
END_TEST

/* Narrow models, as only the numbers of launches matter. */
static const char *const models[][2] = {
    {"wideresnet", "8,8,16,16"}, {"resnet50", "8,8,8,8"}, {"vgg11_bn", "8,8,8,8,8,16"}};

START_TEST(built_in_models)
{
    static uint8_t images[IMAGES * (1 + 3 * SIDE * SIDE)];
    struct setting s = usual;
    data.records = images;
    data.record_bytes = sizeof images / IMAGES;
    data.height = data.width = SIDE;
    s.batch = 2;
    s.slices = 1;
    s.momentum = 0.9f;
    s.dtype = SS_DTYPE_F16;
    s.bucket_mb = 0.01;
    s.model = models[_i / 2][0];
    s.width = models[_i / 2][1];
    s.nondeterministic = _i % 2;
    compare(&s);
}
END_TEST

int main(void)
{
    if (ss_cuda_kernels.count() == 0) {
        puts("skipped: no GPU");
        return 77;
    }
    ss_log_set_quiet(1);
    struct ss_comm_config config = {.backend = "self", .timeout_s = 60};
    make_data();
    if (ss_comm_open(&config, &comm) != SS_OK)
        return EXIT_FAILURE;
    Suite *suite = suite_create("gpu_roofline");
    TCase *t = tcase_create("gpu_roofline");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, small_models, 0, 2 * TEST_GRAPHS);
    tcase_add_test(t, micro_batches);
    tcase_add_loop_test(t, optimizers, 0, 2);
    tcase_add_loop_test(t, built_in_models, 0, 2 * (int)(sizeof models / sizeof *models));
    suite_add_tcase(suite, t);
    const int code = run_suite_here(suite);
    ss_comm_close(comm);
    return code;
}
