#include "apps/monitor/monitor.h"
#include "core/clock.h"
#include "core/folder.h"
#include "core/log.h"
#include "apps/monitor/columns.h"
#include "apps/monitor/lines.h"
#include "apps/monitor/nvml.h"
#include "apps/monitor/process.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PATH_CAPACITY = 4096, LINE_CAPACITY = 512 };

/* Polling interval (s) for descendants after the root process has ended. */
static const double TREE_CHECK = 0.2;

struct monitor {
    const struct ss_monitor_options *options;
    struct ss_nvml *nvml; /* NULL: no GPU */
    struct ss_processes *processes;
    struct ss_lines *gpu_file, *cpu_file;
    char *text;        /* one sample of all GPUs, LINE_CAPACITY bytes each */
    char *warned;      /* per GPU */
    int signals, root; /* file descriptors; root: pidfd of the process, -1: it has ended */
    double start;
};

/* Format the time as nvidia-smi does: local time in ms. */
static void format_time(char out[32])
{
    struct timespec now;
    struct tm local;
    char day[24];
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(day, sizeof day, "%Y/%m/%d %H:%M:%S", &local);
    snprintf(out, 32, "%s.%03d", day, (int)(now.tv_nsec / 1000000));
}

__attribute__((format(printf, 3, 4))) static size_t add(char *line, size_t used, const char *fmt,
                                                        ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + used, LINE_CAPACITY - used, fmt, args);
    va_end(args);
    return n < 0 || (size_t)n >= LINE_CAPACITY - used ? used : used + (size_t)n;
}

static size_t add_value(char *line, size_t used, const char *fmt, double value)
{
    char text[32];
    snprintf(text, sizeof text, fmt, value);
    return add(line, used, ", %s", isnan(value) ? "[N/A]" : text);
}

/* Copy the driver's text without characters that would split the field. */
static void clean(char *out, size_t capacity, const char *text)
{
    snprintf(out, capacity, "%s", text);
    for (char *c = out; *c; c++)
        if (*c == ',' || *c == '\n' || *c == ']')
            *c = ' ';
}

/* Format one GPU's line; returns its length. */
static size_t gpu_line(char *line, const char *when, int index, const struct ss_gpu_sample *s)
{
    const double values[] = {s->busy, s->memory_busy, s->memory_total, s->memory_used, s->power};
    static const char *const formats[] = {"%.0f", "%.0f", "%.0f", "%.0f", "%.2f"};
    char name[SS_NVML_NAME], failed[SS_NVML_ERROR];
    clean(name, sizeof name, s->name);
    clean(failed, sizeof failed, s->failed);
    size_t n = add(line, 0, "%s, %d, %s", when, index, *name ? name : "[N/A]");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        n = *failed ? add(line, n, ", [%s]", failed) : add_value(line, n, formats[i], values[i]);
    return add(line, n, "\n");
}

static enum ss_status sample_gpus(struct monitor *m, const char *when)
{
    struct ss_gpu_sample s;
    size_t n = 0;
    for (int i = 0; i < ss_nvml_count(m->nvml); i++) {
        ss_nvml_sample(m->nvml, i, &s);
        if (*s.failed && !m->warned[i]) {
            m->warned[i] = 1;
            ss_warn("GPU %d%s%s: %s; its values are missing while that lasts", i,
                    *s.name ? ", " : "", s.name, s.failed);
        }
        n += gpu_line(m->text + n, when, i, &s);
    }
    return ss_lines_write(m->gpu_file, m->text, n);
}

static enum ss_status sample_cpus(struct monitor *m, const char *when)
{
    struct ss_process_sample s;
    char line[LINE_CAPACITY];
    double host, load, elapsed = ss_seconds() - m->start;
    SS_TRY(ss_processes_sample(m->processes, &s));
    ss_process_host(&host, &load);
    size_t n = add(line, 0, "%.3f", elapsed);
    n = add_value(line, n, "%.1f", s.cpu);
    n = add_value(line, n, "%.3f", s.rss);
    n = add_value(line, n, "%.3f", s.virtual_);
    n = add_value(line, n, "%.3f", s.pss);
    n = add(line, n, ", %d", s.count);
    n = add_value(line, n, "%.2f", load);
    n = add_value(line, n, "%.0f", host);
    n = add(line, n, ", %s\n", when);
    return ss_lines_write(m->cpu_file, line, n);
}

/* Write one sample. *end: the process tree has ended and nothing was written. */
static enum ss_status sample(struct monitor *m, int *end)
{
    char when[32];
    *end = m->options->pid && !ss_processes_run(m->processes);
    if (*end)
        return SS_OK;
    format_time(when);
    if (m->nvml)
        SS_TRY(sample_gpus(m, when));
    return sample_cpus(m, when);
}

