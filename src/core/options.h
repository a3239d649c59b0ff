/* Command line options from tables: what an option is called, what it may be, what it is when it is
 * not given, and what help says of it. A table describes the fields of a struct; each row is made by
 * one of the macros below, which check the field's type. */
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
    const char *help; /* one line; the default is appended, but for flags and texts without one */
    /* Which commands take it, and what else the table's owner wants to know of it. */
    unsigned group, marks;
};

#define SS_OPTION_AT(T, field, type) _Generic(((T *)0)->field, type : offsetof(T, field))
/* The help comes last; behind it may stand .group and .marks. */
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
    /* What help writes above rows, by the bits of their group, and lists at its end, by those of
     * their marks; NULL: nothing. Both end with no bits. */
    const struct ss_option_heading *headings, *lists;
    const struct ss_option_elsewhere *elsewhere; /* NULL: none */
};
/* What other programs call it, with "-" for "_", and what to say of it here: "it is --base-lr here". A
 * NULL name ends a list. */
struct ss_option_elsewhere {
    const char *name, *here;
};
struct ss_option_heading {
    unsigned bits;
    const char *text;
};

/* Give every field of a table its default. */
void ss_options_default(const struct ss_option *rows, void *values);

/* Give the fields of all tables (of all their groups) their defaults, then what the command line
 * says: "--name value" and "--name=value"; "--flag=false" takes a flag back. argv[0] is the command's name, used in messages. "--help"
 * or "-h" anywhere prints usage and the options instead.
 * Returns -1 to go on, else the exit code: 0 after help, 2 after an error, which is told in one line
 * with option and value: unknown option (the nearest known one is suggested), missing value, not a
 * number, out of range, none of the words, an argument that is no option. */
int ss_options_command(const char *usage, const struct ss_option_set *sets, int argc, char **argv);

/* Only what the command line says, over the values that there are. Errors: SS_ERR_INVALID. */
enum ss_status ss_options_parse(const struct ss_option_set *sets, int argc, char **argv);

/* Set one option in `values`; a flag is "true" or "false", and a text points to `value` then. who:
 * before the option's name in messages. Errors: SS_ERR_INVALID, as above. */
enum ss_status ss_option_set(const struct ss_option *option, void *values, const char *who,
                             const char *value);

/* The help of these options, as long as their fields have the defaults. */
void ss_options_print(FILE *out, const struct ss_option_set *sets);

/* How many letters to insert, remove or replace to make a into b, for the suggestion after a typing mistake; 64 where b
 * is longer than 62. */
size_t ss_edit_distance(const char *a, const char *b);
/* The option whose name is a typing mistake away; NULL: none. */
const char *ss_option_nearest(const struct ss_option_set *sets, const char *name);

/* The option that is written so, without a value ("--name"); NULL: none. */
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
