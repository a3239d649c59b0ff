#include "apps/monitor/samples.h"
#include "core/folder.h"
#include "core/log.h"
#include "apps/monitor/columns.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MAX_FIELDS = 64, PATH_CAPACITY = 4096 };

/* Types of fields other than the columns. */
enum { FIELD_INDEX = SS_SAMPLE_COLUMNS, FIELD_NAME, FIELD_ELAPSED, FIELD_OTHER };

static const struct {
    const char *name; /* without unit */
    int field, of_gpu;
} known[] = {
    {"timestamp", SS_SAMPLE_TIME, 1},
    {"index", FIELD_INDEX, 1},
    {"name", FIELD_NAME, 1},
    {"utilization.gpu", SS_SAMPLE_BUSY, 1},
    {"memory.total", SS_SAMPLE_TOTAL, 1},
    {"memory.used", SS_SAMPLE_MEMORY, 1},
    {"power.draw", SS_SAMPLE_POWER, 1},
    {"timestamp", SS_SAMPLE_TIME, 0},
    {"cpu", SS_SAMPLE_BUSY, 0},
    {"memory.rss", SS_SAMPLE_MEMORY, 0},
    {"memory.pss", SS_SAMPLE_PSS, 0},
    {"load", SS_SAMPLE_LOAD, 0},
    {"node.memory.used", SS_SAMPLE_HOST_MEMORY, 0},
    {"elapsed_time", FIELD_ELAPSED, 0}, /* psrecord's */
    {"mem_real", SS_SAMPLE_MEMORY, 0},
};
/* The header line of psrecord --log-format plain (its default) and its column separators. */
static const char plain[] = "# Elapsed time", blanks[] = " \t\r\n";

struct reader {
    const char *path;
    long line;
    int of_gpu, fields;
    int plain;      /* fields are separated by blanks */
    double elapsed; /* s, of the last line of a file without timestamps; else 0 */
    int field[MAX_FIELDS];
    char title[MAX_FIELDS][48];
    char stem[256];
    struct ss_monitor_data *data;
};

/* Split a line in place at commas or blanks, and trim the fields. Returns their number, at most
 * MAX_FIELDS. */
static int split(const struct reader *r, char *line, char *part[MAX_FIELDS])
{
    int n = 0;
    for (char *next = line; next && n < MAX_FIELDS;) {
        char *text = strsep(&next, r->plain ? blanks : ",");
        text += strspn(text, blanks);
        for (size_t end = strlen(text); end && strchr(blanks, text[end - 1]);)
            text[--end] = '\0';
        if (!r->plain || *text)
            part[n++] = text;
    }
    return n;
}

static int has_field(const struct reader *r, int field)
{
    for (int i = 0; i < r->fields; i++)
        if (r->field[i] == field)
            return 1;
    return 0;
}

static enum ss_status read_header(struct reader *r, char *line)
{
    char *part[MAX_FIELDS];
    char of_psrecord[] = "elapsed_time,cpu,mem_real,virtual,reads,writes,read,written";
    const int is_plain = !strncmp(line, plain, strlen(plain));
    if (is_plain && !strstr(line, "Read count"))
        *strstr(of_psrecord, ",reads") = '\0';
    r->fields = split(r, is_plain ? of_psrecord : line, part);
    r->plain = is_plain;
    for (int i = 0; i < r->fields; i++)
        r->of_gpu |= !strcmp(part[i], "index");
    for (int i = 0; i < r->fields; i++) {
        snprintf(r->title[i], sizeof r->title[i], "%s", part[i]);
        part[i][strcspn(part[i], " [")] = '\0';
        r->field[i] = FIELD_OTHER;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (known[k].of_gpu == r->of_gpu && !strcmp(part[i], known[k].name))
                r->field[i] = known[k].field;
    }
    const int dated = has_field(r, SS_SAMPLE_TIME) || has_field(r, FIELD_ELAPSED);
    const char *lacks = !dated                           ? "timestamp"
                        : has_field(r, SS_SAMPLE_MEMORY) ? NULL
                        : r->of_gpu                      ? "memory.used"
                                                         : "memory.rss";
    if (lacks)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: line 1: no column \"%s\"; not a file of starstep monitor, nvidia-smi "
                       "--query-gpu --format=csv or psrecord --log",
                       r->path, lacks);
    return SS_OK;
}

