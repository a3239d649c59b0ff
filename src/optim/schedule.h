/* Learning rates. A schedule is a class: a row of schedule.c's table with its function. The rate of
 * a step is a function of the step's number alone, so that a run that goes on needs no state. */
#ifndef SS_OPTIM_SCHEDULE_H
#define SS_OPTIM_SCHEDULE_H

#include "core/status.h"

#include <stdint.h>

enum { SS_SCHEDULE_OPTIONS = 4, SS_MILESTONES = 64 };

struct ss_schedule {
    const struct ss_schedule_class *cls;
    double base;                                    /* learning rate that it decays from */
    double min;                                     /* and that it ends at: cosine's eta_min */
    double gamma;                                   /* factor of step's and multistep's decays */
    double power;                                   /* poly's */
    double pct_start, div_factor, final_div_factor; /* onecycle's */
    int64_t lr_step;                                /* step: epochs between decays; 0: none */
    int milestone[SS_MILESTONES], milestones;       /* multistep: epochs before decays */
    int64_t steps_per_epoch;                        /* >= 1 */
    int64_t length;                                 /* steps of the whole run, >= 1 */
    int64_t warmup; /* the first of them, in which the rate rises from 0 */
};

/* Step k (from 0) has the rate that PyTorch's optimizer has after k calls of the scheduler's
 * step(). */
struct ss_schedule_class {
    const char *name;                        /* as --schedule takes it */
    const char *option[SS_SCHEDULE_OPTIONS]; /* its own rows of train/options.def */
    int warms_up;                            /* by itself */
    int whole;                               /* depends on the length of the run */
    double (*lr)(const struct ss_schedule *s, int64_t k);
};

/* Every schedule; one without a name ends the list. */
extern const struct ss_schedule_class ss_schedule_classes[];

/* The schedule of that name. Errors: SS_ERR_INVALID. */
enum ss_status ss_schedule_find(const char *name, const struct ss_schedule_class **out);

/* The rate of step k, from 0. In a warmup of W steps it is k / W of what the schedule says. */
double ss_schedule_lr(const struct ss_schedule *s, int64_t k);

#endif
