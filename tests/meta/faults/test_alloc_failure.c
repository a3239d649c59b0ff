/* test_alloc_failure.c: fails every allocation of starstep's functions in turn (alloc_failure.h).
 * Each must report the failure and leak no memory, neither then nor on success. test_faults.c
 * checks how commands exit. */
#include "comm/comm.h"
#include "comm/comm_local.h"
#include "data/cifar.h"
#include "data/dataset.h"
#include "apps/data/make_tinyimagenet.h"
#include "data/pack.h"
#include "data/sampler.h"
#include "apps/data/synthetic.h"
#include "apps/doctor/links.h"
#include "graph/bucket_choose.h"
#include "graph/graph_file.h"
#include "graph/plan.h"
#include "graphs/models.h"
#include "apps/monitor/monitor_report.h"
#include "apps/monitor/samples.h"
#include "apps/scaling/run.h"
#include "apps/scaling/table.h"
#include "sim/machine.h"
#include "sim/roofline.h"
#include "tests/data_common.h"
#include "tests/meta/faults/alloc_failure.h"
#include "tests/golden.h"
#include "tests/graph/test_graphs.h"
#include "tests/words.h"
#include "apps/trace/analyse.h"
#include "apps/trace/export.h"
#include "apps/trace/export_chrome.h"
#include "apps/trace/export_html.h"
#include "trace/read.h"
#include "apps/trace/trace_report.h"
#include "train/data_file.h"
#include "train/safetensors.h"
#include "train/tensorboard.h"

static FILE *nowhere;

