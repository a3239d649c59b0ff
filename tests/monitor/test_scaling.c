/* test_scaling.c: scaling tables from logs, monitor files and traces with known values. */
#include "apps/scaling/table.h"
#include "tests/damage_text.h"
#include "tests/trace/trace_common.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <sys/time.h>

/* Interposes scandir: call number failing_scan fails with EACCES, which permissions cannot cause
 * for root. */
static int scans, failing_scan;

int scandir(const char *dir, struct dirent ***list, int (*wanted)(const struct dirent *),
            int (*order)(const struct dirent **, const struct dirent **))
{
    int (*next)(const char *, struct dirent ***, int (*)(const struct dirent *),
                int (*)(const struct dirent **, const struct dirent **));
    void *found = dlsym(RTLD_NEXT, "scandir");
    if (++scans == failing_scan) {
        errno = EACCES;
        return -1;
    }
    memcpy(&next, &found, sizeof next);
    return next(dir, list, wanted, order);
}

/* Content of a log; save_log() replaces zeros by defaults. */
struct made {
    const char *model, *precision, *device;
    long ranks, nodes, batch, epoch;
    double rate; /* images/s; 0.8 of it with validation */
};

static void save_log(const char *name, struct made m)
{
    trace_bytes = 0;
    m.ranks = m.ranks ? m.ranks : 1;
    say("{\"event\":\"start\",\"model\":\"%s\",\"ranks\":%ld,\"batch\":%ld,\"precision\":\"%s\","
        "\"gpu_mb\":0,\"nodes\":%ld,\"device\":\"%s\",\"width\":\"default\",\"image_size\":224,"
        "\"images\":100000}\n",
        m.model ? m.model : "resnet50", m.ranks, (m.batch ? m.batch : 512) * m.ranks,
        m.precision ? m.precision : "fp16", m.nodes ? m.nodes : 1, m.device ? m.device : "cuda");
    say("{\"event\":\"step\",\"step\":1,\"epoch\":1,\"loss\":null,\"time\":1.5}\n");
    for (long e = 1; e <= (m.epoch ? m.epoch : 3); e++)
        say("{\"event\":\"epoch\",\"epoch\":%ld,\"train_loss\":%g,\"train_accuracy\":%g,"
            "\"images_per_s\":%g,\"images_per_s_with_validation\":%g}\n",
            e, 6.0 - (double)e, 0.01 * (double)e, m.rate * (double)e,
            0.8 * m.rate * (double)e); /* the last epoch counts */
    say("{\"event\":\"end\",\"step\":9}\n");
    write_file(name, trace_text, trace_bytes);
}

static void make_dir(const char *name)
{
    ck_assert_int_eq(mkdir(in_folder(name), 0777), 0);
}

