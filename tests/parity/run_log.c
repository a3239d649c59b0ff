#include "run_log.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void worst_update(struct worst *w, double value, const char *what)
{
    if (isnan(w->value) || (!isnan(value) && value <= w->value))
        return;
    w->value = value;
    snprintf(w->what, sizeof w->what, "%s", what);
}

/* The comparison treats NaN as out of bounds. */
int worst_verdict(const char *what, const struct worst *w, double bound)
{
    int good = w->value <= bound;
    printf("  %-18s worst %.2e (bound %.0e)%s%s%s\n", what, w->value, bound,
           w->what[0] ? " at " : "", w->what, good ? "" : "  OUT OF BOUNDS");
    return !good;
}

static void read_event(const json_t *event, struct run_log *log)
{
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (kind && strcmp(kind, "step") == 0) {
        json_int_t step = json_integer_value(json_object_get(event, "step"));
        const json_t *loss = json_object_get(event, "loss");
        /* A step out of range or repeated: too many steps, or two ranks in one log. */
        if (step >= 1 && (size_t)step <= log->steps && isnan(log->loss[step - 1]) &&
            json_is_number(loss)) {
            log->loss[step - 1] = json_number_value(loss);
            log->lr[step - 1] = json_number_value(json_object_get(event, "lr"));
        } else {
            printf("  step event %lld: unexpected step, or no loss\n", (long long)step);
            log->stray_steps++;
        }
    } else if (kind && strcmp(kind, "epoch") == 0) {
        const json_t *loss = json_object_get(event, "val_loss");
        const json_t *accuracy = json_object_get(event, "val_accuracy");
        log->has_eval = json_is_number(loss) && json_is_number(accuracy);
        log->val_loss = json_number_value(loss);
        log->val_accuracy = json_number_value(accuracy);
    }
}

int run_log_read(const char *path, size_t steps, struct run_log *log)
{
    *log = (struct run_log){.steps = steps, .loss = malloc(2 * steps * sizeof(double))};
    FILE *f = log->loss ? fopen(path, "r") : NULL;
    if (!f) {
        perror(path);
        return 2;
    }
    log->lr = log->loss + steps;
    for (size_t i = 0; i < 2 * steps; i++)
        log->loss[i] = NAN;
    char *line = NULL;
    size_t capacity = 0, number = 0;
    int rc = 0;
    while (rc == 0 && getline(&line, &capacity, f) >= 0) {
        json_error_t error;
        json_t *event = json_loads(line, 0, &error);
        number++;
        if (event) {
            read_event(event, log);
        } else {
            fprintf(stderr, "%s:%zu: %s\n", path, number, error.text);
            rc = 2;
        }
        json_decref(event);
    }
    free(line);
    fclose(f);
    return rc;
}
