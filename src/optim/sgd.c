/* sgd.c: stochastic gradient descent with momentum and an L2 penalty, as PyTorch's SGD. */
#include "core/log.h"
#include "optim/optim.h"

enum { MOMENTUM, DECAY, DAMPENING, NESTEROV };

static enum ss_status check(const double *hyper)
{
    if (hyper[NESTEROV] > 0 && !(hyper[MOMENTUM] > 0))
        return ss_fail(SS_ERR_INVALID, "--nesterov needs a --momentum above 0");
    if (hyper[NESTEROV] > 0 && hyper[DAMPENING] > 0)
        return ss_fail(SS_ERR_INVALID,
                       "--nesterov and --dampening %g do not go together; leave "
                       "one of them out",
                       hyper[DAMPENING]);
    if (hyper[DAMPENING] > 0 && !(hyper[MOMENTUM] > 0))
        return ss_fail(SS_ERR_INVALID, "--dampening %g needs a --momentum above 0",
                       hyper[DAMPENING]);
    return SS_OK;
}

static enum ss_rule rule(const double *hyper)
{
    if (!(hyper[MOMENTUM] > 0))
        return SS_RULE_SGD;
    return hyper[NESTEROV] > 0    ? SS_RULE_SGD_NESTEROV
           : hyper[DAMPENING] > 0 ? SS_RULE_SGD_DAMPENED
                                  : SS_RULE_SGD_MOMENTUM;
}

const struct ss_optim_class ss_sgd = {
    .name = "sgd",
    .hyper = {[MOMENTUM] = {"--momentum", 0.9},
              [DECAY] = {"--weight-decay", 5e-4},
              [DAMPENING] = {"--dampening", 0},
              [NESTEROV] = {"--nesterov", 0}},
    .state = {"momentum_buffer"},
    .former = {"momentum"},
    .check = check,
    .rule = rule,
};
