/* process_stat.h: a process's files in /proc; private to src/monitor. */
#ifndef SS_APPS_MONITOR_PROCESS_STAT_H
#define SS_APPS_MONITOR_PROCESS_STAT_H

#include <stddef.h>
#include <sys/types.h>

struct process_stat {
    pid_t pid, parent;
    char state;
    unsigned long long start; /* ticks since boot; identifies the process together with the pid */
    unsigned long long ticks; /* CPU time, including that of waited-for children */
    double rss, virtual_;     /* MiB */
    int member;
};

/* Parse "PID (NAME) S PPID ...". NAME may contain any characters, including parentheses. Returns
 * 1 if the text is complete. */
int process_stat_parse(const char *text, struct process_stat *out);
int process_stat_read(pid_t pid, struct process_stat *out); /* 0: no such process (any more) */

static inline int process_stat_ended(const struct process_stat *s)
{
    return s->state == 'Z' || s->state == 'X';
}

/* Proportional memory in MiB; NAN: not readable, or the process has ended. */
double process_pss(pid_t pid);

/* Returns 1 if NAME=VALUE is in its environment. */
int process_has_environment(pid_t pid, const char *name, const char *value);

#endif
