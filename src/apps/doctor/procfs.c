#include "apps/doctor/procfs.h"
#include "comm/comm_env.h"
#include "kernels/kernels.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_of(const struct ss_doctor_options *o, char *out, const char *path, va_list args)
{
    int n = snprintf(out, PATH_MAX, "%s", o->root);
    if (n < 0 || n >= PATH_MAX)
        return 0;
    int m = vsnprintf(out + n, (size_t)(PATH_MAX - n), path, args);
    return m >= 0 && n + m < PATH_MAX;
}

/* Read regular files only: reading a pipe could block. */
static int read_file(const char *path, char *out, size_t capacity)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = -1;
    if (fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode))
        got = read(fd, out, capacity - 1);
    if (fd >= 0)
        close(fd);
    size_t n = got > 0 ? (size_t)got : 0;
    while (n && strchr(" \n\t", out[n - 1]))
        n--;
    out[n] = '\0';
    return n > 0;
}

int ss_probe_text(const struct ss_doctor_options *o, char *out, size_t capacity, const char *path,
                  ...)
{
    char full[PATH_MAX];
    va_list args;
    va_start(args, path);
    int fits = path_of(o, full, path, args);
    va_end(args);
    *out = '\0';
    return fits && read_file(full, out, capacity);
}

double ss_probe_number(const struct ss_doctor_options *o, const char *path, ...)
{
    char full[PATH_MAX], text[64], *end;
    va_list args;
    va_start(args, path);
    int fits = path_of(o, full, path, args);
    va_end(args);
    if (!fits || !read_file(full, text, sizeof text))
        return NAN;
    double value = strtod(text, &end);
    return end == text ? NAN : value;
}

int ss_probe_exists(const struct ss_doctor_options *o, const char *path, ...)
{
    char full[PATH_MAX];
    va_list args;
    va_start(args, path);
    int fits = path_of(o, full, path, args);
    va_end(args);
    return fits && access(full, F_OK) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int ss_probe_names(const struct ss_doctor_options *o, const char *folder,
                   char (*name)[SS_PROBE_NAME], int most)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s", o->root, folder), found = 0;
    DIR *dir = n > 0 && n < PATH_MAX ? opendir(path) : NULL;
    if (!dir)
        return 0;
    for (struct dirent *entry; found < most && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < SS_PROBE_NAME)
            strcpy(name[found++], entry->d_name);
    closedir(dir);
    qsort(name, (size_t)found, sizeof *name, by_name);
    return found;
}

int ss_probe_line(const char *text, const char *name, char *out, size_t capacity)
{
    size_t length = strlen(name);
    *out = '\0';
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) || line[length] != ':')
            continue;
        line += length + 1;
        line += strspn(line, " \t");
        snprintf(out, capacity, "%.*s", (int)strcspn(line, "\n"), line);
        return *out != '\0';
    }
    return 0;
}

/* Parse the limit in a cgroup file: "max 100000", "200000 100000", "8589934592". */
static double limit_of(const char *text)
{
    char *end;
    double value = strtod(text, &end), divisor;
    if (end == text || value < 0 || value > 1e18) /* v1 encodes "no limit" as -1 or all bits set */
        return INFINITY;
    divisor = strtod(end, &end);
    return divisor > 0 ? value / divisor : value;
}

/* The smallest limit of the cgroup at `path` below `mount` and its ancestors. */
static double least_upwards(const struct ss_doctor_options *o, const char *mount, const char *path,
                            const char *file, const char *divisor)
{
    char at[PATH_MAX], text[128], *slash;
    double least = INFINITY;
    snprintf(at, sizeof at, "%s", path);
    for (int more = 1; more;) {
        if (ss_probe_text(o, text, sizeof text, "%s%s/%s", mount, at, file)) {
            double limit = limit_of(text);
            if (divisor && ss_probe_text(o, text, sizeof text, "%s%s/%s", mount, at, divisor))
                limit /= limit_of(text);
            if (limit < least)
                least = limit;
        }
        slash = strrchr(at, '/');
        more = slash != NULL;
        if (more)
            *slash = '\0';
    }
    return least;
}

static int has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, word, n) && (at[n] == ',' || !at[n]))
            return 1;
    }
    return 0;
}

double ss_probe_cgroup(const struct ss_doctor_options *o, const char *v2, const char *controller,
                       const char *v1, const char *v1_divisor)
{
    char text[4096], mount[128], *save = NULL;
    double least = INFINITY;
    ss_probe_text(o, text, sizeof text, "/proc/self/cgroup");
    /* Lines "ID:CONTROLLERS:PATH"; v2's line has no controllers. */
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        names++;
        double limit = INFINITY;
        if (!*names) {
            limit = least_upwards(o, "/sys/fs/cgroup", path, v2, NULL);
        } else if (has_word(names, controller)) {
            snprintf(mount, sizeof mount, "/sys/fs/cgroup/%.100s", controller);
            limit = least_upwards(o, mount, path, v1, v1_divisor);
        }
        if (limit < least)
            least = limit;
    }
    return least;
}

hwloc_bitmap_t ss_probe_cpus(const struct ss_doctor_options *o)
{
    char text[8192], list[4096];
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (cpus && ss_probe_text(o, text, sizeof text, "/proc/self/status") &&
        ss_probe_line(text, "Cpus_allowed_list", list, sizeof list) &&
        hwloc_bitmap_list_sscanf(cpus, list) == 0 && hwloc_bitmap_weight(cpus) > 0)
        return cpus;
    hwloc_bitmap_free(cpus);
    return NULL;
}

int ss_probe_cores(const struct ss_doctor_options *o, hwloc_const_bitmap_t cpus)
{
    char list[256];
    int cores = 0;
    unsigned cpu;
    hwloc_bitmap_t siblings = hwloc_bitmap_alloc();
    hwloc_bitmap_foreach_begin(cpu, cpus)
    {
        int known = siblings &&
                    ss_probe_text(o, list, sizeof list,
                                  "/sys/devices/system/cpu/cpu%u/topology/"
                                  "thread_siblings_list",
                                  cpu) &&
                    hwloc_bitmap_list_sscanf(siblings, list) == 0;
        if (known)
            hwloc_bitmap_and(siblings, siblings, cpus);
        cores += !known || hwloc_bitmap_first(siblings) == (int)cpu;
    }
    hwloc_bitmap_foreach_end();
    hwloc_bitmap_free(siblings);
    return cores;
}

static int from_environment(const char *const *name, int most)
{
    for (; *name; name++) {
        const char *text = getenv(*name);
        char *end;
        long value = text && *text ? strtol(text, &end, 10) : -1;
        if (value >= 0 && value <= most && !*end)
            return (int)value;
    }
    return -1;
}

int ss_probe_local_rank(void)
{
    static const char *const names[] = {"LOCAL_RANK",      "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
                                        "SLURM_LOCALID",   NULL};
    int rank = from_environment(names, SS_ENV_RANKS);
    return rank < 0 ? 0 : rank;
}

int ss_probe_uses_gpu(const struct ss_doctor_options *o)
{
    return o->device == SS_DOCTOR_CUDA ||
           (o->device == SS_DOCTOR_AUTO && !ss_cuda_kernels.missing && ss_cuda_kernels.count() > 0);
}

int ss_probe_many_nodes(void)
{
    static const char *const nodes[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", NULL};
    int n = from_environment(nodes, SS_ENV_RANKS);
    return n < 1 ? -1 : n > 1;
}
