/* starstep tune: searches for settings that make a training faster on this machine or these
 * nodes. It measures short runs ("trials") in random order: first each setting alone, then the
 * combination of those that were significantly faster than the baseline, in fresh runs.
 *
 * The planner (planner.c) decides from the results so far, which are stored in a folder
 * (results.c), so that an interrupted search resumes. A trial runs on this machine (run_local.c),
 * or a script requests the next trial, runs it and writes its exit code, as slurm/job.sh does. */
#ifndef SS_APPS_TUNE_TUNE_H
#define SS_APPS_TUNE_TUNE_H

#include "core/status.h"
#include "train/options.h"

#include <jansson.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>

struct ss_tune_options {
    const char *dir;
    const char *start; /* shell prefix that starts $RANKS ranks of a command; NULL: default */
    double minutes;    /* total run time of all trials, earlier invocations included */
    double seconds;    /* target duration of a trial's measured steps */
    long rounds, seed;
    long nodes;
    long ranks, cores; /* per node; cores 0: those this process may use */
    int check, next, table;
};

enum {
    SS_TUNE_PATH = 4096,
    SS_TUNE_LABEL = 1024,
    SS_TUNE_SETTINGS = 256,    /* maximum */
    SS_TUNE_MAX_COUNT = 16384, /* of nodes, of ranks per node, of cores */
};

enum ss_tune_kind {
    /* Ranks per node: they share its cores; the global batch size is unchanged. */
    SS_TUNE_RANKS,
    SS_TUNE_OPTION,   /* an option of train */
    SS_TUNE_VARIABLE, /* an environment variable */
};

/* One value of an option, a variable or the number of ranks. */
struct ss_tune_setting {
    enum ss_tune_kind kind;
    char *label; /* NAME=VALUE */
    char *name;
    const char *value; /* points into the label */
};

/* One run of the training with some settings changed. */
struct ss_tune_trial {
    enum ss_tune_stage {
        SS_TUNE_PROBE,    /* the baseline: checks that it runs and measures the step time */
        SS_TUNE_SINGLE,   /* one setting changed */
        SS_TUNE_COMBINED, /* the selected settings together */
        SS_TUNE_STAGES,
    } stage;
    long round;                /* from 1 */
    char label[SS_TUNE_LABEL]; /* labels of its settings, separated by blanks, or one of: */
};
#define SS_TUNE_BASELINE "baseline"
#define SS_TUNE_REPEAT                                                                             \
    "baseline (repeat)" /* the baseline once more in the same round (A/A comparison) */
int ss_tune_is_baseline(const char *label);                   /* settings.c */
extern const char *const ss_tune_stage_names[SS_TUNE_STAGES]; /* results.c */

struct ss_tune_result {
    struct ss_tune_trial trial;
    double rate;    /* images/s over all ranks; 0: the trial failed */
    double seconds; /* wall time, start-up included */
    char *error;    /* NULL: it succeeded */
};

struct ss_tune {
    const struct ss_tune_options *options;
    struct ss_train_options train; /* the baseline's options, a recipe's included */
    long cores;                    /* per node */
    long batch;                    /* global batch size */
    struct ss_tune_setting *settings;
    size_t nsettings;
    struct ss_tune_result *results; /* in the order in which the trials ran */
    size_t nresults;
    sigset_t trial_mask; /* blocked signals of a trial, as this process was started */
};

/* settings.c: add the settings of words such as NAME=VALUE,VALUE... or NAME (its default values);
 * without words, every setting that applies to this device and number of ranks. If a list
 * contains "|", the values are separated by it and may contain commas. Values equal to the
 * baseline's are skipped. Errors: SS_ERR_INVALID (unknown name, invalid value), SS_ERR_MEMORY. */
enum ss_status ss_tune_add(struct ss_tune *t, char *const *word, size_t words);
/* Iterate over the settings of a label; *rest is advanced. NULL at the end. */
const struct ss_tune_setting *ss_tune_next_setting(const struct ss_tune *t, const char **rest);
/* Ranks per node with these settings. */
long ss_tune_ranks(const struct ss_tune *t, const char *label);
void ss_tune_close(struct ss_tune *t);

/* train_args.c: the command line of `starstep train` for a trial of `steps` steps that logs to
 * `log`. The caller frees *out. Errors: SS_ERR_MEMORY. */
struct ss_tune_args {
    char **at; /* NULL-terminated */
    size_t count;
};
enum ss_status ss_tune_train_args(const struct ss_tune *t, const char *label, const char *log,
                                  long steps, struct ss_tune_args *out);
