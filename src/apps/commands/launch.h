/* Internals of `starstep launch`, for cmd_launch.c and launch_*.c only. */
#ifndef SS_APPS_COMMANDS_LAUNCH_H
#define SS_APPS_COMMANDS_LAUNCH_H

#include "comm/comm_local.h"
#include "core/status.h"

#include <signal.h>
#include <sys/types.h>

struct ss_launch_options {
    long ranks;             /* 0: one per GPU */
    double grace_s;         /* time for the other ranks to exit after one has failed */
    const char *output_dir; /* folder of each rank's rank-R.log; NULL: output is not redirected */
    /* argv of the ranks, starting with the command's name; NULL-terminated */
    char **command;
};

struct ss_launch_rank {
    pid_t pid;
    int ended, status; /* status: as from waitpid(), once ended */
};

struct ss_launch {
    const struct ss_launch_options *options;
    int size;
    struct ss_launch_rank ranks[SS_LOCAL_RANKS];
    sigset_t taken;  /* signals handled by ss_launch_watch(); blocked before the start */
    sigset_t before; /* the signal mask before that */
    /* read end of a pipe from ranks that failed to exec: struct ss_launch_report */
    int report;
    int ended_by; /* the forwarded signal that ended the run; 0: none */
};

/* Written by a rank that cannot exec the program, before it exits with SS_LAUNCH_NOT_STARTED. */
struct ss_launch_report {
    int rank, error;
    char what[256];
};
enum { SS_LAUNCH_NOT_STARTED = 127 };

/* launch_signals.c: block the signals to forward, before ranks are started. */
enum ss_status ss_launch_take_signals(struct ss_launch *launch);
/* Send a signal to every running rank. */
void ss_launch_signal(const struct ss_launch *launch, int number);
/* Stop the ranks and then this process on a terminal's stop signal; returns after continuation. */
void ss_launch_suspend(const struct ss_launch *launch);

/* launch_start.c: start all ranks of options->command in the background. Errors: SS_ERR_IO, ...;
 * then no rank is left running. */
enum ss_status ss_launch_start(struct ss_launch *launch);

/* launch_watch.c: wait until all ranks have ended; after a failure, end the rest. Returns 0 if
 * every rank exited with 0, else the exit code of the rank that failed first. */
int ss_launch_watch(struct ss_launch *launch);

#endif