static enum ss_status fail_field(const struct reader *r, int i, const char *text, const char *want)
{
    return ss_fail(SS_ERR_FORMAT, "%s: line %ld: %s: \"%.60s\" is not %s", r->path, r->line,
                   r->title[i], text, want);
}

static int parse_time(const char *text, double *out)
{
    struct tm t = {0};
    double second;
    int end = 0;
    if (sscanf(text, "%d/%d/%d %d:%d:%lf%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
               &t.tm_min, &second, &end) != 6 ||
        text[end] || t.tm_year < 1970 || t.tm_year > 9999 || t.tm_mon < 1 || t.tm_mon > 12 ||
        !(second >= 0 && second < 62))
        return 0;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    *out = (double)timegm(&t) + second;
    return 1;
}

/* Parse "26532", "26532 MiB", or "[N/A]" and the like. */
static int parse_number(const char *text, double *out)
{
    char *end;
    if (*text == '[') {
        *out = NAN;
        return text[strlen(text) - 1] == ']';
    }
    *out = strtod(text, &end);
    return end != text && isfinite(*out) && (*end == '\0' || *end == ' ');
}

static enum ss_status parse_line(struct reader *r, char **part, double *value, int *gpu,
                                 const char **name)
{
    for (int i = 0; i < r->fields; i++) {
        double index;
        if (r->field[i] == FIELD_NAME) {
            *name = part[i];
        } else if (r->field[i] == FIELD_INDEX) {
            if (!parse_number(part[i], &index) || !(index >= 0 && index < 1e6))
                return fail_field(r, i, part[i], "the index of a GPU");
            *gpu = (int)index;
        } else if (r->field[i] == SS_SAMPLE_TIME) {
            if (!parse_time(part[i], &value[SS_SAMPLE_TIME]))
                return fail_field(r, i, part[i], "a time (YYYY/MM/DD HH:MM:SS.mmm)");
        } else if (r->field[i] == FIELD_ELAPSED) {
            if (!parse_number(part[i], &r->elapsed) || !isfinite(r->elapsed))
                return fail_field(r, i, part[i], "a number of seconds");
            value[SS_SAMPLE_TIME] = r->elapsed;
        } else if (r->field[i] < SS_SAMPLE_COLUMNS) {
            if (!parse_number(part[i], &value[r->field[i]]))
                return fail_field(r, i, part[i], "a number");
        }
    }
    return SS_OK;
}

