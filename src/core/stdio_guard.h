/* Guard standard input, output and error of the program; only for main() and code that prints
 * results. */
#ifndef SS_CORE_STDIO_GUARD_H
#define SS_CORE_STDIO_GUARD_H

#include "core/status.h"

/* Before anything is opened: those of the three that are closed become /dev/null, opened for
 * reading, so that no file of this process or of its children gets their numbers, and writing fails
 * as before. Errors: SS_ERR_IO. */
enum ss_status ss_stdio_open(void);

/* fflush(stdout), remembering why it failed for ss_stdio_close. */
void ss_stdio_flush(void);

/* At the very end: the exit code of a program that would end with `code`. If that is 0 and not all
 * of the standard output could be written, this is reported, and the code is 1: results are lost.
 * A command that failed has said why. */
int ss_stdio_close(int code);

#endif
