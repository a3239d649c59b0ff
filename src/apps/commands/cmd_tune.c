/* cmd_tune.c: starstep tune, which searches for settings that speed up training. */
#include "apps/commands/commands.h"
#include "core/folder.h"
#include "core/log.h"
#include "runtime/environment.h"
#include "runtime/placement.h"
#include "train/recipe.h"
#include "train/output_lock.h"
#include "apps/tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct ss_option rows[] = {
    SS_OPTION_TEXT(struct ss_tune_options, dir, "--out", "starstep-tune", "DIR",
                   "output folder; a search whose results are there resumes"),
    SS_OPTION_FLOAT(struct ss_tune_options, minutes, "--minutes", 30, 0.01, 1e6, "F",
                    "total run time, including that of results already there"),
    SS_OPTION_FLOAT(struct ss_tune_options, seconds, "--seconds", 5, 0.01, 1e5, "S",
                    "duration of the measured steps of a run"),
    SS_OPTION_INT(struct ss_tune_options, rounds, "--rounds", 5, SS_TUNE_MIN_RUNS, 100, "N",
                  "maximum number of runs per setting; selected settings run twice as often again"),
    SS_OPTION_INT(struct ss_tune_options, seed, "--seed", 0, 0, 1L << 53, "N",
                  "seed of the order of runs"),
    SS_OPTION_INT(struct ss_tune_options, ranks, "--ranks", 1, 1, SS_TUNE_MAX_COUNT, "N",
                  "ranks per node of the baseline"),
    SS_OPTION_INT(struct ss_tune_options, nodes, "--nodes", 1, 1, SS_TUNE_MAX_COUNT, "N",
                  "number of nodes"),
    SS_OPTION_INT(struct ss_tune_options, cores, "--cores", 0, 0, SS_TUNE_MAX_COUNT, "N",
                  "cores per node, shared by its ranks", .default_ = "those this process may use"),
    SS_OPTION_TEXT(struct ss_tune_options, start, "--start", NULL, "COMMAND",
                   "shell command that starts $RANKS ranks",
                   .default_ = "mpiexec; starstep launch on GPUs"),
    SS_OPTION_FLAG(struct ss_tune_options, check, "--check", "print the settings to try, and exit"),
    SS_OPTION_FLAG(struct ss_tune_options, table, "--table",
                   "run nothing; print the table of the results so far"),
    SS_OPTION_FLAG(struct ss_tune_options, next, "--next",
                   "run nothing; print the next run as Bash assignments, for job scripts"),
    {0}};

static const char usage[] =
    "usage: starstep tune [OPTION...] [NAME=VALUE,VALUE... | NAME]... -- TRAIN-OPTION...\n"
    "Find settings that make a training faster: short runs in random order, one setting changed at "
    "a time,\n"
    "then the combination of the faster ones. NAME is an option of train (without --), an "
    "environment\n"
    "variable or ranks (per node); without any, those that matter on this device.\n";

/* The command line: settings, and the options of train after --. */
struct words {
    char **setting, **training;
    int settings, training_words;
};

/* Check that the baseline run succeeded. */
static enum ss_status check_probe(const struct ss_tune *t)
{
    const struct ss_tune_result *last = t->nresults ? &t->results[t->nresults - 1] : NULL;
    if (!last || last->trial.stage != SS_TUNE_PROBE || !last->error)
        return SS_OK;
    return ss_fail(SS_ERR_INVALID, "tune: the baseline fails: %s; see %s/failed-%zu.out",
                   last->error, t->options->dir, t->nresults);
}

static enum ss_status run_all(struct ss_tune *t, int *code)
{
    struct ss_tune_trial trial;
    int interrupted = 0;
    ss_tune_block_signals(t);
    while (ss_tune_next_trial(t, &trial)) {
        SS_TRY(ss_tune_run_local(t, &trial, &interrupted));
        if (interrupted) {
            ss_note("tune: interrupted; repeat the command to resume");
            *code = SS_EXIT_RESUME;
            return SS_OK;
        }
        ss_tune_print_result(t, stderr);
        SS_TRY(check_probe(t));
    }
    return SS_OK;
}

static enum ss_status print_next(struct ss_tune *t)
{
    struct ss_tune_trial trial;
    SS_TRY(check_probe(t));
    if (!ss_tune_next_trial(t, &trial))
        return SS_OK;
    SS_TRY(ss_tune_mark_started(t, &trial));
    return ss_tune_print_next(t, &trial, stdout);
}

