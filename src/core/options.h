/* Command-line options from tables: an option's names, type, range, default and help text. A
 * table describes the fields of a struct. Each row is made by one of the macros below, which
 * check the field's type. options.c parses, option_help.c prints. */
#ifndef SS_CORE_OPTIONS_H
#define SS_CORE_OPTIONS_H

#include "core/size.h"
#include "core/status.h"

#include <stddef.h>
#include <stdio.h>

enum ss_option_type {
    SS_OPT_FLAG,  /* int: 1 when given, takes no value */
    SS_OPT_INT,   /* long: decimal integer in [min, max] */
    SS_OPT_FLOAT, /* double: finite number in [min, max] */
    SS_OPT_TEXT,  /* const char *: points into argv */
    SS_OPT_WORD,  /* int: the value of one of `words` */
    SS_OPT_SIZE,  /* struct ss_size: "N" or "HxW", both in [min, max] */
};

/* A word with the same value as an earlier one is an alternative spelling: accepted, not listed. */
struct ss_word {
    const char *text; /* NULL ends a list */
    int value;
};

struct ss_option {
    const char *name; /* with the leading "--"; NULL ends the table */
    enum ss_option_type type;
    size_t offset; /* of the field */
    double number; /* default; for a word its value, for a size its side */
    double min, max;
    const char *text; /* default of a text, or NULL */
    const struct ss_word *words;
    const char *arg;  /* value's name in help ("N", "DIR"); NULL: the words, or a flag */
    const char *help; /* the default is appended, except for flags and texts without a default */
    /* Bits of the commands that take the option; further properties defined by the table's
     * owner. */
    unsigned group, marks;
    /* Optional, after the help text in a row: */
    int common;           /* listed by --help; other options only by --help all */
    const char *aliases;  /* other names, separated by spaces: "-b --batch"; "-x" is one letter */
    const char *former;   /* name in the previous version: accepted, with a note */
    const char *default_; /* default as printed in help; NULL: the value, "": omit it */
};

#define SS_OPTION_AT(T, field, type) _Generic(((T *)0)->field, type : offsetof(T, field))
/* The help text comes last; designated initializers such as .group and .aliases may follow. */
#define SS_OPTION_FLAG(T, field, name_, ...)                                                       \
    {                                                                                              \
        .name = name_, .type = SS_OPT_FLAG, .offset = SS_OPTION_AT(T, field, int),                 \
        .help = __VA_ARGS__                                                                        \
    }
#define SS_OPTION_INT(T, field, name_, default_, min_, max_, arg_, ...)                            \
    {                                                                                              \
        .name = name_, .type = SS_OPT_INT, .offset = SS_OPTION_AT(T, field, long),                 \
        .number = default_, .min = min_, .max = max_, .arg = arg_, .help = __VA_ARGS__             \
    }
#define SS_OPTION_FLOAT(T, field, name_, default_, min_, max_, arg_, ...)                          \
    {                                                                                              \
        .name = name_, .type = SS_OPT_FLOAT, .offset = SS_OPTION_AT(T, field, double),             \
        .number = default_, .min = min_, .max = max_, .arg = arg_, .help = __VA_ARGS__             \
    }
#define SS_OPTION_TEXT(T, field, name_, default_, arg_, ...)                                       \
    {                                                                                              \
        .name = name_, .type = SS_OPT_TEXT, .offset = SS_OPTION_AT(T, field, const char *),        \
        .text = default_, .arg = arg_, .help = __VA_ARGS__                                         \
    }
#define SS_OPTION_WORD(T, field, name_, default_, words_, ...)                                     \
    {                                                                                              \
        .name = name_, .type = SS_OPT_WORD, .offset = SS_OPTION_AT(T, field, int),                 \
        .number = default_, .words = words_, .help = __VA_ARGS__                                   \
    }

#define SS_OPTION_SIZE(T, field, name_, default_, min_, max_, arg_, ...)                           \
    {                                                                                              \
        .name = name_, .type = SS_OPT_SIZE, .offset = SS_OPTION_AT(T, field, struct ss_size),      \
        .number = default_, .min = min_, .max = max_, .arg = arg_, .help = __VA_ARGS__             \
    }

