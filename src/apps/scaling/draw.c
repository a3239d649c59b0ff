/* draw.c: draws the scaling tables as an image. */
#include "core/log.h"
#include "apps/plot/plot.h"
#include "apps/plot/scale.h"
#include "apps/scaling/table.h"

#include <stdio.h>
#include <stdlib.h>

enum { LABEL = 64 };

/* Curves of all tables, with the ideal one. */
struct drawing {
    double *x, *rate, *efficiency; /* of all rows, grouped by table */
    char (*label)[LABEL];
    struct ss_curve *curve; /* count + 1 for the rate, then count + 1 for the efficiency */
    double ideal_x[2], ideal_rate[2], ideal_efficiency[2];
    double tick[SS_MAX_TICKS];
    int ticks;
};

static void free_drawing(struct drawing *d)
{
    free(d->x);
    free(d->rate);
    free(d->efficiency);
    free(d->label);
    free(d->curve);
}

static enum ss_status allocate(const struct ss_scaling *s, struct drawing *d)
{
    size_t rows = 0;
    for (size_t k = 0; k < s->count; k++)
        rows += s->table[k].count;
    d->x = calloc(rows, sizeof *d->x);
    d->rate = calloc(rows, sizeof *d->rate);
    d->efficiency = calloc(rows, sizeof *d->efficiency);
    d->label = calloc(s->count, sizeof *d->label);
    d->curve = calloc(2 * (s->count + 1), sizeof *d->curve);
    if (!d->x || !d->rate || !d->efficiency || !d->label || !d->curve)
        return ss_fail_memory("curves", rows * sizeof *d->x);
    return SS_OK;
}

static void add_tick(struct drawing *d, double value)
{
    for (int i = 0; i < d->ticks; i++)
        if (d->tick[i] == value)
            return;
    if (d->ticks < SS_MAX_TICKS)
        d->tick[d->ticks++] = value;
}

/* Add the ideal curve: the first table's baseline at constant images/s per rank. */
static void add_ideal(const struct ss_scaling *s, struct drawing *d)
{
    const struct ss_run_log *base = &s->table[0].row[0].run->log;
    double least = (double)base->ranks, most = least;
    for (int i = 0; i < d->ticks; i++) {
        least = d->tick[i] < least ? d->tick[i] : least;
        most = d->tick[i] > most ? d->tick[i] : most;
    }
    d->ideal_x[0] = least;
    d->ideal_x[1] = most;
    for (int i = 0; i < 2; i++) {
        d->ideal_rate[i] = base->rate / (double)base->ranks * d->ideal_x[i];
        d->ideal_efficiency[i] = 100;
    }
    struct ss_curve ideal = {.label = "ideal", .x = d->ideal_x, .count = 2, .ideal = 1};
    ideal.y = d->ideal_rate;
    d->curve[s->count] = ideal;
    ideal.y = d->ideal_efficiency;
    d->curve[2 * s->count + 1] = ideal;
}

static void add_curves(const struct ss_scaling *s, struct drawing *d)
{
    size_t at = 0;
    for (size_t k = 0; k < s->count; k++) {
        const struct ss_scaling_table *t = &s->table[k];
        struct ss_curve c = {.label = d->label[k], .x = d->x + at, .count = t->count, .marks = 1};
        if (t->by_nodes)
            snprintf(d->label[k], LABEL, "%ld %s%s per node", t->per_node, s->gpu ? "GPU" : "rank",
                     t->per_node == 1 ? "" : "s");
        else
            snprintf(d->label[k], LABEL, "one node");
        c.y = d->rate + at;
        d->curve[k] = c;
        c.y = d->efficiency + at;
        d->curve[s->count + 1 + k] = c;
        for (size_t i = 0; i < t->count; i++, at++) {
            const struct ss_scaling_run *run = t->row[i].run;
            d->x[at] = (double)run->log.ranks;
            d->rate[at] = run->log.rate;
            d->efficiency[at] = 100 * ss_scaling_efficiency(t, run);
            add_tick(d, d->x[at]);
        }
    }
}

enum ss_status ss_scaling_draw(const struct ss_scaling *s, const char *file)
{
    struct drawing d = {0};
    enum ss_status status = allocate(s, &d);
    if (status == SS_OK) {
        const struct ss_run_log *log = &s->table[0].row[0].run->log;
        char title[160];
        snprintf(title, sizeof title, "%.40s, %ld images a step on each %s, %.16s", log->model,
                 log->batch / log->ranks, s->gpu ? "GPU" : "rank", log->precision);
        add_curves(s, &d);
        add_ideal(s, &d);
        int curves = (int)s->count + 1;
        const struct ss_panel panels[] = {
            {.title = "Throughput of training",
             .y_label = "images/s",
             .curve = d.curve,
             .curves = curves,
             .log = 1},
            {.title = "Efficiency against the smallest run of each curve",
             .y_label = "%",
             .curve = d.curve + curves,
             .curves = curves,
             .y_top = 100},
        };
        status = ss_plot_write(file, &(struct ss_plot){.title = title,
                                                       .x_label = s->gpu ? "GPUs" : "ranks",
                                                       .panel = panels,
                                                       .panels = 2,
                                                       .log = 1,
                                                       .ticks = d.tick,
                                                       .nticks = d.ticks});
    }
    free_drawing(&d);
    return status;
}
