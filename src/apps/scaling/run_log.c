#include "apps/scaling/run_log.h"
#include "core/log.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path, *event;
    long line;
    int started, ended;
    struct ss_run_log start; /* values of the last "start" event */
    struct ss_run_log *log;  /* as of the last epoch */
    long from, first, last;  /* minimum timed step; the first and last such step reported */
    double first_s, last_s;
};

static enum ss_status fail_field(const struct reader *r, const char *key, const json_t *value,
                                 const char *want)
{
    if (!value)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: line %ld: event \"%s\" has no \"%s\"; was it written by an older "
                       "starstep train?",
                       r->path, r->line, r->event, key);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    ss_fail(SS_ERR_FORMAT, "%s: line %ld: event \"%s\": %s: %.60s is not %s", r->path, r->line,
            r->event, key, text ? text : "?", want);
    free(text);
    return SS_ERR_FORMAT;
}

static enum ss_status get_text(const struct reader *r, const json_t *o, const char *key,
                               char out[SS_RUN_TEXT])
{
    const json_t *value = json_object_get(o, key);
    const char *text = json_string_value(value);
    if (!text || strlen(text) >= SS_RUN_TEXT)
        return fail_field(r, key, value, "a text of at most 63 characters");
    snprintf(out, SS_RUN_TEXT, "%s", text);
    return SS_OK;
}

static enum ss_status get_count(const struct reader *r, const json_t *o, const char *key, long *out)
{
    const json_t *value = json_object_get(o, key);
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 1 || n > 1000000000000)
        return fail_field(r, key, value, "a whole number above 0");
    *out = (long)n;
    return SS_OK;
}

/* null, which represents a non-finite value, becomes NAN. */
static enum ss_status get_number(const struct reader *r, const json_t *o, const char *key,
                                 double least, double *out)
{
    const json_t *value = json_object_get(o, key);
    double n = json_is_null(value) ? NAN : json_number_value(value);
    if (!(json_is_number(value) || json_is_null(value)) || n < least)
        return fail_field(r, key, value, least > 0 ? "a number above 0" : "a number");
    *out = n;
    return SS_OK;
}

static enum ss_status get_rate(const struct reader *r, const json_t *o, const char *key,
                               double *out)
{
    SS_TRY(get_number(r, o, key, 1e-30, out));
    return isnan(*out) ? fail_field(r, key, json_object_get(o, key), "a number above 0") : SS_OK;
}

/* Older logs have square images and no height. */
static enum ss_status get_size(const struct reader *r, const json_t *o, struct ss_size *out)
{
    long width, height;
    SS_TRY(get_count(r, o, "image_size", &width));
    height = width;
    if (json_object_get(o, "image_height"))
        SS_TRY(get_count(r, o, "image_height", &height));
    if (width > INT_MAX || height > INT_MAX)
        return fail_field(r, "image_size", json_object_get(o, "image_size"), "a number of pixels");
    *out = (struct ss_size){(int)height, (int)width};
    return SS_OK;
}

static enum ss_status read_start(struct reader *r, const json_t *o)
{
    struct ss_run_log *log = &r->start;
    SS_TRY(get_text(r, o, "model", log->model));
    SS_TRY(get_text(r, o, "width", log->width));
    SS_TRY(get_text(r, o, "precision", log->precision));
    SS_TRY(get_text(r, o, "device", log->device));
    SS_TRY(get_count(r, o, "ranks", &log->ranks));
    SS_TRY(get_count(r, o, "nodes", &log->nodes));
    SS_TRY(get_count(r, o, "batch", &log->batch));
    SS_TRY(get_size(r, o, &log->image_size));
    SS_TRY(get_count(r, o, "images", &log->images));
    if (log->nodes > log->ranks)
        return fail_field(r, "nodes", json_object_get(o, "nodes"), "at most the number of ranks");
    if (log->batch % log->ranks)
        return fail_field(r, "batch", json_object_get(o, "batch"),
                          "a multiple of the number of ranks");
    r->started = 1;
    r->ended = 0;
    return SS_OK;
}