/* The options of a command: rows of one or more tables, each with its struct. */
struct ss_option_set {
    const struct ss_option *rows; /* NULL ends a list of sets */
    void *values;
    unsigned groups; /* select rows with one of these bits; 0: all */
    /* Headings above rows in help, by the bits of `group`. An entry without bits ends the list;
     * its text is for all other rows. NULL: "Options". */
    const struct ss_option_heading *headings;
    /* Lists of names at the end of --help all, by the bits of `marks`. An entry without bits ends
     * the list. */
    const struct ss_option_heading *lists;
    const struct ss_option_elsewhere *elsewhere; /* may be NULL */
    /* Returns the default that help prints for an option, if it depends on other options, or
     * NULL. */
    const char *(*describe_default)(const struct ss_option *option, char *text, size_t capacity);
};
/* An option of other programs without an equivalent here (written with "-" for "_"), and the
 * advice for its error message. A NULL name ends a list. */
struct ss_option_elsewhere {
    const char *name, *here;
};
struct ss_option_heading {
    unsigned bits;
    const char *text;
};

/* Set every field of a table to its default. */
void ss_options_default(const struct ss_option *rows, void *values);

/* Parse a command line: "--name value", "--name=value", "-x value" and "-xvalue"; "--flag=false"
 * resets a flag; "_" in a name is read as "-". argv[0] is the command's name, used in messages.
 * Options that are not given keep their current values.
 *
 * Errors: SS_ERR_INVALID, one line with option and value: unknown option (with the nearest known
 * name), missing value, not a number, out of range, not one of the words, or not an option. */
enum ss_status ss_options_parse(const struct ss_option_set *sets, int argc, char **argv);

/* Set one option in `values`. A flag takes "true" or "false". A text field points to `value`
 * afterwards. who: prefix of messages. Errors: SS_ERR_INVALID, as above. */
enum ss_status ss_option_set(const struct ss_option *option, void *values, const char *who,
                             const char *value);

/* Iterate over the rows of all sets that apply to a command. Start with {.set = sets}; returns 0
 * at the end. */
struct ss_option_row {
    const struct ss_option_set *set;
    const struct ss_option *option;
};
int ss_option_next(struct ss_option_row *row);

/* Return the name of an option's value for messages and help: "N", or its words, formatted in
 * `text`. NULL for a flag. */
enum { SS_OPTION_ARGUMENT_CAPACITY = 128 };
const char *ss_option_argument(const struct ss_option *option,
                               char text[SS_OPTION_ARGUMENT_CAPACITY]);

/* Levenshtein distance from a to b, for suggestions after a typing mistake. Returns 64 if b is
 * longer than 62. */
size_t ss_edit_distance(const char *a, const char *b);
/* Return the known option name closest to `name`, within typing-mistake distance, or NULL. */
const char *ss_option_nearest(const struct ss_option_set *sets, const char *name);

/* Find an option by name or alias ("--name" or "-x", without a value). Returns NULL if unknown. */
const struct ss_option *ss_option_find(const struct ss_option_set *sets, const char *name);

/* Return an option's value: a constant string, or formatted in `text`. Numbers are exact. A flag
 * is "1" or "0". A text that is not set is "(none)". */
enum { SS_OPTION_TEXT_CAPACITY = 32 };
const char *ss_option_text(const struct ss_option *option, const void *values,
                           char text[SS_OPTION_TEXT_CAPACITY]);

/* Parse a list such as "16,160,320,640" into out[0..count-1]; every value in [min, max]. Errors:
 * SS_ERR_INVALID; the message names `option` and the text. */
enum ss_status ss_parse_int_list(const char *option, const char *text, int count, int min, int max,
                                 int *out);

/* Parse a single value ("0.5"), used for all, or a list ("0.485,0.456,0.406") into
 * out[0..count-1]; every value in [min, max]. Errors: as ss_parse_int_list. */
enum ss_status ss_parse_float_list(const char *option, const char *text, int count, double min,
                                   double max, float *out);

#endif
