/* read_object.c: reads the lines that are objects (format.h). */
#include "trace/format.h"
#include "trace/read_internal.h"

#include <limits.h>
#include <string.h>

static enum ss_status get_number(const struct reader *in, const json_t *o, const char *key,
                                 int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = json_object_get(o, key);
    if (!value)
        return reader_fail(in, "%s is missing", key);
    return reader_number(in, key, value, min, max, out);
}

static enum ss_status get_int(const struct reader *in, const json_t *o, const char *key, int min,
                              int max, int *out)
{
    int64_t value;
    SS_TRY(get_number(in, o, key, min, max, &value));
    *out = (int)value;
    return SS_OK;
}

static enum ss_status get_flag(const struct reader *in, const json_t *o, const char *key, int *out)
{
    const json_t *value = json_object_get(o, key);
    if (!json_is_boolean(value))
        return reader_fail(in, "%s: %s is not true or false", key, reader_show(value));
    *out = json_is_true(value);
    return SS_OK;
}

static enum ss_status check_text(const struct reader *in, const char *field, const json_t *value,
                                 size_t capacity, char *out)
{
    const char *text = json_string_value(value);
    if (!text)
        return reader_fail(in, "%s: %s is not a string", field, reader_show(value));
    if (strlen(text) >= capacity)
        return reader_fail(in, "%s: %s is longer than %zu bytes", field, reader_show(value),
                           capacity - 1);
    for (size_t i = 0; i <= strlen(text); i++) /* removes terminal control characters */
        out[i] = text[i] && ((unsigned char)text[i] < 32 || text[i] == 127) ? '?' : text[i];
    return SS_OK;
}

static enum ss_status get_text(const struct reader *in, const json_t *o, const char *key,
                               size_t capacity, char *out)
{
    return check_text(in, key, json_object_get(o, key), capacity, out);
}

/* Check the numbering: workers, tasks and buckets are numbered from 0, one line each. */
static enum ss_status check_next(const struct reader *in, const json_t *o, const char *key,
                                 size_t next)
{
    int64_t number;
    SS_TRY(get_number(in, o, key, 0, READER_MAX, &number));
    if ((size_t)number != next)
        return reader_fail(in, "%s: %lld where %zu is next", key, (long long)number, next);
    return SS_OK;
}

static enum ss_status read_header(struct reader *in, const json_t *o)
{
    struct ss_trace_rank *r = in->r;
    int64_t version;
    char device[SS_TRACE_TEXT];
    const char *format = json_string_value(json_object_get(o, "trace"));
    if (!format || strcmp(format, "starstep"))
        return reader_fail(in, "not a trace: trace is %s, not \"starstep\"",
                           reader_show(json_object_get(o, "trace")));
    SS_TRY(get_number(in, o, "version", 0, INT_MAX, &version));
    if (version != SS_TRACE_VERSION) {
        reader_fail(in, "version %d of the trace format; this program reads version %d",
                    (int)version, SS_TRACE_VERSION);
        return SS_ERR_UNSUPPORTED;
    }
    SS_TRY(get_int(in, o, "ranks", 1, SS_TRACE_MAX_RANKS, &r->ranks));
    SS_TRY(get_int(in, o, "rank", 0, r->ranks - 1, &r->rank));
    SS_TRY(get_text(in, o, "host", sizeof r->host, r->host));
    SS_TRY(get_text(in, o, "device", sizeof device, device));
    r->cuda = !strcmp(device, "cuda");
    if (!r->cuda && strcmp(device, "cpu"))
        return reader_fail(in, "device: \"%s\" is not cpu or cuda", device);
    SS_TRY(get_text(in, o, "model", sizeof r->model, r->model));
    SS_TRY(get_text(in, o, "backend", sizeof r->backend, r->backend));
    SS_TRY(get_number(in, o, "first_step", 0, READER_MAX, &r->first_step));
    SS_TRY(get_number(in, o, "last_step", 0, READER_MAX, &r->last_step));
    if (r->last_step && r->last_step < r->first_step)
        return reader_fail(in, "last_step: %lld is before first_step %lld", (long long)r->last_step,
                           (long long)r->first_step);
    SS_TRY(get_int(in, o, "slots", 1, SS_TRACE_MAX_SLOTS, &r->slots));
    r->micros = 1;
    if (json_object_get(o, "micros"))
        SS_TRY(get_int(in, o, "micros", 1, SS_TRACE_MAX_MICROS, &r->micros));
    SS_TRY(get_number(in, o, "epoch_ns", 0, READER_MAX, &r->epoch_ns));
    if (json_object_get(o, "predicted_for"))
        SS_TRY(get_text(in, o, "predicted_for", sizeof r->machine, r->machine));
    if (json_object_get(o, "batch"))
        SS_TRY(get_number(in, o, "batch", 1, INT_MAX, &r->batch));
    return get_flag(in, o, "overlap", &r->overlap);
}

