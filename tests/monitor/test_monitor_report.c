/* test_monitor_report.c: reading of a monitor's files, their statistics, and plots. */
#include "apps/monitor/monitor_report.h"
#include "apps/plot/plot.h"
#include "apps/plot/scale.h"
#include "tests/damage_text.h"
#include "tests/data_common.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#define GPU_HEAD                                                                                   \
    "timestamp, index, name, utilization.gpu [%], utilization.memory [%], memory.total [MiB], "    \
    "memory.used [MiB], power.draw [W]\n"
#define CPU_HEAD                                                                                   \
    "elapsed [s], cpu [%], memory.rss [MiB], memory.virtual [MiB], memory.pss [MiB], processes, "  \
    "load, node.memory.used [MiB], timestamp\n"

static void save(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static struct ss_monitor_data read_all(const char *name)
{
    struct ss_monitor_data data;
    enum ss_status status = ss_monitor_read(name ? in_folder(name) : folder, &data);
    ck_assert_msg(status == SS_OK, "%s", ss_log_last_error());
    return data;
}

static void check_stats(const double *value, size_t n, double peak, double mean, double mode,
                        size_t count)
{
    struct ss_sample_stats s;
    ck_assert_int_eq(ss_sample_stats_of(value, n, &s), SS_OK);
    ck_assert_uint_eq(s.count, count);
    ck_assert_double_eq_tol(s.peak, peak, 1e-12);
    ck_assert_double_eq_tol(s.mean, mean, 1e-12);
    ck_assert_double_eq_tol(s.mode, mode, 1e-12);
}

START_TEST(stats)
{
    check_stats((const double[]){5, 7, 7, 5, 9, NAN}, 6, 9, 6.6, 5, 5); /* a tie: the smaller */
    check_stats((const double[]){5.2, 7.6, 8.4, NAN, 5}, 5, 8.4, 6.55, 5, 4); /* whole MiB */
    check_stats((const double[]){3, 8.4, 7.6}, 3, 8.4, 19.0 / 3, 8, 3);
    check_stats((const double[]){-3, -4}, 2, -3, -3.5, -4, 2);
    check_stats((const double[]){NAN}, 1, 0, 0, 0, 0);
    check_stats(NULL, 0, 0, 0, 0, 0);
}
END_TEST

/* Two hosts; the report lists GPUs first. The last line of node1 is truncated. */
static void save_two_hosts(void)
{
    save("gpu_memory_log-node2.csv",
         GPU_HEAD "2026/03/01 00:00:01.000, 0, Fake, 10, 5, 80000, 500, [N/A]\n");
    save("gpu_memory_log-node1.csv",
         GPU_HEAD "2026/02/28 23:59:58.500, 1, Fake B, 90, 5, 80000, 700, 100.50\n"
                  "2026/02/28 23:59:58.500, 0, Fake A, 50, 5, 80000, 26532, 300.00\n"
                  "2026/03/01 00:00:03.500, 1, [GPU is lost], [GPU is lost], [GPU is lost], [GPU "
                  "is lost], [GPU is lost], [GPU is lost]\n"
                  "2026/03/01 00:00:03.500, 0, Fake A, 70, 5, 80000, 26532, 500.00\n"
                  "2026/03/01 00:00:08.500, 0, Fake A, 100, 5, 80000, 20000, 400.00\n"
                  "2026/03/01 00:00:13.500, 0, Fake A, 100, 5, 80");
    save("cpu_memory_log-node1.csv", CPU_HEAD
         "0.000, [N/A], 100.000, 900.000, 90.000, 3, 1.00, 4000, 2026/02/28 23:59:58.500\n"
         "5.000, 200.0, 300.400, 900.000, [N/A], 3, 2.00, 4000, 2026/03/01 00:00:03.500\n");
    save("other.csv", "not, for, us\n");
}

static const char two_hosts[] =
    "[gpu_memory_log-node1 - GPU 0] Peak = 26532 MiB, Avg = 24354.67 MiB, Mode = 26532 MiB\n"
    "[gpu_memory_log-node1 - GPU 0] 3 samples in 10.0 s, utilisation Avg = 73.33 %, Peak = 100.00 "
    "%, power Avg = 400.00 W, Peak = 500.00 W (Fake A)\n"
    "[gpu_memory_log-node1 - GPU 1] Peak = 700 MiB, Avg = 700.00 MiB, Mode = 700 MiB\n"
    "[gpu_memory_log-node1 - GPU 1] 2 samples in 5.0 s, 1 without memory, utilisation Avg = 90.00 "
    "%, Peak = 90.00 %, power Avg = 100.50 W, Peak = 100.50 W (Fake B)\n"
    "[gpu_memory_log-node2 - GPU 0] Peak = 500 MiB, Avg = 500.00 MiB, Mode = 500 MiB\n"
    "[gpu_memory_log-node2 - GPU 0] 1 sample in 0.0 s, utilisation Avg = 10.00 %, Peak = 10.00 % "
    "(Fake)\n"
    "[cpu_memory_log-node1 - CPU] Peak = 300 MiB, Avg = 200.20 MiB, Mode = 100 MiB\n"
    "[cpu_memory_log-node1 - CPU] 2 samples in 5.0 s, CPU Avg = 200.00 %, Peak = 200.00 %, "
    "proportional memory Avg = 90.00 MiB, Peak = 90.00 MiB, load Avg = 1.50, Peak = 2.00\n";

START_TEST(lines)
{
    char *text;
    size_t n;
    save_two_hosts();
    struct ss_monitor_data data = read_all(NULL);
    FILE *out = open_memstream(&text, &n);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(ss_monitor_print(&data, out), SS_OK);
    fclose(out);
    ck_assert_str_eq(text, two_hosts);
    free(text);
    ss_monitor_data_free(&data);
}
END_TEST

/* nvidia-smi output with units and other columns, without power, and with a second header after a
 * restart; the summary line equals the guide's. */
START_TEST(nvidia_smi)
{
    char *text;
    size_t n;
    save("gpu_memory_log.csv",
         "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
         "2025/11/02 10:00:00.123, 0, Tesla V100-SXM2-32GB, 3 MiB, 32768 MiB\n"
         "2025/11/02 10:00:05.125, 0, Tesla V100-SXM2-32GB, 26532 MiB, 32768 MiB\r\n"
         "\n"
         "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
         "2025/11/02 10:00:10.125, 0, Tesla V100-SXM2-32GB, 26532 MiB, 32768 MiB\n");
    struct ss_monitor_data data = read_all("gpu_memory_log.csv");
    ck_assert_uint_eq(data.count, 1);
    ck_assert_uint_eq(data.series[0].count, 3);
    ck_assert_double_eq(data.series[0].at[SS_SAMPLE_TOTAL][1], 32768);
    FILE *out = open_memstream(&text, &n);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(ss_monitor_print(&data, out), SS_OK);
    fclose(out);
    static const char line[] =
        "[gpu_memory_log - GPU 0] Peak = 26532 MiB, Avg = 17689.00 MiB, Mode = 26532 MiB\n";
    ck_assert_msg(strncmp(text, line, strlen(line)) == 0, "%s", text);
    free(text);
    ss_monitor_data_free(&data);
}
END_TEST

/* The three output formats of psrecord 1.4. */
START_TEST(psrecord)
{
    static const char *const forms[] = {"# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n"
                                        "       0.000        0.000      100.453      905.383\n"
                                        "       5.009      150.000      300.453      905.383\n",
                                        "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)  "
                                        "Read count  Write count   Read bytes  "
                                        "Write bytes \n"
                                        "       0.000        0.000      100.453      905.383       "
                                        "    18            0            0  "
                                        "          0\n"
                                        "       5.009      150.000      300.453      905.383       "
                                        "    18            0            0  "
                                        "          0\n",
                                        "elapsed_time,nproc,cpu,mem_real,mem_virtual\n"
                                        "6.008148193359375e-05,2,0.0,100.453,905.383\n"
                                        "5.009,2,150.0,300.453,905.3828125\n"};
    const struct timespec written[2] = {{.tv_sec = 1761991205}, {.tv_sec = 1761991205}};
    ck_assert_int_eq(setenv("TZ", "UTC", 1), 0);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        save("cpu_memory_log.txt", forms[i]);
        ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("cpu_memory_log.txt"), written, 0), 0);
        struct ss_monitor_data data = read_all(NULL);
        ck_assert_uint_eq(data.count, 1);
        const struct ss_samples *s = data.series;
        ck_assert_str_eq(s->file, "cpu_memory_log");
        ck_assert_int_eq(s->gpu, -1);
        ck_assert_uint_eq(s->count, 2);
        ck_assert_double_eq(s->at[SS_SAMPLE_MEMORY][1], 300.453);
        ck_assert_double_eq(s->at[SS_SAMPLE_BUSY][1], 150);
        ck_assert_double_eq(s->at[SS_SAMPLE_TIME][1], 1761991205);
        ck_assert_double_eq_tol(s->at[SS_SAMPLE_TIME][0], 1761991205 - 5.009, 1e-3);
        ss_monitor_data_free(&data);
    }
}
END_TEST

