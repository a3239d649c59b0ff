#include "core/progress.h"
#include "core/clock.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double bar_every = 0.1, line_every = 30, first_line = 10;

enum ss_status ss_progress_open(struct ss_progress *p)
{
    const char *wish = getenv("STARSTEP_PROGRESS");
    *p = (struct ss_progress){.every = line_every, .last = ss_seconds()};
    if (!wish || !*wish) {
        p->bar = isatty(STDERR_FILENO);
        return SS_OK;
    }
    p->bar = !strcmp(wish, "bar");
    if (p->bar)
        return SS_OK;
    if (!strcmp(wish, "none")) {
        p->every = 0;
        return SS_OK;
    }
    char *end;
    p->every = strtod(wish, &end);
    if (*end || !(p->every >= 0 && p->every <= 1e6))
        return ss_fail(SS_ERR_INVALID,
                       "STARSTEP_PROGRESS=%s: use bar, none, or the seconds between two lines",
                       wish);
    return SS_OK;
}

int ss_progress_due(struct ss_progress *p)
{
    if (!p->bar && p->every <= 0)
        return 0;
    const double now = ss_seconds(), passed = now - p->last;
    if (p->bar ? p->told && passed < bar_every
               : passed < p->every && (p->told || passed < first_line))
        return 0;
    p->last = now;
    p->told = 1;
    return 1;
}

void ss_progress_rest(struct ss_progress *p)
{
    p->last = ss_seconds();
    p->told = !p->bar; /* draw a bar immediately */
}
