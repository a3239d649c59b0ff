#include "apps/trace/starpu_rec.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The fields of a stanza read so far. */
struct stanza {
    int lines;
    struct ss_rec_task task;
    char *name;
};

struct reader {
    const char *file;
    long line;
    struct ss_rec *rec;
    struct stanza now;
    SS_TRACE_ARRAY(char *) job; /* names in needs, resolved once all tasks are read */
};

static enum ss_status bad(const struct reader *in, const char *why, const char *text)
{
    return ss_fail(SS_ERR_FORMAT,
                   "%s: line %ld: %s: \"%.40s\"; expected a tasks.rec of starpu_fxt_tool", in->file,
                   in->line, why, text);
}

static enum ss_status copy(char **out, const char *text)
{
    free(*out);
    *out = strdup(text);
    return *out ? SS_OK : ss_fail_memory("tasks of a trace", strlen(text) + 1);
}

static enum ss_status read_whole(const struct reader *in, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && !errno ? SS_OK : bad(in, "not a whole number", text);
}

static enum ss_status read_ms(const struct reader *in, const char *text, int64_t *out)
{
    char *end;
    const double ms = strtod(text, &end);
    if (end == text || *end || !(ms >= 0 && ms < 1e12))
        return bad(in, "not a time in milliseconds", text);
    *out = llround(1e6 * ms);
    return SS_OK;
}

static enum ss_status read_needs(struct reader *in, char *text)
{
    char *save;
    in->now.task.needs = in->job.count;
    for (char *job = strtok_r(text, " ", &save); job; job = strtok_r(NULL, " ", &save)) {
        char *own = NULL;
        SS_TRY(ss_trace_grow(&in->job.at, &in->job.capacity, in->job.count, sizeof *in->job.at));
        SS_TRY(copy(&own, job));
        in->job.at[in->job.count++] = own;
    }
    in->now.task.needs_count = in->job.count - in->now.task.needs;
    return SS_OK;
}

static enum ss_status read_field(struct reader *in, const char *key, char *value)
{
    struct ss_rec_task *t = &in->now.task;
    if (!strcmp(key, "JobId"))
        return copy(&t->job, value);
    if (!strcmp(key, "Model"))
        return copy(&t->model, value);
    if (!strcmp(key, "Name"))
        return copy(&in->now.name, value);
    if (!strcmp(key, "DependsOn"))
        return read_needs(in, value);
    if (!strcmp(key, "WorkerId"))
        return read_whole(in, value, &t->worker);
    if (!strcmp(key, "Priority"))
        return read_whole(in, value, &t->priority);
    if (!strcmp(key, "MPIRank"))
        return read_whole(in, value, &t->rank);
    if (!strcmp(key, "SubmitTime"))
        return read_ms(in, value, &t->submit);
    if (!strcmp(key, "StartTime"))
        return read_ms(in, value, &t->begin);
    return strcmp(key, "EndTime") ? SS_OK : read_ms(in, value, &t->end);
}

/* A stanza of StarPU's own events ("Control: WontUse") has a task's number but is not a task. */
static enum ss_status end_stanza(struct reader *in)
{
    struct stanza *s = &in->now;
    struct ss_rec_task *t = &s->task;
    if (s->lines && !t->job)
        return bad(in, "the task ending here has no JobId", s->name ? s->name : "");
    if (t->begin < 0 || t->end < t->begin)
        t->worker = -1;
    if (s->lines && !t->model && s->name) {
        t->model = s->name;
        s->name = NULL;
    }
    if (s->lines)
        SS_TRACE_ADD(&in->rec->task, *t);
    free(s->name);
    *s = (struct stanza){.task = {.worker = -1, .begin = -1, .end = -1}};
    return SS_OK;
}

static enum ss_status read_line(struct reader *in, char *text)
{
    text[strcspn(text, "\r\n")] = '\0';
    if (!*text)
        return end_stanza(in);
    char *value = strchr(text, ':');
    if (!value)
        return bad(in, "not a line \"Key: value\"", text);
    *value++ = '\0';
    value += strspn(value, " ");
    in->now.lines++;
    return read_field(in, text, value);
}

/* ---- resolving of dependencies -------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
    const struct ss_rec_task *l = a, *r = b;
    if ((l->worker < 0) != (r->worker < 0))
        return l->worker < 0 ? -1 : 1;
    if (l->begin != r->begin)
        return l->begin < r->begin ? -1 : 1;
    return (l->end > r->end) - (l->end < r->end);
}

struct name {
    const char *job;
    size_t task;
};

static int by_job(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->job, ((const struct name *)b)->job);
}

/* Resolve the names in needs; a task that is not in the file becomes SS_REC_NONE. */
static enum ss_status find_needs(struct reader *in)
{
    struct ss_rec *rec = in->rec;
    struct name *name = calloc(rec->task.count + 1, sizeof *name);
    if (!name)
        return ss_fail_memory("tasks of a trace", rec->task.count * sizeof *name);
    for (size_t i = 0; i < rec->task.count; i++)
        name[i] = (struct name){rec->task.at[i].job, i};
    qsort(name, rec->task.count, sizeof *name, by_job);
    enum ss_status status = SS_OK;
    for (size_t i = 0; status == SS_OK && i < in->job.count; i++) {
        const struct name wanted = {in->job.at[i], 0};
        const struct name *found = bsearch(&wanted, name, rec->task.count, sizeof *name, by_job);
        status = ss_trace_grow(&rec->needs.at, &rec->needs.capacity, rec->needs.count,
                               sizeof *rec->needs.at);
        if (status == SS_OK)
            rec->needs.at[rec->needs.count++] = found ? found->task : SS_REC_NONE;
    }
    free(name);
    return status;
}

