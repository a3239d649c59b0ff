#include "train/journal.h"
#include "core/json_value.h"
#include "core/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum ss_status open_file(struct ss_journal *j, const char *path, const char *mode)
{
    j->path = path;
    j->json = fopen(path, mode);
    if (!j->json)
        return ss_fail(SS_ERR_IO, "--log-json %s: cannot write: %s", path, strerror(errno));
    return SS_OK;
}

enum ss_status ss_journal_open(struct ss_journal *j, const char *path, int enabled)
{
    memset(j, 0, sizeof *j);
    if (!enabled)
        return SS_OK;
    j->enabled = 1;
    SS_TRY(ss_progress_open(&j->progress));
    return path ? open_file(j, path, "w") : SS_OK;
}

/* Truncate the file after its last complete line: a full disk may have left a partial one. */
static int cut_last_line(FILE *f)
{
    long end;
    int c = '\n';
    if (fseek(f, 0, SEEK_END) || (end = ftell(f)) < 0)
        return 0;
    for (; end > 0; end--) {
        if (fseek(f, end - 1, SEEK_SET) || (c = fgetc(f)) == EOF)
            return 0;
        if (c == '\n')
            break;
    }
    return !fflush(f) && !ftruncate(fileno(f), end) && !fseek(f, 0, SEEK_END);
}

enum ss_status ss_journal_append(struct ss_journal *j, const char *path)
{
    SS_TRY(ss_journal_open(j, NULL, 1));
    if (!path)
        return SS_OK;
    struct stat st;
    int there = !stat(path, &st) && S_ISREG(st.st_mode); /* pipes and terminals cannot seek */
    SS_TRY(open_file(j, path, there ? "r+" : "w"));
    if (!there || cut_last_line(j->json))
        return SS_OK;
    j->failed = 1; /* reported here, not again at close */
    return ss_fail(SS_ERR_IO, "--log-json %s: cannot seek to its end: %s", path, strerror(errno));
}

static void check_written(struct ss_journal *j, int bad)
{
    if (bad && !j->failed) {
        j->failed = 1;
        ss_fail(SS_ERR_IO, "--log-json %s: cannot write: %s", j->path, strerror(errno));
    }
}

enum ss_status ss_journal_close(struct ss_journal *j)
{
    ss_journal_end_progress(j);
    if (!j->json)
        return SS_OK;
    int bad = ferror(j->json);
    bad |= fclose(j->json) != 0;
    j->json = NULL;
    check_written(j, bad);
    return j->failed ? SS_ERR_IO : SS_OK;
}

void ss_journal_event(struct ss_journal *j, const char *event, ...)
{
    if (!j->json)
        return;
    va_list ap;
    va_start(ap, event);
    json_t *line = json_pack("{s:s}", "event", event);
    for (const char *key; (key = va_arg(ap, const char *));) {
        int type = va_arg(ap, int);
        ss_json_set(&line, key,
                    type == 'i'   ? json_integer(va_arg(ap, int64_t))
                    : type == 'f' ? ss_json_number(va_arg(ap, double))
                                  : ss_json_text(va_arg(ap, const char *)));
    }
    va_end(ap);
    const int bad = !line || json_dumpf(line, j->json, JSON_COMPACT);
    json_decref(line);
    fputc('\n', j->json);
    check_written(j, fflush(j->json) != 0 || bad);
}

static void draw_bar(long epoch, long epochs, long step, long steps, double loss,
                     double images_per_s)
{
    enum { WIDTH = 30 };
    char fill[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        fill[i] = i * steps < step * WIDTH ? '#' : '.';
    fill[WIDTH] = '\0';
    fprintf(stderr, "\rEpoch %ld/%ld [%s] %ld/%ld  loss %.4f  %.0f img/s   ", epoch, epochs, fill,
            step, steps, loss, images_per_s);
    fflush(stderr);
}

void ss_journal_progress(struct ss_journal *j, long epoch, long epochs, long step, long steps,
                         double loss, double images_per_s)
{
    /* A line is printed only after the first completed steps. */
    if (!j->enabled || (!j->progress.bar && images_per_s <= 0) || !ss_progress_due(&j->progress))
        return;
    if (j->progress.bar)
        draw_bar(epoch, epochs, step, steps, loss, images_per_s);
    else
        fprintf(stderr, "Epoch %ld/%ld, step %ld/%ld: loss %.4f, %.1f img/s\n", epoch, epochs, step,
                steps, loss, images_per_s);
}

void ss_journal_end_progress(struct ss_journal *j)
{
    if (!j->enabled)
        return;
    if (j->progress.bar && j->progress.told)
        fprintf(stderr, "\r%100s\r", "");
    ss_progress_rest(&j->progress);
}