#define GPU_LINE "2026/03/01 00:00:01.000, 0, Fake, 10, 5, 80000, 500, 3\n"
static const struct {
    const char *text, *says;
} wrong[] = {
    {"", "no complete line"},
    {GPU_HEAD GPU_LINE "2026/03/01 00:00:01, 0, Fake, 10, 5, 80000, 5x, 3\n",
     "line 3: memory.used [MiB]: \"5x\" is not a number"},
    {"# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n  0.0  0.0  1.0\n",
     "line 2: 3 fields, the first line has 4"},
    {"elapsed_time,cpu,mem_real\nnan,1,1\n",
     "line 2: elapsed_time: \"nan\" is not a number of seconds"},
    {GPU_HEAD "2026-03-01 00:00:01, 0, Fake, 10, 5, 80000, 5, 3\n",
     "line 2: timestamp: \"2026-03-01 00:00:01\" is not a time"},
    {GPU_HEAD "2026/13/01 00:00:01, 0, Fake, 10, 5, 80000, 5, 3\n", "timestamp"},
    {GPU_HEAD "2026/03/01 00:00:01, -1, Fake, 10, 5, 80000, 5, 3\n",
     "line 2: index: \"-1\" is not the index of a GPU"},
    {GPU_HEAD "2026/03/01 00:00:01, [N/A], Fake, 10, 5, 80000, 5, 3\n", "index of a GPU"},
    {GPU_HEAD "2026/03/01 00:00:01, 0, Fake, 10, 5\n", "line 2: 5 fields, the first line has 8"},
    {GPU_HEAD "2026/03/01 00:00:01, 0, Fake, [N/A, 5, 80000, 5, 3\n", "\"[N/A\" is not a number"},
    {GPU_HEAD "2026/03/01 00:00:01, 0, Fake, 10, 5, 80000, nan, 3\n", "\"nan\" is not a number"},
    {"timestamp, index, name\n", "line 1: no column \"memory.used\""},
    {"index, memory.used\n", "line 1: no column \"timestamp\""},
    {"elapsed [s], cpu [%]\n", "line 1: no column"},
};