static void save(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static struct ss_runs read_runs(void)
{
    struct ss_runs runs = {0};
    enum ss_status status = ss_runs_add(&runs, folder);
    ck_assert_msg(status == SS_OK, "%s", ss_log_last_error());
    return runs;
}

/* Writes NAME/log.jsonl. */
static void save_run(const char *name, struct made m)
{
    char path[128];
    make_dir(name);
    snprintf(path, sizeof path, "%s/log.jsonl", name);
    save_log(path, m);
}

static void save_guide(void)
{
    save_run("a1", (struct made){.rate = 100});
    save_run("a2", (struct made){.ranks = 2, .rate = 190});
    save_run("a8", (struct made){.ranks = 8, .rate = 640});
    save_run("a4", (struct made){.ranks = 4, .rate = 360});
    save_run("n2", (struct made){.ranks = 4, .nodes = 2, .rate = 361});
    save_run("n4", (struct made){.ranks = 8, .nodes = 4, .rate = 608});
}

static void check_row(const struct ss_scaling_table *t, size_t i, long ranks, long nodes,
                      double speedup, double efficiency)
{
    ck_assert_uint_lt(i, t->count);
    const struct ss_scaling_run *run = t->row[i].run;
    ck_assert_int_eq(run->log.ranks, ranks);
    ck_assert_int_eq(run->log.nodes, nodes);
    ck_assert_double_eq_tol(ss_scaling_speedup(t, run), speedup, 1e-12);
    ck_assert_double_eq_tol(ss_scaling_efficiency(t, run), efficiency, 1e-12);
}

START_TEST(two_tables)
{
    char differs[512];
    struct ss_scaling s;
    save_guide();
    struct ss_runs runs = read_runs();
    ck_assert_uint_eq(runs.count, 6);
    ss_scaling_compare(&runs, differs, sizeof differs);
    ck_assert_str_eq(differs, "");
    ck_assert_int_eq(ss_scaling_make(&runs, &s), SS_OK);
    ck_assert_int_eq(s.gpu, 1);
    ck_assert_uint_eq(s.count, 2);
    ck_assert_int_eq(s.table[0].by_nodes, 0);
    ck_assert_uint_eq(s.table[0].count, 4);
    check_row(&s.table[0], 0, 1, 1, 1, 1);
    check_row(&s.table[0], 1, 2, 1, 1.9, 0.95);
    check_row(&s.table[0], 2, 4, 1, 3.6, 0.9);
    check_row(&s.table[0], 3, 8, 1, 6.4, 0.8);
    ck_assert_int_eq(s.table[1].by_nodes, 1);
    ck_assert_int_eq(s.table[1].per_node, 2);
    ck_assert_uint_eq(s.table[1].count, 3);
    check_row(&s.table[1], 0, 2, 1, 1, 1);
    check_row(&s.table[1], 1, 4, 2, 1.9, 0.95);
    check_row(&s.table[1], 2, 8, 4, 3.2, 0.8);
    ss_scaling_free(&s);
    ss_runs_free(&runs);
}
END_TEST

/* The baseline for nodes is a run on one node with the same number of GPUs per node, else the run
 * on one GPU, else the smallest run. */
START_TEST(baselines)
{
    struct ss_scaling s;
    save_run("n2", (struct made){.ranks = 8, .nodes = 2, .rate = 720});
    save_run("n4", (struct made){.ranks = 16, .nodes = 4, .rate = 1400});
    struct ss_runs runs = read_runs();
    ck_assert_int_eq(ss_scaling_make(&runs, &s), SS_OK);
    ck_assert_uint_eq(s.count, 1);
    check_row(&s.table[0], 0, 8, 2, 1, 1);
    check_row(&s.table[0], 1, 16, 4, 1400.0 / 720, 700.0 / 720);
    ss_scaling_free(&s);
    ss_runs_free(&runs);
    save_run("a1", (struct made){.rate = 100});
    runs = read_runs();
    ck_assert_int_eq(ss_scaling_make(&runs, &s), SS_OK);
    ck_assert_uint_eq(s.count, 2);
    ck_assert_uint_eq(s.table[1].count, 3);
    check_row(&s.table[1], 0, 1, 1, 1, 1);
    check_row(&s.table[1], 1, 8, 2, 7.2, 0.9);
    check_row(&s.table[1], 2, 16, 4, 14, 0.875);
    ss_scaling_free(&s);
    ss_runs_free(&runs);
}
END_TEST

/* Of repeated runs the median counts; of two, the slower. Uneven distributions are skipped. */
START_TEST(repeated)
{
    struct ss_scaling s;
    save_run("x", (struct made){.rate = 130});
    save_run("y", (struct made){.rate = 100});
    save_run("z", (struct made){.rate = 110});
    save_run("two", (struct made){.ranks = 2, .rate = 220});
    save_run("two again", (struct made){.ranks = 2, .rate = 209});
    save_run("uneven", (struct made){.ranks = 3, .nodes = 2, .rate = 9});
    struct ss_runs runs = read_runs();
    ck_assert_int_eq(ss_scaling_make(&runs, &s), SS_OK);
    ck_assert_uint_eq(s.count, 1);
    ck_assert_uint_eq(s.table[0].count, 2);
    ck_assert_uint_eq(s.table[0].row[0].same, 3);
    ck_assert_double_eq(s.table[0].row[0].run->log.rate, 330); /* three epochs */
    check_row(&s.table[0], 1, 2, 1, 1.9, 0.95);
    ss_scaling_free(&s);
    ss_runs_free(&runs);
}
END_TEST

START_TEST(different)
{
    char differs[2048];
    save_run("a", (struct made){.rate = 100});
    save_run("b", (struct made){.ranks = 2, .rate = 100, .batch = 256});
    save_run("c", (struct made){.ranks = 4, .rate = 100, .precision = "bf16", .batch = 128});
    struct ss_runs runs = read_runs();
    ss_scaling_compare(&runs, differs, sizeof differs);
    ck_assert_ptr_nonnull(strstr(differs, "precision: fp16 in "));
    ck_assert_ptr_nonnull(strstr(differs, "/a/log.jsonl, bf16 in "));
    ck_assert_ptr_nonnull(strstr(differs, "/c/log.jsonl; batch per rank: 512 in "));
    ck_assert_ptr_nonnull(strstr(differs, "/a/log.jsonl, 256 in "));
    ck_assert_ptr_null(strstr(differs, "model"));
    char small[20];
    ss_scaling_compare(&runs, small, sizeof small);
    ck_assert_uint_eq(strlen(small), sizeof small - 1);
    ss_runs_free(&runs);
}
END_TEST

/* --- Files next to a log */

#define GPU_HEAD "timestamp, index, name, memory.total [MiB], memory.used [MiB]\n"
#define CPU_HEAD "cpu [%], memory.rss [MiB], timestamp\n"

static void save_monitor(const char *dir)
{
    char path[128];
    snprintf(path, sizeof path, "%s/gpu_memory_log-node1.csv", dir);
    save(path, GPU_HEAD "2026/03/01 00:00:01, 1, Fake, 80000, 9999\n"
                        "2026/03/01 00:00:01, 0, Fake, 80000, 1000\n"
                        "2026/03/01 00:00:06, 0, Fake, 80000, 3000\n"
                        "2026/03/01 00:00:11, 0, Fake, 80000, 3000\n");
    snprintf(path, sizeof path, "%s/gpu_memory_log-node2.csv", dir);
    save(path, GPU_HEAD "2026/03/01 00:00:01, 0, Fake, 80000, 8888\n");
    snprintf(path, sizeof path, "%s/cpu_memory_log-node1.csv", dir);
    save(path, CPU_HEAD "10, 700, 2026/03/01 00:00:01\n20, 600, 2026/03/01 00:00:02\n");
}

/* Memory of GPU 0 of the first host, or of the processes for a run on CPUs. The files are in the
 * folder or in `monitor`. */
START_TEST(memory)
{
    save_run("gpu", (struct made){.ranks = 2, .rate = 1});
    make_dir("gpu/monitor");
    save_monitor("gpu/monitor");
    save_run("cpu", (struct made){.device = "cpu", .rate = 1});
    save_monitor("cpu");
    save_run("none", (struct made){.rate = 1});
    struct ss_runs runs = read_runs();
    ck_assert_uint_eq(runs.count, 3);
    const struct ss_scaling_run *cpu = &runs.at[0], *gpu = &runs.at[1];
    ck_assert_double_eq(gpu->memory.peak, 3000);
    ck_assert_double_eq_tol(gpu->memory.mean, 7000.0 / 3, 1e-9);
    ck_assert_double_eq(gpu->memory.mode, 3000);
    ck_assert_double_eq(cpu->memory.peak, 700);
    ck_assert_double_eq(cpu->memory.mean, 650);
    ck_assert_double_eq(cpu->memory.mode, 600);
    ck_assert_uint_eq(runs.at[2].memory.count, 0);
    ss_runs_free(&runs);
}
END_TEST

static void save_trace_in(const char *dir, int rank, int ranks)
{
    char path[128];
    write_four_steps(rank, ranks);
    snprintf(path, sizeof path, "%s/rank-%04d.jsonl", dir, rank);
    write_file(path, trace_text, trace_bytes);
}

/* All-reduces and compute in trace_common.h's four steps, in ns. Step 1: all-reduces from 310 to
 * 500, overlapped by compute in 310-360 and 420-440 (120 exposed). Step 2: 860-960, overlapped in
 * 905-925 (80). Step 3: fully overlapped. Step 4: 1540-1640 (100). Total: 300 of 1560 ns. */
START_TEST(exposed)
{
    struct ss_runs runs = {0};
    save_run("r", (struct made){.ranks = 2, .rate = 1});
    make_dir("r/trace");
    save_trace_in("r/trace", 0, 2);
    save_trace_in("r/trace", 1, 2);
    ck_assert_int_eq(ss_runs_add(&runs, in_folder("r/log.jsonl")), SS_OK);
    ck_assert_int_eq(runs.at[0].has_exposed, 1);
    ck_assert_double_eq_tol(runs.at[0].exposed_ms, 75e-6, 1e-12);
    ck_assert_double_eq_tol(runs.at[0].step_ms, 390e-6, 1e-12);
    save_log("r/log.jsonl", (struct made){.ranks = 4, .rate = 1});
    expect_error(ss_runs_add(&runs, in_folder("r")), SS_ERR_MISMATCH,
                 "the trace has 2 ranks, the log 4");
    ck_assert_uint_eq(runs.count, 1);
    ss_runs_free(&runs);
}
END_TEST

/* --- Choice of the log */

/* Of several logs in a folder, next to other files of the same extension, the one with the most
 * epochs is chosen. */
START_TEST(several_logs)
{
    struct ss_runs runs = {0};
    save_log("a.jsonl", (struct made){.rate = 1, .epoch = 2});
    save_log("b.jsonl", (struct made){.rate = 10, .epoch = 5});
    save_log("c.jsonl", (struct made){.rate = 20, .epoch = 5});
    save("d.jsonl", "{\"event\":\"start\"}\n");
    save_trace_in(".", 0, 1);
    const struct timeval old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    ck_assert_int_eq(utimes(in_folder("b.jsonl"), old), 0);
    ck_assert_int_eq(ss_runs_add(&runs, folder), SS_OK);
    ck_assert_uint_eq(runs.count, 1);
    ck_assert_double_eq(runs.at[0].log.rate, 100);
    ck_assert_int_eq(runs.at[0].has_exposed, 1); /* next to the log */
    ss_runs_free(&runs);
}
END_TEST

/* A run that was resumed with the same log and killed within a line. */
START_TEST(resumed)
{
    struct ss_runs runs = {0};
    save_log("log.jsonl", (struct made){.rate = 5});
    say("{\"event\":\"start\",\"model\":\"resnet50\",\"ranks\":2,\"batch\":64,\"precision\":"
        "\"fp16\",\"nodes\":2,\"device\":\"cuda\",\"width\":\"8,8\",\"image_size\":64,"
        "\"image_height\":48,\"images\":500}\n");
    say("{\"event\":\"epoch\",\"epoch\":4,\"train_loss\":null,\"train_accuracy\":0,"
        "\"images_per_s\":77.5,\"images_per_s_with_validation\":70}\n{\"event\":\"ep");
    write_file("log.jsonl", trace_text, trace_bytes);
    ck_assert_int_eq(ss_runs_add(&runs, in_folder("log.jsonl")), SS_OK);
    const struct ss_run_log *log = &runs.at[0].log;
    ck_assert_int_eq(log->ranks, 2);
    ck_assert_int_eq(log->nodes, 2);
    ck_assert(ss_size_is(log->image_size, (struct ss_size){48, 64}));
    ck_assert_str_eq(log->width, "8,8");
    ck_assert_int_eq(log->epoch, 4);
    ck_assert_double_eq(log->rate, 77.5);
    ck_assert(isnan(log->train_loss));
    ck_assert_int_eq(log->ended, 0);
    ss_runs_free(&runs);
    /* Resumed on more ranks, but killed before an epoch ended: the figures are of one rank. */
    save_log("log.jsonl", (struct made){.rate = 5});
    say("{\"event\":\"start\",\"model\":\"resnet50\",\"ranks\":4,\"batch\":64,\"precision\":"
        "\"fp16\",\"nodes\":2,\"device\":\"cuda\",\"width\":\"8,8\",\"image_size\":64,\"images\":"
        "500}\n");
    write_file("log.jsonl", trace_text, trace_bytes);
    ck_assert_int_eq(ss_runs_add(&runs, in_folder("log.jsonl")), SS_OK);
    ck_assert_int_eq(runs.at[0].log.ranks, 1);
    ck_assert_double_eq(runs.at[0].log.rate, 15);
    ck_assert_int_eq(runs.at[0].log.ended, 0);
    ss_runs_free(&runs);
}
END_TEST

/* --- Invalid logs: a valid one with a replacement */

static const struct {
    const char *old, *new, *says;
} wrong[] = {
    {"{\"event\":\"start\"", "event", "log.jsonl: line 1: not JSON"},
    {"\"event\":\"start\"", "\"event\":5", "line 1: no \"event\""},
    {"\"event\":\"start\"", "\"event\":\"eval\"", "event \"epoch\" before any \"start\""},
    {"\"nodes\":1,", "", "line 1: event \"start\" has no \"nodes\"; was it written by an older"},
    {"\"nodes\":1", "\"nodes\":\"1\"", "nodes: \"1\" is not a whole number above 0"},
    {"\"nodes\":1", "\"nodes\":4", "nodes: 4 is not at most the number of ranks"},
    {"\"ranks\":2", "\"ranks\":0", "ranks: 0 is not a whole number above 0"},
    {"\"batch\":1024", "\"batch\":1023", "batch: 1023 is not a multiple of the number of ranks"},
    {"\"model\":\"resnet50\"", "\"model\":7", "model: 7 is not a text"},
    {"\"image_size\":224", "\"image_size\":224,\"image_height\":\"3\"",
     "image_height: \"3\" is not a whole number above 0"},
    {"\"image_size\":224", "\"image_size\":224000000000",
     "image_size: 224000000000 is not a number of pixels"},
    {"\"images_per_s\":7", "\"images_per_s\":null", "line 3: event \"epoch\": images_per_s: null"},
    {"\"images_per_s\":7", "\"images_per_s\":-7", "images_per_s: -7 is not a number above 0"},
    {"\"images_per_s_with_validation\"", "\"x\"", "has no \"images_per_s_with_validation\""},
    {"\"train_loss\":5", "\"train_loss\":\"5\"", "train_loss: \"5\" is not a number"},
    {"\"event\":\"epoch\"", "\"event\":\"poch\"", "no event \"epoch\" in 4 lines"},
};

START_TEST(wrong_logs)
{
    struct ss_runs runs = {0};
    static char text[4096];
    save_log("log.jsonl", (struct made){.ranks = 2, .rate = 7, .epoch = 1});
    char *at = strstr(trace_text, wrong[_i].old);
    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - trace_text), trace_text, wrong[_i].new,
             at + strlen(wrong[_i].old));
    save("log.jsonl", text);
    expect_error(ss_runs_add(&runs, in_folder("log.jsonl")), SS_ERR_FORMAT, wrong[_i].says);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "log.jsonl: "));
    ck_assert_uint_eq(runs.count, 0);
    ss_runs_free(&runs);
}
END_TEST

