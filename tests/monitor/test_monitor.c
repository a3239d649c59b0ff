/* test_monitor.c: the monitor's samples (NVML, /proc) and its files, which grow by whole lines. */
#include "core/clock.h"
#include "apps/monitor/lines.h"
#include "apps/monitor/monitor.h"
#include "apps/monitor/nvml.h"
#include "apps/monitor/process.h"
#include "apps/monitor/process_stat.h"
#include "tests/data_common.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* --- NVML: tests/monitor/fake_nvml.c */

static void use_fake(const char *wrong)
{
    char path[4096];
    const char *build = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/tests/monitor/.libs/libfakenvml.so", build ? build : ".");
    setenv("STARSTEP_NVML", path, 1);
    setenv("FAKE_NVML", wrong, 1);
}

START_TEST(nvml_values)
{
    char why[256] = "";
    struct ss_gpu_sample s;
    use_fake("");
    struct ss_nvml *n = ss_nvml_open(why, sizeof why);
    ck_assert_msg(n != NULL, "%s", why);
    ck_assert_int_eq(ss_nvml_count(n), 4);
    for (int k = 0; k < 3; k++) {
        ss_nvml_sample(n, 0, &s);
        ck_assert_str_eq(s.name, "Fake GPU, model 0");
        ck_assert_str_eq(s.failed, "");
        ck_assert_double_eq(s.memory_total, 81920);
        ck_assert_double_eq(s.memory_used, 1000 + 10 * k);
        ck_assert_double_eq(s.busy, 50 + k);
        ck_assert_double_eq(s.memory_busy, 20);
        ck_assert_double_eq(s.power, 300.5);
    }
    ss_nvml_close(n);
}
END_TEST

/* Unsupported and forbidden values are NaN; the others are valid, also from the older call. */
START_TEST(nvml_unsupported)
{
    char why[256];
    struct ss_gpu_sample s;
    use_fake("");
    struct ss_nvml *n = ss_nvml_open(why, sizeof why);
    ck_assert_ptr_nonnull(n);
    ss_nvml_sample(n, 1, &s);
    ck_assert_str_eq(s.failed, "");
    ck_assert_double_eq(s.memory_used, 1000);
    ck_assert_double_eq(s.memory_total, 81920);
    ck_assert(isnan(s.power) && isnan(s.busy) && isnan(s.memory_busy));
    ss_nvml_close(n);
}
END_TEST

START_TEST(nvml_lost)
{
    char why[256];
    struct ss_gpu_sample s;
    use_fake("");
    struct ss_nvml *n = ss_nvml_open(why, sizeof why);
    ck_assert_ptr_nonnull(n);
    for (int k = 0; k < 5; k++) {
        ss_nvml_sample(n, 2, &s);
        ck_assert_str_eq(s.failed, k < 2 ? "" : "GPU is lost");
        ck_assert(isnan(s.memory_used) == (k >= 2) && isnan(s.power) == (k >= 2));
    }
    ss_nvml_sample(n, 3, &s);
    ck_assert_str_eq(s.failed, "Unknown Error, of the fake");
    ss_nvml_sample(n, 0, &s);
    ck_assert_str_eq(s.failed, "");
    ss_nvml_close(n);
}
END_TEST

