#include "apps/plot/plot.h"
#include "core/log.h"
#include "apps/plot/scale.h"
#include "apps/plot/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layout in pixels. */
enum {
    WIDTH = 1080,
    LEFT = 84,
    RIGHT = 820, /* right edge of the panels; the legend is beside them */
    TOP = 46,
    PANEL = 190,
    BETWEEN = 58,
    BOTTOM = 52,
    LEGEND_LINE = 17,
    MANY_POINTS = 2000 /* above this, a curve is drawn as minimum and maximum per pixel */
};

/* Distinguishable for colorblind readers: Okabe and Ito, "Color Universal Design" (2008), without
 * black and with a darker yellow. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#56b4e9", "#e69f00", "#8a7a00", "#6b4c9a"};
static const char *const dashes[] = {"", "7 3", "2 3", "9 3 2 3"};
enum { COLOURS = sizeof colours / sizeof *colours, DASHES = sizeof dashes / sizeof *dashes };

static void put_stroke(struct ss_atomic_file *f, const struct ss_curve *c, int i)
{
    const char *dash = c->ideal ? "5 4" : dashes[i / COLOURS % DASHES];
    ss_atomic_print(f, " stroke=\"%s\"", c->ideal ? "#999" : colours[i % COLOURS]);
    if (*dash)
        ss_atomic_print(f, " stroke-dasharray=\"%s\"", dash);
}

/* Format a tick label as short as the tick spacing allows: "12500", "0.25". */
static void format_tick(double value, char text[32])
{
    snprintf(text, 32, fabs(value) >= 1e6 ? "%.3g" : "%.6g", value);
}

static void widen(const double *value, const double *other, size_t n, double *low, double *high)
{
    for (size_t i = 0; i < n; i++) {
        if (isnan(value[i]) || isnan(other[i]))
            continue;
        *low = fmin(*low, value[i]);
        *high = fmax(*high, value[i]);
    }
}

static struct ss_scale x_scale(const struct ss_plot *plot)
{
    double low = INFINITY, high = -INFINITY;
    for (int p = 0; p < plot->panels; p++)
        for (int c = 0; c < plot->panel[p].curves; c++) {
            const struct ss_curve *curve = &plot->panel[p].curve[c];
            widen(curve->x, curve->y, curve->count, &low, &high);
        }
    if (!(low <= high))
        low = high = 1;
    struct ss_scale s = plot->log ? ss_scale_log(low, high) : ss_scale_linear(low, high);
    if (!plot->log && high > low) { /* curves fill the width; ticks outside are omitted */
        s.from = low;
        s.to = high;
    }
    if (plot->ticks) {
        s.ticks = plot->nticks < SS_MAX_TICKS ? plot->nticks : SS_MAX_TICKS;
        memcpy(s.tick, plot->ticks, (size_t)s.ticks * sizeof *s.tick);
    }
    s.at = LEFT;
    s.end = RIGHT;
    return s;
}

static struct ss_scale y_scale(const struct ss_panel *panel, double top)
{
    double low = panel->log ? INFINITY : 0, high = panel->log ? -INFINITY : panel->y_top;
    for (int c = 0; c < panel->curves; c++)
        widen(panel->curve[c].y, panel->curve[c].x, panel->curve[c].count, &low, &high);
    struct ss_scale s = panel->log ? ss_scale_log(low, high) : ss_scale_linear(low, high);
    s.at = top + PANEL;
    s.end = top;
    return s;
}

