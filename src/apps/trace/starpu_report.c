/* starpu_report.c: text report on the tasks of another StarPU program. */
#include "apps/trace/starpu_rec.h"

#include <errno.h>
#include <string.h>

enum { MODELS_SHOWN = 40, PATH_SHOWN = 15 };

/* ns. A task ready for less than this does not count as overtaken. */
static const int64_t PATIENCE = 20000;

/* Totals per worker or per model. */
struct sums {
    const char *name;
    int64_t rank, worker;
    int64_t count, busy, least, most, waited; /* waited: between ready and begin */
    int64_t until;                            /* latest end so far */
};

struct table {
    SS_TRACE_ARRAY(struct sums) row;
};

static const char *name_of(const struct ss_rec_task *t)
{
    return t->model ? t->model : "(no name)";
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

/* Add a task. Overlapping tasks of one worker, as on a GPU, count once. */
static void add_to(struct sums *s, const struct ss_rec_task *t, int64_t length)
{
    if (!s->count || length < s->least)
        s->least = length;
    if (length > s->most)
        s->most = length;
    s->count++;
    s->busy += length;
    s->waited += t->begin > t->ready ? t->begin - t->ready : 0;
    s->until = t->end > s->until ? t->end : s->until;
}

static enum ss_status add_model(struct table *table, const struct ss_rec_task *t, int64_t length)
{
    size_t i = 0;
    while (i < table->row.count && strcmp(table->row.at[i].name, name_of(t)))
        i++;
    if (i == table->row.count)
        SS_TRACE_ADD(&table->row, ((struct sums){.name = name_of(t)}));
    add_to(&table->row.at[i], t, length);
    return SS_OK;
}

static enum ss_status add_worker(struct table *table, const struct ss_rec_task *t)
{
    size_t i = 0;
    while (i < table->row.count &&
           (table->row.at[i].rank != t->rank || table->row.at[i].worker != t->worker))
        i++;
    if (i == table->row.count)
        SS_TRACE_ADD(&table->row, ((struct sums){.rank = t->rank, .worker = t->worker}));
    const int64_t from = t->begin > table->row.at[i].until ? t->begin : table->row.at[i].until;
    add_to(&table->row.at[i], t, t->end > from ? t->end - from : 0);
    return SS_OK;
}

static int by_worker(const void *a, const void *b)
{
    const struct sums *l = a, *r = b;
    return l->rank != r->rank ? (l->rank > r->rank) - (l->rank < r->rank)
                              : (l->worker > r->worker) - (l->worker < r->worker);
}

static int by_busy(const void *a, const void *b)
{
    const struct sums *l = a, *r = b;
    return l->busy != r->busy ? (l->busy < r->busy) - (l->busy > r->busy)
                              : strcmp(l->name, r->name);
}

static void sort(struct table *table, int (*by)(const void *, const void *))
{
    if (table->row.count)
        qsort(table->row.at, table->row.count, sizeof *table->row.at, by);
}

static enum ss_status print_workers(const struct ss_rec *rec, int64_t begin, int64_t end, FILE *out)
{
    struct table table = {0};
    enum ss_status status = SS_OK;
    int ranks = 0;
    for (size_t i = rec->ran; status == SS_OK && i < rec->task.count; i++)
        status = add_worker(&table, &rec->task.at[i]);
    sort(&table, by_worker);
    for (size_t i = 1; i < table.row.count; i++)
        ranks |= table.row.at[i].rank != table.row.at[0].rank;
    fprintf(out, "\n%-20s %8s %12s %8s %12s\n", "worker", "tasks", "busy ms", "busy %", "idle ms");
    for (size_t i = 0; status == SS_OK && i < table.row.count; i++) {
        const struct sums *s = &table.row.at[i];
        char name[64];
        if (ranks)
            snprintf(name, sizeof name, "rank %lld, %lld", (long long)s->rank,
                     (long long)s->worker);
        else
            snprintf(name, sizeof name, "%lld", (long long)s->worker);
        fprintf(out, "%-20s %8lld %12.3f %8.1f %12.3f\n", name, (long long)s->count, ms(s->busy),
                percent(s->busy, end - begin), ms(end - begin - s->busy));
    }
    free(table.row.at);
    return status;
}

static void print_left(const struct table *table, size_t shown, FILE *out)
{
    int64_t busy = 0;
    for (size_t i = shown; i < table->row.count; i++)
        busy += table->row.at[i].busy;
    if (table->row.count > shown)
        fprintf(out, "(%zu more)%*s %12.3f\n", table->row.count - shown, 44, "", ms(busy));
}

static enum ss_status print_models(const struct ss_rec *rec, FILE *out)
{
    struct table table = {0};
    enum ss_status status = SS_OK;
    int64_t all = 0;
    for (size_t i = rec->ran; status == SS_OK && i < rec->task.count; i++) {
        const struct ss_rec_task *t = &rec->task.at[i];
        all += t->end - t->begin;
        status = add_model(&table, t, t->end - t->begin);
    }
    sort(&table, by_busy);
    fprintf(out, "\n%-42s %8s %12s %7s %9s %9s %9s %11s\n", "performance model, or name", "tasks",
            "ms", "%", "mean", "least", "most", "mean ready");
    for (size_t i = 0; status == SS_OK && i < table.row.count && i < MODELS_SHOWN; i++) {
        const struct sums *s = &table.row.at[i];
        fprintf(out, "%-42.42s %8lld %12.3f %7.1f %9.3f %9.3f %9.3f %11.3f\n", s->name,
                (long long)s->count, ms(s->busy), percent(s->busy, all),
                ms(s->busy) / (double)s->count, ms(s->least), ms(s->most),
                ms(s->waited) / (double)s->count);
    }
    print_left(&table, MODELS_SHOWN, out);
    fprintf(out, "mean ready: ms between ready and begin\n");
    free(table.row.at);
    return status;
}

/* Walk backward from the task that ended last: to the dependency or the preceding task on its
 * worker, whichever ended later. */
static enum ss_status print_path(const struct ss_rec *rec, FILE *out)
{
    struct table table = {0};
    enum ss_status status = SS_OK;
    int64_t waiting = 0, computing = 0;
    size_t at = rec->ran, tasks = 0;
    for (size_t i = rec->ran; i < rec->task.count; i++)
        if (rec->task.at[i].end > rec->task.at[at].end)
            at = i;
    int64_t until = rec->task.at[at].end;
    while (status == SS_OK) {
        const struct ss_rec_task *t = &rec->task.at[at];
        const int64_t length = until > t->begin ? until - t->begin : 0;
        size_t next = t->last;
        if (t->before != SS_REC_NONE &&
            (next == SS_REC_NONE || rec->task.at[t->before].end > rec->task.at[next].end))
            next = t->before;
        status = add_model(&table, t, length);
        computing += length;
        tasks++;
        /* With clocks of several ranks, a task may appear to begin before its dependency. */
        if (next == SS_REC_NONE || rec->task.at[next].begin >= t->begin)
            break;
        until = rec->task.at[next].end < t->begin ? rec->task.at[next].end : t->begin;
        waiting += t->begin - until;
        at = next;
    }
    sort(&table, by_busy);
    fprintf(out, "\nThe critical path: %zu tasks, %.3f ms of them and %.3f ms between them\n",
            tasks, ms(computing), ms(waiting));
    for (size_t i = 0; status == SS_OK && i < table.row.count && i < PATH_SHOWN; i++) {
        const struct sums *s = &table.row.at[i];
        fprintf(out, "%-42.42s %8lld %12.3f %7.1f\n", s->name, (long long)s->count, ms(s->busy),
                percent(s->busy, computing + waiting));
    }
    print_left(&table, PATH_SHOWN, out);
    free(table.row.at);
    return status;
}

/* ---- priorities ------------------------------------------------------------------------------ */

/* Heap of ready tasks, the highest priority first. */
struct waiting {
    const struct ss_rec_task **heap;
    size_t count;
};

static int goes_first(const struct waiting *w, size_t a, size_t b)
{
    return w->heap[a]->priority > w->heap[b]->priority;
}

static void swap(struct waiting *w, size_t a, size_t b)
{
    const struct ss_rec_task *task = w->heap[a];
    w->heap[a] = w->heap[b];
    w->heap[b] = task;
}

static void push(struct waiting *w, const struct ss_rec_task *task)
{
    size_t i = w->count++;
    w->heap[i] = task;
    for (; i && goes_first(w, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(w, i, (i - 1) / 2);
}

static void pop(struct waiting *w)
{
    w->heap[0] = w->heap[--w->count];
    for (size_t i = 0, child; (child = 2 * i + 1) < w->count; i = child) {
        if (child + 1 < w->count && goes_first(w, child + 1, child))
            child++;
        if (!goes_first(w, child, i))
            break;
        swap(w, i, child);
    }
}

static int by_ready(const void *a, const void *b)
{
    const struct ss_rec_task *l = *(const struct ss_rec_task *const *)a;
    const struct ss_rec_task *r = *(const struct ss_rec_task *const *)b;
    if (l->rank != r->rank)
        return l->rank < r->rank ? -1 : 1;
    if (l->worker != r->worker)
        return l->worker < r->worker ? -1 : 1;
    return (l->ready > r->ready) - (l->ready < r->ready);
}

/* Count the overtaken tasks of one worker: ready[0 .. n), sorted by ready time. */
static void count_worker(const struct ss_rec *rec, const struct ss_rec_task *const *ready, size_t n,
                         struct waiting *w, int64_t *count, int64_t *late)
{
    size_t next = 0;
    w->count = 0;
    for (size_t i = rec->ran; i < rec->task.count; i++) {
        const struct ss_rec_task *t = &rec->task.at[i];
        if (!ss_rec_same_worker(ready[0], t))
            continue;
        while (next < n && ready[next]->ready + PATIENCE < t->begin)
            push(w, ready[next++]);
        while (w->count && w->heap[0]->begin <= t->begin)
            pop(w);
        if (w->count && w->heap[0]->priority > t->priority) {
            ++*count;
            *late += t->begin - w->heap[0]->ready;
        }
    }
}

static enum ss_status print_priorities(const struct ss_rec *rec, FILE *out)
{
    const size_t n = rec->task.count - rec->ran;
    const struct ss_rec_task **ready = calloc(2 * n, sizeof *ready);
    int64_t count = 0, late = 0;
    if (!ready)
        return ss_fail_memory("tasks of a trace", 2 * n * sizeof *ready);
    struct waiting w = {.heap = ready + n};
    for (size_t i = 0; i < n; i++)
        ready[i] = &rec->task.at[rec->ran + i];
    qsort(ready, n, sizeof *ready, by_ready);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && ss_rec_same_worker(ready[i], ready[end]);)
            end++;
        count_worker(rec, ready + i, end - i, &w, &count, &late);
    }
    fprintf(out,
            "\n%lld tasks (%.1f %%) began while their worker had one of higher priority, ready for "
            "%.3f ms on average\n",
            (long long)count, percent(count, (int64_t)n), count ? ms(late) / (double)count : 0.0);
    free(ready);
    return SS_OK;
}

enum ss_status ss_rec_report(const struct ss_rec *rec, const char *file, FILE *out)
{
    int64_t begin = INT64_MAX, end = 0;
    for (size_t i = rec->ran; i < rec->task.count; i++) {
        begin = rec->task.at[i].begin < begin ? rec->task.at[i].begin : begin;
        end = rec->task.at[i].end > end ? rec->task.at[i].end : end;
    }
    fprintf(out, "%s: %zu tasks ran within %.3f ms, %zu did not run (synchronization only)\n", file,
            rec->task.count - rec->ran, ms(end - begin), rec->ran);
    SS_TRY(print_workers(rec, begin, end, out));
    SS_TRY(print_models(rec, out));
    if (rec->needs.count) {
        SS_TRY(print_path(rec, out));
        SS_TRY(print_priorities(rec, out));
    } else {
        fprintf(out, "\nThe file has no dependencies, as StarPU does not record tags: no critical "
                     "path, and a task "
                     "counts as ready from its submission\n");
    }
    if (fflush(out) || ferror(out))
        return ss_fail(SS_ERR_IO, "the report cannot be written: %s", strerror(errno));
    return SS_OK;
}
