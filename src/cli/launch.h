/* The parts of `starstep launch`; only for src/cli/cmd_launch.c and src/cli/launch_*.c. */
#ifndef SS_CLI_LAUNCH_H
#define SS_CLI_LAUNCH_H

#include "comm/comm_local.h"
#include "core/status.h"

#include <signal.h>
#include <sys/types.h>

struct ss_launch_options {
    long ranks;             /* 0: one per GPU */
    double grace_s;         /* for the other ranks to end once one has failed */
    const char *output_dir; /* for rank-R.log of every rank; NULL: what ranks print goes through */
    char **command;         /* argv of the ranks, from the command's name on; ends with NULL */
};

struct ss_launch_rank {
    pid_t pid;
    int ended, status; /* status: as waitpid() gives it, once ended */
};

struct ss_launch {
    const struct ss_launch_options *options;
    int size;
    struct ss_launch_rank ranks[SS_LOCAL_RANKS];
    sigset_t taken;  /* signals that ss_launch_watch() waits for; blocked from before the start */
    sigset_t before; /* what was blocked before */
    int report;      /* from ranks that could not become the program: struct ss_launch_report */
    int ended_by;    /* the signal that was passed on and ended the run at once; 0: none */
};

/* Written by a rank that cannot become the program, before it ends with SS_LAUNCH_NOT_STARTED. */
struct ss_launch_report {
    int rank, error;
    char what[256];
};
enum { SS_LAUNCH_NOT_STARTED = 127 };

/* launch_signals.c: block what is to be passed on, before ranks are started. */
enum ss_status ss_launch_take_signals(struct ss_launch *launch);
/* Send a signal to every rank that still runs. */
void ss_launch_signal(const struct ss_launch *launch, int number);
/* Stop the ranks and then this process, as the terminal asked; returns when it is continued. */
void ss_launch_suspend(const struct ss_launch *launch);

/* launch_start.c: start all ranks of options->command, in the background. Errors: SS_ERR_IO, ...;
 * then no rank runs. */
enum ss_status ss_launch_start(struct ss_launch *launch);

/* launch_watch.c: wait until all have ended, and see to it that they all end once one has failed.
 * Returns the exit code: 0 when it is every rank's, else that of the rank that failed first. */
int ss_launch_watch(struct ss_launch *launch);

#endif
