/* Run another program, without a shell. */
#ifndef SS_APPS_DATA_PROCESS_H
#define SS_APPS_DATA_PROCESS_H

#include "core/status.h"

struct ss_process {
    const char *const *argv; /* NULL-terminated; argv[0] is searched in PATH */
    const char *in;          /* file for standard input; NULL: /dev/null */
    const char *out;         /* file for standard output; NULL: /dev/null */
    const char *err;         /* file for standard error; NULL: /dev/null */
};

/* Run the program and wait for its end. *code is its exit status, 128 + N after signal N, or -1 if
 * the program is not in PATH. Errors: SS_ERR_IO if it cannot be started for another reason,
 * SS_ERR_MEMORY. */
enum ss_status ss_process_run(const struct ss_process *process, int *code);

#endif
