#include "apps/monitor/process.h"
#include "core/clock.h"
#include "core/log.h"
#include "apps/monitor/process_stat.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Proportional memory is read again after this multiple of the duration of the last read. */
enum { PSS_REST = 100 };

struct table {
    struct process_stat *at; /* sorted by pid */
    size_t count, capacity;
};

struct ss_processes {
    enum ss_process_kind kind;
    pid_t pid;
    const char *job;
    /* of the last sample; includes ended processes not yet waited for, whose time is not yet in
     * their parent's */
    struct table members;
    double sampled, pss_after;
    int has_sample;
};

static int by_pid(const void *a, const void *b)
{
    const struct process_stat *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct process_stat *find(const struct table *t, pid_t pid)
{
    const struct process_stat key = {.pid = pid};
    return t->count ? bsearch(&key, t->at, t->count, sizeof key, by_pid) : NULL;
}

/* Find the same process, not a later one with the same pid. */
static struct process_stat *find_same(const struct table *t, const struct process_stat *s)
{
    struct process_stat *found = find(t, s->pid);
    return found && found->start == s->start ? found : NULL;
}

static enum ss_status append(struct table *t, const struct process_stat *s)
{
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 256;
        struct process_stat *more = realloc(t->at, capacity * sizeof *more);
        if (!more)
            return ss_fail_memory("a table of processes", capacity * sizeof *more);
        t->at = more;
        t->capacity = capacity;
    }
    t->at[t->count++] = *s;
    return SS_OK;
}

static int owned(pid_t pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%ld", (long)pid);
    return stat(path, &st) == 0 && st.st_uid == getuid();
}

/* List all processes that may be members. */
static enum ss_status list(const struct ss_processes *p, struct table *t)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return ss_fail(SS_ERR_IO, "/proc: %s", strerror(errno));
    enum ss_status status = SS_OK;
    for (struct dirent *e; status == SS_OK && (e = readdir(dir));) {
        struct process_stat s;
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        pid_t pid = (pid_t)atol(e->d_name);
        if (pid == getpid() || (p->kind != SS_PROCESS_TREE && !owned(pid)) ||
            !process_stat_read(pid, &s))
            continue;
        status = append(t, &s);
    }
    closedir(dir);
    if (t->count)
        qsort(t->at, t->count, sizeof *t->at, by_pid);
    return status;
}

/* Mark the known members, and children of members, until no more are found. */
static void mark_tree(const struct ss_processes *p, struct table *t)
{
    int more = 1;
    for (size_t i = 0; i < t->count; i++)
        t->at[i].member = find_same(&p->members, &t->at[i]) != NULL;
    while (more) {
        more = 0;
        for (size_t i = 0; i < t->count; i++) {
            const struct process_stat *parent = t->at[i].member ? NULL : find(t, t->at[i].parent);
            if (parent && parent->member)
                more = t->at[i].member = 1;
        }
    }
}

static void mark(const struct ss_processes *p, struct table *t)
{
    if (p->kind == SS_PROCESS_TREE) {
        mark_tree(p, t);
        return;
    }
    for (size_t i = 0; i < t->count; i++)
        t->at[i].member = p->kind == SS_PROCESS_USER ||
                          process_has_environment(t->at[i].pid, "SLURM_JOB_ID", p->job);
}

static void retain_members(struct table *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->at[i].member)
            t->at[kept++] = t->at[i];
    t->count = kept;
}

/* Returns 1 if a vanished process was waited for by one that still exists, or by a vanished one
 * that was itself waited for, and so on. */
static int inherited(const struct table *old, const struct table *now,
                     const struct process_stat *gone)
{
    for (size_t depth = 0; gone && depth <= old->count; depth++) {
        if (find(now, gone->parent))
            return 1;
        gone = find(old, gone->parent);
    }
    return 0;
}

/* CPU time in ticks between two tables. The time of a vanished process has moved to the parent
 * that waited for it, so the amount counted before is subtracted. */
static double ticks_between(const struct table *old, const struct table *now)
{
    double ticks = 0;
    for (size_t i = 0; i < now->count; i++) {
        const struct process_stat *before = find_same(old, &now->at[i]);
        ticks += (double)now->at[i].ticks - (before ? (double)before->ticks : 0);
    }
    for (size_t i = 0; i < old->count; i++)
        if (!find_same(now, &old->at[i]) && inherited(old, now, &old->at[i]))
            ticks -= (double)old->at[i].ticks;
    return ticks > 0 ? ticks : 0;
}

static double sum_pss(struct ss_processes *p)
{
    double begin = ss_seconds(), sum = 0;
    if (begin < p->pss_after)
        return NAN;
    if (isnan(process_pss(getpid()))) /* not supported by this kernel */
        return NAN;
    for (size_t i = 0; i < p->members.count; i++) {
        const struct process_stat *s = &p->members.at[i];
        struct process_stat again;
        double pss = process_stat_ended(s) ? 0 : process_pss(s->pid);
        if (!isnan(pss))
            sum += pss;
        else if (process_stat_read(s->pid, &again) && !process_stat_ended(&again))
            sum += s->rss; /* another user's process, such as Slurm's: not readable */
    }
    double end = ss_seconds();
    p->pss_after = end + PSS_REST * (end - begin);
    return sum;
}

enum ss_status ss_processes_sample(struct ss_processes *p, struct ss_process_sample *out)
{
    struct table now = {0};
    double at = ss_seconds();
    enum ss_status status = list(p, &now);
    if (status != SS_OK) {
        free(now.at);
        return status;
    }
    mark(p, &now);
    retain_members(&now);
    *out = (struct ss_process_sample){.cpu = NAN};
    for (size_t i = 0; i < now.count; i++) {
        if (process_stat_ended(&now.at[i]))
            continue;
        out->rss += now.at[i].rss;
        out->virtual_ += now.at[i].virtual_;
        out->count++;
    }
    if (p->has_sample && at > p->sampled)
        out->cpu = 100 * ticks_between(&p->members, &now) / (double)sysconf(_SC_CLK_TCK) /
                   (at - p->sampled);
    free(p->members.at);
    p->members = now;
    p->sampled = at;
    p->has_sample = 1;
    out->pss = sum_pss(p);
    return SS_OK;
}

int ss_processes_run(const struct ss_processes *p)
{
    for (size_t i = 0; i < p->members.count; i++) {
        struct process_stat s;
        if (process_stat_read(p->members.at[i].pid, &s) && s.start == p->members.at[i].start &&
            !process_stat_ended(&s))
            return 1;
    }
    return 0;
}

enum ss_status ss_processes_open(enum ss_process_kind kind, pid_t pid, const char *job,
                                 struct ss_processes **out)
{
    struct ss_processes *p = calloc(1, sizeof *p);
    struct process_stat root;
    if (!p)
        return ss_fail_memory("processes", sizeof *p);
    *p = (struct ss_processes){.kind = kind, .pid = pid, .job = job};
    enum ss_status status = SS_OK;
    if (kind == SS_PROCESS_TREE) {
        if (!process_stat_read(pid, &root) || process_stat_ended(&root))
            status = ss_fail(SS_ERR_INVALID, "monitor: --pid: no process %ld", (long)pid);
        else
            status = append(&p->members, &root);
    }
    if (status == SS_OK)
        *out = p;
    else
        ss_processes_close(p);
    return status;
}

void ss_processes_close(struct ss_processes *p)
{
    if (p)
        free(p->members.at);
    free(p);
}
