/* The verbs of `starstep trace`. argv[0] is the verb; exit codes as in commands.h. */
#ifndef SS_CLI_CMD_TRACE_H
#define SS_CLI_CMD_TRACE_H

#include "core/options.h"
#include "core/status.h"

int ss_cmd_trace_export(int argc, char **argv);

/* A verb's command line: DIR, then options. Returns -1 to go on, else the exit code. about: for
 * --help. */
int ss_trace_parse(char *command, const char *about, const struct ss_option *options, int argc,
                   char **argv, const char **dir);

#endif
