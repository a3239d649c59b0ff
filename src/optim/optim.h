/* Optimizers. Each optimizer is a class in its own file (sgd.c, adam.c, ...): the names of its
 * hyperparameters and of its per-parameter states, and the rule of kernels/update.h that computes
 * a step. Plan, executor and checkpoints iterate over the states and do not depend on the
 * optimizer. */
#ifndef SS_OPTIM_OPTIM_H
#define SS_OPTIM_OPTIM_H

#include "core/status.h"
#include "kernels/update.h"

/* Values of --no-decay. */
enum {
    SS_OPTIM_BN = 1 << 0,   /* normalization parameters */
    SS_OPTIM_BIAS = 1 << 1, /* biases, including those of normalizations */
};

struct ss_hyper {
    const char *option; /* "--momentum", a row of train/options.def; NULL ends a list */
    double initial;     /* default value; 0 for a flag */
};

struct ss_optim_class {
    /* Value of --optimizer. */
    const char *name;
    struct ss_hyper hyper[SS_UPDATE_HYPER + 1]; /* in the order of update.h's rule */
    /* PyTorch's names; the tensor of a parameter in a checkpoint is STATE.NAME. A rule with n
     * states uses the first n. */
    const char *state[SS_UPDATE_STATES];
    /* Names in checkpoints of earlier versions; NULL: the same. */
    const char *former[SS_UPDATE_STATES];
    unsigned excludes; /* SS_OPTIM bits: parameters without decay and norm adaptation */
    /* Rejects invalid combinations of hyperparameters; NULL: all are valid. */
    enum ss_status (*check)(const double *hyper);
    enum ss_rule (*rule)(const double *hyper);
};

/* An optimizer with its hyperparameters. */
struct ss_optim {
    const struct ss_optim_class *cls;
    double hyper[SS_UPDATE_HYPER];
    unsigned no_decay;     /* SS_OPTIM bits */
    const char *lr_factor; /* "PATTERN=F,..."; NULL: none */
    double clip;           /* maximum norm of the gradients; 0: no clipping */
    double ema_decay;      /* decay rate of the EMA of the weights; 0: no EMA */
};

/* All optimizers, terminated by NULL. */
extern const struct ss_optim_class *const ss_optim_classes[];

/* Find an optimizer by name and set its hyperparameters to their defaults. Errors:
 * SS_ERR_INVALID. */
enum ss_status ss_optim_find(const char *name, struct ss_optim *out);
/* Set a hyperparameter by option name. Returns 0 if the optimizer has no such hyperparameter. */
int ss_optim_set(struct ss_optim *optim, const char *option, double value);

/* Check the combination of hyperparameters. Errors: SS_ERR_INVALID. */
enum ss_status ss_optim_check(const struct ss_optim *optim);

/* Number of states per parameter, which is also the number of state regions per bucket: the
 * rule's states, then the EMA of the weights. */
static inline int ss_optim_rule_states(const struct ss_optim *optim)
{
    return ss_rule_states(optim->cls->rule(optim->hyper));
}
static inline int ss_optim_states(const struct ss_optim *optim)
{
    return ss_optim_rule_states(optim) + (optim->ema_decay > 0);
}
static inline int ss_optim_has_norms(const struct ss_optim *optim)
{
    return ss_rule_has_norms(optim->cls->rule(optim->hyper));
}
/* Name of a state in checkpoints, and in those of earlier versions (NULL: the same). */
const char *ss_optim_state_name(const struct ss_optim *optim, int state);
const char *ss_optim_former_name(const struct ss_optim *optim, int state);
/* Set the fields of an update that depend on the optimizer. */
void ss_optim_describe(const struct ss_optim *optim, struct ss_update *out);

#endif
