/* Memory and CPU time of a set of processes, from Linux's /proc (proc(5)). */
#ifndef SS_APPS_MONITOR_PROCESS_H
#define SS_APPS_MONITOR_PROCESS_H

#include "core/status.h"

#include <stddef.h>
#include <sys/types.h>

/* The set of processes. The calling process is never included. */
enum ss_process_kind {
    /* `pid` and its descendants since monitoring began, even if a parent has ended since */
    SS_PROCESS_TREE,
    SS_PROCESS_JOB,  /* this user's processes with SLURM_JOB_ID=`job` in their environment */
    SS_PROCESS_USER, /* this user's processes */
};

struct ss_process_sample {
    double cpu; /* percent of one core since the last sample; NAN in the first */
    /* MiB, totals. pss: NAN if unknown or skipped; unreadable processes count with their rss */
    double rss, virtual_, pss;
    int count; /* running processes; 0: the whole tree has ended */
};

struct ss_processes;

/* Open a set of processes. job: for SS_PROCESS_JOB; must outlive *out. Errors: SS_ERR_INVALID (no
 * such process), SS_ERR_IO, SS_ERR_MEMORY. The caller closes *out. */
enum ss_status ss_processes_open(enum ss_process_kind kind, pid_t pid, const char *job,
                                 struct ss_processes **out);
void ss_processes_close(struct ss_processes *p); /* NULL is fine */

/* Take a sample. Reading a process's proportional memory walks its page tables; it is skipped
 * while it would take more than a hundredth of the time. Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_processes_sample(struct ss_processes *p, struct ss_process_sample *out);

/* Returns 1 while a process of the set runs. Cheaper than a sample; does not detect new
 * processes. */
int ss_processes_run(const struct ss_processes *p);

/* Host-wide values: used memory (MiB; total minus available) and 1-minute load; NAN: unknown. */
void ss_process_host(double *memory_used, double *load);

#endif
