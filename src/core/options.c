#include "core/options.h"
#include "core/log.h"
#include "core/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t ss_edit_distance(const char *a, const char *b)
{
    size_t n = strlen(b), row[64];
    if (n >= 63)
        return 64;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

/* Rows of a command, over all its sets; begins with no option. */
struct row {
    const struct ss_option_set *set;
    const struct ss_option *option;
};

static int next_row(struct row *r)
{
    r->option = r->option ? r->option + 1 : r->set->rows;
    for (; r->set->rows; r->option = (++r->set)->rows)
        for (; r->option->name; r->option++)
            if (!r->set->groups || r->option->group & r->set->groups)
                return 1;
    return 0;
}

static struct row find_row(const struct ss_option_set *sets, const char *name)
{
    struct row r = {.set = sets};
    while (next_row(&r))
        if (!strcmp(r.option->name, name))
            return r;
    return (struct row){0};
}

const struct ss_option *ss_option_find(const struct ss_option_set *sets, const char *name)
{
    return find_row(sets, name).option;
}

static void *field(const struct ss_option *o, void *values)
{
    return (char *)values + o->offset;
}

static void set_number(const struct ss_option *o, void *at, double v)
{
    if (o->type == SS_OPT_INT)
        *(long *)at = (long)v;
    else if (o->type == SS_OPT_FLOAT)
        *(double *)at = v;
    else if (o->type == SS_OPT_SIZE)
        *(struct ss_size *)at = ss_square((int)v);
    else
        *(int *)at = (int)v;
}

void ss_options_default(const struct ss_option *rows, void *values)
{
    for (const struct ss_option *o = rows; o->name; o++) {
        if (o->type == SS_OPT_TEXT)
            *(const char **)field(o, values) = o->text;
        else
            set_number(o, field(o, values), o->number);
    }
}

const char *ss_option_text(const struct ss_option *o, const void *values,
                           char text[SS_OPTION_TEXT_ROOM])
{
    const void *at = (const char *)values + o->offset;
    switch (o->type) {
    case SS_OPT_FLAG:
        return *(const int *)at ? "1" : "0";
    case SS_OPT_INT:
        snprintf(text, SS_OPTION_TEXT_ROOM, "%ld", *(const long *)at);
        return text;
    case SS_OPT_FLOAT:
        return ss_number_text(*(const double *)at, text);
    case SS_OPT_TEXT:
        return *(const char *const *)at ? *(const char *const *)at : "(none)";
    case SS_OPT_WORD:
        for (const struct ss_word *w = o->words; w->text; w++)
            if (w->value == *(const int *)at)
                return w->text;
        break;
    case SS_OPT_SIZE:
        return ss_size_text(*(const struct ss_size *)at, text);
    }
    return "(none)";
}

const char *ss_option_nearest(const struct ss_option_set *sets, const char *name)
{
    const char *nearest = NULL;
    size_t best = 4; /* farther away it is not a typing mistake */
    struct row r = {.set = sets};
    while (next_row(&r)) {
        size_t d = ss_edit_distance(name, r.option->name);
        if (d < best) {
            best = d;
            nearest = r.option->name;
        }
    }
    return nearest;
}

static int is_called(const char *theirs, const char *name)
{
    for (; *name && (*name == '_' ? '-' : *name) == *theirs; name++)
        theirs++;
    return !*name && !*theirs;
}

static const char *find_elsewhere(const struct ss_option_set *sets, const char *name)
{
    for (; sets->rows; sets++)
        for (const struct ss_option_elsewhere *e = sets->elsewhere; e && e->name; e++)
            if (is_called(e->name, name))
                return e->here;
    return NULL;
}

/* Of another command that shares the table. */
static int is_others(const struct ss_option_set *sets, const char *name)
{
    for (; sets->rows; sets++)
        for (const struct ss_option *row = sets->rows; row->name; row++)
            if (!strcmp(row->name, name))
                return 1;
    return 0;
}

static enum ss_status unknown_option(const struct ss_option_set *sets, const char *command,
                                     const char *name)
{
    if (is_others(sets, name))
        return ss_fail(SS_ERR_INVALID, "%s: takes no %s; see starstep %s --help", command, name,
                       command);
    const char *here = find_elsewhere(sets, name);
    if (here)
        return ss_fail(SS_ERR_INVALID, "%s: unknown option %s: %s", command, name, here);
    const char *nearest = ss_option_nearest(sets, name);
    if (nearest)
        return ss_fail(SS_ERR_INVALID, "%s: unknown option %s; did you mean %s?", command, name,
                       nearest);
    return ss_fail(SS_ERR_INVALID, "%s: unknown option %s; see starstep %s --help", command, name,
                   command);
}

/* "auto, cpu or cuda", or "auto|cpu|cuda". */
static void list_words(const struct ss_word *words, const char *between, const char *last,
                       char *text, size_t room)
{
    size_t n = 0;
    for (const struct ss_word *w = words; w->text && n < room; w++)
        n += (size_t)snprintf(text + n, room - n, "%s%s",
                              w == words  ? ""
                              : w[1].text ? between
                                          : last,
                              w->text);
}

/* How messages and help name the value. */
enum { ARGUMENT_ROOM = 128 };
static const char *argument(const struct ss_option *o, char *text, size_t room)
{
    if (!o->words)
        return o->arg;
    list_words(o->words, "|", "|", text, room);
    return text;
}

static enum ss_status set_word(const struct ss_option *o, const char *command, const char *text,
                               int *out)
{
    char known[ARGUMENT_ROOM], advice[64] = "";
    for (const struct ss_word *w = o->words; w->text; w++) {
        if (!strcmp(w->text, text)) {
            *out = w->value;
            return SS_OK;
        }
        if (!*advice && 2 * ss_edit_distance(text, w->text) <= strlen(text))
            snprintf(advice, sizeof advice, "; did you mean %s?", w->text);
    }
    list_words(o->words, ", ", " or ", known, sizeof known);
    return ss_fail(SS_ERR_INVALID, "%s: %s: \"%s\" is not %s%s", command, o->name, text, known,
                   advice);
}

static enum ss_status set_integer(const struct ss_option *o, const char *command, const char *text,
                                  long *out)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (!*text || *end)
        return ss_fail(SS_ERR_INVALID, "%s: %s: \"%s\" is not an integer", command, o->name, text);
    if (errno == ERANGE || (double)v < o->min || (double)v > o->max)
        return ss_fail(SS_ERR_INVALID, "%s: %s: %s is out of range; give %.0f to %.0f", command,
                       o->name, text, o->min, o->max);
    *out = v;
    return SS_OK;
}