static enum ss_status read_worker(struct reader *in, const json_t *o)
{
    struct ss_trace_worker w = {.lane = SS_TRACE_SERVICE};
    SS_TRY(check_next(in, o, "worker", in->r->worker.count));
    SS_TRY(get_text(in, o, "name", sizeof w.name, w.name));
    for (int i = 0; i < SS_TRACE_UPDATE; i++)
        if (!strncmp(w.name, ss_trace_lanes[i], strlen(ss_trace_lanes[i])))
            w.lane = (enum ss_trace_lane)i;
    SS_TRACE_ADD(&in->r->worker, w);
    return SS_OK;
}

/* All micro-batches of a step accumulate into the same `metrics`. */
static int per_slot(const struct ss_trace_rank *r, const char *space)
{
    static const char *const names[] = {"images", "labels", "staged", "fetched"};
    if (r->micros == 1 && !strcmp(space, "metrics"))
        return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(space, names[i]))
            return 1;
    return 0;
}

/* The index of a pair in the trace's data; added if new. */
static enum ss_status find_data(struct reader *in, const char *space, int index, int *out)
{
    struct ss_trace_rank *r = in->r;
    for (size_t i = 0; i < r->data.count; i++)
        if (r->data.at[i].index == index && !strcmp(r->data.at[i].space, space)) {
            *out = (int)i;
            return SS_OK;
        }
    struct ss_trace_data d = {.index = index, .per_slot = per_slot(r, space)};
    strcpy(d.space, space);
    *out = (int)r->data.count;
    SS_TRACE_ADD(&r->data, d);
    return SS_OK;
}

static enum ss_status read_access(struct reader *in, const json_t *a, struct ss_trace_access *out)
{
    char space[SS_TRACE_TEXT];
    int64_t index, mode;
    if (!json_is_array(a) || json_array_size(a) != 3)
        return reader_fail(in, "access: %s is not [space, index, mode]", reader_show(a));
    SS_TRY(check_text(in, "access: space", json_array_get(a, 0), sizeof space, space));
    SS_TRY(reader_number(in, "access: index", json_array_get(a, 1), -1, INT_MAX, &index));
    SS_TRY(reader_number(in, "access: mode", json_array_get(a, 2), SS_READ, SS_READ_WRITE, &mode));
    out->mode = (enum ss_mode)mode;
    return find_data(in, space, (int)index, &out->data);
}

static enum ss_status read_kind(const struct reader *in, const json_t *o, const char *key,
                                enum ss_task_kind *out)
{
    char name[SS_TRACE_TEXT];
    SS_TRY(get_text(in, o, key, sizeof name, name));
    for (int k = SS_TASK_LOAD; k <= SS_TASK_REPORT; k++)
        if (!strcmp(name, ss_task_kind_name((enum ss_task_kind)k))) {
            *out = (enum ss_task_kind)k;
            return SS_OK;
        }
    return reader_fail(in, "%s: \"%s\" is not a task kind (load, forward, ...)", key, name);
}