START_TEST(no_logs)
{
    struct ss_runs runs = {0};
    expect_error(ss_runs_add(&runs, in_folder("no")), SS_ERR_IO, "No such file");
    expect_error(ss_runs_add(&runs, folder), SS_ERR_FORMAT, "no log of starstep train --log-json");
    make_dir("empty");
    expect_error(ss_runs_add(&runs, folder), SS_ERR_FORMAT, "no log of starstep train --log-json");
    save("empty/log.jsonl", "{\"event\":\"start\"}\n");
    expect_error(ss_runs_add(&runs, folder), SS_ERR_FORMAT, "empty/log.jsonl: line 1: event");
    save("steps.jsonl", "{\"event\":\"step\"}\n");
    expect_error(ss_runs_add(&runs, in_folder("steps.jsonl")), SS_ERR_FORMAT, "no event \"start\"");
    ck_assert_int_eq(remove(in_folder("steps.jsonl")), 0);
    save_run("good", (struct made){.rate = 1}); /* is added despite the bad one */
    expect_error(ss_runs_add(&runs, folder), SS_ERR_FORMAT, "empty/log.jsonl: line 1: event");
    ck_assert_uint_eq(runs.count, 1);
    ss_runs_free(&runs);
}
END_TEST

/* One of the folders searched for logs, folders with logs and monitor files cannot be read. */
START_TEST(unreadable)
{
    struct ss_runs runs = {0};
    save_run("a", (struct made){.rate = 1});
    make_dir("a/monitor");
    save_monitor("a/monitor");
    ck_assert_int_eq(ss_runs_add(&runs, folder), SS_OK);
    ss_runs_free(&runs);
    const int all = scans;
    ck_assert_int_eq(all, 4); /* the folder twice, a, a/monitor */
    for (int i = 1; i <= all; i++) {
        scans = 0;
        failing_scan = i;
        expect_error(ss_runs_add(&runs, folder), SS_ERR_IO, ": Permission denied");
        ck_assert_uint_eq(runs.count, 0);
        ss_runs_free(&runs);
    }
}
END_TEST

