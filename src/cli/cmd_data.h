/* starstep data: make, convert, fetch, check and pack data sets. */
#ifndef SS_CLI_CMD_DATA_H
#define SS_CLI_CMD_DATA_H

/* argv[0] is "data". Returns the exit status: 0, 1 for a failure, 2 for a wrong command line. */
int ss_cmd_data(int argc, char **argv);

#endif
