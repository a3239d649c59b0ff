#include "apps/commands/plan_lr.h"
#include "core/json_value.h"
#include "core/log.h"
#include "apps/plot/plot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 4000 }; /* points plotted; exceeds the image's width in pixels */

/* The range of steps of one epoch. */
struct epoch {
    long number, from, to; /* from 1 */
    double first_lr, last_lr;
};

static struct epoch epoch_at(const struct ss_schedule *s, int64_t first)
{
    const int64_t end = first + s->steps_per_epoch, last = (end < s->length ? end : s->length) - 1;
    return (struct epoch){.number = (long)(first / s->steps_per_epoch) + 1,
                          .from = (long)first + 1,
                          .to = (long)last + 1,
                          .first_lr = ss_schedule_lr(s, first),
                          .last_lr = ss_schedule_lr(s, last)};
}

static void print_table(const struct ss_schedule *s, FILE *out)
{
    fprintf(out, "%7s %20s %14s %14s\n", "epoch", "steps", "first lr", "last lr");
    for (int64_t first = 0; first < s->length; first += s->steps_per_epoch) {
        const struct epoch e = epoch_at(s, first);
        char steps[48];
        snprintf(steps, sizeof steps, "%ld-%ld", e.from, e.to);
        fprintf(out, "%7ld %20s %14.8g %14.8g\n", e.number, steps, e.first_lr, e.last_lr);
    }
}

static enum ss_status print_json(const struct ss_schedule *s, FILE *out)
{
    json_t *epochs = json_array();
    for (int64_t first = 0; first < s->length; first += s->steps_per_epoch) {
        const struct epoch e = epoch_at(s, first);
        ss_json_append(&epochs, json_pack("{s:I,s:I,s:I,s:o,s:o}", "epoch", (json_int_t)e.number,
                                          "first_step", (json_int_t)e.from, "last_step",
                                          (json_int_t)e.to, "first_lr", ss_json_number(e.first_lr),
                                          "last_lr", ss_json_number(e.last_lr)));
    }
    return ss_json_write(json_pack("{s:s,s:I,s:I,s:I,s:o}", "schedule", s->cls->name, "steps",
                                   (json_int_t)s->length, "steps_per_epoch",
                                   (json_int_t)s->steps_per_epoch, "warmup", (json_int_t)s->warmup,
                                   "epochs", epochs),
                         out);
}

enum ss_status ss_plan_lr_print(const struct ss_schedule *s, int json, FILE *out)
{
    if (json)
        SS_TRY(print_json(s, out));
    else
        print_table(s, out);
    if (fflush(out) || ferror(out))
        return ss_fail(SS_ERR_IO, "writing the learning rates: %s", strerror(errno));
    return SS_OK;
}

enum ss_status ss_plan_lr_draw(const struct ss_schedule *s, const char *file)
{
    const size_t count = s->length < POINTS ? (size_t)s->length : POINTS;
    double *x = malloc(2 * count * sizeof *x), *y = x + count;
    if (!x)
        return ss_fail_memory("curve", 2 * count * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        const int64_t k =
            count == 1 ? 0 : (int64_t)((double)(s->length - 1) * (double)i / (double)(count - 1));
        x[i] = (double)k / (double)s->steps_per_epoch;
        y[i] = ss_schedule_lr(s, k);
    }
    struct ss_curve curve = {.label = s->cls->name, .x = x, .y = y, .count = count};
    const struct ss_panel panel = {
        .title = "learning rate of each step", .y_label = "", .curve = &curve, .curves = 1};
    const struct ss_plot plot = {
        .title = "starstep plan --lr-table", .x_label = "epochs", .panel = &panel, .panels = 1};
    enum ss_status status = ss_plot_write(file, &plot);
    free(x);
    return status;
}

enum ss_status ss_plan_lr(const struct ss_train_options *o, long ranks, long images,
                          struct ss_schedule *out)
{
    int batch;
    SS_TRY(ss_train_rank_batch(o, (int)ranks, &batch));
    struct ss_train_course course = {.batch = (int64_t)batch * ranks * o->accumulate};
    course.steps_per_epoch = (int64_t)ss_sampler_steps(
        (size_t)images, (int)ranks, (size_t)batch * (size_t)o->accumulate, ss_train_end(o));
    if (!course.steps_per_epoch)
        return ss_fail(SS_ERR_INVALID, "--images %ld do not fill one batch of %ld", images,
                       (long)course.batch);
    return ss_train_schedule(o, &course, out);
}
