#include "optim/schedule.h"
#include "core/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* Completed fraction of the steps after the warmup, 0 to 1. */
static double progress(const struct ss_schedule *s, int64_t k)
{
    double all = (double)(s->length - s->warmup), done = (double)(k - s->warmup);
    return done <= 0 ? 0 : done >= all ? 1 : done / all;
}

static double constant(const struct ss_schedule *s, int64_t k)
{
    (void)k;
    return s->base;
}

/* StepLR, stepped per epoch. */
static double step(const struct ss_schedule *s, int64_t k)
{
    int64_t epoch = k / s->steps_per_epoch;
    return s->base * pow(s->gamma, (double)(s->lr_step ? epoch / s->lr_step : 0));
}

/* MultiStepLR, stepped per epoch. */
static double multistep(const struct ss_schedule *s, int64_t k)
{
    int decays = 0;
    for (int i = 0; i < s->milestones; i++)
        decays += k / s->steps_per_epoch >= s->milestone[i];
    return s->base * pow(s->gamma, decays);
}

/* CosineAnnealingLR. */
static double cosine(const struct ss_schedule *s, int64_t k)
{
    return s->min + (s->base - s->min) * (1 + cos(pi * progress(s, k))) / 2;
}

/* PolynomialLR, but ends at `min` instead of 0. */
static double poly(const struct ss_schedule *s, int64_t k)
{
    return s->min + (s->base - s->min) * pow(1 - progress(s, k), s->power);
}

/* OneCycleLR(anneal_strategy="cos", cycle_momentum=False): a half cosine up to step `top`, then a
 * half cosine down to the last step. */
static double onecycle(const struct ss_schedule *s, int64_t k)
{
    const double low = s->base / s->div_factor, at = (double)k, last = (double)(s->length - 1);
    const double top = s->pct_start * (double)s->length - 1;
    const int up = at <= top;
    const double begin = up ? 0 : top, end = up ? top : last;
    const double from = up ? low : s->base, to = up ? s->base : low / s->final_div_factor;
    return to + (from - to) * (1 + cos(pi * (at < end ? (at - begin) / (end - begin) : 1))) / 2;
}

const struct ss_schedule_class ss_schedule_classes[] = {
    {.name = "constant", .lr = constant},
    {.name = "step", .lr = step, .option = {"--lr-step", "--lr-gamma"}},
    {.name = "multistep", .lr = multistep, .option = {"--milestones", "--lr-gamma"}},
    {.name = "cosine", .lr = cosine, .option = {"--min-lr"}, .whole = 1},
    {.name = "poly", .lr = poly, .option = {"--min-lr", "--poly-power"}, .whole = 1},
    {.name = "onecycle",
     .lr = onecycle,
     .option = {"--pct-start", "--div-factor", "--final-div-factor"},
     .warms_up = 1,
     .whole = 1},
    {0}};

enum ss_status ss_schedule_find(const char *name, const struct ss_schedule_class **out)
{
    char known[128] = "";
    size_t used = 0;
    for (const struct ss_schedule_class *c = ss_schedule_classes; c->name; c++) {
        *out = c;
        if (!strcmp(c->name, name))
            return SS_OK;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 !used       ? ""
                                 : c[1].name ? ", "
                                             : " or ",
                                 c->name);
    }
    return ss_fail(SS_ERR_INVALID, "--schedule: \"%s\" is not %s", name, known);
}

double ss_schedule_lr(const struct ss_schedule *s, int64_t k)
{
    double lr = s->cls->lr(s, k);
    return k < s->warmup ? lr * ((double)k / (double)s->warmup) : lr;
}
