#include "apps/monitor/lines.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 4096 };

struct ss_lines {
    int fd;
    off_t end; /* offset of the end of the last complete line */
    char path[];
};

static enum ss_status fail_io(const struct ss_lines *l, const char *what)
{
    return ss_fail(SS_ERR_IO, "%s: cannot %s: %s", l->path, what, strerror(errno));
}

/* Find the end of the last complete line. */
static enum ss_status find_end(struct ss_lines *l, off_t size)
{
    char piece[PIECE];
    off_t end = size;
    while (end > 0) {
        size_t n = end < PIECE ? (size_t)end : PIECE;
        if (pread(l->fd, piece, n, end - (off_t)n) != (ssize_t)n)
            return fail_io(l, "read");
        const char *newline = memrchr(piece, '\n', n);
        if (newline) {
            l->end = end - (off_t)n + (newline - piece) + 1;
            return SS_OK;
        }
        end -= (off_t)n;
    }
    l->end = 0;
    return SS_OK;
}

static enum ss_status check_header(struct ss_lines *l, const char *header)
{
    char first[PIECE];
    size_t n = strlen(header);
    ssize_t got = pread(l->fd, first, sizeof first, 0);
    if (got < 0)
        return fail_io(l, "read");
    if ((size_t)got <= n || memcmp(first, header, n) || first[n] != '\n')
        return ss_fail(SS_ERR_FORMAT,
                       "%s: its first line is not \"%.40s...\"; another program's file? "
                       "Remove it or name another --out",
                       l->path, header);
    return SS_OK;
}

static enum ss_status begin(struct ss_lines *l, const char *header)
{
    struct stat st;
    /* On file systems without locks (some network ones), no lock is used. */
    if (flock(l->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return ss_fail(SS_ERR_IO,
                       "%s: another monitor writes it; one per node is enough, or name another "
                       "--out",
                       l->path);
    if (fstat(l->fd, &st) != 0)
        return fail_io(l, "read");
    SS_TRY(find_end(l, st.st_size));
    if (l->end < st.st_size && ftruncate(l->fd, l->end) != 0)
        return fail_io(l, "remove an incomplete line");
    if (l->end)
        return check_header(l, header);
    char line[PIECE];
    size_t n = strlen(header);
    memcpy(line, header, n);
    line[n] = '\n';
    return ss_lines_write(l, line, n + 1);
}

enum ss_status ss_lines_open(const char *path, const char *header, struct ss_lines **out)
{
    size_t capacity = strlen(path) + 1;
    struct ss_lines *l = malloc(sizeof *l + capacity);
    if (!l)
        return ss_fail_memory("a file being written", sizeof *l + capacity);
    memcpy(l->path, path, capacity);
    l->end = 0;
    l->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    enum ss_status status = l->fd < 0 ? fail_io(l, "write") : begin(l, header);
    if (status == SS_OK) {
        *out = l;
        return SS_OK;
    }
    ss_lines_close(l);
    return status;
}

enum ss_status ss_lines_write(struct ss_lines *l, const char *text, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = write(l->fd, text + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            enum ss_status status = fail_io(l, "write");
            if (done && ftruncate(l->fd, l->end) != 0)
                ss_warn("%s: its last line is incomplete", l->path);
            return status;
        }
        done += (size_t)n;
    }
    l->end += (off_t)bytes;
    return SS_OK;
}

void ss_lines_close(struct ss_lines *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    free(l);
}
