/* lars.c: layer-wise adaptive learning rates, as in MLPerf's ResNet reference (You, Gitman and
 * Ginsburg 2017). Normalization parameters and biases are neither adapted nor decayed. */
#include "optim/optim.h"

static enum ss_rule rule(const double *hyper)
{
    (void)hyper;
    return SS_RULE_LARS;
}

const struct ss_optim_class ss_lars = {
    .name = "lars",
    .hyper = {{"--momentum", 0.9}, {"--weight-decay", 1e-4}, {"--trust", 0.001}},
    .state = {"momentum_buffer"},
    .excludes = SS_OPTIM_BN | SS_OPTIM_BIAS,
    .rule = rule,
};
