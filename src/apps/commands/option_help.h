/* Help from option tables, and the command lines of commands, which end with an exit code. */
#ifndef SS_APPS_COMMANDS_OPTION_HELP_H
#define SS_APPS_COMMANDS_OPTION_HELP_H

#include "core/options.h"

#include <stdio.h>

/* 0: success, 1: failure, 2: wrong usage, 3: stopped by a signal after saving a checkpoint to
 * resume from, 4: training diverged. */
enum { SS_EXIT_OK, SS_EXIT_FAILED, SS_EXIT_USAGE, SS_EXIT_RESUME, SS_EXIT_DIVERGED };

/* Set the fields of all tables (of all groups) to their defaults, then parse the command line with
 * ss_options_parse(). "--help" or "-h" anywhere prints usage and options instead: the common ones;
 * with "--help all" every option; with "--help table" one line of tab-separated fields per option,
 * for programs. Returns -1 to continue, otherwise the exit code: 0 after help, 2 after an error. */
int ss_options_command(const char *usage, const struct ss_option_set *sets, int argc, char **argv);

/* Its first half: set the defaults, and print help if it is asked for. Returns 1 if it is. */
int ss_options_help(const char *usage, const struct ss_option_set *sets, int argc, char **argv);

/* Return 1 if the argument is --help or -h. */
int ss_options_is_help(const char *argument);

/* Print the options. Call it while their fields still hold the defaults. command: used in the
 * last line. */
enum ss_options_help { SS_HELP_COMMON, SS_HELP_ALL, SS_HELP_TABLE };
void ss_options_print(FILE *out, const struct ss_option_set *sets, const char *command,
                      enum ss_options_help what);

#endif
