/* Learning-rate schedules. A schedule is a row of the table in schedule.c. The learning rate
 * depends only on the step number, so a resumed run needs no scheduler state. */
#ifndef SS_OPTIM_SCHEDULE_H
#define SS_OPTIM_SCHEDULE_H

#include "core/status.h"

#include <stdint.h>

enum { SS_SCHEDULE_OPTIONS = 4, SS_MILESTONES = 64 };

struct ss_schedule {
    const struct ss_schedule_class *cls;
    double base;                                    /* base learning rate */
    double min;                                     /* final learning rate (cosine: eta_min) */
    double gamma;                                   /* step, multistep: decay factor */
    double power;                                   /* poly: exponent */
    double pct_start, div_factor, final_div_factor; /* onecycle */
    int64_t lr_step;                                /* step: epochs between decays; 0: no decay */
    int milestone[SS_MILESTONES], milestones;       /* multistep: epochs at which it decays */
    int64_t steps_per_epoch;                        /* >= 1 */
    int64_t length;                                 /* steps of the whole run, >= 1 */
    int64_t warmup; /* initial steps in which the rate rises from 0 */
};

/* The rate of step k (from 0) equals that of PyTorch's optimizer after k calls of
 * scheduler.step(). */
struct ss_schedule_class {
    const char *name;                        /* value of --schedule */
    const char *option[SS_SCHEDULE_OPTIONS]; /* its rows of train/options.def */
    int warms_up;                            /* has its own warmup */
    int whole;                               /* depends on the length of the run */
    double (*lr)(const struct ss_schedule *s, int64_t k);
};

/* All schedules, terminated by one without a name. */
extern const struct ss_schedule_class ss_schedule_classes[];

/* Find a schedule by name. Errors: SS_ERR_INVALID. */
enum ss_status ss_schedule_find(const char *name, const struct ss_schedule_class **out);

/* Learning rate of step k, from 0. In a warmup of W steps the schedule's rate is scaled by k /
 * W. */
double ss_schedule_lr(const struct ss_schedule *s, int64_t k);

#endif
