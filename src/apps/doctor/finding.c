#include "apps/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ss_verdict_name(enum ss_verdict verdict)
{
    static const char *const names[] = {"fine", "slow", "broken"};
    return names[verdict];
}

void ss_find(struct ss_findings *f, enum ss_verdict verdict, const char *check, const char *advice,
             const char *format, ...)
{
    va_list args;
    if (f->count == SS_FINDINGS) {
        f->lost++;
        return;
    }
    struct ss_finding *one = &f->finding[f->count++];
    *one = (struct ss_finding){.verdict = verdict};
    snprintf(one->check, sizeof one->check, "%s", check);
    snprintf(one->advice, sizeof one->advice, "%s", advice ? advice : "");
    va_start(args, format);
    vsnprintf(one->text, sizeof one->text, format, args);
    va_end(args);
    for (char *at = one->text; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

void ss_find_figure(struct ss_findings *f, double value, double expected, const char *unit)
{
    if (!f->count || f->lost)
        return;
    struct ss_finding *one = &f->finding[f->count - 1];
    one->has_figure = 1;
    one->value = value;
    one->expected = expected;
    snprintf(one->unit, sizeof one->unit, "%s", unit);
}
