/* draw.c: plots a monitor's curves, one panel per quantity. */
#include "core/log.h"
#include "apps/monitor/monitor_report.h"
#include "apps/plot/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *title, *unit;
    enum ss_sample_column column;
    int of_gpu;
} panels[] = {
    {"GPU memory in use", "MiB", SS_SAMPLE_MEMORY, 1},
    {"GPU utilisation", "%", SS_SAMPLE_BUSY, 1},
    {"GPU power", "W", SS_SAMPLE_POWER, 1},
    {"Resident memory of the processes", "MiB", SS_SAMPLE_MEMORY, 0},
    {"Processor time of the processes (100 % is one core)", "%", SS_SAMPLE_BUSY, 0},
    {"Load of the host, last minute", "", SS_SAMPLE_LOAD, 0},
};
enum { PANELS = sizeof panels / sizeof *panels };

/* Storage behind a plot. Times are in units of the axis, since the first sample. */
struct drawing {
    double begin, unit;
    const char *unit_name;
    double **time; /* per series */
    char (*label)[128];
    struct ss_curve *curve; /* per panel and series */
};

static void free_drawing(struct drawing *d, size_t series)
{
    for (size_t i = 0; d->time && i < series; i++)
        free(d->time[i]);
    free(d->time);
    free(d->label);
    free(d->curve);
}

static void choose_unit(const struct ss_monitor_data *data, struct drawing *d)
{
    double end = -INFINITY;
    d->begin = INFINITY;
    for (size_t i = 0; i < data->count; i++)
        for (size_t k = 0; k < data->series[i].count; k++) {
            d->begin = fmin(d->begin, data->series[i].at[SS_SAMPLE_TIME][k]);
            end = fmax(end, data->series[i].at[SS_SAMPLE_TIME][k]);
        }
    double length = end - d->begin;
    d->unit = length > 7200 ? 3600 : length > 300 ? 60 : 1;
    d->unit_name = length > 7200 ? "hours" : length > 300 ? "minutes" : "seconds";
}

/* Label of a series, "node1 GPU 0": the file's name without the common prefix. */
static void make_label(const struct ss_samples *s, char label[128])
{
    const char *host = strchr(s->file, '-');
    host = host ? host + 1 : s->gpu < 0 ? "" : s->file;
    if (s->gpu < 0)
        snprintf(label, 128, "%.100s", *host ? host : s->file);
    else
        snprintf(label, 128, "%.100s GPU %d", host, s->gpu);
}

static enum ss_status prepare(const struct ss_monitor_data *data, struct drawing *d)
{
    size_t n = data->count;
    choose_unit(data, d);
    d->time = calloc(n, sizeof *d->time);
    d->label = calloc(n, sizeof *d->label);
    d->curve = calloc(n * PANELS, sizeof *d->curve);
    if (!d->time || !d->label || !d->curve)
        return ss_fail_memory("curves", n * PANELS * sizeof *d->curve);
    for (size_t i = 0; i < n; i++) {
        const struct ss_samples *s = &data->series[i];
        make_label(s, d->label[i]);
        d->time[i] = malloc(s->count * sizeof *d->time[i]);
        if (!d->time[i])
            return ss_fail_memory("curves", s->count * sizeof *d->time[i]);
        for (size_t k = 0; k < s->count; k++)
            d->time[i][k] = (s->at[SS_SAMPLE_TIME][k] - d->begin) / d->unit;
    }
    return SS_OK;
}

static int has_values(const struct ss_samples *s, enum ss_sample_column column)
{
    for (size_t k = 0; k < s->count; k++)
        if (!isnan(s->at[column][k]))
            return 1;
    return 0;
}

/* Add the curves of a panel; returns their number. */
static int add_curves(const struct ss_monitor_data *data, struct drawing *d, int p)
{
    int n = 0;
    for (size_t i = 0; i < data->count; i++) {
        const struct ss_samples *s = &data->series[i];
        if ((s->gpu >= 0) != panels[p].of_gpu || !has_values(s, panels[p].column))
            continue;
        d->curve[(size_t)p * data->count + (size_t)n++] =
            (struct ss_curve){.label = d->label[i],
                              .x = d->time[i],
                              .y = s->at[panels[p].column],
                              .count = s->count,
                              .gaps = 1};
    }
    return n;
}

enum ss_status ss_monitor_draw(const struct ss_monitor_data *data, const char *file)
{
    struct drawing d = {0};
    struct ss_panel panel[PANELS];
    char x_label[64], day[32] = "";
    int n = 0;
    enum ss_status status = prepare(data, &d);
    for (int p = 0; status == SS_OK && p < PANELS; p++) {
        int curves = add_curves(data, &d, p);
        if (!curves)
            continue;
        panel[n++] = (struct ss_panel){.title = panels[p].title,
                                       .y_label = panels[p].unit,
                                       .curve = d.curve + (size_t)p * data->count,
                                       .curves = curves};
    }
    if (status == SS_OK) {
        time_t begin = (time_t)d.begin;
        struct tm t;
        strftime(day, sizeof day, "%Y/%m/%d %H:%M:%S", gmtime_r(&begin, &t));
        snprintf(x_label, sizeof x_label, "%s since %s", d.unit_name, day);
        status = ss_plot_write(file, &(struct ss_plot){.title = "starstep monitor",
                                                       .x_label = x_label,
                                                       .panel = panel,
                                                       .panels = n});
    }
    free_drawing(&d, data->count);
    return status;
}
