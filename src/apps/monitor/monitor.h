/* Per-node monitor: writes periodic samples to CSV files (columns.h). */
#ifndef SS_APPS_MONITOR_MONITOR_H
#define SS_APPS_MONITOR_MONITOR_H

#include "core/status.h"

#include <sys/types.h>

struct ss_monitor_options {
    const char *dir;
    double interval; /* s, > 0 */
    pid_t pid;       /* 0: the processes of the Slurm job, or of this user */
};

/* Sample until SIGTERM, SIGINT or SIGHUP, or until the process tree of pid has ended. These
 * signals stay blocked in the calling thread, and SIGUSR1 and SIGUSR2 are ignored from then on.
 * Errors: those of process.h and lines.h, SS_ERR_LIBRARY. */
enum ss_status ss_monitor_run(const struct ss_monitor_options *options);

#endif