static enum ss_status set_number_text(const struct ss_option *o, const char *command,
                                      const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (!*text || *end)
        return ss_fail(SS_ERR_INVALID, "%s: %s: \"%s\" is not a number", command, o->name, text);
    if (!isfinite(v) || v < o->min || v > o->max) {
        char most[32]; /* in as few digits as are shown, a value that ends just below 1 is 1 */
        snprintf(most, sizeof most, "%g", o->max);
        return ss_fail(SS_ERR_INVALID, "%s: %s: %s is out of range; give %g to %s%s", command,
                       o->name, text, o->min, strtod(most, NULL) > o->max ? "below " : "", most);
    }
    *out = v;
    return SS_OK;
}

static enum ss_status set_size(const struct ss_option *o, const char *command, const char *text,
                               struct ss_size *out)
{
    int height, width, one = 0, both = 0;
    const int n = sscanf(text, "%6d%nx%6d%n", &height, &one, &width, &both);
    if (n < 1 || text[n == 1 ? one : both] || strspn(text, "0123456789x") < strlen(text))
        return ss_fail(SS_ERR_INVALID, "%s: %s: \"%s\" is not a size, such as 64 or 48x64", command,
                       o->name, text);
    if (n == 1)
        width = height;
    if (height < o->min || height > o->max || width < o->min || width > o->max || !height != !width)
        return ss_fail(SS_ERR_INVALID, "%s: %s: %s is out of range; give %.0f to %.0f", command,
                       o->name, text, o->min, o->max);
    *out = (struct ss_size){height, width};
    return SS_OK;
}

static enum ss_status set_flag(const struct ss_option *o, const char *command, const char *text,
                               int *out)
{
    *out = !strcmp(text, "true");
    if (*out || !strcmp(text, "false"))
        return SS_OK;
    return ss_fail(SS_ERR_INVALID, "%s: %s takes no value but true or false", command, o->name);
}

enum ss_status ss_option_set(const struct ss_option *o, void *values, const char *who,
                             const char *text)
{
    void *at = field(o, values);
    switch (o->type) {
    case SS_OPT_FLAG:
        return set_flag(o, who, text, at);
    case SS_OPT_TEXT:
        *(const char **)at = text;
        break;
    case SS_OPT_INT:
        return set_integer(o, who, text, at);
    case SS_OPT_FLOAT:
        return set_number_text(o, who, text, at);
    case SS_OPT_WORD:
        return set_word(o, who, text, at);
    case SS_OPT_SIZE:
        return set_size(o, who, text, at);
    }
    return SS_OK;
}

/* argv[*i], and its value if that stands behind it. */
static enum ss_status parse_one(const struct ss_option_set *sets, int argc, char **argv, int *i)
{
    const char *command = argv[0], *arg = argv[*i];
    char name[64], shown[ARGUMENT_ROOM];
    if (strncmp(arg, "--", 2) || !arg[2])
        return ss_fail(SS_ERR_INVALID, "%s: unexpected argument \"%s\"; see starstep %s --help",
                       command, arg, command);
    const char *equals = strchr(arg, '=');
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - arg) : (int)strlen(arg), arg);
    struct row r = find_row(sets, name);
    if (!r.option)
        return unknown_option(sets, command, name);
    if (r.option->type == SS_OPT_FLAG && !equals)
        return ss_option_set(r.option, r.set->values, command, "true");
    if (!equals && *i + 1 >= argc)
        return ss_fail(SS_ERR_INVALID, "%s: %s needs a value (%s)", command, name,
                       argument(r.option, shown, sizeof shown));
    return ss_option_set(r.option, r.set->values, command, equals ? equals + 1 : argv[++*i]);
}

