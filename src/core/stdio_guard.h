/* Guard the program's standard input, output and error. Only for main() and code that prints
 * results. */
#ifndef SS_CORE_STDIO_GUARD_H
#define SS_CORE_STDIO_GUARD_H

#include "core/status.h"

/* Open /dev/null read-only in place of each closed standard stream, so that no other file gets
 * its descriptor in this process or its children; writes fail as before. Call it before any file
 * is opened. Errors: SS_ERR_IO. */
enum ss_status ss_stdio_open(void);

/* Flush stdout and record the reason of a failure for ss_stdio_close. */
void ss_stdio_flush(void);

/* Return the exit code of a program that would end with `code`. If code is 0 but standard output
 * could not be written completely, report it and return 1. A command that failed has already
 * reported its error. Call it last. */
int ss_stdio_close(int code);

#endif
