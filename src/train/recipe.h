/* Recipes: options in a file. A recipe is a JSON object whose keys are names of train's options
 * without the dashes and whose values are numbers, texts, and true or false for flags:
 *
 *     {"model": "resnet50", "epochs": 90, "schedule": "cosine", "nesterov": true} */
#ifndef SS_TRAIN_RECIPE_H
#define SS_TRAIN_RECIPE_H

#include "train/options.h"

enum { SS_RECIPE_BYTES = 1 << 16 }; /* maximum size of a recipe */

/* Parse the command line of a command whose first option set is a struct ss_train_options. Applies
 * the defaults, then the recipe of --recipe, then the command line. An option on the command line
 * also overrides its counterpart in the recipe (--batch-size and --per-rank-batch-size,
 * --warmup-steps and --warmup-epochs). Options that the command does not accept are checked and
 * ignored. Option texts may point into *recipe (NULL without --recipe); the caller closes it when
 * the options are no longer needed. Errors: SS_ERR_INVALID and those of reading a file; messages
 * about the recipe name file, field and value. */
struct ss_recipe;
enum ss_status ss_recipe_parse(const struct ss_option_set *sets, int argc, char **argv,
                               struct ss_recipe **recipe);
/* NULL is fine. */
void ss_recipe_close(struct ss_recipe *recipe);

#endif
