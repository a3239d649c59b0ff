/* Memory and processor time of a set of processes, from Linux's /proc (proc(5)). */
#ifndef SS_MONITOR_PROCESS_H
#define SS_MONITOR_PROCESS_H

#include "core/status.h"

#include <stddef.h>
#include <sys/types.h>

/* Which processes. The calling process is in none. */
enum ss_process_kind {
    SS_PROCESS_TREE, /* `pid` and what descended from it since it is looked at, also when a parent
                        has ended since */
    SS_PROCESS_JOB,  /* of this user, with SLURM_JOB_ID=`job` in their environment */
    SS_PROCESS_USER, /* of this user */
};

struct ss_process_sample {
    double cpu;                /* percent of one core since the last sample; NAN in the first */
    double rss, virtual_, pss; /* MiB, sums. pss: NAN where it is unknown or was left
                                  out; of processes that may not be read the resident one */
    int count;                 /* that run; 0: all of a tree have ended */
};

struct ss_processes;

/* job: of SS_PROCESS_JOB, kept by the caller. Errors: SS_ERR_INVALID (no such process),
 * SS_ERR_IO, SS_ERR_MEMORY. The caller closes *out. */
enum ss_status ss_processes_open(enum ss_process_kind kind, pid_t pid, const char *job,
                                 struct ss_processes **out);
void ss_processes_close(struct ss_processes *p); /* NULL is fine */

/* Reading a process's proportional memory walks its page tables; it is left out as long as that
 * would take more than a hundredth of the time. Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_processes_sample(struct ss_processes *p, struct ss_process_sample *out);

/* 1 while one of them runs. Cheaper than a sample; knows of no process that came since. */
int ss_processes_run(const struct ss_processes *p);

/* The host: used memory (MiB; total minus available) and load of the last minute; NAN: unknown. */
void ss_process_host(double *memory_used, double *load);

#endif
