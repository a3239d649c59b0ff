/* Standard input, output and error of the program; only for main() and what prints results. */
#ifndef SS_CORE_STANDARD_H
#define SS_CORE_STANDARD_H

#include "core/status.h"

/* Before anything is opened: those of the three that are closed become /dev/null, opened for
 * reading, so that no file of this process or of its children gets their numbers, and writing fails
 * as before. Errors: SS_ERR_IO. */
enum ss_status ss_standard_open(void);

/* fflush(stdout), remembering why it failed for ss_standard_close. */
void ss_standard_flush(void);

/* At the very end: the exit code of a program that would end with `code`. If that is 0 and not all
 * of the standard output could be written, this is reported, and the code is 1: results are lost.
 * A command that failed has said why. */
int ss_standard_close(int code);

#endif
