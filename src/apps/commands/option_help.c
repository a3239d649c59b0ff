/* option_help.c: prints help texts from option tables; handles --help . */
#include "apps/commands/option_help.h"

#include <string.h>

enum { HELP_AT = 30, COLUMNS = 100 };

static const char *heading(const struct ss_option_row *r)
{
    const struct ss_option_heading *h = r->set->headings;
    while (h && h->bits && !(h->bits & r->option->group))
        h++;
    return h && h->text ? h->text : "Options";
}

/* Returns the default as --help prints it, or NULL. */
static const char *default_of(const struct ss_option_row *r, char *text, size_t capacity)
{
    const struct ss_option *o = r->option;
    const char *described =
        r->set->describe_default ? r->set->describe_default(o, text, capacity) : NULL;
    if (described || o->default_)
        return described ? described : *o->default_ ? o->default_ : NULL;
    if (o->type == SS_OPT_FLAG ||
        (o->type == SS_OPT_TEXT &&
         !*(const char *const *)(const void *)((const char *)r->set->values + o->offset)))
        return NULL;
    return ss_option_text(o, r->set->values, text);
}

/* Appends the words of `text` at column `at`; new lines start at column `indent`. Returns the
 * column after the last word. */
static int print_wrapped(FILE *out, int indent, int at, const char *text)
{
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (at > indent && at + 1 + length > COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        }
        at += fprintf(out, "%s%.*s", at > indent ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    return at;
}

static void print_row(FILE *out, const struct ss_option_row *r, int aliases)
{
    char argument[SS_OPTION_ARGUMENT_CAPACITY], text[SS_OPTION_ARGUMENT_CAPACITY], more[256];
    const struct ss_option *o = r->option;
    const char *arg = ss_option_argument(o, argument), *shown = default_of(r, text, sizeof text);
    const int n = fprintf(out, "  %s%s%s", o->name, arg ? " " : "", arg ? arg : "");
    const int fits = n + 2 <= HELP_AT;
    fprintf(out, "%s%*s", fits ? "" : "\n", fits ? HELP_AT - n : HELP_AT, "");
    int at = print_wrapped(out, HELP_AT, HELP_AT, o->help);
    if (shown) {
        snprintf(more, sizeof more, "(default: %s)", shown);
        at = print_wrapped(out, HELP_AT, at, more);
    }
    if (aliases && o->aliases) {
        snprintf(more, sizeof more, "[also %s]", o->aliases);
        print_wrapped(out, HELP_AT, at, more);
    }
    fputc('\n', out);
}

static void print_list(FILE *out, const struct ss_option_set *set,
                       const struct ss_option_heading *list)
{
    enum { LIST_AT = 2 };
    int at = LIST_AT;
    fprintf(out, "\n%s:\n%*s", list->text, LIST_AT, "");
    for (const struct ss_option *o = set->rows; o->name; o++)
        if (o->marks & list->bits)
            at = print_wrapped(out, LIST_AT, at, o->name);
    fputc('\n', out);
}

/* A set without common options is printed completely. */
static int has_common(const struct ss_option_set *set)
{
    for (const struct ss_option *o = set->rows; o->name; o++)
        if (o->common && (!set->groups || o->group & set->groups))
            return 1;
    return 0;
}

static void print_rows(FILE *out, const struct ss_option_set *sets, const char *command,
                       enum ss_options_help what)
{
    const char *last = NULL;
    int hidden = 0, all = 0;
    struct ss_option_row r = {.set = sets};
    while (ss_option_next(&r)) {
        all++;
        const int whole = what == SS_HELP_ALL || !has_common(r.set);
        if (!whole && !r.option->common) {
            hidden++;
            continue;
        }
        if (!last || strcmp(heading(&r), last) != 0)
            fprintf(out, "\n%s:\n", heading(&r));
        last = heading(&r);
        print_row(out, &r, whole);
    }
    if (hidden)
        fprintf(out, "\nstarstep %s --help all lists all %d options and their aliases.\n", command,
                all);
}

/* Prints name, argument, heading, default, aliases, lists and help, separated by tabs; "-" if
 * empty. */
static void print_table(FILE *out, const struct ss_option_set *sets)
{
    char argument[SS_OPTION_ARGUMENT_CAPACITY], text[SS_OPTION_ARGUMENT_CAPACITY];
    struct ss_option_row r = {.set = sets};
    while (ss_option_next(&r)) {
        const struct ss_option *o = r.option;
        const char *arg = ss_option_argument(o, argument),
                   *shown = default_of(&r, text, sizeof text);
        fprintf(out, "%s\t%s\t%s\t%s\t%s\t", o->name, arg ? arg : "-", heading(&r),
                shown ? shown : "-", o->aliases ? o->aliases : "-");
        const char *between = "";
        for (const struct ss_option_heading *l = r.set->lists; l && l->bits; l++)
            if (o->marks & l->bits) {
                fprintf(out, "%s%s", between, l->text);
                between = ";";
            }
        fprintf(out, "%s\t%s\n", *between ? "" : "-", o->help);
    }
}

void ss_options_print(FILE *out, const struct ss_option_set *sets, const char *command,
                      enum ss_options_help what)
{
    if (what == SS_HELP_TABLE) {
        print_table(out, sets);
        return;
    }
    print_rows(out, sets, command, what);
    for (const struct ss_option_set *set = sets; what == SS_HELP_ALL && set->rows; set++)
        for (const struct ss_option_heading *list = set->lists; list && list->bits; list++)
            print_list(out, set, list);
}

int ss_options_is_help(const char *argument)
{
    return !strcmp(argument, "--help") || !strcmp(argument, "-h");
}

static int asks_help(int argc, char **argv, enum ss_options_help *what)
{
    *what = SS_HELP_COMMON;
    for (int i = 1; i < argc; i++) {
        if (!ss_options_is_help(argv[i]))
            continue;
        const char *more = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(more, "all"))
            *what = SS_HELP_ALL;
        if (!strcmp(more, "table"))
            *what = SS_HELP_TABLE;
        return 1;
    }
    return 0;
}

int ss_options_help(const char *usage, const struct ss_option_set *sets, int argc, char **argv)
{
    enum ss_options_help what;
    for (const struct ss_option_set *set = sets; set->rows; set++)
        ss_options_default(set->rows, set->values);
    if (!asks_help(argc, argv, &what))
        return 0;
    if (what != SS_HELP_TABLE)
        fputs(usage, stdout);
    ss_options_print(stdout, sets, argv[0], what);
    return 1;
}

int ss_options_command(const char *usage, const struct ss_option_set *sets, int argc, char **argv)
{
    if (ss_options_help(usage, sets, argc, argv))
        return SS_EXIT_OK;
    return ss_options_parse(sets, argc, argv) == SS_OK ? -1 : SS_EXIT_USAGE;
}
