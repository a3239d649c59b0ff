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

int ss_option_next(struct ss_option_row *r)
{
    r->option = r->option ? r->option + 1 : r->set->rows;
    for (; r->set->rows; r->option = (++r->set)->rows)
        for (; r->option->name; r->option++)
            if (!r->set->groups || r->option->group & r->set->groups)
                return 1;
    return 0;
}

/* Compares an option name with a known name; "_" in the given name matches "-". */
static int is_called(const char *given, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((given[i] == '_' ? '-' : given[i]) != name[i])
            return 0;
    return !given[length];
}

static int has_alias(const struct ss_option *o, const char *given)
{
    if (o->former && is_called(given, o->former, strlen(o->former)))
        return 1;
    for (const char *at = o->aliases; at && *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        if (is_called(given, at, length))
            return 1;
        at += length;
    }
    return 0;
}

/* An option's own name takes precedence over other options' aliases. */
static struct ss_option_row find_row(const struct ss_option_set *sets, const char *name)
{
    struct ss_option_row r = {.set = sets};
    while (ss_option_next(&r))
        if (is_called(name, r.option->name, strlen(r.option->name)))
            return r;
    r = (struct ss_option_row){.set = sets};
    while (ss_option_next(&r))
        if (has_alias(r.option, name))
            return r;
    return (struct ss_option_row){0};
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
                           char text[SS_OPTION_TEXT_CAPACITY])
{
    const void *at = (const char *)values + o->offset;
    switch (o->type) {
    case SS_OPT_FLAG:
        return *(const int *)at ? "1" : "0";
    case SS_OPT_INT:
        snprintf(text, SS_OPTION_TEXT_CAPACITY, "%ld", *(const long *)at);
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
    size_t best = 4; /* larger distances are not typing mistakes */
    struct ss_option_row r = {.set = sets};
    while (ss_option_next(&r)) {
        size_t d = ss_edit_distance(name, r.option->name);
        if (d < best) {
            best = d;
            nearest = r.option->name;
        }
    }
    return nearest;
}

static const char *find_elsewhere(const struct ss_option_set *sets, const char *name)
{
    for (; sets->rows; sets++)
        for (const struct ss_option_elsewhere *e = sets->elsewhere; e && e->name; e++)
            if (is_called(name, e->name, strlen(e->name)))
                return e->here;
    return NULL;
}

/* The option belongs to another command that shares the table. */
static int is_others(const struct ss_option_set *sets, const char *name)
{
    for (; sets->rows; sets++)
        for (const struct ss_option *row = sets->rows; row->name; row++)
            if (is_called(name, row->name, strlen(row->name)) || has_alias(row, name))
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

/* w is an alternative spelling of an earlier word. */
static int is_spelling(const struct ss_word *words, const struct ss_word *w)
{
    for (; words < w; words++)
        if (words->value == w->value)
            return 1;
    return 0;
}

/* Lists the words: "auto, cpu or cuda", or "auto|cpu|cuda". */
static void list_words(const struct ss_word *words, const char *between, const char *last,
                       char *text, size_t capacity)
{
    const struct ss_word *end = words;
    for (const struct ss_word *w = words; w->text; w++)
        if (!is_spelling(words, w))
            end = w;
    size_t n = 0;
    for (const struct ss_word *w = words; w->text && n < capacity; w++)
        if (!is_spelling(words, w))
            n += (size_t)snprintf(text + n, capacity - n, "%s%s",
                                  w == words ? ""
                                  : w == end ? last
                                             : between,
                                  w->text);
}

const char *ss_option_argument(const struct ss_option *o, char text[SS_OPTION_ARGUMENT_CAPACITY])
{
    if (!o->words)
        return o->arg;
    list_words(o->words, "|", "|", text, SS_OPTION_ARGUMENT_CAPACITY);
    return text;
}

static enum ss_status set_word(const struct ss_option *o, const char *command, const char *text,
                               int *out)
{
    char known[SS_OPTION_ARGUMENT_CAPACITY], advice[64] = "";
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
        char most[32]; /* %g rounds a maximum just below 1 to 1 */
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

/* Splits "--name=value", "--name", "-x", "-xvalue" or "-x=value" into name and value (NULL: no
 * value). */
static int split_argument(const char *arg, char *name, size_t capacity, const char **value)
{
    const int is_long = !strncmp(arg, "--", 2);
    if (arg[0] != '-' || !arg[1] || (is_long && !arg[2]))
        return 0;
    const size_t length = is_long ? strcspn(arg, "=") : 2;
    snprintf(name, capacity, "%.*s", (int)length, arg);
    *value = arg[length] ? arg + length + (arg[length] == '=') : NULL;
    return 1;
}

/* Numbers and words do not start with "--"; a text may. */
static int lacks_value(const struct ss_option *o, const char *next)
{
    return !next || (o->type != SS_OPT_TEXT && !strncmp(next, "--", 2));
}

/* Parses argv[*i], and its value if that is the next argument. */
static enum ss_status parse_one(const struct ss_option_set *sets, int argc, char **argv, int *i)
{
    const char *command = argv[0], *arg = argv[*i], *value;
    char name[64], shown[SS_OPTION_ARGUMENT_CAPACITY];
    struct ss_option_row r = {0};
    const int is_option = split_argument(arg, name, sizeof name, &value);
    if (is_option)
        r = find_row(sets, name);
    if (!is_option || (!r.option && arg[1] != '-'))
        return ss_fail(SS_ERR_INVALID, "%s: unexpected argument \"%s\"; see starstep %s --help",
                       command, arg, command);
    if (!r.option)
        return unknown_option(sets, command, name);
    if (r.option->former && is_called(name, r.option->former, strlen(r.option->former)))
        ss_note("%s: %s is now %s; the old name will be removed in a later version", command, name,
                r.option->name);
    struct ss_option given = *r.option; /* messages use the name that the user gave */
    given.name = name;
    if (given.type == SS_OPT_FLAG && !value)
        value = "true";
    else if (!value && lacks_value(&given, *i + 1 < argc ? argv[*i + 1] : NULL))
        return ss_fail(SS_ERR_INVALID, "%s: %s needs a value (%s)", command, name,
                       ss_option_argument(&given, shown));
    return ss_option_set(&given, r.set->values, command, value ? value : argv[++*i]);
}

enum ss_status ss_options_parse(const struct ss_option_set *sets, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        SS_TRY(parse_one(sets, argc, argv, &i));
    return SS_OK;
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
