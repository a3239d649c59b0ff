/* The program's commands. argv[0] is the command's name. Each returns the process's exit code
 * (SS_EXIT_OK and so on). Errors have been reported. */
#ifndef SS_APPS_COMMANDS_COMMANDS_H
#define SS_APPS_COMMANDS_COMMANDS_H

#include "apps/commands/option_help.h"
#include "core/status.h"

int ss_cmd_train(int argc, char **argv);
int ss_cmd_eval(int argc, char **argv);
int ss_cmd_predict(int argc, char **argv);
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

/* parse.c: ss_options_command() for a verb whose options follow a folder. what: the folder's
 * role, for messages; about: description for --help. */
int ss_cli_parse_dir(char *command, const char *what, const char *about,
                     const struct ss_option_set *sets, int argc, char **argv, const char **dir);

/* ss_options_command() for a command whose first option set is a struct ss_train_options, which
 * may come from a recipe: see ss_recipe_parse(). */
struct ss_recipe;
int ss_cli_parse_train(const char *usage, const struct ss_option_set *sets, int argc, char **argv,
                       struct ss_recipe **recipe);

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
