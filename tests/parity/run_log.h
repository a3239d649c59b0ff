/* What the comparisons of this folder share: a run's log, and the worst figure of many. */
#ifndef TESTS_PARITY_RUN_LOG_H
#define TESTS_PARITY_RUN_LOG_H

#include <stddef.h>

/* What a run's log says. */
struct run_log {
    size_t steps;       /* expected */
    double *loss, *lr;  /* of step i+1; NaN where the log has none */
    size_t stray_steps; /* step events that are none of these */
    int has_eval;       /* the last epoch event carries validation figures */
    double val_loss, val_accuracy;
};

/* Read a --log-json file of so many steps. 0, or 2 after a message; free() loss in any case. */
int run_log_read(const char *path, size_t steps, struct run_log *log);

/* Worst figure so far and what it belongs to. A NaN is worse than everything. */
struct worst {
    double value;
    char what[256];
};

void worst_update(struct worst *w, double value, const char *what);
/* Print one verdict line; 0 if within the bound, which a NaN is not. */
int worst_verdict(const char *what, const struct worst *w, double bound);

#endif
