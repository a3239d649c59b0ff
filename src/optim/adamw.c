/* adamw.c: Adam with decoupled weight decay, as PyTorch's AdamW. */
#include "optim/optim.h"

static enum ss_rule rule(const double *hyper)
{
    (void)hyper;
    return SS_RULE_ADAMW;
}

const struct ss_optim_class ss_adamw = {
    .name = "adamw",
    .hyper = {{"--beta1", 0.9}, {"--beta2", 0.999}, {"--eps", 1e-8}, {"--weight-decay", 0.01}},
    .state = {"exp_avg", "exp_avg_sq"},
    .rule = rule,
};