/* The health values for the doctor: of GPU 0, with one fault at a time, and of GPUs 1 and 3. */
START_TEST(nvml_health)
{
    static const char *const wrongs[] = {"", "ecc", "throttle", "shared", "nvlink"};
    char why[256];
    struct ss_gpu_health h;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const char *wrong = wrongs[i];
        use_fake(wrong);
        struct ss_nvml *n = ss_nvml_open(why, sizeof why);
        ck_assert_ptr_nonnull(n);
        ck_assert_str_eq(ss_nvml_driver(n), "550.0-fake");
        ss_nvml_health(n, 0, &h);
        ck_assert_str_eq(h.bus_id, "00000000:01:00.0");
        ck_assert_int_eq(h.persistence, 1);
        ck_assert_int_eq(h.processes, strcmp(wrong, "shared") ? 0 : 2);
        ck_assert_int_eq(h.links, 2);
        ck_assert_int_eq(h.links_active, strcmp(wrong, "nvlink") ? 2 : 1);
        ck_assert_int_eq((int)h.ecc_errors, strcmp(wrong, "ecc") ? 0 : 3);
        if (strcmp(wrong, "throttle"))
            ck_assert_ptr_null(h.slowed);
        else
            ck_assert_str_eq(h.slowed, "too hot");
        ss_nvml_health(n, 1, &h);
        ck_assert_str_eq(h.bus_id, "00000000:02:00.0");
        ck_assert(h.persistence == 0 && h.processes == 0 && h.links_active == 2 &&
                  h.ecc_errors == 0 && !h.slowed);
        ss_nvml_health(n, 3, &h);
        ck_assert(!*h.bus_id && h.persistence == -1 && h.processes == -1 && h.links == 0 &&
                  h.ecc_errors == -1 && !h.slowed);
        ss_nvml_close(n);
    }
}
END_TEST

/* Bits as in nvml.h. Faults are hardware and software thermal slowdown, power brake and hardware
 * slowdown; the others are not. */
START_TEST(nvml_slowed)
{
    static const struct {
        const char *bits, *why;
    } cases[] = {{"0x1", NULL},
                 {"0x2", NULL},
                 {"0x4", NULL},
                 {"0x8", "hardware slowdown"},
                 {"0x10", NULL},
                 {"0x20", "too hot"},
                 {"0x40", "too hot"},
                 {"0x48", "too hot"},
                 {"0x80", "power brake of the node's power supply"},
                 {"0x88", "power brake of the node's power supply"},
                 {"0x100", NULL}};
    char why[256];
    struct ss_gpu_health h;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        use_fake(cases[i].bits);
        struct ss_nvml *n = ss_nvml_open(why, sizeof why);
        ck_assert_ptr_nonnull(n);
        ss_nvml_health(n, 0, &h);
        ck_assert_msg(!h.slowed == !cases[i].why, "%s", cases[i].bits);
        if (h.slowed)
            ck_assert_str_eq(h.slowed, cases[i].why);
        ss_nvml_close(n);
    }
}
END_TEST

static const struct {
    const char *file, *wrong, *why; /* file NULL: the fake library */
} absent[] = {
    {NULL, "init", "nvmlInit: Driver Not Loaded"},
    {NULL, "count", "Unknown Error, of the fake"},
    {NULL, "none", "NVML found none"},
    {"/nowhere/libnvidia-ml.so.1", "", "cannot open shared object file"},
    {"libc.so.6", "", "libc.so.6 has no nvmlInit_v2"},
};

START_TEST(nvml_absent)
{
    char why[256] = "";
    use_fake(absent[_i].wrong);
    if (absent[_i].file)
        setenv("STARSTEP_NVML", absent[_i].file, 1);
    ck_assert_ptr_null(ss_nvml_open(why, sizeof why));
    ck_assert_msg(strstr(why, absent[_i].why) != NULL, "\"%s\"", why);
}
END_TEST

/* --- /proc */

START_TEST(stat_names)
{
    struct process_stat s;
    const char *const bad[] = {"", "12", "12 (a", "12 (a) S 1 2", "x (a) S 1 2 3"};
    ck_assert(process_stat_parse("12 (a) S 1 (b) R 7 1 1 0 -1 0 9 9 9 9 10 20 3 4 20 0 1 0 777 "
                                 "1048576 2 18446744073709551615 1",
                                 &s));
    ck_assert_int_eq(s.pid, 12);
    ck_assert_int_eq(s.parent, 7);
    ck_assert_int_eq(s.state, 'R');
    ck_assert_uint_eq(s.ticks, 37);
    ck_assert_uint_eq(s.start, 777);
    ck_assert_double_eq(s.virtual_, 1);
    ck_assert_double_eq(s.rss, 2.0 * (double)sysconf(_SC_PAGESIZE) / 1048576);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(process_stat_parse(bad[i], &s), 0);
    ck_assert_int_eq(process_stat_read(getpid(), &s), 1);
    ck_assert_int_eq(s.parent, getppid());
}
END_TEST

