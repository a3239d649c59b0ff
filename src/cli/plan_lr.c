#include "cli/plan_lr.h"
#include "core/json_text.h"
#include "core/log.h"
#include "report/plot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 4000 }; /* of a picture, which is narrower than that */

enum ss_status ss_plan_lr_print(const struct ss_schedule *s, int json, FILE *out)
{
    const int64_t n = s->steps_per_epoch;
    if (json)
        ss_json_print(out,
                      "{'schedule':%s,'steps':%ld,'steps_per_epoch':%ld,'warmup':%ld,'epochs':[",
                      s->cls->name, (long)s->length, (long)n, (long)s->warmup);
    else
        fprintf(out, "%7s %20s %14s %14s\n", "epoch", "steps", "first lr", "last lr");
    for (int64_t first = 0; first < s->length; first += n) {
        const int64_t last = (first + n < s->length ? first + n : s->length) - 1;
        const double lr[] = {ss_schedule_lr(s, first), ss_schedule_lr(s, last)};
        const long epoch = (long)(first / n) + 1, from = (long)first + 1, to = (long)last + 1;
        char steps[48];
        snprintf(steps, sizeof steps, "%ld-%ld", from, to);
        if (json)
            ss_json_print(
                out,
                "%.1s\n{'epoch':%ld,'first_step':%ld,'last_step':%ld,'first_lr':%g,'last_lr':%g}",
                first ? "," : "", epoch, from, to, lr[0], lr[1]);
        else
            fprintf(out, "%7ld %20s %14.8g %14.8g\n", epoch, steps, lr[0], lr[1]);
    }
    if (json)
        fputs("\n]}\n", out);
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
        .title = "starstep plan --lr", .x_label = "epochs", .panel = &panel, .panels = 1};
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
