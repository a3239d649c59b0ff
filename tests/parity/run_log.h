/* Shared code of the comparison programs: reads a run's log, tracks the worst value. */
#ifndef TESTS_PARITY_RUN_LOG_H
#define TESTS_PARITY_RUN_LOG_H

#include <stddef.h>

/* Contents of a run's log. */
struct run_log {
    size_t steps;       /* expected */
    double *loss, *lr;  /* of step i+1; NaN where the log has none */
    size_t stray_steps; /* step events out of range, repeated or without a loss */
    int has_eval;       /* the last epoch event has validation results */
    double val_loss, val_accuracy;
};

/* Reads a --log-json file with the given number of steps. Returns 0, or 2 after printing a message.
 * The caller frees loss in both cases. */
int run_log_read(const char *path, size_t steps, struct run_log *log);

/* Worst value so far and its name. NaN is worse than every number. */
struct worst {
    double value;
    char what[256];
};

void worst_update(struct worst *w, double value, const char *what);
/* Prints a verdict line. Returns 0 if the value is within the bound, else 1; NaN is not within. */
int worst_verdict(const char *what, const struct worst *w, double bound);

#endif
