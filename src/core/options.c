#include "core/options.h"
#include "core/log.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Edit distance of two short words, for the suggestion after a typing mistake. */
static size_t edit_distance(const char *a, const char *b)
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

static enum ss_status unknown_option(const struct ss_option *options, const char *command,
                                     const char *name)
{
    const char *nearest = NULL;
    size_t best = 4; /* farther away it is not a typing mistake */
    for (const struct ss_option *o = options; o->name; o++) {
        size_t d = edit_distance(name, o->name);
        if (d < best) {
            best = d;
            nearest = o->name;
        }
    }
    if (nearest)
        return ss_fail(SS_ERR_INVALID, "%s: unknown option --%s; did you mean --%s?", command, name,
                       nearest);
    return ss_fail(SS_ERR_INVALID, "%s: unknown option --%s; see starstep %s --help", command, name,
                   command);
}

static enum ss_status set_value(const struct ss_option *o, const char *command, const char *text)
{
    char *end;
    errno = 0;
    switch (o->type) {
    case SS_OPT_FLAG:
        return SS_OK;
    case SS_OPT_STRING:
        *(const char **)o->value = text;
        return SS_OK;
    case SS_OPT_INT: {
        long v = strtol(text, &end, 10);
        if (!*text || *end)
            return ss_fail(SS_ERR_INVALID, "%s: --%s: \"%s\" is not an integer", command, o->name,
                           text);
        if (errno == ERANGE || (double)v < o->min || (double)v > o->max)
            return ss_fail(SS_ERR_INVALID, "%s: --%s: %s is out of range; give %.0f to %.0f",
                           command, o->name, text, o->min, o->max);
        *(long *)o->value = v;
        return SS_OK;
    }
    case SS_OPT_FLOAT: {
        double v = strtod(text, &end);
        if (!*text || *end)
            return ss_fail(SS_ERR_INVALID, "%s: --%s: \"%s\" is not a number", command, o->name,
                           text);
        if (!isfinite(v) || v < o->min || v > o->max)
            return ss_fail(SS_ERR_INVALID, "%s: --%s: %s is out of range; give %g to %g", command,
                           o->name, text, o->min, o->max);
        *(double *)o->value = v;
        return SS_OK;
    }
    }
    return SS_OK;
}

enum ss_status ss_options_parse(const struct ss_option *options, int argc, char **argv, int *help)
{
    const char *command = argv[0];
    *help = 0;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            *help = 1;
            return SS_OK;
        }
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strncmp(arg, "--", 2) || !arg[2])
            return ss_fail(SS_ERR_INVALID, "%s: unexpected argument \"%s\"; see starstep %s --help",
                           command, arg, command);
        char name[64];
        const char *equals = strchr(arg, '=');
        size_t len = equals ? (size_t)(equals - arg) - 2 : strlen(arg) - 2;
        if (len >= sizeof name)
            len = sizeof name - 1;
        memcpy(name, arg + 2, len);
        name[len] = '\0';
        const struct ss_option *o = options;
        while (o->name && strcmp(o->name, name))
            o++;
        if (!o->name)
            return unknown_option(options, command, name);
        if (o->type == SS_OPT_FLAG) {
            if (equals)
                return ss_fail(SS_ERR_INVALID, "%s: --%s takes no value", command, name);
            *(int *)o->value = 1;
            continue;
        }
        if (!equals && i + 1 >= argc)
            return ss_fail(SS_ERR_INVALID, "%s: --%s needs a value (%s)", command, name, o->arg);
        SS_TRY(set_value(o, command, equals ? equals + 1 : argv[++i]));
    }
    return SS_OK;
}

void ss_options_print(FILE *out, const struct ss_option *options)
{
    for (const struct ss_option *o = options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        fprintf(out, "  %-28s %s", left, o->help);
        if (o->type == SS_OPT_INT)
            fprintf(out, " (default %ld)", *(long *)o->value);
        else if (o->type == SS_OPT_FLOAT)
            fprintf(out, " (default %g)", *(double *)o->value);
        else if (o->type == SS_OPT_STRING && *(const char **)o->value)
            fprintf(out, " (default %s)", *(const char **)o->value);
        fputc('\n', out);
    }
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
