/* The program's commands. argv[0] is the command's name; each returns the process's exit code:
 * 0 done, 1 failed, 2 wrong usage, 3 a run that a signal ended with a checkpoint to go on from,
 * 4 a run that has diverged.
 * Failures have been reported. */
#ifndef SS_CLI_COMMANDS_H
#define SS_CLI_COMMANDS_H

#include "core/options.h"
#include "core/status.h"

int ss_cmd_train(int argc, char **argv);
int ss_cmd_eval(int argc, char **argv);
int ss_cmd_predict(int argc, char **argv);
/* train or eval, with somebody to tell; *result: how it ended, where there was something to do. */
struct ss_train_callbacks;
int ss_cli_train(int argc, char **argv, int training, const struct ss_train_callbacks *callbacks,
                 enum ss_status *result);
int ss_cmd_plan(int argc, char **argv);
int ss_cmd_info(int argc, char **argv);
int ss_cmd_launch(int argc, char **argv);
int ss_cmd_trace(int argc, char **argv);
int ss_cmd_trace_export(int argc, char **argv); /* argv[0] is the verb */
int ss_cmd_monitor(int argc, char **argv);
int ss_cmd_scaling(int argc, char **argv);
int ss_cmd_tune(int argc, char **argv);
int ss_cmd_doctor(int argc, char **argv);
int ss_cmd_data(int argc, char **argv);

enum { SS_EXIT_OK, SS_EXIT_FAILED, SS_EXIT_USAGE, SS_EXIT_RESUME, SS_EXIT_DIVERGED };

/* parse.c: ss_options_command() of a verb whose options stand behind a folder. what: it is one;
 * about: for --help. */
int ss_cli_parse_dir(char *command, const char *what, const char *about,
                     const struct ss_option_set *sets, int argc, char **argv, const char **dir);

/* Moves what is neither option nor its value to `word`; returns how many these are. The options stay, *argc
 * of them with the command. */
int ss_cli_take_words(const struct ss_option_set *sets, int *argc, char **argv, char **word);

static inline int ss_exit_code(enum ss_status status)
{
    if (status == SS_OK)
        return SS_EXIT_OK;
    return status == SS_ERR_DIVERGED ? SS_EXIT_DIVERGED : SS_EXIT_FAILED;
}

#endif
