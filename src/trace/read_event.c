/* read_event.c: reads the lines that are arrays (format.h). */
#include "trace/read_internal.h"

#include <string.h>

/* Types of an event's elements, which determine the permitted values. */
enum what { STEP, TIME, AT_LEAST_BEGIN, SIZE, TASK, WORKER, BUCKET, LANE };
struct mark_field {
    const char *name;
    enum what what;
};
enum { MAX_FIELDS = 6 };
struct mark {
    char letter;
    int count;
    struct mark_field field[MAX_FIELDS];
};
static const struct mark marks[] = {
    {'s', 3, {{"step", STEP}, {"submitted", TIME}, {"reported", TIME}}},
    {'t',
     6,
     {{"step", STEP},
      {"task", TASK},
      {"worker", WORKER},
      {"ready", TIME},
      {"begin", TIME},
      {"end", AT_LEAST_BEGIN}}},
    {'g',
     5,
     {{"step", STEP}, {"task", TASK}, {"lane", LANE}, {"begin", TIME}, {"end", AT_LEAST_BEGIN}}},
    {'c', 4, {{"step", STEP}, {"bucket", BUCKET}, {"begin", TIME}, {"end", AT_LEAST_BEGIN}}},
    {'m', 3, {{"at", TIME}, {"host_bytes", SIZE}, {"device_bytes", SIZE}}},
};

static enum ss_status read_lane(const struct reader *in, const json_t *value, int64_t *out)
{
    const char *name = json_string_value(value);
    for (int i = 0; name && i < SS_TRACE_LANES; i++)
        if (!strcmp(name, ss_trace_lanes[i])) {
            *out = i;
            return SS_OK;
        }
    return reader_fail(in, "lane: %s is not \"compute\", \"comm\", \"copy\" or \"update\"",
                       reader_show(value));
}

/* Read element i. v holds the elements before it. */
static enum ss_status read_field(const struct reader *in, const struct mark_field *f,
                                 const json_t *value, int64_t *v, int i)
{
    const struct ss_trace_rank *r = in->r;
    int64_t min = 0, max = READER_MAX;
    switch (f->what) {
    case LANE:
        return read_lane(in, value, &v[i]);
    case STEP:
        min = r->first_step;
        max = r->last_step ? r->last_step : READER_MAX;
        break;
    case TIME:
        min = -READER_MAX;
        break;
    case AT_LEAST_BEGIN:
        min = v[i - 1];
        break;
    case SIZE:
        break;
    case TASK:
        max = (int64_t)r->task.count - 1;
        break;
    case WORKER:
        max = (int64_t)r->worker.count - 1;
        break;
    case BUCKET:
        min = -1;
        max = (int64_t)r->bucket.count - 1;
        break;
    }
    return reader_number(in, f->name, value, min, max, &v[i]);
}

static enum ss_status add_mark(struct ss_trace_rank *r, char letter, const int64_t *v)
{
    switch (letter) {
    case 's':
        SS_TRACE_ADD(&r->step, ((struct ss_trace_step){v[0], v[1], v[2]}));
        break;
    case 't':
        SS_TRACE_ADD(&r->run,
                     ((struct ss_trace_run){v[0], v[3], v[4], v[5], (int32_t)v[1], (int32_t)v[2]}));
        break;
    case 'g':
        SS_TRACE_ADD(&r->gpu,
                     ((struct ss_trace_gpu){v[0], v[3], v[4], (int32_t)v[1], (int32_t)v[2]}));
        break;
    case 'c':
        SS_TRACE_ADD(&r->sum, ((struct ss_trace_sum){v[0], v[2], v[3], (int32_t)v[1]}));
        break;
    default:
        SS_TRACE_ADD(&r->memory, ((struct ss_trace_memory){v[0], v[1], v[2]}));
    }
    return SS_OK;
}

enum ss_status reader_mark(struct reader *in, const json_t *a)
{
    const char *name = json_string_value(json_array_get(a, 0));
    const struct mark *m = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (name && name[0] == marks[i].letter && !name[1])
            m = &marks[i];
    if (!m)
        return reader_fail(in,
                           "%s is not an event; an event begins with \"s\", \"t\", \"g\", \"c\" or "
                           "\"m\"",
                           reader_show(json_array_get(a, 0)));
    if (json_array_size(a) != (size_t)m->count + 1)
        return reader_fail(in, "an event \"%c\" has %d values, not %zu", m->letter, m->count + 1,
                           json_array_size(a));
    int64_t v[MAX_FIELDS];
    for (int i = 0; i < m->count; i++)
        SS_TRY(read_field(in, &m->field[i], json_array_get(a, (size_t)i + 1), v, i));
    return add_mark(in->r, m->letter, v);
}