/* Lock the folder, so that a second search does not overwrite its results. */
static enum ss_status lock_folder(const char *dir, struct ss_output_locks *locks)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    char path[SS_TUNE_PATH];
    int waiting = 1;
    SS_TRY(ss_folder_make(dir));
    SS_TRY(ss_folder_join(path, sizeof path, dir, ".lock"));
    SS_TRY(ss_output_locks_add(locks, path, "--out"));
    SS_TRY(ss_output_locks_take(locks, &waiting));
    while (waiting) {
        nanosleep(&pause, NULL);
        SS_TRY(ss_output_locks_take(locks, &waiting));
    }
    return ss_output_locks_start_heartbeat(locks);
}

static enum ss_status count_cores(struct ss_tune *t)
{
    struct ss_placement placement;
    t->cores = t->options->cores;
    if (t->cores)
        return SS_OK;
    SS_TRY(ss_placement_decide(0, 0, 0, 1, &placement));
    t->cores = placement.ncores;
    return SS_OK;
}

static enum ss_status prepare(struct ss_tune *t, const struct words *w)
{
    const long ranks = t->options->ranks * t->options->nodes;
    int each;
    SS_TRY(ss_environment_check());
    SS_TRY(ss_train_rank_batch(&t->train, (int)ranks, &each));
    t->batch = each * ranks;
    SS_TRY(count_cores(t));
    SS_TRY(ss_tune_add(t, w->setting, (size_t)w->settings));
    ss_environment_report();
    return SS_OK;
}

static enum ss_status search(struct ss_tune *t, int *code)
{
    int recorded;
    SS_TRY(ss_tune_load(t, &recorded));
    if (recorded)
        ss_tune_print_result(t, stderr);
    if (t->options->next)
        return print_next(t);
    if (!t->options->table)
        SS_TRY(run_all(t, code));
    ss_tune_print_table(t, stdout);
    return ss_tune_write_outputs(t);
}

static enum ss_status tune(struct ss_tune *t, const struct words *w, int *code)
{
    struct ss_output_locks locks = {0};
    SS_TRY(prepare(t, w));
    if (t->options->check) {
        ss_tune_print_plan(t, stdout);
        return SS_OK;
    }
    /* In a job's search, the job script holds the lock. */
    if (t->options->next || t->options->table)
        return search(t, code);
    enum ss_status status = lock_folder(t->options->dir, &locks);
    if (status == SS_OK)
        status = search(t, code);
    ss_output_locks_release(&locks);
    return status;
}

static int parse_and_tune(int argc, char **argv, struct words *w)
{
    struct ss_tune_options o = {0};
    struct ss_tune t = {.options = &o};
    struct ss_recipe *recipe = NULL;
    const struct ss_option_set own[] = {{.rows = rows, .values = &o}, {0}};
    const struct ss_option_set train[] = {ss_train_option_set(&t.train, SS_TRAIN_OF_TRAIN), {0}};
    int ours = 1;
    while (ours < argc && strcmp(argv[ours], "--"))
        ours++;
    w->training = argv + ours;
    w->training_words = argc - ours;
    w->settings = ss_cli_take_words(own, &ours, argv, w->setting);
    int code = ss_options_command(usage, own, ours, argv);
    if (code >= 0)
        return code;
    if (w->training_words < 2) {
        ss_fail(SS_ERR_INVALID, "tune: no training given; put the options of train after --");
        return SS_EXIT_USAGE;
    }
    w->training[0] = (char *)"train";
    code = ss_cli_parse_train(usage, train, w->training_words, w->training, &recipe);
    if (code < 0) {
        code = SS_EXIT_OK;
        enum ss_status status = tune(&t, w, &code);
        if (status != SS_OK)
            code = ss_exit_code(status);
    }
    ss_tune_close(&t);
    ss_recipe_close(recipe);
    return code;
}

int ss_cmd_tune(int argc, char **argv)
{
    struct words w = {.setting = calloc((size_t)argc, sizeof *w.setting)};
    if (!w.setting)
        return ss_exit_code(ss_fail_memory("arguments", (size_t)argc * sizeof *w.setting));
    const int code = parse_and_tune(argc, argv, &w);
    free(w.setting);
    return code;
}
