/* check_memory.c: checks memory, shared memory and limits. */
#include "apps/doctor/procfs.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

static const double MIB = 1 << 20, GIB = 1 << 30;

static void probe_memory(const struct ss_doctor_options *o, struct ss_findings *f)
{
    static const char advice[] = "ask for more memory (Slurm: --mem or --mem-per-gpu), or find out "
                                 "what else uses it";
    const double wanted = 2;
    char text[4096], value[64];
    ss_probe_text(o, text, sizeof text, "/proc/meminfo");
    if (ss_probe_line(text, "MemAvailable", value, sizeof value)) {
        double available = strtod(value, NULL) * 1024 / GIB;
        int little = available < wanted;
        ss_find(f, little ? SS_SLOW : SS_FINE, "memory.available", little ? advice : NULL,
                "{} GiB of the node's memory are available");
        ss_find_figure(f, available, wanted, "GiB");
    }
    double limit = ss_probe_cgroup(o, "memory.max", "memory", "memory.limit_in_bytes", NULL) / GIB;
    if (isinf(limit))
        return;
    int little = limit < wanted;
    ss_find(f, little ? SS_SLOW : SS_FINE, "memory.cgroup", little ? advice : NULL,
            "a cgroup allows {} GiB%s",
            little ? "; processes that exceed it are killed without a message" : "");
    ss_find_figure(f, limit, wanted, "GiB");
}

/* NCCL and Open MPI use /dev/shm for messages within a node. Containers get 64 MiB by default. */
static void probe_shm(const struct ss_doctor_options *o, struct ss_findings *f)
{
    char path[PATH_MAX];
    struct statvfs s;
    const double wanted = 256;
    snprintf(path, sizeof path, "%.*s/dev/shm", PATH_MAX - 16, o->root);
    if (statvfs(path, &s) != 0) {
        ss_find(f, SS_BROKEN, "memory.shm",
                "mount a tmpfs there; NCCL and MPI need it between ranks of a node",
                "/dev/shm does not exist");
        return;
    }
    double left = (double)s.f_bavail * (double)s.f_frsize / MIB;
    if (left < wanted)
        ss_find(f, SS_SLOW, "memory.shm",
                "enlarge it (docker --shm-size=4g or --ipc=host), or remove leftovers of ended "
                "programs",
                "/dev/shm has {} MiB left; NCCL and MPI need some for each pair of ranks");
    else
        ss_find(f, SS_FINE, "memory.shm", NULL, "/dev/shm has {} MiB left");
    ss_find_figure(f, left, wanted, "MiB");
}

static void format_limit(rlim_t limit, double unit, char text[32])
{
    if (limit == RLIM_INFINITY)
        snprintf(text, 32, "unlimited");
    else
        snprintf(text, 32, (double)limit < unit ? "%.2g" : "%.0f", (double)limit / unit);
}

static void probe_limits(const struct ss_doctor_options *o, struct ss_findings *f)
{
    static const char memlock[] =
        "the network's memory cannot be registered with less: raise it (ulimit -l unlimited in the "
        "shell that submits, Slurm's PropagateResourceLimitsExcept=MEMLOCK, limits.conf)";
    const struct {
        int resource;
        const char *check, *name, *unit;
        double divisor, wanted; /* in multiples of the unit */
        enum ss_verdict verdict;
        const char *advice;
        int judged;
    } rows[] = {
        {RLIMIT_MEMLOCK, "memory.locked", "locked memory", " MiB", MIB, 64, SS_BROKEN, memlock,
         o->fabric == SS_FABRIC_INFINIBAND || o->fabric == SS_FABRIC_SLINGSHOT},
        {RLIMIT_NOFILE, "memory.files", "open files", "", 1, 1024, SS_SLOW,
         "raise it (ulimit -n 65536): NCCL and MPI open several for each peer", 1},
        {RLIMIT_NPROC, "memory.processes", "processes and threads of this user", "", 1, 1024,
         SS_SLOW, "raise it (ulimit -u): each rank starts dozens of threads", 1},
        {RLIMIT_STACK, "memory.stack", "stack", " MiB", MIB, 1, SS_SLOW,
         "raise it (ulimit -s 8192)", 1},
        {RLIMIT_CORE, "memory.core", "core files", " MiB", MIB, 0, SS_SLOW, NULL, 0},
    };
    char text[SS_FINDING_TEXT] = "", number[32];
    size_t used = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rlimit limit;
        if (getrlimit(rows[i].resource, &limit) != 0)
            continue;
        format_limit(limit.rlim_cur, rows[i].divisor, number);
        const char *unit = limit.rlim_cur == RLIM_INFINITY ? "" : rows[i].unit;
        if (rows[i].judged && limit.rlim_cur != RLIM_INFINITY &&
            (double)limit.rlim_cur / rows[i].divisor < rows[i].wanted)
            ss_find(f, rows[i].verdict, rows[i].check, rows[i].advice,
                    "limit of %s: %s%s; at least %.0f%s needed", rows[i].name, number, unit,
                    rows[i].wanted, rows[i].unit);
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s%s", used ? ", " : "",
                                     rows[i].name, number, unit);
    }
    ss_find(f, SS_FINE, "memory.limits", NULL, "limits: %s", text);
}

void ss_doctor_memory(const struct ss_doctor_options *o, struct ss_comm *comm,
                      struct ss_findings *f)
{
    (void)comm;
    probe_memory(o, f);
    probe_shm(o, f);
    probe_limits(o, f);
}