static const char *heading(const struct row *r)
{
    const struct ss_option_heading *h = r->set->headings;
    while (h && h->bits && !(h->bits & r->option->group))
        h++;
    return h && h->bits ? h->text : NULL;
}

static void print_row(FILE *out, const struct row *r)
{
    enum { HELP_AT = 31 };
    char text[ARGUMENT_ROOM];
    const struct ss_option *o = r->option;
    const char *arg = argument(o, text, sizeof text);
    int n = fprintf(out, "  %s%s%s", o->name, arg ? " " : "", arg ? arg : "");
    fprintf(out, "%s%*s%s", n < HELP_AT ? "" : "\n", n < HELP_AT ? HELP_AT - n : HELP_AT, "",
            o->help);
    if (o->type != SS_OPT_FLAG && (o->type != SS_OPT_TEXT || *(char **)field(o, r->set->values)))
        fprintf(out, " (default %s)", ss_option_text(o, r->set->values, text));
    fputc('\n', out);
}

static void print_list(FILE *out, const struct ss_option_set *set,
                       const struct ss_option_heading *list)
{
    fprintf(out, "\n%s:\n ", list->text);
    for (const struct ss_option *o = set->rows; o->name; o++)
        if (o->marks & list->bits)
            fprintf(out, " %s", o->name);
    fputc('\n', out);
}

void ss_options_print(FILE *out, const struct ss_option_set *sets)
{
    const char *last = NULL;
    struct row r = {.set = sets};
    while (next_row(&r)) {
        const char *text = heading(&r);
        if (text && text != last)
            fprintf(out, "%s%s:\n", last ? "\n" : "", text);
        last = text;
        print_row(out, &r);
    }
    for (const struct ss_option_set *set = sets; set->rows; set++)
        for (const struct ss_option_heading *list = set->lists; list && list->bits; list++)
            print_list(out, set, list);
}

enum ss_status ss_options_parse(const struct ss_option_set *sets, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        SS_TRY(parse_one(sets, argc, argv, &i));
    return SS_OK;
}

int ss_options_command(const char *usage, const struct ss_option_set *sets, int argc, char **argv)
{
    for (const struct ss_option_set *set = sets; set->rows; set++)
        ss_options_default(set->rows, set->values);
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            ss_options_print(stdout, sets);
            return 0;
        }
    return ss_options_parse(sets, argc, argv) == SS_OK ? -1 : 2;
}

enum ss_status ss_parse_int_list(const char *option, const char *text, int count, int min, int max,
                                 int *out)
{
    int values[64];
    const char *p = text;
    for (int i = 0; i < count; i++) {
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        if (end == p || (i + 1 < count ? *end != ',' : *end != '\0'))
            return ss_fail(SS_ERR_INVALID,
                           "--%s: \"%s\" is not a list of %d integers separated by commas", option,
                           text, count);
        if (errno == ERANGE || v < min || v > max)
            return ss_fail(SS_ERR_INVALID, "--%s: %.*s is out of range; give %d to %d", option,
                           (int)(end - p), p, min, max);
        values[i] = (int)v;
        p = end + 1;
    }
    for (int i = 0; i < count; i++)
        out[i] = values[i];
    return SS_OK;
}

static enum ss_status fail_floats(const char *option, const char *text, int count)
{
    if (count == 1)
        return ss_fail(SS_ERR_INVALID, "--%s: \"%s\" is not a number", option, text);
    return ss_fail(SS_ERR_INVALID,
                   "--%s: \"%s\" is neither a number nor a list of %d separated by commas", option,
                   text, count);
}

enum ss_status ss_parse_float_list(const char *option, const char *text, int count, double min,
                                   double max, float *out)
{
    const char *p = text;
    int n = 0;
    for (char *end = NULL; !end || *end == ','; p = end + 1, n++) {
        const double v = strtod(p, &end);
        if (end == p || (*end && *end != ',') || n == count)
            return fail_floats(option, text, count);
        if (!(v >= min && v <= max))
            return ss_fail(SS_ERR_INVALID, "--%s: %.*s is out of range; give %g to %g", option,
                           (int)(end - p), p, min, max);
        out[n] = (float)v;
    }
    if (n != 1 && n != count)
        return fail_floats(option, text, count);
    for (int i = n; i < count; i++)
        out[i] = out[0];
    return SS_OK;
}
