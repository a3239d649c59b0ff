/* doctor_report_hosts.c: abbreviated lists of host names. */
#include "core/log.h"
#include "apps/doctor/doctor_report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Offset of the trailing number of a name, of at most 9 digits. */
static size_t stem(const char *name)
{
    size_t n = strlen(name), from = n;
    while (from > 0 && n - from < 9 && isdigit((unsigned char)name[from - 1]))
        from--;
    return from;
}

/* Sort order: names with equal stems and digit counts are adjacent, by number. */
static int compare(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t n = stem(x), m = stem(y);
    int order = strncmp(x, y, n < m ? n : m);
    if (order || n != m)
        return order ? order : n < m ? -1 : 1;
    size_t p = strlen(x), q = strlen(y);
    return p != q ? (p < q ? -1 : 1) : strcmp(x, y);
}

static int together(const char *x, const char *y)
{
    size_t n = stem(x);
    return x[n] && n == stem(y) && strlen(x) == strlen(y) && !strncmp(x, y, n);
}

/* host: sorted, without duplicates. */
static void write_hosts(const char *const *host, int n, FILE *out)
{
    for (int i = 0; i < n;) {
        int last = i;
        while (last + 1 < n && together(host[i], host[last + 1]))
            last++;
        fputs(i ? "," : "", out);
        if (last == i) {
            fputs(host[i], out);
        } else {
            size_t at = stem(host[i]);
            fprintf(out, "%.*s[", (int)at, host[i]);
            for (int k = i; k <= last;) {
                int end = k;
                while (end < last && atol(host[end + 1] + at) == atol(host[end] + at) + 1)
                    end++;
                fprintf(out, "%s%s", k > i ? "," : "", host[k] + at);
                if (end > k)
                    fprintf(out, "-%s", host[end] + at);
                k = end + 1;
            }
            fputc(']', out);
        }
        i = last + 1;
    }
}

void ss_hosts_text(const char *const *host, int n, char *text, size_t capacity)
{
    char *whole = NULL;
    size_t bytes = 0;
    int unique = 0;
    const char **sorted = malloc(((size_t)n + 1) * sizeof *sorted);
    FILE *out = sorted ? open_memstream(&whole, &bytes) : NULL;
    snprintf(text, capacity, "nodes (no memory for their names)");
    if (!out) {
        free(sorted);
        return;
    }
    memcpy(sorted, host, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    for (int i = 0; i < n; i++)
        if (!unique || strcmp(sorted[unique - 1], sorted[i]))
            sorted[unique++] = sorted[i];
    write_hosts(sorted, unique, out);
    int ok = fclose(out) == 0;
    if (ok && bytes < capacity)
        memcpy(text, whole, bytes + 1);
    else if (ok)
        snprintf(text, capacity, "%.*s...", (int)capacity - 4, whole);
    free(whole);
    free(sorted);
}