static void draw_axes(struct ss_atomic_file *f, const struct ss_panel *panel,
                      const struct ss_scale *x, const struct ss_scale *y)
{
    char text[32];
    for (int i = 0; i < y->ticks; i++) {
        double at = ss_scale_place(y, y->tick[i]);
        ss_svg_line(f, "grid", LEFT, at, RIGHT, at);
        format_tick(y->tick[i], text);
        ss_svg_text(f, "tick", "end", LEFT - 6, at + 4, 0, text);
    }
    for (int i = 0; i < x->ticks; i++) {
        double at = ss_scale_place(x, x->tick[i]);
        if (at < LEFT - 0.5 || at > RIGHT + 0.5)
            continue;
        ss_svg_line(f, "grid", at, y->end, at, y->at);
        format_tick(x->tick[i], text);
        ss_svg_text(f, "tick", "middle", at, y->at + 16, 0, text);
    }
    ss_svg_line(f, "axis", LEFT, y->at, RIGHT, y->at);
    ss_svg_line(f, "axis", LEFT, y->end, LEFT, y->at);
    ss_svg_text(f, "head", "start", LEFT, y->end - 10, 0, panel->title);
    ss_svg_text(f, "text", "middle", 18, (y->at + y->end) / 2, -90, panel->y_label);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The longest distance in x that a line may span. step: scratch, one element per point. */
static double longest_step(const struct ss_curve *c, double *step)
{
    if (!c->gaps || c->count < 3)
        return INFINITY;
    for (size_t i = 1; i < c->count; i++)
        step[i - 1] = c->x[i] - c->x[i - 1];
    qsort(step, c->count - 1, sizeof *step, ascending);
    return 5 * step[(c->count - 1) / 2];
}

/* State of a path being written. */
struct pen {
    struct ss_atomic_file *f;
    const struct ss_scale *x, *y;
    double *step; /* of one curve */
    int down;
};

static void go_to(struct pen *pen, double x, double y)
{
    ss_atomic_print(pen->f, "%s%.1f %.1f", pen->down ? "L" : "M", ss_scale_place(pen->x, x),
                    ss_scale_place(pen->y, y));
    pen->down = 1;
}

/* Draw the minimum and maximum of points first .. last-1, which share a pixel column. */
static void draw_few(struct pen *pen, const struct ss_curve *c, size_t first, size_t last)
{
    size_t least = first, most = first;
    for (size_t i = first; i < last; i++) {
        if (!(c->y[i] >= c->y[least]))
            least = i;
        if (!(c->y[i] <= c->y[most]))
            most = i;
    }
    size_t one = least < most ? least : most, other = least < most ? most : least;
    go_to(pen, c->x[one], c->y[one]);
    if (other != one)
        go_to(pen, c->x[other], c->y[other]);
}

static void draw_path(struct pen *pen, const struct ss_curve *c)
{
    double longest = longest_step(c, pen->step);
    size_t together = c->count > MANY_POINTS ? c->count / (RIGHT - LEFT) : 1;
    for (size_t i = 0; i < c->count;) {
        size_t last = i;
        if (isnan(c->y[i])) {
            pen->down = 0;
            i++;
            continue;
        }
        if (i && c->x[i] - c->x[i - 1] > longest)
            pen->down = 0;
        while (last < c->count && last - i < together && !isnan(c->y[last]) &&
               (last == i || c->x[last] - c->x[last - 1] <= longest))
            last++;
        draw_few(pen, c, i, last);
        i = last;
    }
}

static void draw_curve(struct ss_atomic_file *f, const struct ss_curve *c, int i,
                       const struct ss_scale *x, const struct ss_scale *y, double *step)
{
    struct pen pen = {.f = f, .x = x, .y = y, .step = step};
    ss_atomic_print(f, "<path class=\"curve\"");
    put_stroke(f, c, i);
    ss_atomic_print(f, " d=\"");
    draw_path(&pen, c);
    ss_atomic_print(f, "\"/>\n");
    /* Also draw a marker for an isolated point, which no line shows. */
    for (size_t k = 0; (c->marks || c->count == 1) && k < c->count; k++)
        if (!isnan(c->y[k]))
            ss_atomic_print(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
                            ss_scale_place(x, c->x[k]), ss_scale_place(y, c->y[k]),
                            c->ideal ? "#999" : colours[i % COLOURS]);
}

static void draw_legend(struct ss_atomic_file *f, const struct ss_panel *panel, double top)
{
    int lines = PANEL / LEGEND_LINE;
    for (int i = 0; i < panel->curves; i++) {
        double at = top + 8 + i * LEGEND_LINE;
        char text[64];
        if (i == lines - 1 && panel->curves > lines) {
            snprintf(text, sizeof text, "and %d more", panel->curves - i);
            ss_svg_text(f, "text", "start", RIGHT + 48, at + 4, 0, text);
            return;
        }
        ss_atomic_print(f, "<path class=\"curve\" d=\"M%d %.1fH%d\"", RIGHT + 16, at, RIGHT + 42);
        put_stroke(f, &panel->curve[i], i);
        ss_atomic_print(f, "/>\n");
        snprintf(text, sizeof text, "%.30s%s", panel->curve[i].label,
                 strlen(panel->curve[i].label) > 30 ? "..." : "");
        ss_svg_text(f, "text", "start", RIGHT + 48, at + 4, 0, text);
    }
}

static void draw_panel(struct ss_atomic_file *f, const struct ss_plot *plot, int p,
                       const struct ss_scale *x, double *step)
{
    const struct ss_panel *panel = &plot->panel[p];
    double top = TOP + 24 + p * (PANEL + BETWEEN);
    struct ss_scale y = y_scale(panel, top);
    draw_axes(f, panel, x, &y);
    for (int c = 0; c < panel->curves; c++)
        draw_curve(f, &panel->curve[c], c, x, &y, step);
    draw_legend(f, panel, top);
}

static size_t most_points(const struct ss_plot *plot)
{
    size_t most = 1;
    for (int p = 0; p < plot->panels; p++)
        for (int c = 0; c < plot->panel[p].curves; c++)
            most = plot->panel[p].curve[c].count > most ? plot->panel[p].curve[c].count : most;
    return most;
}

enum ss_status ss_plot_write(const char *file, const struct ss_plot *plot)
{
    struct ss_atomic_file *f;
    const size_t points = most_points(plot);
    struct ss_scale x = x_scale(plot);
    double height = TOP + 24 + plot->panels * (PANEL + BETWEEN) - BETWEEN + BOTTOM;
    double *step = malloc(points * sizeof *step);
    if (!step)
        return ss_fail_memory("an image", points * sizeof *step);
    enum ss_status status = ss_atomic_open(file, &f);
    if (status != SS_OK) {
        free(step);
        return status;
    }
    ss_svg_begin(f, WIDTH, height, plot->title);
    ss_svg_text(f, "title", "start", LEFT, 28, 0, plot->title);
    for (int p = 0; p < plot->panels; p++)
        draw_panel(f, plot, p, &x, step);
    ss_svg_text(f, "text", "middle", (LEFT + RIGHT) / 2.0, height - 14, 0, plot->x_label);
    ss_svg_end(f);
    free(step);
    return ss_atomic_commit(f);
}
