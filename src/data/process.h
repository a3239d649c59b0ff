/* Run another program, without a shell. */
#ifndef SS_DATA_PROCESS_H
#define SS_DATA_PROCESS_H

#include "core/status.h"

struct ss_process {
    const char *const *argv; /* argv[0] is looked up in PATH; ends with NULL */
    const char *in;          /* file for standard input; NULL: /dev/null */
    const char *out;         /* file for standard output; NULL: /dev/null */
    const char *err;         /* file for standard error; NULL: /dev/null */
};

/* Run it and wait. *code is its exit status, 128 + N after signal N, or -1 if there is no such
 * program in PATH. Errors: SS_ERR_IO when it could not be started for another reason. */
enum ss_status ss_process_run(const struct ss_process *process, int *code);

#endif
