#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "runtime/environment.h"
#include "core/folder.h"
#include "core/log.h"
#include "runtime/model_files.h"
#include "runtime/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* StarPU schedulers that run tasks bound to single workers. Several modular schedulers wait
 * forever for a worker that may not run a task; others require measured models, or abort. */
static const char *const schedulers[] = {"prio", "eager", "lws",   "ws",    "random", "dm",
                                         "dmda", "dmdap", "dmdar", "dmdas", "dmdasd", NULL};
static const char scheduler_names[] =
    "prio (the default), eager, lws, ws, random, dm, dmda, dmdap, dmdar, dmdas and dmdasd";

enum { NOTES = 8, NOTE_BYTES = 512 };

static char note[NOTES][NOTE_BYTES];
static int notes;

void ss_environment_ignore(const char *setting, const char *advice)
{
    if (notes < NOTES)
        snprintf(note[notes++], NOTE_BYTES, "%.200s is ignored: %s", setting, advice);
}

void ss_environment_report(void)
{
    for (int i = 0; i < notes; i++)
        ss_warn("%s", note[i]);
    notes = 0;
}

const char *ss_environment_note(int i)
{
    return i < notes ? note[i] : NULL;
}

static int is_number(const char *value)
{
    char *end;
    (void)strtol(value, &end, 10);
    return end != value && !*end;
}

/* Sites define variables of their own, such as STARPU_ROOT: only likely typing mistakes are
 * reported. */
static void check_name(const char *setting, size_t length)
{
    char name[64], advice[128];
    snprintf(name, sizeof name, "%.*s", (int)length, setting);
    const char *nearest = ss_variable_nearest(name);
    if (!nearest)
        return;
    snprintf(advice, sizeof advice, "StarPU has no such variable; did you mean %s?", nearest);
    ss_environment_ignore(setting, advice);
}

/* Checks "STARPU_NAME=VALUE", before starstep sets its own variables. */
static enum ss_status check(const char *setting)
{
    const size_t length = strcspn(setting, "=");
    const char *value = setting + length + (setting[length] == '=');
    const struct ss_variable *v = ss_variable_find(setting, length);
    if (!v)
        check_name(setting, length);
    if (!v || v->use == SS_VARIABLE_ACTS)
        return SS_OK;
    if (v->use == SS_VARIABLE_NUMBER && !is_number(value))
        return ss_fail(SS_ERR_INVALID, "%.*s: \"%.80s\" is not a whole number; correct or unset it",
                       (int)length, setting, value);
    if (v->use == SS_VARIABLE_NUMBER || (v->value && !strcmp(value, v->value)))
        return SS_OK;
    return ss_fail(SS_ERR_INVALID, "%.200s: %s; unset it", setting, v->why);
}

static enum ss_status check_scheduler(void)
{
    const char *name = getenv("STARPU_SCHED");
    if (!name)
        return SS_OK;
    if (!*name) {
        unsetenv("STARPU_SCHED"); /* otherwise StarPU selects a scheduler itself */
        return SS_OK;
    }
    for (int i = 0; schedulers[i]; i++)
        if (!strcmp(name, schedulers[i]))
            return SS_OK;
    return ss_fail(SS_ERR_INVALID,
                   "STARPU_SCHED: \"%.80s\" is not a supported scheduler; supported: %s", name,
                   scheduler_names);
}

enum ss_status ss_environment_check(void)
{
    for (char **e = environ; *e; e++)
        if (!strncmp(*e, "STARPU_", 7))
            SS_TRY(check(*e));
    return check_scheduler();
}

static enum ss_status make_trace_folder(void)
{
    const char *wish = getenv("STARPU_FXT_TRACE"), *folder = getenv("STARPU_FXT_PREFIX");
    char why[512];
    if (!wish || strtol(wish, NULL, 10) <= 0 || !folder)
        return SS_OK;
    ss_log_capture(why, sizeof why);
    enum ss_status status = ss_folder_make(folder);
    ss_log_capture(NULL, 0);
    return status == SS_OK ? SS_OK : ss_fail(status, "STARPU_FXT_PREFIX: %s", why);
}

static void set_ours(void)
{
    for (const struct ss_variable *v = ss_variables; v->name; v++)
        if (v->use == SS_VARIABLE_SET)
            setenv(v->name, v->value, 1);
    setenv("STARPU_SILENT", "1", 0);
    /* A rank has one GPU, with any index on its node: all GPUs share the same models. */
    setenv("STARPU_PERF_MODEL_HOMOGENEOUS_CUDA", "1", 0);
}

enum ss_status ss_environment_prepare(void)
{
    static int prepared;
    if (prepared)
        return SS_OK;
    SS_TRY(ss_environment_check());
    SS_TRY(make_trace_folder());
    SS_TRY(ss_model_files_choose());
    set_ours();
    prepared = 1;
    return SS_OK;
}
