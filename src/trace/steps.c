/* steps.c: parser of step ranges such as "11-20". */
#include "trace/steps.h"
#include "core/log.h"

#include <errno.h>
#include <stdlib.h>

/* Parse a number >= 1 without sign or blanks; NULL if there is none. */
static const char *number(const char *text, int64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || value < 1)
        return NULL;
    *out = value;
    return end;
}

enum ss_status ss_trace_parse_steps(const char *what, const char *text, int64_t *first,
                                    int64_t *last)
{
    int64_t a = 0, b = 0;
    if (!text)
        return SS_OK;
    const char *rest = number(text, &a);
    if (rest && !*rest)
        b = a;
    else if (rest && *rest == '-' && rest[1])
        rest = number(rest + 1, &b);
    else if (rest && *rest == '-')
        rest++;
    if (!rest || *rest || (b && b < a))
        return ss_fail(SS_ERR_INVALID,
                       "%s: \"%s\" is not A-B, A- or A, with 1 <= A <= B, such as 11-20", what,
                       text);
    *first = a;
    *last = b;
    return SS_OK;
}