/* Of two logs with equally many epochs the newer one is chosen, even if by less than a second. */
START_TEST(younger)
{
    struct ss_runs runs = {0};
    save_log("a.jsonl", (struct made){.rate = 1});
    save_log("b.jsonl", (struct made){.rate = 2});
    const long microseconds[] = {400000, 600000, 300000};
    for (int i = 0; i < 2; i++) {
        const struct timeval a = {1000000000, microseconds[i]},
                             b = {1000000000, microseconds[i + 1]};
        ck_assert_int_eq(utimes(in_folder("a.jsonl"), (const struct timeval[]){a, a}), 0);
        ck_assert_int_eq(utimes(in_folder("b.jsonl"), (const struct timeval[]){b, b}), 0);
        ck_assert_int_eq(ss_runs_add(&runs, folder), SS_OK);
        ck_assert_double_eq(runs.at[0].log.rate, i ? 3 : 6); /* a, b */
        ss_runs_free(&runs);
    }
}
END_TEST

/* --- Output */

static char *print(void (*to)(const struct ss_scaling *s, FILE *out))
{
    struct ss_scaling s;
    struct ss_runs runs = read_runs();
    char *text;
    size_t n;
    ck_assert_int_eq(ss_scaling_make(&runs, &s), SS_OK);
    FILE *out = open_memstream(&text, &n);
    ck_assert_ptr_nonnull(out);
    to(&s, out);
    ck_assert_int_eq(ss_scaling_draw(&s, in_folder("s.svg")), SS_OK);
    fclose(out);
    ss_scaling_free(&s);
    ss_runs_free(&runs);
    return text;
}