static void hold_memory(size_t mib)
{
    char *p = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        _exit(9);
    memset(p, 1, mib << 20);
}

static double own_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void burn(double seconds)
{
    double end = own_seconds() + seconds;
    while (own_seconds() < end)
        ;
}

/* A child with a child of its own, both controlled through pipes. */
struct family {
    pid_t child, grandchild;
    int go[2], said[2];
};

static void read_line(int fd)
{
    char c;
    if (read(fd, &c, 1) != 1)
        _exit(8);
}

static void send_number(int fd, pid_t pid)
{
    if (write(fd, &pid, sizeof pid) != sizeof pid)
        _exit(7);
}

/* The grandchild holds 64 MiB, uses 0.4 s of CPU time and exits. With child_stays the child waits
 * for it first. Each step needs a byte in f->go. */
static void start_family(struct family *f, int child_stays)
{
    ck_assert_int_eq(pipe(f->go), 0);
    ck_assert_int_eq(pipe(f->said), 0);
    f->child = fork();
    ck_assert_int_ge(f->child, 0);
    if (!f->child) {
        pid_t pid = fork();
        if (!pid) {
            hold_memory(64);
            send_number(f->said[1], getpid());
            read_line(f->go[0]);
            burn(0.4);
            send_number(f->said[1], getpid());
            read_line(f->go[0]);
            _exit(0);
        }
        if (child_stays)
            waitpid(pid, NULL, 0);
        read_line(f->go[0]);
        _exit(0);
    }
    ck_assert_int_eq(read(f->said[0], &f->grandchild, sizeof f->grandchild), sizeof f->grandchild);
}

static struct ss_process_sample sample(struct ss_processes *p)
{
    struct ss_process_sample s = {0};
    ck_assert_int_eq(ss_processes_sample(p, &s), SS_OK);
    return s;
}

/* Process count, memory and CPU time of a tree until its last process has exited. The CPU time of a
 * process is counted once, even if its parent inherits it. */
START_TEST(tree)
{
    struct family f;
    struct ss_processes *p;
    start_family(&f, 1);
    ck_assert_int_eq(ss_processes_open(SS_PROCESS_TREE, f.child, NULL, &p), SS_OK);
    struct ss_process_sample s = sample(p);
    double begin = ss_seconds();
    ck_assert_int_eq(s.count, 2);
    ck_assert(isnan(s.cpu));
    ck_assert_double_ge(s.rss, 64);
    ck_assert_double_ge(s.virtual_, 64);
    /* PSS counts pages shared by the two once at most. */
    ck_assert(isnan(s.pss) || (s.pss >= 64 && s.pss <= s.rss));

    ck_assert_int_eq(write(f.go[1], "g", 1), 1);
    ck_assert_int_eq(read(f.said[0], &f.grandchild, sizeof f.grandchild), sizeof f.grandchild);
    s = sample(p);
    double wall = ss_seconds() - begin;
    ck_assert_double_ge(s.cpu / 100 * wall, 0.35);
    ck_assert_double_le(s.cpu / 100 * wall, 0.7);
    begin = ss_seconds();
    ck_assert_int_eq(write(f.go[1], "g", 1),
                     1); /* the grandchild exits; the child inherits its 0.4 s */
    while (kill(f.grandchild, 0) == 0)
        usleep(1000);
    s = sample(p);
    wall = ss_seconds() - begin;
    ck_assert_int_eq(s.count, 1);
    ck_assert_double_le(s.rss, 60);
    ck_assert_double_le(s.cpu / 100 * wall, 0.2);
    ck_assert_int_eq(ss_processes_run(p), 1);
    ck_assert_int_eq(write(f.go[1], "g", 1), 1);
    while (ss_processes_run(p)) /* then it is a zombie, not yet waited for */
        usleep(1000);
    ck_assert_int_eq(sample(p).count, 0);
    ck_assert_int_eq(waitpid(f.child, NULL, 0), f.child);
    ss_processes_close(p);
}
END_TEST

