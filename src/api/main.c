/* main.c: the command line. Each command is a file in src/cli/. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif

#include "api/openmp_places.h"
#include "api/starstep.h"
#include "cli/commands.h"
#include "core/log.h"
#include "core/standard.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"train", ss_cmd_train, "train a network"},
    {"eval", ss_cmd_eval, "loss and accuracy of saved weights"},
    {"predict", ss_cmd_predict, "classes and probabilities of pictures"},
    {"plan", ss_cmd_plan, "print the task graph of a step"},
    {"info", ss_cmd_info, "what this build has, which cores get which work"},
    {"doctor", ss_cmd_doctor, "look at nodes, ranks, network and data before a long run"},
    {"launch", ss_cmd_launch, "start ranks of train, eval, predict, info or doctor on this node"},
    {"trace", ss_cmd_trace, "report on a run that --trace recorded"},
    {"monitor", ss_cmd_monitor, "sample memory, utilisation and power during a job"},
    {"scaling", ss_cmd_scaling, "tables of equal runs on more and more GPUs and nodes"},
    {"tune", ss_cmd_tune, "find settings that make a training faster"},
    {"data", ss_cmd_data, "fetch, convert, generate and check data sets"},
};

const char *ss_version(void)
{
    return PACKAGE_VERSION;
}

static void print_help(FILE *out)
{
    fprintf(out, "usage: starstep COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\nstarstep COMMAND --help lists its options; `man starstep` explains them.\n");
}

static int run(int argc, char **argv)
{
    ss_openmp_places_note();
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("starstep %s\n", ss_version());
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(commands[i].name, argv[1]))
            return commands[i].run(argc - 1, argv + 1);
    ss_fail(SS_ERR_INVALID, "unknown command \"%s\"; see starstep --help", argv[1]);
    return 2;
}

int ss_main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* ulimit -f: the write fails, and is told */
    if (ss_standard_open() != SS_OK)
        return 1;
    return ss_standard_close(run(argc, argv));
}