static enum ss_status read_task(struct reader *in, const json_t *o)
{
    struct ss_trace_task t = {0};
    SS_TRY(check_next(in, o, "task", in->r->task.count));
    SS_TRY(get_text(in, o, "name", sizeof t.name, t.name));
    SS_TRY(read_kind(in, o, "kind", &t.kind));
    SS_TRY(get_int(in, o, "block", -1, INT_MAX, &t.block));
    SS_TRY(get_int(in, o, "bucket", -1, INT_MAX, &t.bucket));
    SS_TRY(get_int(in, o, "slice", -1, INT_MAX, &t.slice));
    if (json_object_get(o, "micro"))
        SS_TRY(get_int(in, o, "micro", 0, in->r->micros - 1, &t.micro));
    if (json_object_get(o, "predicted_ns"))
        SS_TRY(get_number(in, o, "predicted_ns", 0, READER_MAX, &t.predicted));
    const json_t *list = json_object_get(o, "access");
    if (!json_is_array(list) || json_array_size(list) > SS_PLAN_MAX_ACCESSES)
        return reader_fail(in, "access: %s is not a list of at most %d", reader_show(list),
                           SS_PLAN_MAX_ACCESSES);
    for (size_t i = 0; i < json_array_size(list); i++)
        SS_TRY(read_access(in, json_array_get(list, i), &t.access[t.naccess++]));
    SS_TRACE_ADD(&in->r->task, t);
    return SS_OK;
}

static enum ss_status read_bucket(struct reader *in, const json_t *o)
{
    struct ss_trace_bucket b = {.kind = SS_TASK_ALLREDUCE, .of = (int)in->r->bucket.count};
    SS_TRY(check_next(in, o, "bucket", in->r->bucket.count));
    SS_TRY(get_number(in, o, "bytes", 0, READER_MAX, &b.bytes));
    SS_TRY(get_number(in, o, "wire_bytes", 0, READER_MAX, &b.wire_bytes));
    if (json_object_get(o, "collective")) {
        SS_TRY(read_kind(in, o, "collective", &b.kind));
        SS_TRY(get_int(in, o, "of", 0, INT_MAX, &b.of));
    }
    SS_TRACE_ADD(&in->r->bucket, b);
    return SS_OK;
}

static enum ss_status read_clock(struct reader *in, const json_t *o)
{
    static const char *const names[] = {"begin", "end"};
    struct ss_trace_clock c;
    char name[SS_TRACE_TEXT];
    size_t next = in->r->clock.count;
    SS_TRY(get_text(in, o, "clock", sizeof name, name));
    if (next >= 2 || strcmp(name, names[next]))
        return reader_fail(in, "clock: \"%s\"; a trace has \"begin\", then \"end\"", name);
    SS_TRY(get_number(in, o, "at", -READER_MAX, READER_MAX, &c.at));
    SS_TRY(get_number(in, o, "offset_ns", -READER_MAX, READER_MAX, &c.offset));
    SS_TRY(get_number(in, o, "error_ns", 0, READER_MAX, &c.error));
    if (next && c.at < in->r->clock.at[0].at)
        return reader_fail(in, "at: %lld is before the clock's begin", (long long)c.at);
    SS_TRACE_ADD(&in->r->clock, c);
    return SS_OK;
}

static enum ss_status read_end(struct reader *in, const json_t *o)
{
    SS_TRY(get_flag(in, o, "end", &in->r->ended));
    return get_number(in, o, "lost", 0, READER_MAX, &in->r->lost);
}

enum ss_status reader_object(struct reader *in, const json_t *o)
{
    static const struct {
        const char *key;
        enum ss_status (*read)(struct reader *in, const json_t *o);
    } kinds[] = {{"task", read_task},
                 {"worker", read_worker},
                 {"bucket", read_bucket},
                 {"clock", read_clock},
                 {"end", read_end}};
    int header = json_object_get(o, "trace") != NULL;
    if (in->line == 1 && !header)
        return reader_fail(in, "not a trace: the first line has no \"trace\"");
    if (header)
        return in->line == 1 ? read_header(in, o) : reader_fail(in, "a second \"trace\" line");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (json_object_get(o, kinds[i].key))
            return kinds[i].read(in, o);
    return reader_fail(in, "%s has none of trace, worker, task, bucket, clock and end",
                       reader_show(o));
}