START_TEST(wrong_files)
{
    struct ss_monitor_data data;
    save("gpu_memory_log-x.csv", wrong[_i].text);
    expect_error(ss_monitor_read(folder, &data), SS_ERR_FORMAT, wrong[_i].says);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "gpu_memory_log-x.csv: "));
}
END_TEST

START_TEST(no_files)
{
    struct ss_monitor_data data = read_all(NULL);
    ck_assert_uint_eq(data.count, 0);
    expect_error(ss_monitor_read(in_folder("no"), &data), SS_ERR_IO, "No such file");
    write_file("zero", GPU_HEAD "a\0b\n", strlen(GPU_HEAD) + 4);
    expect_error(ss_monitor_read(in_folder("zero"), &data), SS_ERR_FORMAT, "a zero byte");
}
END_TEST

/* --- Plots */

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

START_TEST(image)
{
    save_two_hosts();
    struct ss_monitor_data data = read_all(NULL);
    ck_assert_int_eq(ss_monitor_draw(&data, in_folder("a.svg")), SS_OK);
    char *svg = read_text("a.svg");
    ck_assert_int_eq(count(svg, "</svg>\n"), 1);
    ck_assert_int_eq(count(svg, "class=\"head\""), 6); /* panels */
    /* 3 + 3 + 2 curves of GPUs, 3 of processes; each has a legend entry too */
    ck_assert_int_eq(count(svg, "<path "), 22);
    ck_assert_ptr_nonnull(strstr(svg, ">seconds since 2026/02/28 23:59:58<"));
    ck_assert_ptr_nonnull(strstr(svg, ">node2 GPU 0<"));
    free(svg);
    expect_error(ss_monitor_draw(&data, in_folder("no/a.svg")), SS_ERR_IO, "no/a.svg");
    ss_monitor_data_free(&data);
}
END_TEST

/* A curve at known coordinates: the axis spans x = 84 to 820; the panel begins at y = 70 and is 190
 * high. */