/* The series of this file and GPU; created if new. */
static struct ss_samples *series_of(struct reader *r, int gpu)
{
    struct ss_monitor_data *d = r->data;
    for (size_t i = d->count; i-- > 0;)
        if (d->series[i].gpu == gpu && !strcmp(d->series[i].file, r->stem))
            return &d->series[i];
    struct ss_samples *more = realloc(d->series, (d->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    d->series = more;
    struct ss_samples *s = &d->series[d->count++];
    memset(s, 0, sizeof *s);
    snprintf(s->file, sizeof s->file, "%s", r->stem);
    s->gpu = gpu;
    return s;
}

static enum ss_status append(struct reader *r, int gpu, const char *name, const double *value)
{
    struct ss_samples *s = series_of(r, gpu);
    if (!s)
        return ss_fail_memory("a series of samples", sizeof *s);
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 256;
        for (int c = 0; c < SS_SAMPLE_COLUMNS; c++) {
            double *more = realloc(s->at[c], capacity * sizeof *more);
            if (!more)
                return ss_fail_memory("a series of samples", capacity * sizeof *more);
            s->at[c] = more;
        }
        s->capacity = capacity;
    }
    for (int c = 0; c < SS_SAMPLE_COLUMNS; c++)
        s->at[c][s->count] = value[c];
    s->count++;
    if (name && *name != '[')
        snprintf(s->name, sizeof s->name, "%s", name);
    return SS_OK;
}

static enum ss_status read_line(struct reader *r, char *line)
{
    char *part[MAX_FIELDS];
    const char *name = NULL;
    double value[SS_SAMPLE_COLUMNS];
    int gpu = -1, n = split(r, line, part);
    if (n == 0 || (n == 1 && !*part[0]))
        return SS_OK;
    if (n == r->fields && !strcmp(part[0], r->title[0]))
        return SS_OK; /* a file that was appended to repeats its header */
    if (n != r->fields)
        return ss_fail(SS_ERR_FORMAT, "%s: line %ld: %d fields, the first line has %d", r->path,
                       r->line, n, r->fields);
    for (int c = 0; c < SS_SAMPLE_COLUMNS; c++)
        value[c] = NAN;
    SS_TRY(parse_line(r, part, value, &gpu, &name));
    return append(r, gpu, name, value);
}

/* ".csv", or ".txt" as used in psrecord guides. */
enum { ENDING = 4 };
static int has_ending(const char *name)
{
    const size_t n = strlen(name);
    return n > ENDING && (!strcmp(name + n - ENDING, ".csv") || !strcmp(name + n - ENDING, ".txt"));
}

/* Date a file without timestamps: its last line gets the file's modification time. */
static void date(const struct reader *r, FILE *f)
{
    struct ss_samples *s = &r->data->series[r->data->count - 1];
    struct stat st;
    struct tm local;
    if (fstat(fileno(f), &st) != 0 || !localtime_r(&st.st_mtime, &local))
        return;
    const double begin = (double)timegm(&local) - r->elapsed;
    for (size_t i = 0; i < s->count; i++)
        s->at[SS_SAMPLE_TIME][i] += begin;
}

static enum ss_status read_file(const char *path, struct ss_monitor_data *data)
{
    struct reader r = {.path = path, .data = data};
    const char *slash = strrchr(path, '/');
    snprintf(r.stem, sizeof r.stem, "%s", slash ? slash + 1 : path);
    if (has_ending(r.stem))
        r.stem[strlen(r.stem) - ENDING] = '\0';
    FILE *f = fopen(path, "r");
    if (!f)
        return ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    enum ss_status status = SS_OK;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    while (status == SS_OK && (n = getline(&line, &capacity, f)) > 0) {
        if (strlen(line) != (size_t)n)
            status = ss_fail(SS_ERR_FORMAT, "%s: line %ld: a zero byte", path, r.line + 1);
        else if (line[n - 1] != '\n')
            break; /* still being written, or truncated */
        else
            status = ++r.line == 1 ? read_header(&r, line) : read_line(&r, line);
    }
    if (status == SS_OK && ferror(f))
        status = ss_fail(SS_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    if (status == SS_OK && !r.line)
        status = ss_fail(SS_ERR_FORMAT, "%s: it has no complete line", path);
    if (status == SS_OK && r.elapsed > 0)
        date(&r, f);
    free(line);
    fclose(f);
    return status;
}

static int is_log(const struct dirent *e)
{
    return has_ending(e->d_name) && (!strncmp(e->d_name, SS_GPU_FILE, strlen(SS_GPU_FILE)) ||
                                     !strncmp(e->d_name, SS_CPU_FILE, strlen(SS_CPU_FILE)));
}

static enum ss_status read_folder(const char *dir, struct ss_monitor_data *data)
{
    struct dirent **entry;
    int n = scandir(dir, &entry, is_log, alphasort);
    if (n < 0)
        return ss_fail(SS_ERR_IO, "%s: %s", dir, strerror(errno));
    enum ss_status status = SS_OK;
    for (int i = 0; i < n; i++) {
        char path[PATH_CAPACITY];
        if (status == SS_OK)
            status = ss_folder_join(path, sizeof path, dir, entry[i]->d_name);
        if (status == SS_OK)
            status = read_file(path, data);
        free(entry[i]);
    }
    free(entry);
    return status;
}

static int by_kind(const void *a, const void *b)
{
    const struct ss_samples *x = a, *y = b;
    if ((x->gpu < 0) != (y->gpu < 0))
        return (x->gpu < 0) - (y->gpu < 0);
    int order = strcmp(x->file, y->file);
    return order ? order : x->gpu - y->gpu;
}

enum ss_status ss_monitor_read(const char *path, struct ss_monitor_data *out)
{
    struct ss_monitor_data data = {0};
    struct stat st;
    if (stat(path, &st) != 0)
        return ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    enum ss_status status = S_ISDIR(st.st_mode) ? read_folder(path, &data) : read_file(path, &data);
    if (status != SS_OK) {
        ss_monitor_data_free(&data);
        return status;
    }
    if (data.count)
        qsort(data.series, data.count, sizeof *data.series, by_kind);
    *out = data;
    return SS_OK;
}

void ss_monitor_data_free(struct ss_monitor_data *data)
{
    for (size_t i = 0; i < data->count; i++)
        for (int c = 0; c < SS_SAMPLE_COLUMNS; c++)
            free(data->series[i].at[c]);
    free(data->series);
    *data = (struct ss_monitor_data){0};
}
