#include "optim/parameter_groups.h"
#include "core/log.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN_CAPACITY = 256 };

enum ss_status ss_optim_words(const char *option, const char *text, unsigned *out)
{
    *out = 0;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        if (n == 2 && !strncmp(at, "bn", n))
            *out |= SS_OPTIM_BN;
        else if (n == 4 && !strncmp(at, "bias", n))
            *out |= SS_OPTIM_BIAS;
        else
            return ss_fail(SS_ERR_INVALID, "%s: \"%.*s\" is not bn or bias", option, (int)n, at);
    }
    return SS_OK;
}

static unsigned words_of(enum ss_param_role role)
{
    switch (role) {
    case SS_PARAM_BIAS:
        return SS_OPTIM_BIAS;
    case SS_PARAM_GAMMA:
        return SS_OPTIM_BN;
    case SS_PARAM_BETA:
        return SS_OPTIM_BN | SS_OPTIM_BIAS;
    case SS_PARAM_WEIGHT:
    case SS_PARAM_OTHER:
    case SS_PARAM_OTHER_2:
    case SS_PARAM_RUNNING_MEAN:
    case SS_PARAM_RUNNING_VAR:
    case SS_PARAM_NUM_BATCHES:
        break;
    }
    return 0;
}

/* Parse "PATTERN=F" at *at and advance *at past it and its comma. */
static enum ss_status next_factor(const char **at, char pattern[PATTERN_CAPACITY], double *factor)
{
    const size_t n = strcspn(*at, ","), name = strcspn(*at, "=,");
    char *end = NULL;
    if (name > 0 && name < PATTERN_CAPACITY && (*at)[name] == '=')
        *factor = strtod(*at + name + 1, &end);
    if (!end || end == *at + name + 1 || end != *at + n || !isfinite(*factor) || *factor < 0)
        return ss_fail(SS_ERR_INVALID,
                       "--lr-factor: \"%.*s\" is not PATTERN=F with a factor from 0, such as "
                       "fc.*=10",
                       (int)n, *at);
    snprintf(pattern, PATTERN_CAPACITY, "%.*s", (int)name, *at);
    *at += n + ((*at)[n] == ',');
    return SS_OK;
}

static enum ss_status set_factors(const struct ss_optim *optim, const struct ss_plan *plan,
                                  struct ss_span *span)
{
    char pattern[PATTERN_CAPACITY];
    double factor = 1;
    for (const char *at = optim->lr_factor; at && *at;) {
        int fits = 0;
        SS_TRY(next_factor(&at, pattern, &factor));
        for (int i = 0; i < plan->nparams; i++) {
            const char *name = ss_graph_param(plan->graph, plan->param[i].graph_param)->name;
            if (!ss_plan_trains(plan, i) || span[i].lr >= 0 || fnmatch(pattern, name, 0))
                continue;
            span[i].lr = factor;
            fits = 1;
        }
        if (!fits)
            return ss_fail(SS_ERR_INVALID,
                           "--lr-factor: %s fits no parameter of %s, or only those of an earlier "
                           "pattern; names are as in its checkpoints, such as %s",
                           pattern, ss_graph_name(plan->graph),
                           ss_graph_param(plan->graph, plan->param[0].graph_param)->name);
    }
    return SS_OK;
}

enum ss_status ss_optim_groups(const struct ss_optim *optim, const struct ss_plan *plan,
                               struct ss_span *span)
{
    for (int i = 0; i < plan->nparams; i++) {
        const unsigned words =
            words_of(ss_graph_param(plan->graph, plan->param[i].graph_param)->role);
        span[i] = (struct ss_span){
            .lr = -1, /* not set */
            .decay = words & (optim->no_decay | optim->cls->excludes) ? 0 : 1,
            .adapt = !(words & optim->cls->excludes),
        };
    }
    SS_TRY(set_factors(optim, plan, span));
    for (int i = 0; i < plan->nparams; i++)
        if (span[i].lr < 0)
            span[i].lr = 1;
    return SS_OK;
}
