/* Command line options from tables: an option's names, type, range, default and help text. A table
 * describes the fields of a struct; each row is made by one of the macros below, which check the
 * field's type. options.c parses, option_help.c prints. */
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

/* A word whose value an earlier one has is another spelling of it: accepted, not listed. */
struct ss_word {
    const char *text; /* NULL ends a list */
    int value;
};

struct ss_option {
    const char *name; /* with the leading "--"; NULL ends the table */
    enum ss_option_type type;
    size_t offset; /* of the field */
    double number; /* the default; of a word its value, of a size its side */
    double min, max;
    const char *text; /* the default of a text, or NULL */
    const struct ss_word *words;
    const char *arg;  /* how help names the value ("N", "DIR"); NULL: the words, or a flag */
    const char *help; /* the default is appended, except for flags and texts without one */
    /* Which commands take it, and further properties that the table's owner defines. */
    unsigned group, marks;
    /* Optional, behind the help in a row: */
    int common;           /* listed by --help; the others only by --help all */
    const char *aliases;  /* other names, separated by blanks: "-b --batch"; "-x" is one letter */
    const char *former;   /* its name in the last version: accepted, with a note */
    const char *default_; /* the default as help prints it; NULL: the value, "": nothing */
};

#define SS_OPTION_AT(T, field, type) _Generic(((T *)0)->field, type : offsetof(T, field))
/* The help comes last; behind it may stand designated fields, such as .group and .aliases. */
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

/* What a command takes: rows of one or more tables, each with its struct. */
struct ss_option_set {
    const struct ss_option *rows; /* NULL ends a list of sets */
    void *values;
    unsigned groups; /* those with one of these bits; 0: all */
    /* What help prints above rows, by the bits of their group. Ends with no bits, and the text for all
     * others. NULL: "Options". */
    const struct ss_option_heading *headings;
    /* Lists of names at the end of --help all, by the bits of marks. Ends with no bits. */
    const struct ss_option_heading *lists;
    const struct ss_option_elsewhere *elsewhere; /* NULL: none */
    /* The default that help prints for an option, where it depends on others, or NULL. */
    const char *(*describe_default)(const struct ss_option *option, char *text, size_t room);
};
/* An option of other programs that has no equal here ("_" in it is written "-"), and the advice that
 * its message gives. A NULL name ends a list. */
struct ss_option_elsewhere {
    const char *name, *here;
};
struct ss_option_heading {
    unsigned bits;
    const char *text;
};

/* Give every field of a table its default. */
void ss_options_default(const struct ss_option *rows, void *values);

/* Give the fields of all tables (of all their groups) their defaults, then parse the command line:
 * "--name value", "--name=value", "-x value" and "-xvalue"; "--flag=false" resets a flag; "_" in a
 * name is read as "-". argv[0] is the command's name, used in messages. "--help" or "-h" anywhere
 * prints usage and options instead: the common ones, with "--help all" every one, with
 * "--help table" one line of tab-separated fields for each, for programs.
 * Returns -1 to continue, else the exit code: 0 after help, 2 after an error, which is reported in one
 * line with option and value: unknown option (the nearest known one is suggested), missing value, not
 * a number, out of range, none of the words, an argument that is not an option. */
int ss_options_command(const char *usage, const struct ss_option_set *sets, int argc, char **argv);

/* Is it --help or -h? */
int ss_options_is_help(const char *argument);

/* Parse the command line over the present values. Errors: SS_ERR_INVALID. */
enum ss_status ss_options_parse(const struct ss_option_set *sets, int argc, char **argv);

/* Set one option in `values`; a flag is "true" or "false", and a text points to `value` then. who:
 * before the option's name in messages. Errors: SS_ERR_INVALID, as above. */
enum ss_status ss_option_set(const struct ss_option *option, void *values, const char *who,
                             const char *value);

/* Print the options, as long as their fields have the defaults. command: for its last line. */
enum ss_options_help { SS_HELP_COMMON, SS_HELP_ALL, SS_HELP_TABLE };
void ss_options_print(FILE *out, const struct ss_option_set *sets, const char *command,
                      enum ss_options_help what);

/* Iterate over the rows of all sets that a command takes: begin with {.set = sets}; 0: no more. */
struct ss_option_row {
    const struct ss_option_set *set;
    const struct ss_option *option;
};
int ss_option_next(struct ss_option_row *row);

/* How messages and help name an option's value: "N", or its words, in `text`; NULL: a flag has none. */
enum { SS_OPTION_ARGUMENT_ROOM = 128 };
const char *ss_option_argument(const struct ss_option *option, char text[SS_OPTION_ARGUMENT_ROOM]);

/* How many letters to insert, remove or replace to make a into b, for the suggestion after a typing mistake; 64 where b
 * is longer than 62. */
size_t ss_edit_distance(const char *a, const char *b);
/* The option whose name is a typing mistake away; NULL: none. */
const char *ss_option_nearest(const struct ss_option_set *sets, const char *name);

/* The option of that name or alias, "--name" or "-x" without a value; NULL: none. */
const struct ss_option *ss_option_find(const struct ss_option_set *sets, const char *name);

/* An option's value: a constant string, or in `text`. Numbers are exact; a flag is 1 or 0, a text
 * that is not given "(none)". */
enum { SS_OPTION_TEXT_ROOM = 32 };
const char *ss_option_text(const struct ss_option *option, const void *values,
                           char text[SS_OPTION_TEXT_ROOM]);

/* Parse "16,160,320,640" into out[0..count-1]; every value in [min, max].
 * Errors: SS_ERR_INVALID, naming `option` and the text. */
enum ss_status ss_parse_int_list(const char *option, const char *text, int count, int min, int max,
                                 int *out);

/* Parse "0.5", which is for all, or "0.485,0.456,0.406" into out[0..count-1]; every value in [min, max].
 * Errors likewise. */
enum ss_status ss_parse_float_list(const char *option, const char *text, int count, double min,
                                   double max, float *out);

#endif
