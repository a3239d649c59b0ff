/* Recipes: options in a file. A recipe is a JSON object whose keys are names of train's options
 * without the dashes and whose values are numbers, texts, and true or false for flags:
 *
 *     {"model": "resnet50", "epochs": 90, "schedule": "cosine", "nesterov": true} */
#ifndef SS_TRAIN_RECIPE_H
#define SS_TRAIN_RECIPE_H

#include "train/options.h"

enum { SS_RECIPE_BYTES = 1 << 16 }; /* a file's most */

/* As ss_options_command, of a command whose first set is of struct ss_train_options: the defaults,
 * then what the recipe says that --recipe names, then the command line, in which one of two ways to
 * say the same (--batch-size and --per-rank-batch-size, --warmup-steps and --warmup-epochs) takes
 * the place of the recipe's other one. Options of a recipe that the command does not take are
 * checked, and left out. *recipe: what texts may point into; the caller closes it when the options
 * are no longer needed. Messages about the recipe name file, field and value. */
struct ss_recipe;
int ss_recipe_command(const char *usage, const struct ss_option_set *sets, int argc, char **argv,
                      struct ss_recipe **recipe);
/* NULL is fine. */
void ss_recipe_close(struct ss_recipe *recipe);

#endif
