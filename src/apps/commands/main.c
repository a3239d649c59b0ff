/* main.c: the command line. Each command is a file of this folder. */
#include "api/openmp_places.h"
#include "api/starstep.h"
#include "apps/starstep-cli.h"
#include "apps/commands/commands.h"
#include "core/log.h"
#include "core/stdio_guard.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"train", ss_cmd_train, "train a network"},
    {"eval", ss_cmd_eval, "evaluate saved weights: loss and accuracy"},
    {"predict", ss_cmd_predict, "classify images"},
    {"data", ss_cmd_data, "fetch, convert, generate and check data sets"},
    {"launch", ss_cmd_launch, "start several ranks on this node, as torchrun does"},
    {"info", ss_cmd_info, "print the features of this build and the use of cores"},
    {"doctor", ss_cmd_doctor, "check nodes, ranks, network and data before a long run"},
    {"plan", ss_cmd_plan, "print the task graph of a step, or predict its time"},
    {"trace", ss_cmd_trace, "analyze or export a run recorded with train --trace"},
    {"monitor", ss_cmd_monitor, "sample memory, utilization and power during a job"},
    {"scaling", ss_cmd_scaling, "compare runs on different numbers of GPUs and nodes"},
    {"tune", ss_cmd_tune, "search for settings that train faster"},
};

static void print_help(FILE *out)
{
    fprintf(out, "usage: starstep COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(out,
            "\nA first run, on a small generated data set:\n"
            "    starstep data make cifar100 --out data\n"
            "    starstep train --data-dir data --epochs 3\n\n"
            "starstep help COMMAND lists the options of a command; man starstep explains them.\n");
}

static int run(int argc, char **argv);

/* "help data make" runs "data make --help". */
static int help(int argc, char **argv)
{
    enum { WORDS = 8 };
    char *words[WORDS + 1] = {argv[0]};
    int n = 1;
    for (int i = 2; i < argc && strcmp(argv[i], "all") != 0 && n < WORDS - 2; i++)
        words[n++] = argv[i];
    if (n == 1) {
        print_help(stdout);
        return 0;
    }
    words[n++] = (char *)"--help";
    if (!strcmp(argv[argc - 1], "all"))
        words[n++] = (char *)"all";
    return run(n, words);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (ss_options_is_help(argv[1]) || !strcmp(argv[1], "help"))
        return help(argc, argv);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version")) {
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
    signal(SIGXFSZ, SIG_IGN); /* ulimit -f: let the write fail with an error */
    if (ss_stdio_open() != SS_OK)
        return 1;
    ss_openmp_places_note();
    return ss_stdio_close(run(argc, argv));
}
