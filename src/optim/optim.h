/* Optimizers. Each is a class in a file of its own (sgd.c): what its hyperparameters and the states
 * of a parameter are called, and which rule of kernels/update.h computes a step. Plan, executor and
 * checkpoints loop over states and know no optimizer. */
#ifndef SS_OPTIM_OPTIM_H
#define SS_OPTIM_OPTIM_H

#include "core/status.h"
#include "kernels/update.h"

/* Words of --no-decay. */
enum {
    SS_OPTIM_BN = 1 << 0,   /* parameters of normalisations */
    SS_OPTIM_BIAS = 1 << 1, /* biases, those of normalisations too */
};

struct ss_hyper {
    const char *option; /* "--momentum", a row of train/options.def; NULL ends a list */
    double initial;     /* where it is not given; of a flag 0 */
};

struct ss_optim_class {
    /* As --optimizer takes it. */
    const char *name;
    struct ss_hyper hyper[SS_UPDATE_HYPER + 1]; /* in the rules' order */
    /* PyTorch's names; in a checkpoint a parameter's tensor is STATE.NAME. A rule with n states has
     * the first n. */
    const char *state[SS_UPDATE_STATES];
    /* What earlier versions called them in checkpoints; NULL: the same. */
    const char *former[SS_UPDATE_STATES];
    unsigned excludes; /* SS_OPTIM bits: what it neither decays nor adapts to norms */
    /* Hyperparameters that do not go together; NULL: all do. */
    enum ss_status (*check)(const double *hyper);
    enum ss_rule (*rule)(const double *hyper);
};

/* An optimizer with its hyperparameters. */
struct ss_optim {
    const struct ss_optim_class *cls;
    double hyper[SS_UPDATE_HYPER];
    unsigned no_decay;     /* SS_OPTIM bits */
    const char *lr_factor; /* "PATTERN=F,..."; NULL: none */
    double clip;           /* largest norm of the gradients; 0: any */
    double ema_decay;      /* what the weights' average keeps in a step; 0: there is none */
};

/* Every optimizer; NULL ends the list. */
extern const struct ss_optim_class *const ss_optim_classes[];

/* The optimizer of that name, with its hyperparameters' defaults. Errors: SS_ERR_INVALID. */
enum ss_status ss_optim_find(const char *name, struct ss_optim *out);
/* Set a hyperparameter by its option's name. Returns 0 if the optimizer has none of that name. */
int ss_optim_set(struct ss_optim *optim, const char *option, double value);

/* Hyperparameters that do not go together: SS_ERR_INVALID. */
enum ss_status ss_optim_check(const struct ss_optim *optim);

/* States of each parameter: so many regions a bucket. The rule's, then the weights' average. */
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
/* What a state is called in checkpoints, and was (NULL: the same). */
const char *ss_optim_state_name(const struct ss_optim *optim, int state);
const char *ss_optim_former_name(const struct ss_optim *optim, int state);
/* Fill in what an update has from the optimizer. */
void ss_optim_describe(const struct ss_optim *optim, struct ss_update *out);

#endif
