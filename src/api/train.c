/* train.c: ss_train and ss_eval (contract in starstep.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif

#include "api/openmp_places.h"
#include "api/starstep.h"
#include "comm/comm.h"
#include "core/log.h"
#include "train/command.h"
#include "train/epoch.h"
#include "train/recipe.h"
#include "train/stop.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 12 }; /* upper limit of a result's size: detects an uninitialized size */

const char *ss_version(void)
{
    return PACKAGE_VERSION;
}

struct call {
    ss_epoch_function on_epoch;
    void *user;
    struct ss_train_result result;
    double images;
};

static double mean(double sum, double count)
{
    return count > 0 ? sum / count : NAN;
}

static int end_of_epoch(const struct ss_epoch *e, void *arg)
{
    struct call *c = arg;
    struct ss_train_result *r = &c->result;
    const struct ss_metrics *v = &e->validation;
    const struct ss_epoch_result result = {.size = sizeof result,
                                           .epoch = e->epoch,
                                           .epochs = e->epochs,
                                           .steps = (int64_t)e->step,
                                           .learning_rate = e->lr,
                                           .train_loss = e->train_loss,
                                           .train_accuracy = mean(e->train.correct, e->train.count),
                                           .val_loss = mean(v->loss, v->count),
                                           .val_accuracy = mean(v->correct, v->count),
                                           .val_top5 = mean(v->top5, v->count),
                                           .seconds = e->train_s,
                                           .images_per_s = ss_epoch_train_rate(e)};
    r->epochs = result.epoch;
    r->steps = result.steps;
    r->train_loss = result.train_loss;
    r->train_accuracy = result.train_accuracy;
    r->val_loss = result.val_loss;
    r->val_accuracy = result.val_accuracy;
    r->val_top5 = result.val_top5;
    r->seconds += e->train_s;
    c->images += e->images;
    r->images_per_s = mean(c->images, r->seconds);
    return c->on_epoch ? c->on_epoch(&result, c->user) : 0;
}

/* Returns {command, options..., NULL}; the caller frees it. */
static char **arguments(const char *command, const char *const options[], int *count)
{
    int n = 0;
    while (options && options[n])
        n++;
    char **argv = calloc((size_t)n + 2, sizeof *argv);
    if (!argv) {
        ss_fail_memory("options", ((size_t)n + 2) * sizeof *argv);
        return NULL;
    }
    argv[0] = (char *)command;
    for (int i = 0; i < n; i++)
        argv[i + 1] = (char *)options[i];
    *count = n + 1;
    return argv;
}

static enum ss_status parse_and_run(const struct ss_train_command *command, int argc, char **argv,
                                    const struct ss_train_callbacks *callbacks)
{
    struct ss_train_options o;
    const struct ss_option_set sets[] = {ss_train_option_set(&o, command->groups), {0}};
    struct ss_recipe *recipe;
    SS_TRY(ss_recipe_parse(sets, argc, argv, &recipe));
    enum ss_status status = ss_train_command_run(command, &o, callbacks);
    ss_recipe_close(recipe);
    return status;
}

/* Runs the command, then restores the signal handlers. */
static enum ss_status run(const struct ss_train_command *command, const char *const options[],
                          const struct ss_train_callbacks *callbacks)
{
    struct sigaction saved[SS_STOP_SIGNALS], saved_pipe; /* signals whose handlers a run changes */
    int argc;
    char **argv = arguments(command->name, options, &argc);
    if (!argv)
        return SS_ERR_MEMORY;
    for (int i = 0; i < SS_STOP_SIGNALS; i++)
        sigaction(ss_stop_signals[i], NULL, &saved[i]);
    sigaction(SIGPIPE, NULL, &saved_pipe);
    ss_openmp_places_note();
    ss_comm_stay();
    enum ss_status status = parse_and_run(command, argc, argv, callbacks);
    for (int i = 0; i < SS_STOP_SIGNALS; i++)
        sigaction(ss_stop_signals[i], &saved[i], NULL);
    sigaction(SIGPIPE, &saved_pipe, NULL);
    free(argv);
    return status;
}

static enum ss_status check_size(size_t size, size_t least, const char *what)
{
    if (size >= least && size <= MOST_BYTES)
        return SS_OK;
    return ss_fail(SS_ERR_INVALID, "%s: its result's size is %zu; set it to sizeof of the struct",
                   what, size);
}

/* Copies as much as the caller's struct can hold; members unknown to this library are set to 0. */
static void give(void *result, size_t size, const void *from, size_t have)
{
    memset(result, 0, size);
    memcpy(result, from, size < have ? size : have);
    memcpy(result, &size, sizeof size);
}

enum ss_status ss_train(const char *const options[], ss_epoch_function on_epoch, void *user,
                        struct ss_train_result *result)
{
    struct call c = {.on_epoch = on_epoch,
                     .user = user,
                     .result = {.train_loss = NAN,
                                .train_accuracy = NAN,
                                .val_loss = NAN,
                                .val_accuracy = NAN,
                                .val_top5 = NAN}};
    const struct ss_train_callbacks callbacks = {.epoch = end_of_epoch, .arg = &c};
    if (result)
        SS_TRY(check_size(result->size, sizeof *result, "ss_train"));
    SS_TRY(run(&ss_train_command, options, &callbacks));
    if (result)
        give(result, result->size, &c.result, sizeof c.result);
    return SS_OK;
}

enum ss_status ss_eval(const char *const options[], struct ss_eval_result *result)
{
    struct ss_metrics m = {0};
    const struct ss_train_callbacks callbacks = {.evaluation = &m};
    if (result)
        SS_TRY(check_size(result->size, sizeof *result, "ss_eval"));
    SS_TRY(run(&ss_eval_command, options, &callbacks));
    const struct ss_eval_result r = {.images = (int64_t)m.count,
                                     .loss = mean(m.loss, m.count),
                                     .accuracy = mean(m.correct, m.count),
                                     .top5 = mean(m.top5, m.count)};
    if (result)
        give(result, result->size, &r, sizeof r);
    return SS_OK;
}
