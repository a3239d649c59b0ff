#include "cli/commands.h"
#include "train/train.h"

#include <signal.h>
#include <stdio.h>

static const char train_usage[] = "usage: starstep train --data-dir DIR [OPTION...]\n"
                                  "       mpiexec -n N starstep train --data-dir DIR [OPTION...]\n"
                                  "Train a network on CIFAR-100 (binary version) or on folders of JPEG "
                                  "files. Options:\n";
static const char eval_usage[] = "usage: starstep eval --data-dir DIR --init FILE [OPTION...]\n"
                                 "Loss and accuracy of saved weights on the test set. Options:\n";

static int run(int argc, char **argv, int training)
{
    struct ss_train_options o = ss_train_defaults();
    struct ss_option table[SS_TRAIN_MAX_OPTIONS];
    int help, n = ss_train_model_options(&o, table, 0);
    n = ss_train_run_options(&o, table, n);
    if (training)
        ss_train_loop_options(&o, table, n);
    if (ss_options_parse(table, argc, argv, &help) != SS_OK)
        return 2;
    if (help) {
        fputs(training ? train_usage : eval_usage, stdout);
        ss_options_print(stdout, table);
        return 0;
    }
    /* Days of training do not end because who read the output has: main() tells at the end. */
    if (training)
        signal(SIGPIPE, SIG_IGN);
    enum ss_status status = o.check    ? ss_train_check_only(&o)
                            : training ? ss_train_run(&o)
                                       : ss_eval_run(&o);
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