static size_t later(const struct ss_rec *rec, size_t a, size_t b)
{
    if (a == SS_REC_NONE || b == SS_REC_NONE)
        return a == SS_REC_NONE ? b : a;
    return rec->task.at[b].end > rec->task.at[a].end ? b : a;
}

/* Find the dependency of a task that ended last. A synchronization-only task is replaced by its
 * own dependencies, which are resolved first, each once: state 0: unvisited, 1: in progress, 2:
 * resolved. */
static enum ss_status find_last(struct ss_rec *rec, size_t first, char *state)
{
    SS_TRACE_ARRAY(size_t) stack = {0};
    enum ss_status status = SS_OK;
    size_t i = first;
    for (;;) {
        struct ss_rec_task *t = &rec->task.at[i];
        size_t open = SS_REC_NONE;
        state[i] = 1;
        t->last = SS_REC_NONE;
        for (size_t k = 0; k < t->needs_count; k++) {
            const size_t need = rec->needs.at[t->needs + k];
            if (need == SS_REC_NONE || need == i)
                continue;
            if (need >= rec->ran)
                t->last = later(rec, t->last, need);
            else if (state[need] == 2)
                t->last = later(rec, t->last, rec->task.at[need].last);
            else if (state[need] == 0)
                open = need;
        }
        if (open != SS_REC_NONE) {
            status = ss_trace_grow(&stack.at, &stack.capacity, stack.count, sizeof *stack.at);
            if (status != SS_OK)
                break;
            stack.at[stack.count++] = i;
            i = open;
            continue;
        }
        state[i] = 2;
        t->ready = t->last != SS_REC_NONE && rec->task.at[t->last].end > t->submit
                       ? rec->task.at[t->last].end
                       : t->submit;
        if (!stack.count)
            break;
        i = stack.at[--stack.count];
    }
    free(stack.at);
    return status;
}

/* Find the preceding task on each worker. Tasks are sorted by begin. */
static void find_before(struct ss_rec *rec)
{
    enum { RECENT = 4096 }; /* workers */
    size_t last[RECENT], workers = 0;
    for (size_t i = rec->ran; i < rec->task.count; i++) {
        size_t w = 0;
        while (w < workers && !ss_rec_same_worker(&rec->task.at[last[w]], &rec->task.at[i]))
            w++;
        rec->task.at[i].before = w < workers ? last[w] : SS_REC_NONE;
        if (w == workers && workers < RECENT)
            workers++;
        if (w < RECENT)
            last[w] = i;
    }
}

static enum ss_status connect(struct reader *in)
{
    struct ss_rec *rec = in->rec;
    if (rec->task.count)
        qsort(rec->task.at, rec->task.count, sizeof *rec->task.at, by_begin);
    while (rec->ran < rec->task.count && rec->task.at[rec->ran].worker < 0)
        rec->ran++;
    if (rec->ran == rec->task.count)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: no task has a StartTime, an EndTime and a WorkerId; expected a "
                       "tasks.rec of starpu_fxt_tool",
                       in->file);
    SS_TRY(find_needs(in));
    char *state = calloc(rec->task.count, 1);
    if (!state)
        return ss_fail_memory("tasks of a trace", rec->task.count);
    enum ss_status status = SS_OK;
    for (size_t i = 0; status == SS_OK && i < rec->task.count; i++)
        if (!state[i])
            status = find_last(rec, i, state);
    free(state);
    find_before(rec);
    return status;
}

static enum ss_status read_lines(struct reader *in, FILE *f)
{
    char *text = NULL;
    size_t capacity = 0;
    enum ss_status status = end_stanza(in);
    while (status == SS_OK && getline(&text, &capacity, f) > 0) {
        in->line++;
        status = read_line(in, text);
    }
    if (status == SS_OK && ferror(f))
        status = ss_fail(SS_ERR_IO, "%s: cannot be read: %s", in->file, strerror(errno));
    free(text);
    if (status == SS_OK)
        status = end_stanza(in);
    return status == SS_OK ? connect(in) : status;
}

enum ss_status ss_rec_read(const char *file, struct ss_rec **out)
{
    struct reader in = {.file = file, .rec = calloc(1, sizeof *in.rec)};
    if (!in.rec)
        return ss_fail_memory("a trace", sizeof *in.rec);
    FILE *f = fopen(file, "r");
    enum ss_status status =
        f ? read_lines(&in, f)
          : ss_fail(SS_ERR_IO, "%s: cannot be opened: %s", file, strerror(errno));
    if (f)
        fclose(f);
    for (size_t i = 0; i < in.job.count; i++)
        free(in.job.at[i]);
    free(in.job.at);
    free(in.now.task.job);
    free(in.now.task.model);
    free(in.now.name);
    if (status == SS_OK)
        *out = in.rec;
    else
        ss_rec_free(in.rec);
    return status;
}

void ss_rec_free(struct ss_rec *rec)
{
    if (!rec)
        return;
    for (size_t i = 0; i < rec->task.count; i++) {
        free(rec->task.at[i].job);
        free(rec->task.at[i].model);
    }
    free(rec->task.at);
    free(rec->needs.at);
    free(rec);
}
