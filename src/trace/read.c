#include "trace/read.h"
#include "core/folder.h"
#include "trace/format.h"
#include "trace/read_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_CAPACITY = 4096 };

/* Check and allocate after the first line has been read. */
static enum ss_status check_rank(const struct reader *in, int rank)
{
    if (in->r->rank != rank)
        return reader_fail(in, "rank: %d does not match the file name (rank %d)", in->r->rank,
                           rank);
    return SS_OK;
}

static enum ss_status read_line(struct reader *in, const char *text, size_t bytes)
{
    json_error_t error;
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    enum ss_status status;
    if (!value)
        status = reader_fail(in, "not JSON: %s, at byte %d", error.text, error.position);
    else if (in->r->ended)
        status = reader_fail(in, "there is more after the line with \"end\"");
    else if (json_is_array(value) && in->line > 1)
        status = reader_mark(in, value);
    else if (json_is_object(value))
        status = reader_object(in, value);
    else
        status = reader_fail(in, "not a trace: the first line is not an object");
    json_decref(value);
    return status;
}

/* The last line of a killed run may end anywhere, even where it still is valid JSON. */
static int is_cut(const char *text, size_t bytes)
{
    if (bytes && text[bytes - 1] == '\n')
        return 0;
    json_t *value = json_loadb(text, bytes, 0, NULL);
    json_decref(value);
    return value == NULL;
}

static enum ss_status read_lines(struct reader *in, FILE *f, int rank)
{
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n;
    enum ss_status status = SS_OK;
    while (status == SS_OK && (n = getline(&text, &capacity, f)) > 0) {
        in->line++;
        if (in->line > 1 && is_cut(text, (size_t)n)) {
            in->r->cut = 1;
            break;
        }
        status = read_line(in, text, (size_t)n);
        if (status == SS_OK && in->line == 1)
            status = check_rank(in, rank);
    }
    if (status == SS_OK && ferror(f))
        status = ss_fail(SS_ERR_IO, "%s: cannot read: %s", in->path, strerror(errno));
    if (status == SS_OK && !in->line)
        status = ss_fail(SS_ERR_FORMAT, "%s: the file is empty", in->path);
    free(text);
    return status;
}

static enum ss_status file_name(const char *dir, int rank, char *path)
{
    char name[32];
    snprintf(name, sizeof name, SS_TRACE_FILE, rank);
    return ss_folder_join(path, PATH_CAPACITY, dir, name);
}

