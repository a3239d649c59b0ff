/* The program's commands. argv[0] is the command's name; each returns the process's exit code:
 * 0 done, 1 failed, 2 wrong usage, 3 a run that a signal ended with a checkpoint to go on from,
 * 4 a run that has diverged.
 * Failures have been reported. */
#ifndef SS_CLI_COMMANDS_H
#define SS_CLI_COMMANDS_H

#include "core/status.h"

int ss_cmd_train(int argc, char **argv);
int ss_cmd_eval(int argc, char **argv);
int ss_cmd_plan(int argc, char **argv);
int ss_cmd_info(int argc, char **argv);
int ss_cmd_launch(int argc, char **argv);
int ss_cmd_trace(int argc, char **argv);
int ss_cmd_monitor(int argc, char **argv);
int ss_cmd_scaling(int argc, char **argv);

enum { SS_EXIT_RESUME = 3, SS_EXIT_DIVERGED = 4 };

static inline int ss_exit_code(enum ss_status status)
{
    switch (status) {
    case SS_OK:
        return 0;
    case SS_ERR_DIVERGED:
        return SS_EXIT_DIVERGED;
    default:
        return 1;
    }
}

#endif
