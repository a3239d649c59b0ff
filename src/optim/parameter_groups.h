/* Groups of parameters: those that decay less, or learn at another rate. */
#ifndef SS_OPTIM_PARAMETER_GROUPS_H
#define SS_OPTIM_PARAMETER_GROUPS_H

#include "graph/plan.h"
#include "optim/optim.h"

/* "bn,bias" to SS_OPTIM bits. Errors: SS_ERR_INVALID, naming `option`. */
enum ss_status ss_optim_words(const char *option, const char *text, unsigned *out);

/* lr, decay and adapt of each trainable parameter of the plan: span[i] is of param i; room for
 * plan->nparams. Of several patterns the first that fits a name counts. Errors: SS_ERR_INVALID (a
 * pattern that is for no parameter). */
enum ss_status ss_optim_groups(const struct ss_optim *optim, const struct ss_plan *plan,
                               struct ss_span *span);

#endif
