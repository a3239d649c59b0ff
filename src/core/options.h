/* Command line options from a table: parsing, range checks and help text in one place. */
#ifndef SS_CORE_OPTIONS_H
#define SS_CORE_OPTIONS_H

#include <stdio.h>
#include "core/status.h"

enum ss_option_type {
    SS_OPT_FLAG,   /* int *: set to 1, takes no value */
    SS_OPT_INT,    /* long *: decimal integer in [min, max] */
    SS_OPT_FLOAT,  /* double *: finite number in [min, max] */
    SS_OPT_STRING, /* const char **: points into argv */
};

struct ss_option {
    const char *name; /* without the leading "--"; NULL ends the table */
    enum ss_option_type type;
    void *value;      /* holds the default before parsing */
    double min, max;  /* inclusive; numbers only */
    const char *arg;  /* how help names the value ("N", "DIR"); NULL for flags */
    const char *help; /* one line; the default is appended for numbers and strings that have one */
};

/* Parse "--name value" and "--name=value". argv[0] is the command's name, used in messages.
 * "--help" or "-h" anywhere sets *help and returns SS_OK without looking further.
 * Errors: SS_ERR_INVALID, one line naming option and value: unknown option (the nearest known one
 * is suggested), missing value, not a number, out of range, an argument that is no option. */
enum ss_status ss_options_parse(const struct ss_option *options, int argc, char **argv, int *help);

/* One line per option, with defaults; call before parsing (values then are the defaults). */
void ss_options_print(FILE *out, const struct ss_option *options);

/* Parse "16,160,320,640" into out[0..count-1]; every value in [min, max].
 * Errors: SS_ERR_INVALID, naming `option` and the text. */
enum ss_status ss_parse_int_list(const char *option, const char *text, int count, int min, int max,
                                 int *out);

#endif
