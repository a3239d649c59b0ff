/* process_stat.h: private to src/monitor: one process's files in /proc. */
#ifndef SS_MONITOR_PROCESS_STAT_H
#define SS_MONITOR_PROCESS_STAT_H

#include <stddef.h>
#include <sys/types.h>

struct process_stat {
    pid_t pid, parent;
    char state;
    unsigned long long start; /* ticks since boot: with the pid, which process it is */
    unsigned long long ticks; /* processor time, with that of children that were waited for */
    double rss, virtual_;     /* MiB */
    int member;
};

/* "PID (NAME) S PPID ...". NAME may hold anything, parentheses too. Returns 1 if it is whole. */
int process_stat_parse(const char *text, struct process_stat *out);
int process_stat_read(pid_t pid, struct process_stat *out); /* 0: no such process (any more) */

static inline int process_stat_ended(const struct process_stat *s)
{
    return s->state == 'Z' || s->state == 'X';
}

/* Proportional memory in MiB; NAN: may not be read, or gone. */
double process_pss(pid_t pid);

/* 1 if NAME=VALUE is in its environment. */
int process_has_environment(pid_t pid, const char *name, const char *value);

#endif
