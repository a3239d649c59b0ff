/* Plots of curves as SVG: panels one below the other, over one axis. */
#ifndef SS_REPORT_PLOT_H
#define SS_REPORT_PLOT_H

#include "core/status.h"

#include <stddef.h>

/* x ascending; points with y NAN are left out and end the line. All is the caller's. */
struct ss_curve {
    const char *label;
    const double *x, *y;
    size_t count;
    int marks; /* a mark at each point */
    int ideal; /* grey and dashed: what others are compared with */
    int gaps;  /* no line over a hole that is much longer than the steps of x */
};

struct ss_panel {
    const char *title, *y_label; /* y_label: the unit; "" has none */
    struct ss_curve *curve;
    int curves;
    int log;      /* y; all values are above 0. Else the axis begins at 0 */
    double y_top; /* the axis reaches at least this far */
};

struct ss_plot {
    const char *title, *x_label;
    const struct ss_panel *panel;
    int panels;
    int log;             /* x */
    const double *ticks; /* marks on x; NULL: round values */
    int nticks;
};

/* Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_plot_write(const char *file, const struct ss_plot *plot);

#endif
