/* results.c: the results of trials, stored in the output folder (interface in tune.h). */
#include "core/folder.h"
#include "core/json_file.h"
#include "core/json_value.h"
#include "core/log.h"
#include "apps/scaling/run_log.h"
#include "apps/tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 1 << 22, ERROR_CAPACITY = 256 };

const char *const ss_tune_stage_names[SS_TUNE_STAGES] = {
    [SS_TUNE_PROBE] = "probe", [SS_TUNE_SINGLE] = "single", [SS_TUNE_COMBINED] = "combined"};

enum ss_status ss_tune_path(const struct ss_tune *t, enum ss_tune_file file, char out[SS_TUNE_PATH])
{
    static const char *const names[] = {[SS_TUNE_RESULTS] = "results.json",
                                        [SS_TUNE_NEXT] = "next.json",
                                        [SS_TUNE_LOG] = "next.log",
                                        [SS_TUNE_OUT] = "next.out",
                                        [SS_TUNE_END] = "next.end"};
    return ss_folder_join(out, SS_TUNE_PATH, t->options->dir, names[file]);
}

/* ---- identity of the training ----------------------------------------------------------- */

static json_t *processor(void)
{
    char line[512], *colon = NULL;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && !colon && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) || !strncmp(line, "CPU part", 8))
            colon = strchr(line, ':');
    if (f)
        fclose(f);
    if (!colon)
        return json_string("unknown");
    line[strcspn(line, "\n")] = '\0';
    return ss_json_text(colon + 1 + (colon[1] == ' '));
}

/* Describe the training and the machine. Results are comparable only if both are equal. NULL: out
 * of memory. */
static json_t *describe(const struct ss_tune *t)
{
    json_t *o = ss_tune_recipe(t, SS_TUNE_BASELINE);
    if (t->train.data_dir)
        ss_json_set(&o, "data-dir", ss_json_text(t->train.data_dir));
    ss_json_set(&o, "ranks", json_integer(t->options->ranks));
    ss_json_set(&o, "nodes", json_integer(t->options->nodes));
    ss_json_set(&o, "cores", json_integer(t->cores));
    ss_json_set(&o, "processor", processor());
    return o;
}

static enum ss_status fail_mismatch(const char *path, const char *key, const json_t *was,
                                    const json_t *is)
{
    char *text[2] = {was ? json_dumps(was, JSON_ENCODE_ANY | JSON_COMPACT) : strdup("unset"),
                     is ? json_dumps(is, JSON_ENCODE_ANY | JSON_COMPACT) : strdup("unset")};
    ss_fail(SS_ERR_MISMATCH,
            "%s: results of a different training: %s was %.80s and is now %.80s; use another --out",
            path, key, text[0] ? text[0] : "?", text[1] ? text[1] : "?");
    free(text[0]);
    free(text[1]);
    return SS_ERR_MISMATCH;
}

static enum ss_status check_same(const char *path, const json_t *there, json_t *here)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)there, key, value)
    {
        if (!json_equal(json_object_get(here, key), value))
            return fail_mismatch(path, key, value, json_object_get(here, key));
    }
    json_object_foreach(here, key, value)
    {
        if (!json_object_get(there, key))
            return fail_mismatch(path, key, NULL, value);
    }
    return SS_OK;
}

/* ---- one result ------------------------------------------------------------------------------ */

static json_t *trial_json(const struct ss_tune_trial *trial)
{
    json_t *o = json_object();
    ss_json_set(&o, "stage", json_string(ss_tune_stage_names[trial->stage]));
    ss_json_set(&o, "round", json_integer(trial->round));
    ss_json_set(&o, "setting", ss_json_text(trial->label));
    return o;
}

static json_t *result_json(const struct ss_tune_result *result)
{
    json_t *o = trial_json(&result->trial);
    if (result->error)
        ss_json_set(&o, "error", ss_json_text(result->error));
    else
        ss_json_set(&o, "images_per_s", ss_json_number(result->rate));
    ss_json_set(&o, "seconds", ss_json_number(result->seconds));
    return o;
}

static enum ss_status read_trial(const char *path, const json_t *o, struct ss_tune_trial *out)
{
    const char *stage = json_string_value(json_object_get(o, "stage"));
    const char *label = json_string_value(json_object_get(o, "setting"));
    const json_int_t round = json_integer_value(json_object_get(o, "round"));
    int i = 0;
    while (i < SS_TUNE_STAGES && (!stage || strcmp(stage, ss_tune_stage_names[i])))
        i++;
    if (i == SS_TUNE_STAGES || !label || strlen(label) >= SS_TUNE_LABEL || round < 1 ||
        round > 1 << 20)
        return ss_fail(
            SS_ERR_FORMAT,
            "%s: invalid \"stage\", \"round\" or \"setting\"; remove the file to start over", path);
    *out = (struct ss_tune_trial){.stage = (enum ss_tune_stage)i, .round = (long)round};
    snprintf(out->label, sizeof out->label, "%s", label);
    return SS_OK;
}

