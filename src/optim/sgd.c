/* sgd.c: stochastic gradient descent with momentum and an L2 penalty, as PyTorch's SGD. */
#include "optim/optim.h"

static enum ss_rule rule(const double *hyper)
{
    return hyper[0] > 0 ? SS_RULE_SGD_MOMENTUM : SS_RULE_SGD;
}

const struct ss_optim_class ss_sgd = {
    .name = "sgd",
    .hyper = {{"--momentum", 0.9}, {"--weight-decay", 5e-4}},
    .state = {"momentum"},
    .rule = rule,
};
