/* adam.c: Adam with an L2 penalty, as PyTorch's Adam. */
#include "optim/optim.h"

static enum ss_rule rule(const double *hyper)
{
    (void)hyper;
    return SS_RULE_ADAM;
}

const struct ss_optim_class ss_adam = {
    .name = "adam",
    .hyper = {{"--beta1", 0.9}, {"--beta2", 0.999}, {"--eps", 1e-8}, {"--weight-decay", 0}},
    .state = {"exp_avg", "exp_avg_sq"},
    .rule = rule,
};
