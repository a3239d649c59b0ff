/* doctor_report.c: merges findings and prints the text report. */
#include "apps/doctor/doctor_report.h"

#include <stdlib.h>
#include <string.h>

/* The order of printing; other areas follow. */
static const char *const areas[] = {"machine",   "cores", "memory", "gpu",   "net",
                                    "variables", "files", "ranks",  "links", "loader"};
enum { AREAS = sizeof areas / sizeof *areas, WHERE = 256 };

static int area_of(const char *check)
{
    int i = 0;
    for (; i < AREAS; i++) {
        size_t n = strlen(areas[i]);
        if (!strncmp(check, areas[i], n) && check[n] == '.')
            break;
    }
    return i;
}

static int equal(const struct ss_finding *a, const struct ss_finding *b)
{
    return a->verdict == b->verdict && a->has_figure == b->has_figure &&
           !strcmp(a->check, b->check) && !strcmp(a->text, b->text) &&
           !strcmp(a->advice, b->advice) && !strcmp(a->unit, b->unit);
}

static void add(struct ss_doctor_report *report, const struct ss_finding *one, int rank)
{
    int i = 0;
    while (i < report->count && !equal(report->diagnosis[i].finding, one))
        i++;
    struct ss_diagnosis *d = &report->diagnosis[i];
    if (i == report->count) {
        *d = (struct ss_diagnosis){.finding = one,
                                   .least = one->value,
                                   .most = one->value,
                                   .has = report->has + (size_t)i * (size_t)report->ranks};
        report->count++;
    }
    if (one->value < d->least)
        d->least = one->value;
    if (one->value > d->most)
        d->most = one->value;
    d->ranks += !d->has[rank];
    d->has[rank] = 1;
}

enum ss_status ss_doctor_report_make(const struct ss_findings *all, int ranks,
                                     struct ss_doctor_report *out)
{
    size_t total = 0;
    for (int r = 0; r < ranks; r++)
        total += (size_t)all[r].count;
    struct ss_doctor_report report = {.all = all, .ranks = ranks};
    report.diagnosis = calloc(total + 1, sizeof *report.diagnosis);
    report.has = calloc(total + 1, (size_t)ranks);
    if (!report.diagnosis || !report.has) {
        ss_doctor_report_free(&report);
        return ss_fail_memory("the report", total * (size_t)ranks);
    }
    for (int area = 0; area <= AREAS; area++)
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < all[r].count; i++)
                if (area_of(all[r].finding[i].check) == area)
                    add(&report, &all[r].finding[i], r);
    *out = report;
    return SS_OK;
}

void ss_doctor_report_free(struct ss_doctor_report *report)
{
    free(report->diagnosis);
    free(report->has);
    *report = (struct ss_doctor_report){0};
}

enum ss_verdict ss_doctor_report_verdict(const struct ss_doctor_report *report)
{
    enum ss_verdict worst = SS_FINE;
    for (int i = 0; i < report->count; i++)
        if (report->diagnosis[i].finding->verdict > worst)
            worst = report->diagnosis[i].finding->verdict;
    return worst;
}

void ss_ranks_text(const unsigned char *has, int n, char *text, size_t capacity)
{
    size_t used = 0;
    *text = '\0';
    for (int r = 0; r < n && used < capacity; r++) {
        if (!has[r])
            continue;
        int last = r;
        while (last + 1 < n && has[last + 1])
            last++;
        used += (size_t)snprintf(text + used, capacity - used, last > r ? "%s%d-%d" : "%s%d",
                                 used ? "," : "", r, last);
        r = last;
    }
}

/* Format the location: "node1, rank 0", "nodes node[1-4], ranks 0-15"; only the nodes if all
 * ranks are affected. */
static void where_is(const struct ss_doctor_report *report, const struct ss_diagnosis *d,
                     char *text, size_t capacity)
{
    char hosts[WHERE / 2], ranks[WHERE / 4] = "";
    const char **host = malloc((size_t)report->ranks * sizeof *host);
    int n = 0;
    *text = '\0';
    for (int r = 0; host && r < report->ranks; r++)
        if (d->has[r])
            host[n++] = report->all[r].host;
    if (host) {
        ss_hosts_text(host, n, hosts, sizeof hosts);
        if (d->ranks < report->ranks)
            ss_ranks_text(d->has, report->ranks, ranks, sizeof ranks);
        snprintf(text, capacity, "%s%s%s%s", hosts, *ranks ? ", rank" : "",
                 !*ranks        ? ""
                 : d->ranks > 1 ? "s "
                                : " ",
                 ranks);
    }
    free(host);
}

static void put_figure(const struct ss_diagnosis *d, FILE *out)
{
    char least[32], most[32];
    snprintf(least, sizeof least, "%.3g", d->least);
    snprintf(most, sizeof most, "%.3g", d->most);
    /* Print large numbers without an exponent. */
    if (d->least >= 1000)
        snprintf(least, sizeof least, "%.0f", d->least);
    if (d->most >= 1000)
        snprintf(most, sizeof most, "%.0f", d->most);
    if (strcmp(least, most))
        fprintf(out, "%s to %s", least, most);
    else
        fputs(least, out);
}

static void put_text(const struct ss_diagnosis *d, FILE *out)
{
    const char *text = d->finding->text, *at = d->finding->has_figure ? strstr(text, "{}") : NULL;
    if (!at) {
        fputs(text, out);
        return;
    }
    fprintf(out, "%.*s", (int)(at - text), text);
    put_figure(d, out);
    fputs(at + 2, out);
}

static void put_verdict(const struct ss_doctor_report *report, FILE *out)
{
    enum ss_verdict worst = ss_doctor_report_verdict(report);
    int others = -1;
    fprintf(out, "verdict: %s", ss_verdict_name(worst));
    for (int i = 0; worst != SS_FINE && i < report->count; i++) {
        const struct ss_diagnosis *d = &report->diagnosis[i];
        char where[WHERE];
        if (d->finding->verdict == SS_FINE || (others < 0 && d->finding->verdict < worst))
            continue;
        if (others++ >= 0)
            continue;
        where_is(report, d, where, sizeof where);
        fputs(" because ", out);
        put_text(d, out);
        if (report->ranks > 1)
            fprintf(out, " (%s)", where);
        if (*d->finding->advice)
            fprintf(out, "; %s", d->finding->advice);
    }
    /* Count the findings before the one printed here. */
    if (others >= 0) {
        int bad = 0;
        for (int i = 0; i < report->count; i++)
            bad += report->diagnosis[i].finding->verdict != SS_FINE;
        if (bad > 1)
            fprintf(out, " [and %d more above]", bad - 1);
    }
    fputc('\n', out);
}

void ss_doctor_report_print(const struct ss_doctor_report *report, FILE *out)
{
    int lost = 0;
    for (int i = 0; i < report->count; i++) {
        const struct ss_diagnosis *d = &report->diagnosis[i];
        char where[WHERE];
        fprintf(out, "%-6s  %-18s  ", ss_verdict_name(d->finding->verdict), d->finding->check);
        if (report->ranks > 1) {
            where_is(report, d, where, sizeof where);
            fprintf(out, "%s: ", where);
        }
        put_text(d, out);
        fputc('\n', out);
        if (*d->finding->advice)
            fprintf(out, "%28sdo: %s\n", "", d->finding->advice);
    }
    for (int r = 0; r < report->ranks; r++)
        lost += report->all[r].lost;
    if (lost)
        fprintf(out, "%d findings were dropped\n", lost);
    put_verdict(report, out);
}