static void to_markdown(const struct ss_scaling *s, FILE *out)
{
    ss_scaling_markdown(s, "model: a in x, b in y", out);
}

static void to_csv(const struct ss_scaling *s, FILE *out)
{
    ss_scaling_csv(s, 0, out);
    ss_scaling_csv(s, 1, out);
}

static const char *const lines[] = {
    "| Config | Train Loss (Epoch 3) | Train Acc (Epoch 3) | Throughput (img/s) | GPU 0 Peak (MiB) "
    "| GPU 0 Avg (MiB) | GPU 0 Mode (MiB) | Throughput Scaling vs 1G | Memory Avg Scaling vs 1G | "
    "Efficiency | Training only (img/s) | Training only Scaling vs 1G | Training only Efficiency | "
    "Exposed Communication (ms/step) |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    "| 1 GPU, 1 Node (baseline) | 3.000 | 3.00% | 240.0 | 3000 | 2333.33 | 3000 | 1.00× | 1.00× | "
    "100.0% | 300.0 | 1.00× | 100.0% | - |\n"
    "| 2 GPUs, 1 Node | 3.000 | 3.00% | 456.0 | - | - | - | 1.90× | - | 95.0% | 570.0 | 1.90× | "
    "95.0% | 0.000 (19.2%) |\n",
    "### Multi-Node Scaling (2 GPUs per Node)\n",
    "Throughput Scaling vs 1N",
    "\n| 1 Node (baseline) | 3.000 | 3.00% | 456.0 |",
    ("\n| 2 Nodes | 3.000 | 3.00% | 866.4 | - | - | - | 1.90× | - | 95.0% | 1083.0 | 1.90× | 95.0% "
     "| - |\n"),
    "not of the same kind: model: a in x, b in y.",
};

