/* Shared code of the verbs of `starstep data`; not for other commands. */
#ifndef SS_APPS_COMMANDS_CMD_DATA_VERB_H
#define SS_APPS_COMMANDS_CMD_DATA_VERB_H

#include "apps/commands/commands.h"

struct data_verb {
    const char *name, *command, *data_set, *about;
    int (*run)(const struct data_verb *verb, int argc, char **argv);
};

/* ss_options_command() for the options of `verb`. Options that name a folder (DIR) are required. */
int data_verb_parse(const struct data_verb *verb, const struct ss_option *rows, void *values,
                    int argc, char **argv);

/* Install signal handlers that set data_is_stopped() on the first termination signal, so that a
 * command can exit cleanly. The second signal ends the process. */
void data_catch_signals(void);
int data_is_stopped(void);

/* Verbs for image data sets: cmd_data_images.c, cmd_data_pack.c. */
int data_run_make_images(const struct data_verb *verb, int argc, char **argv);
int data_run_check_images(const struct data_verb *verb, int argc, char **argv);
int data_run_pack_images(const struct data_verb *verb, int argc, char **argv);

/* convert and fetch: replace this process by starstep-convert. cmd_data_tool.c. */
int data_run_tool(const struct data_verb *verb, int argc, char **argv);

#endif
