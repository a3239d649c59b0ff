/* learning_rate.c: learning-rate schedule from the options (interface in options.h). */
#include "core/log.h"
#include "train/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int has_option(const struct ss_schedule_class *c, const char *name)
{
    for (int i = 0; i < SS_SCHEDULE_OPTIONS && c->option[i]; i++)
        if (!strcmp(c->option[i], name))
            return 1;
    return 0;
}

/* Reject options that only other schedules have. */
static enum ss_status check_alien(const struct ss_train_options *o,
                                  const struct ss_schedule_class *own)
{
    for (const struct ss_schedule_class *c = ss_schedule_classes; c->name; c++)
        for (int i = 0; i < SS_SCHEDULE_OPTIONS && c->option[i]; i++)
            if (!has_option(own, c->option[i]) && !ss_train_is_default(o, c->option[i]))
                return ss_fail(SS_ERR_INVALID,
                               "--schedule %s has no %s; leave it out, or give --schedule %s",
                               own->name, c->option[i], c->name);
    return SS_OK;
}

static enum ss_status check_warmup(const struct ss_train_options *o,
                                   const struct ss_schedule_class *own)
{
    if (o->warmup_steps && o->warmup_epochs > 0)
        return ss_fail(SS_ERR_INVALID,
                       "--warmup-steps %ld and --warmup-epochs %g are the same in "
                       "two units; give one of them",
                       o->warmup_steps, o->warmup_epochs);
    if (own->warms_up && (o->warmup_steps || o->warmup_epochs > 0))
        return ss_fail(SS_ERR_INVALID,
                       "--schedule %s has its own warmup (--pct-start); leave %s out", own->name,
                       o->warmup_steps ? "--warmup-steps" : "--warmup-epochs");
    return SS_OK;
}

static enum ss_status parse_milestones(const struct ss_train_options *o, struct ss_schedule *s)
{
    int n = 1;
    if (!o->milestones)
        return ss_fail(SS_ERR_INVALID, "--schedule multistep needs --milestones, such as 60,120");
    for (const char *c = o->milestones; *c; c++)
        n += *c == ',';
    if (n > SS_MILESTONES)
        return ss_fail(SS_ERR_INVALID, "--milestones: has %d; give at most %d", n, SS_MILESTONES);
    s->milestones = n;
    return ss_parse_int_list("milestones", o->milestones, n, 1, 1 << 24, s->milestone);
}

static enum ss_status scale_base(const char *rule, int64_t batch, double *base)
{
    const int root = !strncmp(rule, "sqrt:", 5), linear = !strncmp(rule, "linear:", 7);
    char *end = NULL;
    const char *number = rule + (root ? 5 : 7);
    if (!strcmp(rule, "none"))
        return SS_OK;
    const long of = root || linear ? strtol(number, &end, 10) : 0;
    if (of < 1 || of > 1 << 30 || *end)
        return ss_fail(SS_ERR_INVALID,
                       "--lr-scale: \"%s\" is not none, or linear or sqrt with the batch that "
                       "--base-lr is for, such as linear:256",
                       rule);
    const double factor = (double)batch / (double)of;
    *base *= root ? sqrt(factor) : factor;
    return SS_OK;
}

static int64_t length(const struct ss_train_options *o, const struct ss_train_course *c)
{
    int64_t all = o->epochs * c->steps_per_epoch, end = c->at + (o->max_steps - c->steps);
    all = o->max_steps && end < all ? end : all;
    return all < 1 ? 1 : all;
}

enum ss_status ss_train_schedule(const struct ss_train_options *o, const struct ss_train_course *c,
                                 struct ss_schedule *out)
{
    const struct ss_schedule_class *cls;
    SS_TRY(ss_schedule_find(o->schedule, &cls));
    SS_TRY(check_alien(o, cls));
    SS_TRY(check_warmup(o, cls));
    *out = (struct ss_schedule){
        .cls = cls,
        .base = o->base_lr,
        .min = o->min_lr,
        .gamma = o->lr_gamma,
        .power = o->poly_power,
        .pct_start = o->pct_start,
        .div_factor = o->div_factor,
        .final_div_factor = o->final_div_factor,
        .lr_step = o->lr_step,
        .steps_per_epoch = c->steps_per_epoch,
        .length = length(o, c),
        .warmup = o->warmup_steps ? o->warmup_steps
                                  : llround(o->warmup_epochs * (double)c->steps_per_epoch)};
    if (has_option(cls, "--milestones"))
        SS_TRY(parse_milestones(o, out));
    return scale_base(o->lr_scale, c->batch, &out->base);
}

enum ss_status ss_train_check_schedule(const struct ss_train_options *o)
{
    const struct ss_train_course any = {.batch = 1, .steps_per_epoch = 1};
    struct ss_schedule schedule;
    return ss_train_schedule(o, &any, &schedule);
}
