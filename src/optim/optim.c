#include "optim/optim.h"
#include "core/log.h"

#include <stdio.h>
#include <string.h>

extern const struct ss_optim_class ss_sgd, ss_adam, ss_adamw, ss_lars, ss_lamb;

const struct ss_optim_class *const ss_optim_classes[] = {&ss_sgd,  &ss_adam, &ss_adamw,
                                                         &ss_lamb, &ss_lars, NULL};

static enum ss_status unknown(const char *name)
{
    char known[128] = "";
    for (size_t i = 0, used = 0; ss_optim_classes[i] && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 !i                        ? ""
                                 : ss_optim_classes[i + 1] ? ", "
                                                           : " or ",
                                 ss_optim_classes[i]->name);
    return ss_fail(SS_ERR_INVALID, "--optimizer: \"%s\" is not %s", name, known);
}

enum ss_status ss_optim_find(const char *name, struct ss_optim *out)
{
    const struct ss_optim_class *const *c = ss_optim_classes;
    while (*c && strcmp((*c)->name, name))
        c++;
    if (!*c)
        return unknown(name);
    *out = (struct ss_optim){.cls = *c};
    for (int i = 0; (*c)->hyper[i].option; i++)
        out->hyper[i] = (*c)->hyper[i].initial;
    return SS_OK;
}

int ss_optim_set(struct ss_optim *optim, const char *option, double value)
{
    for (int i = 0; optim->cls->hyper[i].option; i++)
        if (!strcmp(optim->cls->hyper[i].option, option)) {
            optim->hyper[i] = value;
            return 1;
        }
    return 0;
}

enum ss_status ss_optim_check(const struct ss_optim *optim)
{
    return optim->cls->check ? optim->cls->check(optim->hyper) : SS_OK;
}

const char *ss_optim_state_name(const struct ss_optim *optim, int state)
{
    return state < ss_optim_rule_states(optim) ? optim->cls->state[state] : "ema";
}

const char *ss_optim_former_name(const struct ss_optim *optim, int state)
{
    return state < ss_optim_rule_states(optim) ? optim->cls->former[state] : NULL;
}

void ss_optim_describe(const struct ss_optim *optim, struct ss_update *out)
{
    out->rule = optim->cls->rule(optim->hyper);
    memcpy(out->hyper, optim->hyper, sizeof out->hyper);
    out->clip = optim->clip;
    out->ema_decay = optim->ema_decay;
}
