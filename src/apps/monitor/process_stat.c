#include "apps/monitor/process_stat.h"
#include "apps/monitor/process.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STAT_CAPACITY = 2048, ENVIRON_CAPACITY = 1 << 20 };

/* Read up to capacity-1 bytes and append a zero; -1: no such file. */
static ssize_t read_small(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t n = 0;
    ssize_t got;
    while (n + 1 < capacity && (got = read(fd, text + n, capacity - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    text[n] = '\0';
    return (ssize_t)n;
}

int process_stat_parse(const char *text, struct process_stat *out)
{
    unsigned long long user, system, start, bytes;
    long long child_user, child_system, pages;
    int pid, parent;
    char state;
    const char *rest = strrchr(text, ')'); /* the name ends at the last parenthesis */
    if (!rest || sscanf(text, "%d", &pid) != 1)
        return 0;
    /* Fields 3 to 24 of proc(5) */
    int n =
        sscanf(rest + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %*d %*d "
               "%llu %llu %lld",
               &state, &parent, &user, &system, &child_user, &child_system, &start, &bytes, &pages);
    if (n != 9)
        return 0;
    *out = (struct process_stat){.pid = pid,
                                 .parent = parent,
                                 .state = state,
                                 .start = start,
                                 .ticks = user + system +
                                          (unsigned long long)(child_user + child_system),
                                 .rss = (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576,
                                 .virtual_ = (double)bytes / 1048576};
    return 1;
}

int process_stat_read(pid_t pid, struct process_stat *out)
{
    char path[64], text[STAT_CAPACITY];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    return read_small(path, text, sizeof text) > 0 && process_stat_parse(text, out);
}

double process_pss(pid_t pid)
{
    char path[64], text[STAT_CAPACITY];
    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", (long)pid);
    if (read_small(path, text, sizeof text) <= 0)
        return NAN;
    const char *line = strstr(text, "\nPss:");
    return line ? strtod(line + 5, NULL) / 1024 : NAN;
}

int process_has_environment(pid_t pid, const char *name, const char *value)
{
    char path[64], *text = malloc(ENVIRON_CAPACITY);
    int found = 0;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    ssize_t n = text ? read_small(path, text, ENVIRON_CAPACITY) : -1;
    size_t length = strlen(name);
    for (ssize_t at = 0; at < n && !found; at += (ssize_t)strlen(text + at) + 1)
        found = !strncmp(text + at, name, length) && text[at + (ssize_t)length] == '=' &&
                !strcmp(text + at + length + 1, value);
    free(text);
    return found;
}

void ss_process_host(double *memory_used, double *load)
{
    char text[STAT_CAPACITY];
    const char *total, *available;
    *memory_used = *load = NAN;
    if (read_small("/proc/meminfo", text, sizeof text) > 0 && (total = strstr(text, "MemTotal:")) &&
        (available = strstr(text, "MemAvailable:")))
        *memory_used = (strtod(total + 9, NULL) - strtod(available + 13, NULL)) / 1024;
    if (read_small("/proc/loadavg", text, sizeof text) > 0)
        *load = strtod(text, NULL);
}
