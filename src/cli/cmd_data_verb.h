/* The verbs of starstep data, each with a data set; not for other commands. */
#ifndef SS_CLI_CMD_DATA_VERB_H
#define SS_CLI_CMD_DATA_VERB_H

#include "cli/commands.h"

struct data_verb {
    const char *name, *command, *data_set, *about;
    int (*run)(const struct data_verb *verb, int argc, char **argv);
};

/* ss_options_command() for the options of `verb`, of which those that name a folder (DIR) must be
 * given. */
int data_verb_parse(const struct data_verb *verb, const struct ss_option *rows, void *values,
                    int argc, char **argv);

/* From now on signals that ask for an end only set data_is_stopped(), so that a command can end
 * without leaving anything behind. The second signal ends the process. */
void data_catch_signals(void);
int data_is_stopped(void);

/* Those of data sets of images: cmd_data_images.c, cmd_data_pack.c, cmd_data_npz.c. */
int data_run_make_images(const struct data_verb *verb, int argc, char **argv);
int data_run_check_images(const struct data_verb *verb, int argc, char **argv);
int data_run_convert_npz(const struct data_verb *verb, int argc, char **argv);
int data_run_convert_idx(const struct data_verb *verb, int argc, char **argv);
int data_run_pack_images(const struct data_verb *verb, int argc, char **argv);

#endif
