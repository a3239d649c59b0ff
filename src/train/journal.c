#include "train/journal.h"
#include "core/clock.h"
#include "core/json_text.h"
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
    const char *wish = getenv("STARSTEP_PROGRESS");
    j->bar = wish ? strcmp(wish, "0") != 0 : isatty(STDERR_FILENO);
    return path ? open_file(j, path, "w") : SS_OK;
}

/* Cut off what follows the last whole line: a full disk may have cut that one. */
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
    int there = !stat(path, &st) && S_ISREG(st.st_mode); /* a pipe or a terminal has no end */
    SS_TRY(open_file(j, path, there ? "r+" : "w"));
    if (!there || cut_last_line(j->json))
        return SS_OK;
    return ss_fail(SS_ERR_IO, "--log-json %s: cannot find its end: %s", path, strerror(errno));
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
    ss_journal_clear_bar(j);
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
    ss_json_print(j->json, "{'event':%s", event);
    for (const char *key; (key = va_arg(ap, const char *));) {
        int type = va_arg(ap, int);
        ss_json_print(j->json, ",%s:", key);
        if (type == 'i')
            ss_json_print(j->json, "%" PRId64, va_arg(ap, int64_t));
        else if (type == 'f')
            ss_json_print(j->json, "%.17g", va_arg(ap, double));
        else
            ss_json_print(j->json, "%s", va_arg(ap, const char *));
    }
    va_end(ap);
    fputs("}\n", j->json);
    check_written(j, fflush(j->json) != 0);
}

void ss_journal_bar(struct ss_journal *j, long epoch, long epochs, long step, long steps,
                    double loss, double images_per_s)
{
    enum { WIDTH = 30 };
    char fill[WIDTH + 1];
    double now = j->bar ? ss_seconds() : 0;
    if (!j->bar || (j->bar_drawn && step < steps && now - j->bar_time < 0.1))
        return;
    for (int i = 0; i < WIDTH; i++)
        fill[i] = i * steps < step * WIDTH ? '#' : '.';
    fill[WIDTH] = '\0';
    fprintf(stderr, "\rEpoch %ld/%ld [%s] %ld/%ld  loss %.4f  %.0f img/s   ", epoch, epochs, fill,
            step, steps, loss, images_per_s);
    fflush(stderr);
    j->bar_time = now;
    j->bar_drawn = 1;
}

void ss_journal_clear_bar(struct ss_journal *j)
{
    if (j->bar_drawn)
        fprintf(stderr, "\r%100s\r", "");
    j->bar_drawn = 0;
}