static enum ss_status add_result(struct ss_tune *t, const struct ss_tune_result *result)
{
    struct ss_tune_result *more = realloc(t->results, (t->nresults + 1) * sizeof *more);
    if (!more)
        return ss_fail_memory("results", (t->nresults + 1) * sizeof *more);
    t->results = more;
    t->results[t->nresults++] = *result;
    return SS_OK;
}

static enum ss_status read_result(struct ss_tune *t, const char *path, const json_t *o)
{
    struct ss_tune_result result = {.rate = json_number_value(json_object_get(o, "images_per_s")),
                                    .seconds = json_number_value(json_object_get(o, "seconds"))};
    const char *failed = json_string_value(json_object_get(o, "error"));
    SS_TRY(read_trial(path, o, &result.trial));
    if (result.seconds < 0 || (!failed && !(result.rate > 0)))
        return ss_fail(
            SS_ERR_FORMAT,
            "%s: setting %s: neither \"images_per_s\" nor \"error\"; remove the file to start over",
            path, result.trial.label);
    if (failed && !(result.error = strdup(failed)))
        return ss_fail_memory("a result", strlen(failed));
    enum ss_status status = add_result(t, &result);
    if (status != SS_OK)
        free(result.error);
    return status;
}

static enum ss_status save(const struct ss_tune *t)
{
    char path[SS_TUNE_PATH];
    json_t *all = json_object(), *list = json_array();
    SS_TRY(ss_tune_path(t, SS_TUNE_RESULTS, path));
    for (size_t i = 0; i < t->nresults; i++)
        ss_json_append(&list, result_json(&t->results[i]));
    ss_json_set(&all, "training", describe(t));
    ss_json_set(&all, "results", list);
    return ss_json_save(all, path);
}

/* ---- outcome of a trial ---------------------------------------------------------------------- */

/* An empty line, or a launcher's report that its ranks failed. */
static int is_noise(const char *line)
{
    return !line[strspn(line, " \t")] || !strncmp(line, "srun: ", 6) ||
           !strncmp(line, "slurmstepd", 10);
}

/* Find the first error of starstep, else the first line of Open MPI's first message, which is
 * enclosed by lines of dashes, else the last line. */
static void find_error(const char *path, int code, char error[ERROR_CAPACITY])
{
    static const char prefix[] = "starstep: error: ", dashes[] = "-----";
    char line[1024];
    const char *own = NULL;
    int boxed = 0,
        found = 0; /* the previous line consisted of dashes; a message's first line was found */
    FILE *f = fopen(path, "r");
    snprintf(error, ERROR_CAPACITY, "exit code %d", code);
    while (f && !own && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = '\0';
        own = strstr(line, prefix);
        if (own || (!found && !is_noise(line) && strncmp(line, dashes, sizeof dashes - 1)))
            snprintf(error, ERROR_CAPACITY, "%.*s", ERROR_CAPACITY - 1,
                     own ? own + strlen(prefix) : line);
        found |= boxed && !is_noise(line);
        boxed = !strncmp(line, dashes, sizeof dashes - 1);
    }
    if (f)
        fclose(f);
}

static enum ss_status measure(const struct ss_tune *t, struct ss_tune_result *result, int code)
{
    char log[SS_TUNE_PATH], out[SS_TUNE_PATH], error[ERROR_CAPACITY], captured[1024];
    const struct ss_tune_steps steps = ss_tune_steps(t, result->trial.stage);
    SS_TRY(ss_tune_path(t, SS_TUNE_LOG, log));
    SS_TRY(ss_tune_path(t, SS_TUNE_OUT, out));
    if (code == 124 || code == 137) {
        snprintf(error, sizeof error, "timed out after %.0f s", result->seconds);
    } else if (code) {
        find_error(out, code, error);
    } else {
        ss_log_capture(captured, sizeof captured);
        enum ss_status status = ss_run_log_rate(log, steps.warmup, &result->rate);
        ss_log_capture(NULL, 0);
        if (status == SS_OK)
            return SS_OK;
        snprintf(error, sizeof error, "%.*s", ERROR_CAPACITY - 1, captured);
    }
    result->rate = 0;
    result->error = strdup(error);
    return result->error ? SS_OK : ss_fail_memory("a result", sizeof error);
}

