/* The program's commands. argv[0] is the command's name. Each returns the process's exit code: 0:
 * success, 1: failure, 2: wrong usage, 3: stopped by a signal after saving a checkpoint to resume
 * from, 4: training diverged. Errors have been reported. */
#ifndef SS_CLI_COMMANDS_H
#define SS_CLI_COMMANDS_H

#include "core/options.h"
#include "core/status.h"

int ss_cmd_train(int argc, char **argv);
int ss_cmd_eval(int argc, char **argv);
int ss_cmd_predict(int argc, char **argv);
/* Run train or eval with callbacks. *result: the status of the run, if there was one. */
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

/* parse.c: ss_options_command() for a verb whose options follow a folder. what: the folder's
 * role, for messages; about: description for --help. */
int ss_cli_parse_dir(char *command, const char *what, const char *about,
                     const struct ss_option_set *sets, int argc, char **argv, const char **dir);

/* Move the arguments that are neither an option nor its value to `word`, and return their number.
 * The options remain: *argc of them, including the command. */
int ss_cli_take_words(const struct ss_option_set *sets, int *argc, char **argv, char **word);

static inline int ss_exit_code(enum ss_status status)
{
    if (status == SS_OK)
        return SS_EXIT_OK;
    return status == SS_ERR_DIVERGED ? SS_EXIT_DIVERGED : SS_EXIT_FAILED;
}

#endif
