/* Axes: mapping of values to positions, and tick values. */
#ifndef SS_APPS_PLOT_SCALE_H
#define SS_APPS_PLOT_SCALE_H

enum { SS_MAX_TICKS = 16 };

struct ss_scale {
    int log;         /* both ends are then > 0 */
    double from, to; /* values at the ends */
    double at, end;  /* their positions in the image */
    int ticks;
    double tick[SS_MAX_TICKS];
};

/* A linear axis that contains [low, high], with ticks at round values (1, 2 or 5 times a power of
 * ten); its upper end is a tick. low == high is allowed. */
struct ss_scale ss_scale_linear(double low, double high);

/* A logarithmic axis with ticks at 1, 2 and 5 times powers of ten, or at round values if there
 * are fewer than three of these; 0 < low <= high. */
struct ss_scale ss_scale_log(double low, double high);

double ss_scale_place(const struct ss_scale *s, double value);

#endif
