#include "cli/commands.h"
#include "train/recipe.h"
#include "train/start_weights.h"
#include "train/train.h"

#include <signal.h>
#include <stdio.h>

static const char train_usage[] =
    "usage: starstep train --data-dir DIR [OPTION...]\n"
    "       mpiexec -n N starstep train --data-dir DIR [OPTION...]\n"
    "Train a network on CIFAR-100 (binary version) or on folders of JPEG "
    "files. Options:\n";
static const char eval_usage[] =
    "usage: starstep eval --data-dir DIR --init FILE|FOLDER [OPTION...]\n"
    "Loss and accuracy of saved weights on the test set. Options:\n";

static int run(int argc, char **argv, int training)
{
    struct ss_train_options o;
    const struct ss_option_set sets[] = {
        ss_train_option_set(&o, training ? SS_TRAIN_OF_TRAIN : SS_TRAIN_OF_EVAL), {0}};
    struct ss_recipe *recipe;
    int code = ss_recipe_command(training ? train_usage : eval_usage, sets, argc, argv, &recipe);
    if (code >= 0)
        return code;
    /* Days of training do not end because who read the output has: main() tells at the end. */
    if (training)
        signal(SIGPIPE, SIG_IGN);
    struct ss_start_weights found;
    enum ss_status status = ss_start_weights_find(&o, &found);
    if (status == SS_OK)
        status = o.check ? ss_train_check_only(&o) : training ? ss_train_run(&o) : ss_eval_run(&o);
    ss_recipe_close(recipe);
    return status == SS_ERR_INTERRUPTED ? SS_EXIT_RESUME : ss_exit_code(status);
}

int ss_cmd_train(int argc, char **argv)
{
    return run(argc, argv, 1);
}

int ss_cmd_eval(int argc, char **argv)
{
    return run(argc, argv, 0);
}
