/* Parameter groups: weight decay and learning-rate factor of each parameter. */
#ifndef SS_OPTIM_PARAMETER_GROUPS_H
#define SS_OPTIM_PARAMETER_GROUPS_H

#include "graph/plan.h"
#include "optim/optim.h"

/* Parse a list such as "bn,bias" into SS_OPTIM bits. Errors: SS_ERR_INVALID; the message names
 * `option`. */
enum ss_status ss_optim_words(const char *option, const char *text, unsigned *out);

/* Set lr, decay and adapt of each trainable parameter of the plan: span[i] belongs to param i and
 * has plan->nparams elements. The first pattern of --lr-factor that matches a name applies.
 * Errors: SS_ERR_INVALID (a pattern matches no parameter). */
enum ss_status ss_optim_groups(const struct ss_optim *optim, const struct ss_plan *plan,
                               struct ss_span *span);

#endif