/* Returns the path of a recorded file or folder of the tests. */
static const char *recorded(const char *name)
{
    static char path[GOLDEN_PATH];
    return golden_path(path, name);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static enum ss_status open_comm(void *arg)
{
    struct ss_comm_config config = {.backend = "self", .timeout_s = 60};
    struct ss_comm *comm;
    SS_TRY(ss_comm_open(&config, &comm));
    if (arg)
        *(struct ss_comm **)arg = comm;
    else
        ss_comm_close(comm);
    return SS_OK;
}

static enum ss_status open_links(void *comm)
{
    struct ss_links_plane plane;
    SS_TRY(ss_links_open_host(comm, 1000, &plane));
    plane.close(plane.state);
    return SS_OK;
}

static enum ss_status describe_rank(void *world)
{
    struct ss_local_environment environment;
    SS_TRY(ss_local_environment_make(world, 1, &environment));
    ss_local_environment_free(&environment);
    return SS_OK;
}

START_TEST(ranks)
{
    struct ss_comm *comm;
    ck_assert_int_eq(open_comm(&comm), SS_OK);
    fails_each_allocation(open_links, comm, 0);
    ss_comm_close(comm);
    fails_each_allocation(open_comm, NULL, 0);
    struct ss_local_world world;
    ck_assert_int_eq(ss_local_world_open(2, &world), SS_OK);
    fails_each_allocation(describe_rank, &world, 0);
    ss_local_world_close(&world);
}
END_TEST

/* ---- graphs and plans ------------------------------------------------------------------------ */

static enum ss_status build(void *name)
{
    struct ss_graph *g;
    const struct ss_model_options options = {
        .dropout = -1, .classes = 10, .channels = 3, .height = 32, .width_px = 32};
    SS_TRY(ss_model_build(name, &options, &g));
    ss_graph_destroy(g);
    return SS_OK;
}

static enum ss_status read_graph(void *path)
{
    struct ss_graph *g;
    SS_TRY(ss_graph_read(path, 0, &g));
    ss_graph_destroy(g);
    return SS_OK;
}

static enum ss_status lower(void *graph)
{
    struct ss_plan *plan;
    const struct ss_plan_options options = {.batch = 8,
                                            .channel_block = 16,
                                            .bucket_mb = 0.01,
                                            .first_bucket_mb = 0.005,
                                            .slices = 8,
                                            .states = 1};
    SS_TRY(ss_plan_lower(graph, &options, &plan));
    enum ss_status status = ss_plan_print_table(plan, nowhere);
    if (status == SS_OK)
        status = ss_plan_print_dot(plan, nowhere);
    ss_plan_destroy(plan);
    return status;
}

static enum ss_status predict(void *plan)
{
    const struct ss_machine *machine;
    struct ss_roofline r;
    double *seconds;
    SS_TRY(ss_machine_find("h100", &machine));
    SS_TRY(ss_roofline_seconds(plan, machine, 0, &seconds));
    free(seconds);
    SS_TRY(ss_roofline_predict(plan, machine, 0, &r));
    ss_roofline_print(&r, nowhere);
    ss_roofline_print_json(&r, nowhere);
    ss_roofline_close(&r);
    return SS_OK;
}

static enum ss_status measure(void *here)
{
    return ss_machine_measure(1, here);
}

START_TEST(predictions)
{
    struct ss_machine here;
    const struct ss_model_options model = {
        .dropout = -1, .classes = 10, .channels = 3, .height = 32, .width_px = 32};
    const struct ss_plan_options options = {.batch = 8,
                                            .device = 1,
                                            .dtype = SS_DTYPE_F16,
                                            .input_block = ss_gpu_input_block(SS_DTYPE_F16),
                                            .bucket_mb = 25,
                                            .first_bucket_mb = 1,
                                            .slices = 4,
                                            .states = 1};
    struct ss_graph *g;
    struct ss_plan *plan;
    ck_assert_int_eq(ss_model_build("wideresnet", &model, &g), SS_OK);
    ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
    fails_each_allocation(predict, plan, 0);
    fails_each_allocation(measure, &here, 0);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

START_TEST(models)
{
    char names[][16] = {"wideresnet", "resnet18", "resnet50", "vgg11_bn"};
    fails_each_allocation(build, names[_i], 0);
}
END_TEST

START_TEST(graphs)
{
    struct ss_graph *g = make_test_graph(_i);
    char path[4096];
    fails_each_allocation(lower, g, 0);
    snprintf(path, sizeof path, "%s", in_folder("graph.json"));
    FILE *f = fopen(path, "w");
    char *text;
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(ss_graph_text(g, &text), SS_OK);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    free(text);
    ss_graph_destroy(g);
    fails_each_allocation(read_graph, path, 0);
}
END_TEST

static enum ss_status choose(void *costs)
{
    struct ss_bucket_choice choice;
    return ss_bucket_choose(costs, &choice);
}

START_TEST(buckets)
{
    const size_t bytes[] = {100000, 4000000, 3000000, 1000000};
    const double passes[] = {1, 2, 2, 1}, weights[] = {0.5, 1, 1, 0.5};
    struct ss_bucket_costs costs = {.nblocks = 4,
                                    .bytes = bytes,
                                    .forward_s = passes,
                                    .backward_s = passes,
                                    .weights_s = weights,
                                    .sum_s_per_byte = 1e-6};
    fails_each_allocation(choose, &costs, 0);
}
END_TEST

/* ---- data ------------------------------------------------------------------------------------ */

static enum ss_status make_cifar(void *dir)
{
    const struct ss_synthetic what = {.train = 20, .test = 10, .classes = 10, .seed = 1};
    return ss_synthetic_cifar(&ss_cifar100, dir, &what);
}

static enum ss_status load(void *dir)
{
    static float out[3 * 64 * 64];
    const struct ss_dataset_options options = {.size = {32, 32}};
    const struct ss_load_how how = {.augment = 1, .seed = 1};
    struct ss_dataset *d;
    int32_t label;
    SS_TRY(ss_dataset_open(dir, SS_SPLIT_TRAIN, &options, &d));
    enum ss_status status = SS_OK;
    for (size_t i = 0; status == SS_OK && i < 4; i++)
        status = ss_dataset_load(d, i, &how, out, &label);
    ss_dataset_close(d);
    return status;
}

static enum ss_status pack(void *dir)
{
    const struct ss_dataset_options options = {.size = {32, 32}};
    char path[4096], why[256];
    struct ss_dataset *d;
    struct ss_pack_builder *builder;
    struct ss_pack *made;
    size_t done;
    SS_TRY(ss_dataset_open(dir, SS_SPLIT_TRAIN, &options, &d));
    const struct ss_imagefolder *files = ss_dataset_folder(d);
    enum ss_status status = ss_pack_path(path, sizeof path, in_folder(""), SS_SPLIT_TRAIN);
    if (status == SS_OK)
        status = ss_pack_begin(path, files, 1, 0, &builder);
    if (status == SS_OK) {
        status = ss_pack_continue(builder, 100, &done);
        if (status == SS_OK)
            status = ss_pack_commit(builder);
        else
            ss_pack_abort(builder);
    }
    if (status == SS_OK)
        status = ss_pack_open(path, files, why, sizeof why, &made);
    if (status == SS_OK)
        ss_pack_close(made);
    ss_dataset_close(d);
    return status;
}

static enum ss_status describe(void *dir)
{
    const struct ss_dataset_options options = {.size = {32, 32}};
    const char *file = in_folder("data.json");
    struct ss_dataset *d;
    struct ss_data_file read;
    SS_TRY(ss_dataset_open(dir, SS_SPLIT_TRAIN, &options, &d));
    enum ss_status status = ss_data_file_write(d, file);
    if (status == SS_OK) {
        status = ss_data_file_read(file, &read);
        ss_data_file_clear(&read);
    }
    ss_dataset_close(d);
    return status;
}

static enum ss_status sample(void *arg)
{
    struct ss_sampler s;
    (void)arg;
    SS_TRY(ss_sampler_open(&s, 100, 0, 2, 8, 1, SS_END_EVERY, 7));
    ss_sampler_close(&s);
    return SS_OK;
}

START_TEST(data)
{
    const struct ss_tinyimagenet what = {.classes = 2, .train = 4, .val = 2, .seed = 1};
    char dir[4096];
    snprintf(dir, sizeof dir, "%s", in_folder("cifar"));
    fails_each_allocation(make_cifar, dir, 0);
    fails_each_allocation(load, dir, 0);
    snprintf(dir, sizeof dir, "%s", in_folder("images"));
    ck_assert_int_eq(ss_make_tinyimagenet(dir, &what), SS_OK);
    ck_assert_int_eq(load(dir), SS_OK); /* the thread retains its decoder */
    fails_each_allocation(load, dir, 0);
    fails_each_allocation(describe, dir, 0);
    fails_each_allocation(pack, dir, 1); /* the estimate of its size is optional */
    fails_each_allocation(sample, NULL, 0);
}
END_TEST

/* ---- files of a run -------------------------------------------------------------------------- */

static enum ss_status read_weights(void *path)
{
    struct ss_safetensors *st;
    SS_TRY(ss_safetensors_open(path, &st));
    ss_safetensors_close(st);
    return SS_OK;
}

static enum ss_status write_weights(void *path)
{
    static const float values[6];
    static const char *const metadata[] = {"format", "pt", NULL};
    const struct ss_st_tensor tensors[] = {
        {.name = "a",
         .dtype = SS_ST_F32,
         .ndim = 2,
         .shape = {2, 3},
         .data = values,
         .bytes = sizeof values},
        {.name = "b", .dtype = SS_ST_F32, .ndim = 1, .shape = {4}, .data = values, .bytes = 16}};
    return ss_safetensors_write(path, tensors, 2, metadata);
}

static enum ss_status write_scalars(void *dir)
{
    struct ss_tensorboard *t;
    SS_TRY(ss_tensorboard_open(dir, &t));
    enum ss_status status = ss_tensorboard_scalar(t, "Loss/train", 1, 1e9, 0.5);
    const enum ss_status closed = ss_tensorboard_close(t);
    return status == SS_OK ? closed : status;
}

START_TEST(weights)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", in_folder("model.safetensors"));
    fails_each_allocation(write_weights, path, 0);
    fails_each_allocation(read_weights, path, 0);
    snprintf(path, sizeof path, "%s", in_folder("scalars"));
    fails_each_allocation(write_scalars, path, 0);
}
END_TEST

static enum ss_status report_trace(void *dir)
{
    const struct ss_analyse_options analyse = {.first = 1, .keep_path = 1};
    const struct ss_trace_report_options report = {.rank = -1, .steps = 1, .path = 1};
    struct ss_rank_times *times[2] = {NULL, NULL};
    struct ss_run_times *run = NULL;
    enum ss_status status = SS_OK;
    for (int r = 0; status == SS_OK && r < 2; r++) {
        struct ss_trace_rank *trace;
        status = ss_trace_read(dir, r, &trace);
        if (status == SS_OK) {
            status = ss_analyse_rank(trace, &analyse, &times[r]);
            ss_trace_free(trace);
        }
    }
    if (status == SS_OK)
        status = ss_analyse_run(times, 2, &run);
    if (status == SS_OK)
        status = ss_trace_report_text(run, &report, nowhere);
    if (status == SS_OK)
        status = ss_trace_report_json(run, &report, in_folder("report.json"));
    ss_run_times_free(run);
    for (int r = 0; r < 2; r++)
        ss_rank_times_free(times[r]);
    return status;
}

static enum ss_status export_trace(void *dir)
{
    struct ss_export *e;
    SS_TRY(ss_export_load(dir, 1, 0, &e));
    enum ss_status status = ss_export_chrome(e, in_folder("events.json"));
    if (status == SS_OK)
        status = ss_export_html(e, in_folder("page.html"));
    if (status == SS_OK)
        status = ss_export_hta(e, in_folder("hta"));
    ss_export_free(e);
    return status;
}

START_TEST(traces)
{
    fails_each_allocation(report_trace, (void *)recorded("cli/transcripts/trace"), 0);
    fails_each_allocation(export_trace, (void *)recorded("cli/transcripts/trace"), 0);
}
END_TEST

static enum ss_status report_monitor(void *path)
{
    struct ss_monitor_data d;
    SS_TRY(ss_monitor_read(path, &d));
    enum ss_status status = ss_monitor_print(&d, nowhere);
    if (status == SS_OK)
        status = ss_monitor_draw(&d, in_folder("monitor.svg"));
    ss_monitor_data_free(&d);
    return status;
}

static enum ss_status report_scaling(void *path)
{
    struct ss_runs runs = {0};
    struct ss_scaling tables;
    char differs[256];
    enum ss_status status = ss_runs_add(&runs, path);
    if (status == SS_OK)
        status = ss_scaling_make(&runs, &tables);
    if (status == SS_OK) {
        ss_scaling_compare(&runs, differs, sizeof differs);
        ss_scaling_markdown(&tables, differs, nowhere);
        ss_scaling_csv(&tables, 0, nowhere);
        status = ss_scaling_draw(&tables, in_folder("scaling.svg"));
        ss_scaling_free(&tables);
    }
    ss_runs_free(&runs);
    return status;
}

START_TEST(reports)
{
    fails_each_allocation(report_monitor, (void *)recorded("cli/transcripts/monitor"), 0);
    fails_each_allocation(report_scaling, (void *)recorded("cli/transcripts/logs"), 0);
}
END_TEST

/* ---- commands, which end in main() ----------------------------------------------------------- */

static const char *const commands[] = {
    "starstep plan --recipe recipe.json --batch-size 4",
    "starstep plan --width 4,4,4,4 --batch-size 8 --ranks 2 --channel-block 16 --format dot",
    "starstep plan --width 4,4,4,4 --batch-size 8 --device cuda --roofline h100 --shard-optimizer",
    "starstep plan --model resnet18 --width 4,4,4,4 --export --out model.json",
    "starstep plan --lr-table --epochs 3 --schedule cosine --images 64 --batch-size 16 --lr-svg "
    "lr.svg",
    "starstep data make cifar10 --out made --train 10 --test 5",
    "starstep data make tinyimagenet --out drawn/DIGITS --train 2 --val 2 --classes 2",
    "starstep data check cifar100 --data-dir cifar",
    "starstep data check tinyimagenet --data-dir images --decode",
    "starstep trace report trace --path --json report.json",
    "starstep trace export trace --chrome events.json",
    "starstep monitor report monitor --svg monitor.svg",
    "starstep scaling logs --out tables --mixed",
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* Runs a command line in the current folder, which has the files that it names. */
static enum ss_status run_command(void *command)
{
    static int runs;
    char text[256];
    snprintf(text, sizeof text, "%s", (const char *)command);
    char *digits = strstr(text, "DIGITS"); /* a new folder each time */
    if (digits) {
        char number[8];
        snprintf(number, sizeof number, "%06d", runs++ % 1000000);
        memcpy(digits, number, 6);
    }
    return run_here(text) == 0 ? SS_OK : SS_ERR_MEMORY;
}

START_TEST(in_main)
{
    char line[4 * GOLDEN_PATH + 256];
    snprintf(line, sizeof line, "cp -r --no-preserve=mode '%s/trace' '%s/monitor' '%s/logs' '%s'",
             recorded("cli/transcripts"), recorded("cli/transcripts"), recorded("cli/transcripts"),
             in_folder(""));
    ck_assert_int_eq(system(line), 0);
    ck_assert_int_eq(chdir(in_folder("")), 0);
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout));
    FILE *f = fopen("recipe.json", "w");
    ck_assert_ptr_nonnull(f);
    fputs("{\"model\": \"resnet18\", \"width\": \"4,4,4,4\", \"nesterov\": true}", f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(make_cifar("cifar"), SS_OK);
    const struct ss_tinyimagenet what = {.classes = 2, .train = 4, .val = 2, .seed = 1};
    ck_assert_int_eq(ss_make_tinyimagenet("images", &what), SS_OK);
    fails_each_allocation(run_command, (void *)commands[_i], 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lacks");
    TCase *t = tcase_create("lacks");
    nowhere = fopen("/dev/null", "w");
    if (!nowhere)
        return EXIT_FAILURE;
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_test(t, ranks);
    tcase_add_loop_test(t, models, 0, 4);
    tcase_add_loop_test(t, graphs, 0, TEST_GRAPHS);
    tcase_add_test(t, buckets);
    tcase_add_test(t, predictions);
    tcase_add_test(t, data);
    tcase_add_test(t, weights);
    tcase_add_test(t, traces);
    tcase_add_test(t, reports);
    tcase_add_loop_test(t, in_main, 0, COMMANDS);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
