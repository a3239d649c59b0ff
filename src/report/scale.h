/* Axes: where a value lies, and which values get a mark. */
#ifndef SS_REPORT_SCALE_H
#define SS_REPORT_SCALE_H

enum { SS_MAX_TICKS = 16 };

struct ss_scale {
    int log;         /* both ends are above 0 then */
    double from, to; /* values at the ends */
    double at, end;  /* their places in the image */
    int ticks;
    double tick[SS_MAX_TICKS];
};

/* A linear axis that holds [low, high], with marks at round values (1, 2 or 5 times a power of
 * ten); its upper end is a mark. low == high gets an axis too. */
struct ss_scale ss_scale_linear(double low, double high);

/* A logarithmic one with marks at 1, 2 and 5 times powers of ten, or at round values where there
 * are less than three of these; 0 < low <= high. */
struct ss_scale ss_scale_log(double low, double high);

double ss_scale_place(const struct ss_scale *s, double value);

#endif