/* Remove the files of the trial in progress; retain the output of a failed trial. */
static void remove_trial_files(const struct ss_tune *t, const struct ss_tune_result *result)
{
    char path[SS_TUNE_PATH], kept[SS_TUNE_PATH], name[64];
    snprintf(name, sizeof name, "failed-%zu.out", t->nresults);
    if (result && result->error && ss_tune_path(t, SS_TUNE_OUT, path) == SS_OK &&
        ss_folder_join(kept, sizeof kept, t->options->dir, name) == SS_OK)
        (void)rename(path, kept);
    for (int i = SS_TUNE_NEXT; i <= SS_TUNE_END; i++)
        if (ss_tune_path(t, (enum ss_tune_file)i, path) == SS_OK)
            (void)unlink(path);
}

enum ss_status ss_tune_mark_started(const struct ss_tune *t, const struct ss_tune_trial *trial)
{
    char path[SS_TUNE_PATH];
    remove_trial_files(t, NULL);
    SS_TRY(ss_tune_path(t, SS_TUNE_NEXT, path));
    return ss_json_save(trial_json(trial), path);
}

enum ss_status ss_tune_record(struct ss_tune *t, const struct ss_tune_trial *trial, int code,
                              double seconds)
{
    struct ss_tune_result result = {.trial = *trial, .seconds = seconds};
    SS_TRY(measure(t, &result, code));
    enum ss_status status = add_result(t, &result);
    if (status != SS_OK) {
        free(result.error);
        return status;
    }
    SS_TRY(save(t));
    remove_trial_files(t, &result);
    return SS_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

static double seconds_between(const struct stat *a, const struct stat *b)
{
    return (double)(b->st_mtim.tv_sec - a->st_mtim.tv_sec) +
           1e-9 * (double)(b->st_mtim.tv_nsec - a->st_mtim.tv_nsec);
}

/* Record the trial that a script has run. */
static enum ss_status record_finished(struct ss_tune *t, int *recorded)
{
    char next[SS_TUNE_PATH], end[SS_TUNE_PATH];
    struct stat begun, ended;
    int code;
    json_t *o;
    struct ss_tune_trial trial;
    SS_TRY(ss_tune_path(t, SS_TUNE_NEXT, next));
    SS_TRY(ss_tune_path(t, SS_TUNE_END, end));
    FILE *f = fopen(end, "r");
    if (!f)
        return SS_OK; /* an interrupted trial is repeated */
    const int read = fscanf(f, "%d", &code);
    fclose(f);
    if (read != 1 || stat(next, &begun) || stat(end, &ended))
        return ss_fail(
            SS_ERR_FORMAT,
            "%s: contains no exit code, or next.json is missing; remove it to repeat the trial",
            end);
    SS_TRY(ss_json_load("--out", next, "trial", MAX_FILE_BYTES, &o));
    enum ss_status status = read_trial(next, o, &trial);
    json_decref(o);
    SS_TRY(status);
    SS_TRY(ss_tune_record(t, &trial, code, fmax(0, seconds_between(&begun, &ended))));
    *recorded = 1;
    return SS_OK;
}

static enum ss_status read_all(struct ss_tune *t, const char *path, const json_t *all)
{
    const json_t *of = json_object_get(all, "training"), *list = json_object_get(all, "results"),
                 *o;
    size_t i;
    if (!json_is_object(of) || !json_is_array(list))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: not written by starstep tune: no \"training\" or \"results\"", path);
    json_t *here = describe(t);
    enum ss_status status =
        here ? check_same(path, of, here) : ss_fail_memory("results", sizeof here);
    json_decref(here);
    SS_TRY(status);
    json_array_foreach(list, i, o) SS_TRY(read_result(t, path, o));
    return SS_OK;
}

enum ss_status ss_tune_load(struct ss_tune *t, int *recorded)
{
    char path[SS_TUNE_PATH];
    json_t *all;
    *recorded = 0;
    SS_TRY(ss_folder_make(t->options->dir));
    SS_TRY(ss_tune_path(t, SS_TUNE_RESULTS, path));
    if (access(path, F_OK) != 0) {
        remove_trial_files(t, NULL);
        return save(t);
    }
    SS_TRY(ss_json_load("--out", path, "results file", MAX_FILE_BYTES, &all));
    enum ss_status status = read_all(t, path, all);
    json_decref(all);
    SS_TRY(status);
    return record_finished(t, recorded);
}