void ss_tune_args_free(struct ss_tune_args *args);
/* The training's options with these settings; texts point into `t`. */
struct ss_train_options ss_tune_train_options(const struct ss_tune *t, const char *label);
/* Per-rank batch size if the baseline was given with one, else 0. */
long ss_tune_rank_batch(const struct ss_tune *t, const char *label);
/* The training with these settings as a recipe (train/recipe.h), without folders. NULL: out of
 * memory. */
json_t *ss_tune_recipe(const struct ss_tune *t, const char *label);

/* results.c: files in the output folder. */
enum ss_tune_file {
    SS_TUNE_RESULTS, /* all results so far */
    SS_TUNE_NEXT,    /* the trial in progress */
    SS_TUNE_LOG,     /* its JSON log */
    SS_TUNE_OUT,     /* its output */
    SS_TUNE_END,     /* its exit code, once it has ended */
};
enum ss_status ss_tune_path(const struct ss_tune *t, enum ss_tune_file file,
                            char out[SS_TUNE_PATH]);
/* Create the folder, or load its results, which must be of the same training and processor. If a
 * script has finished a trial, record it and set *recorded to 1. Errors: SS_ERR_IO,
 * SS_ERR_FORMAT, SS_ERR_MISMATCH, SS_ERR_MEMORY. */
enum ss_status ss_tune_load(struct ss_tune *t, int *recorded);
/* Store the trial that starts now. */
enum ss_status ss_tune_mark_started(const struct ss_tune *t, const struct ss_tune_trial *trial);
/* Record the trial's result. code: exit code as a shell reports it (124, 137: timed out). */
enum ss_status ss_tune_record(struct ss_tune *t, const struct ss_tune_trial *trial, int code,
                              double seconds);

/* mann_whitney.c: exact two-sided p-value of the hypothesis that a and b are samples of the same
 * distribution. H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables
 * is stochastically larger than the other", Annals of Mathematical Statistics 18 (1947). A tie
 * counts half. 1 if a sample is empty. */
double ss_tune_p_value(const double *a, size_t na, const double *b, size_t nb);
#define SS_TUNE_SIGNIFICANCE 0.05
enum { SS_TUNE_MIN_RUNS = 3 }; /* of a setting; fewer cannot be significant */

/* planner.c */
/* Steps of a trial: warm-up, which is not measured, and measured. */
struct ss_tune_steps {
    long warmup, measured;
};
struct ss_tune_steps ss_tune_steps(const struct ss_tune *t, enum ss_tune_stage stage);
/* The trial to run next; returns 0 when the search has ended. */
int ss_tune_next_trial(const struct ss_tune *t, struct ss_tune_trial *out);
/* Wall time of all trials, in seconds. */
double ss_tune_elapsed(const struct ss_tune *t);
/* Timeout of a trial, in seconds. */
double ss_tune_deadline(const struct ss_tune *t);
/* A label's successful runs in a stage, compared with the baseline's (with its repeats) in the
 * same stage. */
struct ss_tune_comparison {
    size_t runs;
    double median, least, most; /* images/s; NAN without runs */
    double ratio, p_value;
    const char *error; /* of its last failed trial; NULL: none failed */
};
struct ss_tune_comparison ss_tune_compare(const struct ss_tune *t, enum ss_tune_stage stage,
                                          const char *label);
/* The settings that were significantly faster alone, the best value of each name, and the fastest
 * one of them; empty if there are none. */
void ss_tune_select(const struct ss_tune *t, char all[SS_TUNE_LABEL], char best[SS_TUNE_LABEL]);
/* Store the label that was significantly faster in the combined stage. Returns 0 if neither was. */
int ss_tune_best(const struct ss_tune *t, char label[SS_TUNE_LABEL]);

/* run_local.c. Call before the first trial. Afterwards a termination signal ends the running
 * trial or, between two trials, the next one. It never interrupts this process while it records a
 * result. */
void ss_tune_block_signals(struct ss_tune *t);
/* Run a trial on this machine and record it. *interrupted: this process received a signal; the
 * trial was terminated and not recorded. Errors: SS_ERR_IO, those of ss_tune_record. */
enum ss_status ss_tune_run_local(struct ss_tune *t, const struct ss_tune_trial *trial,
                                 int *interrupted);

/* tune_report.c */
/* Bash assignments: ranks (per node), cores (per rank), deadline (seconds), environment, options,
 * output, end. */
enum ss_status ss_tune_print_next(const struct ss_tune *t, const struct ss_tune_trial *trial,
                                  FILE *out);
void ss_tune_print_plan(const struct ss_tune *t, FILE *out);
/* One line about the newest result. */
void ss_tune_print_result(const struct ss_tune *t, FILE *out);
void ss_tune_print_table(const struct ss_tune *t, FILE *out);

/* outputs.c: write table.txt and, if a better configuration was found, recipe.json and
 * tuned.conf. */
enum ss_status ss_tune_write_outputs(const struct ss_tune *t);

#endif