/* A process that was sampled once stays in the tree after its parent has exited. */
START_TEST(tree_orphan)
{
    struct family f;
    struct ss_processes *p;
    start_family(&f, 0);
    ck_assert_int_eq(ss_processes_open(SS_PROCESS_TREE, f.child, NULL, &p), SS_OK);
    ck_assert_int_eq(sample(p).count, 2);
    ck_assert_int_eq(kill(f.child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(f.child, NULL, 0), f.child);
    ck_assert_int_eq(sample(p).count, 1);
    ck_assert_int_eq(ss_processes_run(p), 1);
    ck_assert_int_eq(kill(f.grandchild, SIGKILL), 0);
    for (int i = 0; i < 5000 && ss_processes_run(p); i++)
        usleep(1000);
    ck_assert_int_eq(ss_processes_run(p), 0);
    ck_assert_int_eq(sample(p).count, 0);
    ss_processes_close(p);
}
END_TEST

static int has_sample(const char *name)
{
    if (!has_file(name))
        return 0;
    char *text = read_text(name);
    const char *header = strchr(text, '\n');
    const int has = header && strchr(header + 1, '\n');
    free(text);
    return has;
}

/* Kills the child after the monitor's first sample, and the grandchild 0.5 s later. */
static void *end_family(void *arg)
{
    const struct family *f = arg;
    while (!has_sample("cpu_memory_log-n1.csv"))
        usleep(1000);
    ck_assert_int_eq(kill(f->child, SIGKILL), 0);
    usleep(500000);
    ck_assert_int_eq(kill(f->grandchild, SIGKILL), 0);
    return NULL;
}

/* Samples are a minute apart, but the monitor exits with the last process of the tree. */
START_TEST(tree_ends)
{
    struct family f;
    pthread_t thread;
    setenv("SLURMD_NODENAME", "n1", 1);
    start_family(&f, 0);
    const struct ss_monitor_options options = {.dir = folder, .interval = 60, .pid = f.child};
    const double begin = ss_seconds();
    ck_assert_int_eq(pthread_create(&thread, NULL, end_family, &f), 0);
    ck_assert_msg(ss_monitor_run(&options) == SS_OK, "%s", ss_log_last_error());
    ck_assert_double_lt(ss_seconds() - begin, 40);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(no_process)
{
    struct ss_processes *p = NULL;
    pid_t child = fork();
    if (!child)
        _exit(0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    expect_error(ss_processes_open(SS_PROCESS_TREE, child, NULL, &p), SS_ERR_INVALID, "--pid");
    ck_assert_ptr_null(p);
}
END_TEST

/* A job's processes are identified by their environment at exec time, so env starts one here. */
START_TEST(job)
{
    struct ss_processes *p, *other;
    char id[32], name[48];
    snprintf(id, sizeof id, "test-%ld", (long)getpid());
    snprintf(name, sizeof name, "SLURM_JOB_ID=%s", id);
    pid_t child = fork();
    if (!child) {
        execlp("env", "env", name, "sleep", "60", (char *)NULL);
        _exit(9);
    }
    ck_assert_int_eq(ss_processes_open(SS_PROCESS_JOB, 0, id, &p), SS_OK);
    ck_assert_int_eq(ss_processes_open(SS_PROCESS_JOB, 0, "no such job", &other), SS_OK);
    int count = 0;
    for (int i = 0; i < 500 && !(count = sample(p).count); i++)
        usleep(10000);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(sample(other).count, 0);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_int_eq(sample(p).count, 0);
    ss_processes_close(p);
    ss_processes_close(other);
}
END_TEST

START_TEST(host)
{
    double memory, load;
    ss_process_host(&memory, &load);
    ck_assert_double_gt(memory, 1);
    ck_assert_double_ge(load, 0);
}
END_TEST

/* --- Files */

static struct ss_lines *open_lines(const char *name)
{
    struct ss_lines *l = NULL;
    enum ss_status status = ss_lines_open(in_folder(name), "a, b", &l);
    ck_assert_msg(status == SS_OK, "%s", ss_log_last_error());
    return l;
}

START_TEST(lines_continue)
{
    struct ss_lines *l = open_lines("f"), *second;
    ck_assert_int_eq(ss_lines_write(l, "1, 2\n", 5), SS_OK);
    file_says("f", "a, b\n1, 2\n");
    expect_error(ss_lines_open(in_folder("f"), "a, b", &second), SS_ERR_IO, "another monitor");
    ss_lines_close(l);
    write_file("f", "a, b\n1, 2\n3", 11); /* a writer that died within a line */
    l = open_lines("f");
    ck_assert_int_eq(ss_lines_write(l, "5, 6\n7, 8\n", 10), SS_OK);
    ss_lines_close(l);
    file_says("f", "a, b\n1, 2\n5, 6\n7, 8\n");
    write_file("f", "a", 1); /* within the first line */
    ss_lines_close(open_lines("f"));
    file_says("f", "a, b\n");
}
END_TEST

START_TEST(lines_long_half)
{
    size_t n = 5 + 20000;
    char *text = malloc(n);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', n);
    memcpy(text, "a, b\n", 5);
    write_file("f", text, n);
    free(text);
    ss_lines_close(open_lines("f"));
    file_says("f", "a, b\n");
}
END_TEST

START_TEST(lines_refused)
{
    struct ss_lines *l = NULL;
    write_file("f", "a, c\n1, 2\n", 10);
    expect_error(ss_lines_open(in_folder("f"), "a, b", &l), SS_ERR_FORMAT, "first line is not");
    write_file("g", "a, bc\n", 6);
    expect_error(ss_lines_open(in_folder("g"), "a, b", &l), SS_ERR_FORMAT, "first line is not");
    expect_error(ss_lines_open(in_folder("no/f"), "a, b", &l), SS_ERR_IO, "No such file");
    ck_assert_ptr_null(l);
    file_says("f", "a, c\n1, 2\n");
}
END_TEST

/* The disk is full after half of a line: the partial line is removed. */
START_TEST(lines_full)
{
    struct ss_lines *l = open_lines("f");
    ck_assert_int_eq(ss_lines_write(l, "1, 2\n", 5), SS_OK);
    fill_disk(12);
    expect_error(ss_lines_write(l, "3, 4\n", 5), SS_ERR_IO, "cannot write");
    fill_disk(RLIM_INFINITY);
    file_says("f", "a, b\n1, 2\n");
    ck_assert_int_eq(ss_lines_write(l, "3, 4\n", 5), SS_OK);
    ss_lines_close(l);
    file_says("f", "a, b\n1, 2\n3, 4\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("monitor");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, nvml_values);
    tcase_add_test(tc, nvml_unsupported);
    tcase_add_test(tc, nvml_lost);
    tcase_add_test(tc, nvml_health);
    tcase_add_test(tc, nvml_slowed);
    tcase_add_loop_test(tc, nvml_absent, 0, sizeof absent / sizeof *absent);
    tcase_add_test(tc, stat_names);
    tcase_add_test(tc, tree);
    tcase_add_test(tc, tree_orphan);
    tcase_add_test(tc, tree_ends);
    tcase_add_test(tc, no_process);
    tcase_add_test(tc, job);
    tcase_add_test(tc, host);
    tcase_add_test(tc, lines_continue);
    tcase_add_test(tc, lines_long_half);
    tcase_add_test(tc, lines_refused);
    tcase_add_test(tc, lines_full);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