/* Memory scaling is per rank: the processes of two ranks on a node use as much as those of one. */
START_TEST(memory_of_ranks)
{
    save_run("a1", (struct made){.rate = 100, .device = "cpu"});
    save_run("a2", (struct made){.ranks = 2, .rate = 190, .device = "cpu"});
    save_run("n2", (struct made){.ranks = 2, .nodes = 2, .rate = 190, .device = "cpu"});
    save_monitor("a1");
    save_monitor("a2");
    save_monitor("n2");
    char *text = print(to_markdown);
    ck_assert_ptr_nonnull(strstr(text, "| Memory Avg per Rank Scaling vs 1R |"));
    ck_assert_msg(strstr(text, "| 1.90× | 0.50× |") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "| 1.90× | 1.00× |") != NULL, "%s", text);
    free(text);
}
END_TEST

/* Efficiency above 110 % is flagged; a missing trace is noted. */
START_TEST(marked)
{
    save_run("a1", (struct made){.rate = 100});
    save_run("a2", (struct made){.ranks = 2, .rate = 219});
    char *text = print(to_markdown);
    ck_assert_ptr_null(strstr(text, "(!)"));
    ck_assert_ptr_nonnull(strstr(text, "measured for runs of several GPUs with --trace-steps."));
    free(text);
    save_run("a4", (struct made){.ranks = 4, .rate = 444});
    text = print(to_markdown);
    ck_assert_ptr_nonnull(strstr(text, "| 109.5% |"));
    ck_assert_ptr_nonnull(strstr(text, "| 111.0% (!) |"));
    ck_assert_ptr_nonnull(strstr(text, "\n(!): above 110 %, so something else differs"));
    free(text);
}
END_TEST

