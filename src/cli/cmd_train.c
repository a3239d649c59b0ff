#include "cli/commands.h"
#include "train/recipe.h"
#include "train/start_weights.h"
#include "train/train.h"

#include <signal.h>
#include <stdio.h>

static const char train_usage[] =
    "usage: starstep train --data-dir DIR [OPTION...]\n"
    "       starstep launch -n N train ... (GPU ranks on this node)\n"
    "       mpiexec -n N starstep train ... (GPU or CPU ranks)\n"
    "Train a network on CIFAR-10, CIFAR-100 or folders of JPEG and PNG files.\n";
static const char eval_usage[] =
    "usage: starstep eval --data-dir DIR --init FILE|FOLDER [OPTION...]\n"
    "Evaluate saved weights on the test set: loss, accuracy, top-5 accuracy.\n";
static const char predict_usage[] =
    "usage: starstep predict --images DIR --init FILE|FOLDER [OPTION...]\n"
    "Classify images: a table of classes and probabilities (CSV).\n";

static enum ss_status train(struct ss_train_options *o, const struct ss_train_callbacks *callbacks)
{
    /* A closed output pipe must not end a long training; main() reports the error at the end. */
    signal(SIGPIPE, SIG_IGN);
    return o->check ? ss_train_check_only(o) : ss_train_run(o, callbacks);
}

static enum ss_status predict(struct ss_train_options *o,
                              const struct ss_train_callbacks *callbacks)
{
    (void)callbacks;
    return ss_predict_run(o);
}

struct command {
    const char *usage;
    unsigned groups;
    enum ss_status (*run)(struct ss_train_options *o, const struct ss_train_callbacks *callbacks);
};

static const struct command train_command = {train_usage, SS_TRAIN_OF_TRAIN, train},
                            eval_command = {eval_usage, SS_TRAIN_OF_EVAL, ss_eval_run},
                            predict_command = {predict_usage, SS_TRAIN_OF_PREDICT, predict};

/* *result: the status of the run, if there was one. */
static int run(const struct command *command, int argc, char **argv,
               const struct ss_train_callbacks *callbacks, enum ss_status *result)
{
    struct ss_train_options o;
    const struct ss_option_set sets[] = {ss_train_option_set(&o, command->groups), {0}};
    struct ss_recipe *recipe;
    int code = ss_recipe_command(command->usage, sets, argc, argv, &recipe);
    if (code >= 0)
        return code;
    struct ss_start_weights found;
    enum ss_status status = ss_start_weights_find(&o, &found);
    if (status == SS_OK)
        status = command->run(&o, callbacks);
    ss_recipe_close(recipe);
    *result = status;
    return status == SS_ERR_INTERRUPTED ? SS_EXIT_RESUME : ss_exit_code(status);
}

int ss_cli_train(int argc, char **argv, int training, const struct ss_train_callbacks *callbacks,
                 enum ss_status *result)
{
    return run(training ? &train_command : &eval_command, argc, argv, callbacks, result);
}

static int run_alone(const struct command *command, int argc, char **argv)
{
    enum ss_status status;
    return run(command, argc, argv, &(struct ss_train_callbacks){0}, &status);
}

int ss_cmd_train(int argc, char **argv)
{
    return run_alone(&train_command, argc, argv);
}

int ss_cmd_eval(int argc, char **argv)
{
    return run_alone(&eval_command, argc, argv);
}

int ss_cmd_predict(int argc, char **argv)
{
    return run_alone(&predict_command, argc, argv);
}
