/* Plots of curves as SVG: vertically stacked panels with a common x axis. */
#ifndef SS_APPS_PLOT_PLOT_H
#define SS_APPS_PLOT_PLOT_H

#include "core/status.h"

#include <stddef.h>

/* A curve. x is ascending; points whose y is NAN are skipped and interrupt the line. The caller
 * owns all data. */
struct ss_curve {
    const char *label;
    const double *x, *y;
    size_t count;
    int marks; /* draw a marker at each point */
    int ideal; /* gray and dashed: the reference for comparison */
    int gaps;  /* no line across a gap much longer than the spacing in x */
};

struct ss_panel {
    const char *title, *y_label; /* y_label: the unit; "": none */
    struct ss_curve *curve;
    int curves;
    int log;      /* logarithmic y; all values > 0. Otherwise the axis begins at 0 */
    double y_top; /* minimum upper end of the axis */
};

struct ss_plot {
    const char *title, *x_label;
    const struct ss_panel *panel;
    int panels;
    int log;             /* logarithmic x */
    const double *ticks; /* ticks on x; NULL: round values */
    int nticks;
};

/* Write the plot to a file. Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_plot_write(const char *file, const struct ss_plot *plot);

#endif
