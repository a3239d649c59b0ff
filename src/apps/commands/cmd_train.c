#include "apps/commands/commands.h"
#include "train/command.h"
#include "train/recipe.h"

static int run(const struct ss_train_command *command, const char *usage, int argc, char **argv)
{
    struct ss_train_options o;
    const struct ss_option_set sets[] = {ss_train_option_set(&o, command->groups), {0}};
    struct ss_recipe *recipe;
    int code = ss_cli_parse_train(usage, sets, argc, argv, &recipe);
    if (code >= 0)
        return code;
    enum ss_status status = ss_train_command_run(command, &o, &(struct ss_train_callbacks){0});
    ss_recipe_close(recipe);
    return status == SS_ERR_INTERRUPTED ? SS_EXIT_RESUME : ss_exit_code(status);
}

int ss_cmd_train(int argc, char **argv)
{
    return run(&ss_train_command,
               "usage: starstep train --data-dir DIR [OPTION...]\n"
               "       starstep launch -n N train ... (GPU ranks on this node)\n"
               "       mpiexec -n N starstep train ... (GPU or CPU ranks)\n"
               "Train a network on CIFAR-10, CIFAR-100 or folders of JPEG and PNG files.\n",
               argc, argv);
}

int ss_cmd_eval(int argc, char **argv)
{
    return run(&ss_eval_command,
               "usage: starstep eval --data-dir DIR --init FILE|FOLDER [OPTION...]\n"
               "Evaluate saved weights on the test set: loss, accuracy, top-5 accuracy.\n",
               argc, argv);
}

int ss_cmd_predict(int argc, char **argv)
{
    return run(&ss_predict_command,
               "usage: starstep predict --images DIR --init FILE|FOLDER [OPTION...]\n"
               "Classify images: a table of classes and probabilities (CSV).\n",
               argc, argv);
}