START_TEST(places)
{
    const double x[] = {0, 1, 2, 3, 20, 21}, y[] = {0, 50, NAN, 100, 100, 0};
    struct ss_curve curve = {.label = "a <b> & \"c\"", .x = x, .y = y, .count = 6, .gaps = 1};
    const struct ss_panel panel = {.title = "t", .y_label = "%", .curve = &curve, .curves = 1};
    const struct ss_plot plot = {.title = "p", .x_label = "x", .panel = &panel, .panels = 1};
    ck_assert_int_eq(ss_plot_write(in_folder("p.svg"), &plot), SS_OK);
    char *svg = read_text("p.svg");
    /* The line is interrupted at NaN and where x jumps; 736 pixels for 21 units. */
    ck_assert_msg(strstr(svg, " d=\"M84.0 260.0L119.0 165.0M189.1 70.0M785.0 70.0L820.0 260.0\"") !=
                      NULL,
                  "%s", svg);
    ck_assert_ptr_nonnull(strstr(svg, ">a &lt;b&gt; &amp; &quot;c&quot;<"));
    ck_assert_ptr_nonnull(strstr(svg, ">15<"));
    free(svg);
}
END_TEST

/* Long curves are decimated, but their peaks are preserved. */
START_TEST(long_curve)
{
    enum { N = 100000 };
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i == 77777 ? 100 : 1;
    }
    struct ss_curve curve = {.label = "a", .x = x, .y = y, .count = N};
    const struct ss_panel panel = {.title = "t", .y_label = "", .curve = &curve, .curves = 1};
    const struct ss_plot plot = {.title = "p", .x_label = "x", .panel = &panel, .panels = 1};
    ck_assert_int_eq(ss_plot_write(in_folder("p.svg"), &plot), SS_OK);
    char *svg = read_text("p.svg");
    ck_assert_uint_lt(strlen(svg), 60000);
    ck_assert_int_eq(count(svg, " 70.0L"), 1);
    free(svg);
    free(x);
    free(y);
}
END_TEST

static void check_ticks(struct ss_scale s, int n, const double *want)
{
    ck_assert_int_eq(s.ticks, n);
    for (int i = 0; i < n; i++)
        ck_assert_double_eq_tol(s.tick[i], want[i], 1e-9 * fabs(want[i]) + 1e-15);
}

START_TEST(scales)
{
    check_ticks(ss_scale_linear(0, 100), 6, (const double[]){0, 20, 40, 60, 80, 100});
    check_ticks(ss_scale_linear(0, 26532), 4, (const double[]){0, 10000, 20000, 30000});
    check_ticks(ss_scale_linear(0, 0), 6, (const double[]){0, 0.2, 0.4, 0.6, 0.8, 1});
    check_ticks(ss_scale_linear(0, 0.003), 4, (const double[]){0, 0.001, 0.002, 0.003});
    check_ticks(ss_scale_linear(-1, 1), 5, (const double[]){-1, -0.5, 0, 0.5, 1});
    check_ticks(ss_scale_log(700, 19000), 5, (const double[]){1000, 2000, 5000, 10000, 20000});
    check_ticks(ss_scale_log(1800, 1800), 3, (const double[]){1600, 1800, 2000});
    struct ss_scale s = ss_scale_linear(0, 100);
    s.at = 200;
    s.end = 100;
    ck_assert_double_eq(ss_scale_place(&s, 25), 175);
    s = ss_scale_log(115, 1000);
    s.at = 0;
    s.end = 1;
    ck_assert_double_eq_tol(ss_scale_place(&s, sqrt(100 * 1150.0)), 0.5, 1e-12);
}
END_TEST

/* Damaged files are either read and drawn, or refused. */
START_TEST(damaged)
{
    static uint8_t b[1 << 14];
    struct ss_rng rng;
    size_t whole;
    int good = 0, rounds = 200;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, (uint32_t)_i, 0);
    save_two_hosts();
    uint8_t *text = read_file("gpu_memory_log-node1.csv", &whole);
    for (int round = 0; round < rounds; round++) {
        struct ss_monitor_data data;
        size_t size = whole;
        memcpy(b, text, size);
        for (uint32_t i = 0; i <= ss_rng_below(&rng, 3) && size; i++)
            size = damage_text(&rng, b, size, sizeof b);
        write_file("gpu_memory_log-node1.csv", b, size);
        if (ss_monitor_read(folder, &data) != SS_OK)
            continue;
        if (good++ % 8 == 0)
            ck_assert_int_eq(ss_monitor_draw(&data, in_folder("a.svg")), SS_OK);
        ss_monitor_data_free(&data);
    }
    free(text);
    ck_assert_int_gt(good, rounds / 20);
    ck_assert_int_lt(good, rounds);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("monitor report");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, stats);
    tcase_add_test(tc, lines);
    tcase_add_test(tc, nvidia_smi);
    tcase_add_test(tc, psrecord);
    tcase_add_loop_test(tc, wrong_files, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(tc, no_files);
    tcase_add_test(tc, image);
    tcase_add_test(tc, places);
    tcase_add_test(tc, long_curve);
    tcase_add_test(tc, scales);
    tcase_add_loop_test(tc, damaged, 0, 4);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