/* Wait until `deadline` (ss_seconds), or until sampling must end: then *end is 1. */
static enum ss_status wait_for(struct monitor *m, double deadline, int *end)
{
    *end = 0;
    for (;;) {
        /* poll ignores negative descriptors */
        struct pollfd fds[] = {{.fd = m->signals, .events = POLLIN},
                               {.fd = m->root, .events = POLLIN}};
        double left = deadline - ss_seconds();
        int checks = m->options->pid && m->root < 0;
        if (left <= 0)
            return SS_OK;
        if (checks && left > TREE_CHECK)
            left = TREE_CHECK;
        struct timespec wait = {.tv_sec = (time_t)left,
                                .tv_nsec = (long)((left - floor(left)) * 1e9)};
        int ready = ppoll(fds, 2, &wait, NULL);
        if (ready < 0 && errno != EINTR)
            return ss_fail(SS_ERR_LIBRARY, "ppoll: %s", strerror(errno));
        if (ready > 0 && fds[0].revents)
            *end = 1;
        if (ready > 0 && fds[1].revents) {
            close(m->root);
            m->root = -1;
            checks = 1;
        }
        if (checks && !ss_processes_run(m->processes))
            *end = 1;
        if (*end)
            return SS_OK;
    }
}

static enum ss_status loop(struct monitor *m)
{
    enum ss_status status = SS_OK;
    int end = 0;
    /* Sample k is due at start + k * interval, regardless of how long samples take. */
    for (double k = 0; status == SS_OK && !end;) {
        status = sample(m, &end);
        double late = (ss_seconds() - m->start) / m->options->interval;
        k = late >= k + 1 ? ceil(late) : k + 1;
        if (status == SS_OK && !end)
            status = wait_for(m, m->start + k * m->options->interval, &end);
    }
    return status;
}

static enum ss_status catch_signals(struct monitor *m)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* Batch systems send these to all processes of a job step; they are meant for the ranks. */
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    m->signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (m->signals < 0)
        return ss_fail(SS_ERR_LIBRARY, "signalfd: %s", strerror(errno));
    return SS_OK;
}

/* Open DIR/KIND-HOST.csv. */
static enum ss_status open_file(const struct monitor *m, const char *kind, const char *header,
                                struct ss_lines **out)
{
    char host[256] = "", name[300], path[PATH_CAPACITY];
    const char *node = getenv("SLURMD_NODENAME"); /* several Slurm nodes may run on one host */
    if (node && *node)
        snprintf(host, sizeof host, "%s", node);
    else if (gethostname(host, sizeof host - 1) != 0 || !*host)
        snprintf(host, sizeof host, "localhost");
    host[strcspn(host, "./")] = '\0';
    snprintf(name, sizeof name, "%s-%s.csv", kind, host);
    SS_TRY(ss_folder_join(path, sizeof path, m->options->dir, name));
    return ss_lines_open(path, header, out);
}

static enum ss_status open_gpus(struct monitor *m)
{
    char why[256];
    m->nvml = ss_nvml_open(why, sizeof why);
    if (!m->nvml) {
        ss_note("monitor: no GPU (%s): only " SS_CPU_FILE " is written", why);
        return SS_OK;
    }
    size_t count = (size_t)ss_nvml_count(m->nvml);
    m->text = malloc(count * LINE_CAPACITY);
    m->warned = calloc(count, 1);
    if (!m->text || !m->warned)
        return ss_fail_memory("lines of a monitor", count * LINE_CAPACITY);
    return open_file(m, SS_GPU_FILE, SS_GPU_HEADER, &m->gpu_file);
}

static enum ss_status open_all(struct monitor *m)
{
    const char *job = getenv("SLURM_JOB_ID");
    enum ss_process_kind kind = m->options->pid ? SS_PROCESS_TREE
                                : job && *job   ? SS_PROCESS_JOB
                                                : SS_PROCESS_USER;
    SS_TRY(catch_signals(m));
    SS_TRY(ss_processes_open(kind, m->options->pid, job, &m->processes));
    /* Older kernels have no pidfd: the process is polled. */
#ifdef SYS_pidfd_open
    if (m->options->pid)
        m->root = (int)syscall(SYS_pidfd_open, m->options->pid, 0u);
#endif
    SS_TRY(ss_folder_make(m->options->dir));
    SS_TRY(open_file(m, SS_CPU_FILE, SS_CPU_HEADER, &m->cpu_file));
    return open_gpus(m);
}

enum ss_status ss_monitor_run(const struct ss_monitor_options *options)
{
    struct monitor m = {.options = options, .signals = -1, .root = -1};
    enum ss_status status = open_all(&m);
    m.start = ss_seconds();
    if (status == SS_OK)
        status = loop(&m);
    ss_lines_close(m.gpu_file);
    ss_lines_close(m.cpu_file);
    ss_processes_close(m.processes);
    ss_nvml_close(m.nvml);
    if (m.signals >= 0)
        close(m.signals);
    if (m.root >= 0)
        close(m.root);
    free(m.text);
    free(m.warned);
    return status;
}