START_TEST(printed)
{
    save_guide();
    save_monitor("a1");
    save_trace_in("a2", 0, 2);
    char *text = print(to_markdown);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(strstr(text, lines[i]) != NULL, "\"%s\" is not in\n%s", lines[i], text);
    free(text);
    text = print(to_csv);
    ck_assert_msg(strstr(text, "\"2 GPUs, 1 Node\",2,1,2,512,3,3,0.03,456,,,,1.9,,0.95,570,1.9,"
                               "0.95,7.5e-05,0.192307692,\"") != NULL,
                  "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "\"1 Node (baseline)\",2,1,2,512,"));
    ck_assert_ptr_nonnull(strstr(text, "\"4 Nodes\",8,4,2,512,3,3,0.03,1459.2,,,,3.2,,0.8,1824,"));
    free(text);
    size_t n;
    char *svg = (char *)read_file("s.svg", &n);
    svg[n] = '\0';
    ck_assert_ptr_nonnull(strstr(svg, ">2 GPUs per node<"));
    ck_assert_ptr_nonnull(strstr(svg, ">resnet50, 512 images a step on each GPU, fp16<"));
    ck_assert_ptr_nonnull(strstr(svg, "</svg>\n"));
    free(svg);
}
END_TEST

/* Damaged logs either give a table or are refused. */
START_TEST(damaged)
{
    static uint8_t b[1 << 14];
    struct ss_rng rng;
    int good = 0, rounds = 200;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, (uint32_t)_i, 0);
    for (int round = 0; round < rounds; round++) {
        struct ss_runs runs = {0};
        save_log("log.jsonl", (struct made){.ranks = 2, .rate = 7});
        size_t size = trace_bytes;
        memcpy(b, trace_text, size);
        for (uint32_t i = 0; i <= ss_rng_below(&rng, 3) && size; i++)
            size = damage_text(&rng, b, size, sizeof b);
        write_file("log.jsonl", b, size);
        if (ss_runs_add(&runs, folder) == SS_OK) {
            ss_runs_free(&runs);
            if (good++ % 8 == 0) {
                free(print(to_markdown));
                free(print(to_csv));
            }
        }
        ss_runs_free(&runs);
    }
    ck_assert_int_gt(good, rounds / 20);
    ck_assert_int_lt(good, rounds);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scaling");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, two_tables);
    tcase_add_test(tc, baselines);
    tcase_add_test(tc, repeated);
    tcase_add_test(tc, different);
    tcase_add_test(tc, memory);
    tcase_add_test(tc, exposed);
    tcase_add_test(tc, several_logs);
    tcase_add_test(tc, resumed);
    tcase_add_loop_test(tc, wrong_logs, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(tc, no_logs);
    tcase_add_test(tc, unreadable);
    tcase_add_test(tc, younger);
    tcase_add_test(tc, memory_of_ranks);
    tcase_add_test(tc, marked);
    tcase_add_test(tc, printed);
    tcase_add_loop_test(tc, damaged, 0, 4);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
