/* table.c: groups runs into tables. print.c and draw.c output them. */
#include "apps/scaling/table.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS = 7 };

/* Format the values that must be equal. */
static void describe(const struct ss_run_log *log, char text[FIELDS][SS_RUN_TEXT])
{
    const long number[] = {log->images, log->batch / log->ranks};
    snprintf(text[0], SS_RUN_TEXT, "%s", log->device);
    snprintf(text[1], SS_RUN_TEXT, "%s", log->model);
    snprintf(text[2], SS_RUN_TEXT, "%s", log->width);
    snprintf(text[3], SS_RUN_TEXT, "%s", log->precision);
    ss_size_text(log->image_size, text[4]);
    for (int i = 0; i < 2; i++)
        snprintf(text[5 + i], SS_RUN_TEXT, "%ld", number[i]);
}

void ss_scaling_compare(const struct ss_runs *runs, char *differs, size_t capacity)
{
    static const char *const names[FIELDS] = {"device",        "model",      "width",
                                              "precision",     "image size", "number of images",
                                              "batch per rank"};
    char first[FIELDS][SS_RUN_TEXT], other[FIELDS][SS_RUN_TEXT];
    size_t used = 0;
    differs[0] = '\0';
    if (!runs->count)
        return;
    describe(&runs->at[0].log, first);
    for (int f = 0; f < FIELDS; f++)
        for (size_t i = 1; i < runs->count; i++) {
            describe(&runs->at[i].log, other);
            if (!strcmp(first[f], other[f]))
                continue;
            int n = snprintf(differs + used, capacity - used, "%s%s: %s in %s, %s in %s",
                             used ? "; " : "", names[f], first[f], runs->at[0].log.path, other[f],
                             runs->at[i].log.path);
            used = n < 0 || (size_t)n >= capacity - used ? capacity - 1 : used + (size_t)n;
            break;
        }
}

/* Compare by ranks per node, nodes and throughput. */
static int by_size(const void *a, const void *b)
{
    const struct ss_run_log *x = &(*(const struct ss_scaling_run *const *)a)->log,
                            *y = &(*(const struct ss_scaling_run *const *)b)->log;
    long p = x->ranks / x->nodes, q = y->ranks / y->nodes;
    if (p != q)
        return p < q ? -1 : 1;
    if (x->nodes != y->nodes)
        return x->nodes < y->nodes ? -1 : 1;
    return (x->rate > y->rate) - (x->rate < y->rate);
}

static struct ss_scaling_table *add_table(struct ss_scaling *s, size_t rows)
{
    struct ss_scaling_table *more = realloc(s->table, (s->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    s->table = more;
    struct ss_scaling_table *t = &s->table[s->count];
    *t = (struct ss_scaling_table){.row = calloc(rows, sizeof *t->row)};
    if (!t->row)
        return NULL;
    s->count++;
    return t;
}

/* One row per size: of runs of equal size, sorted by throughput, the median one. */
static size_t make_rows(const struct ss_scaling_run **run, size_t count, struct ss_scaling_row *row)
{
    size_t rows = 0;
    for (size_t i = 0, end; i < count; i = end) {
        const struct ss_run_log *log = &run[i]->log;
        for (end = i;
             end < count && run[end]->log.ranks == log->ranks && run[end]->log.nodes == log->nodes;
             end++)
            ;
        row[rows++] = (struct ss_scaling_row){run[i + (end - i - 1) / 2], end - i};
    }
    return rows;
}

static enum ss_status add_one_node(struct ss_scaling *s, const struct ss_scaling_row *row,
                                   size_t rows)
{
    struct ss_scaling_table *t = add_table(s, rows);
    if (!t)
        return ss_fail_memory("a table", rows * sizeof *row);
    for (size_t i = 0; i < rows; i++)
        if (row[i].run->log.nodes == 1)
            t->row[t->count++] = row[i];
    if (!t->count) {
        free(t->row);
        s->count--;
    }
    return SS_OK;
}

/* Add the rows with one number of ranks per node. */
static enum ss_status add_nodes(struct ss_scaling *s, const struct ss_scaling_row *row, size_t rows)
{
    long per_node = row[0].run->log.ranks / row[0].run->log.nodes;
    if (row[rows - 1].run->log.nodes == 1)
        return SS_OK;
    struct ss_scaling_table *t = add_table(s, rows + 1);
    if (!t)
        return ss_fail_memory("a table", rows * sizeof *row);
    t->by_nodes = 1;
    t->per_node = per_node;
    const struct ss_scaling_table *one = &s->table[0];
    if (row[0].run->log.nodes > 1 && !one->by_nodes && one->row[0].run->log.ranks == 1)
        t->row[t->count++] = one->row[0];
    memcpy(t->row + t->count, row, rows * sizeof *row);
    t->count += rows;
    return SS_OK;
}

static enum ss_status make_tables(struct ss_scaling *s, const struct ss_scaling_row *row,
                                  size_t rows)
{
    SS_TRY(add_one_node(s, row, rows));
    for (size_t i = 0, end; i < rows; i = end) {
        const struct ss_run_log *log = &row[i].run->log;
        for (end = i; end < rows &&
                      row[end].run->log.ranks / row[end].run->log.nodes == log->ranks / log->nodes;
             end++)
            ;
        SS_TRY(add_nodes(s, row + i, end - i));
    }
    return SS_OK;
}

enum ss_status ss_scaling_make(const struct ss_runs *runs, struct ss_scaling *out)
{
    struct ss_scaling s = {0};
    const struct ss_scaling_run **run = calloc(runs->count + 1, sizeof *run);
    struct ss_scaling_row *row = calloc(runs->count + 1, sizeof *row);
    enum ss_status status = SS_OK;
    size_t count = 0;
    if (!run || !row)
        status = ss_fail_memory("runs of a table", runs->count * sizeof *row);
    for (size_t i = 0; status == SS_OK && i < runs->count; i++) {
        const struct ss_run_log *log = &runs->at[i].log;
        s.gpu |= strcmp(log->device, "cpu") != 0;
        if (log->ranks % log->nodes == 0)
            run[count++] = &runs->at[i];
        else
            ss_warn("%s: ignored: %ld ranks are not evenly distributed on %ld nodes", log->path,
                    log->ranks, log->nodes);
    }
    if (status == SS_OK && count) {
        qsort(run, count, sizeof *run, by_size);
        status = make_tables(&s, row, make_rows(run, count, row));
    }
    free(run);
    free(row);
    if (status == SS_OK)
        *out = s;
    else
        ss_scaling_free(&s);
    return status;
}

void ss_scaling_free(struct ss_scaling *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->table[i].row);
    free(s->table);
    *s = (struct ss_scaling){0};
}

double ss_scaling_speedup(const struct ss_scaling_table *t, const struct ss_scaling_run *run)
{
    return run->log.rate / t->row[0].run->log.rate;
}

double ss_scaling_efficiency(const struct ss_scaling_table *t, const struct ss_scaling_run *run)
{
    return ss_scaling_speedup(t, run) * (double)t->row[0].run->log.ranks / (double)run->log.ranks;
}
