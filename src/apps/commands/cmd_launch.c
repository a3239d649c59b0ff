#include "apps/commands/commands.h"
#include "apps/commands/launch.h"
#include "core/log.h"
#include "core/options.h"
#include "kernels/kernels.h"
#include "runtime/environment.h"

#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Commands that can run on several ranks. */
static const char *const commands[] = {"train", "eval", "predict", "info", "doctor"};

static const struct ss_option rows[] = {
    SS_OPTION_INT(struct ss_launch_options, ranks, "--ranks", 0, 0, SS_LOCAL_RANKS, "N",
                  "number of ranks", .aliases = "-n --nproc-per-node", .default_ = "one per GPU"),
    SS_OPTION_FLOAT(struct ss_launch_options, grace_s, "--grace", 10, 0, 1e6, "S",
                    "time for the other ranks to exit after one has failed, in seconds"),
    SS_OPTION_TEXT(struct ss_launch_options, output_dir, "--output-dir", NULL, "DIR",
                   "write each rank's output to DIR/rank-R.log"),
    {0}};

static const char usage[] = "usage: starstep launch [-n N] [OPTION...] [--] COMMAND [ARGUMENT...]\n"
                            "Start N ranks of COMMAND (train, eval, predict, info, doctor) on this "
                            "node, without MPI.\n";

/* Split argv at the command, which may have options of its own: the first *own arguments belong
 * to launch. */
static char **split(const struct ss_option_set *sets, int argc, char **argv, int *own)
{
    int i = 1;
    if (argc > 1 && ss_options_is_help(argv[1])) {
        *own = argc;
        return argv + argc;
    }
    for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
        i += ss_option_find(sets, argv[i]) && i + 1 < argc; /* skip the option's value */
    }
    *own = i;
    return argv + i + (i < argc && strcmp(argv[i], "--") == 0);
}

static enum ss_status check_command(char *const *command)
{
    if (!command[0])
        return ss_fail(SS_ERR_INVALID, "launch: no command; give train, eval, predict, info or "
                                       "doctor, followed by its options");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(command[0], commands[i]) == 0)
            return SS_OK;
    return ss_fail(SS_ERR_INVALID,
                   "launch: \"%s\" is not a command for several ranks; give train, eval, predict, "
                   "info or doctor",
                   command[0]);
}

static enum ss_status count_ranks(const struct ss_launch_options *o, int *out)
{
    if (o->ranks) {
        *out = (int)o->ranks;
        return SS_OK;
    }
    const int gpus = ss_cuda_kernels.count();
    if (gpus == 0)
        return ss_fail(SS_ERR_INVALID,
                       "launch: this %s, so the number of ranks is not known; give it with -n N",
                       ss_cuda_kernels.missing ? "build has no CUDA" : "process may use no GPU");
    if (gpus > SS_LOCAL_RANKS)
        return ss_fail(SS_ERR_UNSUPPORTED, "launch: %d GPUs; give -n N, at most %d", gpus,
                       SS_LOCAL_RANKS);
    *out = gpus;
    return SS_OK;
}

/* End like the ranks, so that a waiting shell sees their status and ends its loop or script too. */
static int end_as(int number, int code)
{
    sigset_t one;
    if (number == 0 || number == SIGQUIT) /* avoids a core file of the launcher */
        return code;
    fflush(stdout);
    sigemptyset(&one);
    sigaddset(&one, number);
    if (signal(number, SIG_DFL) != SIG_ERR && raise(number) == 0)
        sigprocmask(SIG_UNBLOCK, &one, NULL);
    return code;
}

static int launch(const struct ss_launch_options *o)
{
    struct ss_launch *l = calloc(1, sizeof *l);
    if (!l)
        return ss_exit_code(ss_fail_memory("the launcher", sizeof *l));
    l->options = o;
    int code = 1, ended_by = 0;
    /* Block the signals first: counting GPUs may start threads, which must not receive them. */
    if (ss_local_check_alone() == SS_OK && ss_launch_take_signals(l) == SS_OK &&
        count_ranks(o, &l->size) == SS_OK && ss_launch_start(l) == SS_OK) {
        code = ss_launch_watch(l);
        ended_by = l->ended_by;
    }
    free(l);
    return end_as(ended_by, code);
}

int ss_cmd_launch(int argc, char **argv)
{
    struct ss_launch_options o = {0};
    const struct ss_option_set sets[] = {{.rows = rows, .values = &o}, {0}};
    int own;
    char **command = split(sets, argc, argv, &own);
    int code = ss_options_command(usage, sets, own, argv);
    if (code >= 0)
        return code;
    o.command = command;
    if (check_command(o.command) != SS_OK)
        return 2;
    ss_environment_report(); /* ranks do not see variables removed here */
    return launch(&o);
}