static enum ss_status read_epoch(struct reader *r, const json_t *o)
{
    struct ss_run_log *log = r->log;
    if (!r->started)
        return ss_fail(SS_ERR_FORMAT, "%s: line %ld: event \"epoch\" before any \"start\"", r->path,
                       r->line);
    *log = r->start;
    SS_TRY(get_count(r, o, "epoch", &log->epoch));
    SS_TRY(get_number(r, o, "train_loss", -INFINITY, &log->train_loss));
    SS_TRY(get_number(r, o, "train_accuracy", 0, &log->train_accuracy));
    SS_TRY(get_rate(r, o, "images_per_s", &log->rate));
    return get_rate(r, o, "images_per_s_with_validation", &log->rate_with_validation);
}

static enum ss_status read_step(struct reader *r, const json_t *o)
{
    long step;
    double time;
    SS_TRY(get_count(r, o, "step", &step));
    SS_TRY(get_number(r, o, "time", 0, &time));
    if (step < r->from)
        return SS_OK;
    if (!r->first) {
        r->first = step;
        r->first_s = time;
    }
    r->last = step;
    r->last_s = time;
    return SS_OK;
}

static enum ss_status read_object(struct reader *r, const json_t *o)
{
    r->event = json_string_value(json_object_get(o, "event"));
    if (!r->event)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: line %ld: no \"event\"; not a log of starstep train --log-json",
                       r->path, r->line);
    if (!strcmp(r->event, "start"))
        return read_start(r, o);
    if (!strcmp(r->event, "epoch"))
        return read_epoch(r, o);
    if (r->from && !strcmp(r->event, "step"))
        return read_step(r, o);
    if (!strcmp(r->event, "end"))
        r->ended = 1;
    return SS_OK;
}

static enum ss_status read_line(struct reader *r, const char *line, size_t bytes)
{
    json_error_t error;
    json_t *o = json_loadb(line, bytes, 0, &error);
    if (!o)
        return ss_fail(SS_ERR_FORMAT, "%s: line %ld: not JSON: %s", r->path, r->line, error.text);
    enum ss_status status = read_object(r, o);
    json_decref(o);
    return status;
}

static enum ss_status read_lines(struct reader *r, FILE *f)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    enum ss_status status = SS_OK;
    while (status == SS_OK && (n = getline(&line, &capacity, f)) > 0 && line[n - 1] == '\n') {
        r->line++;
        status = read_line(r, line, (size_t)n);
    }
    free(line);
    if (status == SS_OK && ferror(f))
        return ss_fail(SS_ERR_IO, "%s: cannot read: %s", r->path, strerror(errno));
    return status;
}

/* Read at least the "start" event. */
static enum ss_status read_file(struct reader *r)
{
    FILE *f = fopen(r->path, "r");
    if (!f)
        return ss_fail(SS_ERR_IO, "%s: %s", r->path, strerror(errno));
    enum ss_status status = read_lines(r, f);
    fclose(f);
    SS_TRY(status);
    return r->started
               ? SS_OK
               : ss_fail(SS_ERR_FORMAT,
                         "%s: no event \"start\"; not a log of starstep train --log-json", r->path);
}

enum ss_status ss_run_log_read(const char *path, struct ss_run_log *out)
{
    struct ss_run_log log = {0};
    struct reader r = {.path = path, .log = &log};
    SS_TRY(read_file(&r));
    if (!log.epoch)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: no event \"epoch\" in %ld lines: the run ended or is still in its "
                       "first epoch",
                       path, r.line);
    if (strlen(path) >= sizeof log.path)
        return ss_fail(SS_ERR_INVALID, "%.80s...: the file's name is too long", path);
    snprintf(log.path, sizeof log.path, "%s", path);
    log.ended = r.ended;
    *out = log;
    return SS_OK;
}

enum ss_status ss_run_log_rate(const char *path, long warmup, double *out)
{
    struct ss_run_log log = {0};
    struct reader r = {.path = path, .log = &log, .from = warmup};
    SS_TRY(read_file(&r));
    if (r.last <= r.first || !(r.last_s > r.first_s))
        return ss_fail(SS_ERR_FORMAT, "%s: fewer than two steps from step %ld on", path, warmup);
    *out = (double)(r.last - r.first) * (double)r.start.batch / (r.last_s - r.first_s);
    return SS_OK;
}

int ss_run_log_is(const char *path)
{
    char begin[10] = "";
    FILE *f = fopen(path, "r");
    if (!f)
        return 1;
    size_t n = fread(begin, 1, sizeof begin - 1, f);
    fclose(f);
    begin[n] = '\0';
    return !strcmp(begin, "{\"event\":");
}
