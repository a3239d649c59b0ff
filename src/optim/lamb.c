/* lamb.c: Adam with layer-wise adaptation of the step to the norm of the weights (You et al.
 * 2020). Normalization parameters and biases are neither adapted nor decayed. */
#include "optim/optim.h"

static enum ss_rule rule(const double *hyper)
{
    (void)hyper;
    return SS_RULE_LAMB;
}

const struct ss_optim_class ss_lamb = {
    .name = "lamb",
    .hyper = {{"--beta1", 0.9}, {"--beta2", 0.999}, {"--eps", 1e-6}, {"--weight-decay", 0.01}},
    .state = {"exp_avg", "exp_avg_sq"},
    .excludes = SS_OPTIM_BN | SS_OPTIM_BIAS,
    .rule = rule,
};