static int by_step(const void *a, const void *b)
{
    const struct ss_trace_step *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

enum ss_status ss_trace_read(const char *dir, int rank, struct ss_trace_rank **out)
{
    char path[PATH_CAPACITY];
    SS_TRY(file_name(dir, rank, path));
    struct ss_trace_rank *r = calloc(1, sizeof *r);
    if (!r)
        return ss_fail_memory("a trace", sizeof *r);
    struct reader in = {.path = path, .r = r};
    FILE *f = fopen(path, "r");
    enum ss_status status =
        f ? read_lines(&in, f, rank) : ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    if (f)
        fclose(f);
    if (status != SS_OK) {
        ss_trace_free(r);
        return status;
    }
    if (r->step.count)
        qsort(r->step.at, r->step.count, sizeof *r->step.at, by_step);
    *out = r;
    return SS_OK;
}

void ss_trace_free(struct ss_trace_rank *r)
{
    if (!r)
        return;
    free(r->worker.at);
    free(r->task.at);
    free(r->data.at);
    free(r->bucket.at);
    free(r->clock.at);
    free(r->step.at);
    free(r->run.at);
    free(r->gpu.at);
    free(r->sum.at);
    free(r->memory.at);
    free(r);
}

/* The rank in a trace file's name; -1: another file. */
static int rank_of(const char *name)
{
    char expected[32];
    int rank;
    if (sscanf(name, "rank-%d.jsonl", &rank) != 1 || rank < 0)
        return -1;
    snprintf(expected, sizeof expected, SS_TRACE_FILE, rank);
    return strcmp(name, expected) ? -1 : rank;
}

/* The number of ranks according to a file; reads its first line only. */
static enum ss_status read_ranks(const char *dir, int rank, int *ranks)
{
    char path[PATH_CAPACITY], *text = NULL;
    size_t capacity = 0;
    SS_TRY(file_name(dir, rank, path));
    FILE *f = fopen(path, "r");
    if (!f)
        return ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    struct ss_trace_rank r = {0};
    struct reader in = {.path = path, .line = 1, .r = &r};
    ssize_t n = getline(&text, &capacity, f);
    enum ss_status status =
        n > 0 ? read_line(&in, text, (size_t)n)
              : ss_fail(SS_ERR_FORMAT, "%s: the file is empty or cannot be read", path);
    if (status == SS_OK)
        status = check_rank(&in, rank);
    *ranks = r.ranks;
    free(text);
    fclose(f);
    return status;
}

static enum ss_status mark_present(DIR *d, const char *dir, int ranks, char *present)
{
    rewinddir(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        int rank = rank_of(e->d_name);
        if (rank >= ranks)
            return ss_fail(
                SS_ERR_MISMATCH,
                "%s/%s: unexpected file in a trace of %d ranks; it belongs to another run", dir,
                e->d_name, ranks);
        if (rank >= 0)
            present[rank] = 1;
    }
    return SS_OK;
}

enum ss_status ss_trace_find(const char *dir, int *ranks, char **present)
{
    DIR *d = opendir(dir);
    if (!d)
        return ss_fail(SS_ERR_IO, "%s: %s; give the folder that --trace wrote", dir,
                       strerror(errno));
    int first = -1, n = 0;
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        int rank = rank_of(e->d_name);
        if (rank >= 0 && (first < 0 || rank < first))
            first = rank;
    }
    char *found = NULL;
    enum ss_status status =
        first < 0 ? ss_fail(SS_ERR_FORMAT, "%s: no trace in it (no rank-0000.jsonl, ...)", dir)
                  : read_ranks(dir, first, &n);
    if (status == SS_OK && !(found = calloc((size_t)n, 1)))
        status = ss_fail_memory("ranks of a trace", (size_t)n);
    if (status == SS_OK)
        status = mark_present(d, dir, n, found);
    closedir(d);
    if (status != SS_OK) {
        free(found);
        return status;
    }
    *ranks = n;
    *present = found;
    return SS_OK;
}

int64_t ss_trace_common(const struct ss_trace_rank *r, int64_t at)
{
    int64_t offset = 0;
    if (r->clock.count) {
        const struct ss_trace_clock *a = &r->clock.at[0], *b = &r->clock.at[r->clock.count - 1];
        offset = at < b->at ? a->offset : b->offset;
        if (a->at < at && at < b->at)
            offset += (int64_t)((double)(b->offset - a->offset) * (double)(at - a->at) /
                                (double)(b->at - a->at));
    }
    return r->epoch_ns + at + offset;
}

int64_t ss_trace_error(const struct ss_trace_rank *r)
{
    int64_t error = 0;
    for (size_t i = 0; i < r->clock.count; i++)
        if (r->clock.at[i].error > error)
            error = r->clock.at[i].error;
    return error;
}

int64_t ss_trace_submitted(const struct ss_trace_rank *r, int64_t step)
{
    size_t low = 0, high = r->step.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->step.at[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->step.count && r->step.at[low].step == step ? r->step.at[low].submitted
                                                               : INT64_MIN;
}

int ss_trace_collective_of(const struct ss_trace_rank *r, const struct ss_trace_task *task)
{
    for (size_t b = 0; b < r->bucket.count; b++)
        if (r->bucket.at[b].kind == task->kind && r->bucket.at[b].of == task->bucket)
            return (int)b;
    return -1;
}
