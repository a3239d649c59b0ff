#include "core/atomic_file.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ss_atomic_file {
    FILE *stream;
    char *path, *temp;
    off_t waited, begun;   /* ss_atomic_push: ends of data written back, and being written */
    enum ss_status status; /* of the first failed write */
};

static void release(struct ss_atomic_file *f)
{
    free(f->path);
    free(f->temp);
    free(f);
}

enum ss_status ss_atomic_open(const char *path, struct ss_atomic_file **out)
{
    struct ss_atomic_file *f = calloc(1, sizeof *f);
    if (!f)
        return ss_fail_memory("a file being written", sizeof *f);
    size_t capacity = strlen(path) + 32;
    f->path = strdup(path);
    f->temp = malloc(capacity);
    if (!f->path || !f->temp) {
        release(f);
        return ss_fail_memory("a file name", capacity);
    }
    snprintf(f->temp, capacity, "%s.tmp.%ld", path, (long)getpid());

    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = open(f->temp, flags, 0666);
    if (fd < 0 && errno == EEXIST) {
        /* Left by a killed run with the same process ID. */
        unlink(f->temp);
        fd = open(f->temp, flags, 0666);
    }
    if (fd >= 0) {
        f->stream = fdopen(fd, "wb");
        if (f->stream) {
            *out = f;
            return SS_OK;
        }
    }
    enum ss_status status =
        ss_fail(SS_ERR_IO, "%s: cannot create the file: %s", f->temp, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(f->temp);
    }
    release(f);
    return status;
}

static enum ss_status fail_write(struct ss_atomic_file *f, const char *what)
{
    f->status =
        ss_fail(SS_ERR_IO, "%s: %s: %s; %s is unchanged", f->temp, what, strerror(errno), f->path);
    return f->status;
}

enum ss_status ss_atomic_write(struct ss_atomic_file *f, const void *bytes, size_t n)
{
    if (f->status != SS_OK)
        return f->status;
    if (n > 0 && fwrite(bytes, 1, n, f->stream) != n)
        return fail_write(f, "cannot write");
    return SS_OK;
}

void ss_atomic_print(struct ss_atomic_file *f, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ss_atomic_write(f, text, strlen(text));
}

enum ss_status ss_atomic_push(struct ss_atomic_file *f)
{
    if (f->status != SS_OK)
        return f->status;
    if (fflush(f->stream) != 0)
        return fail_write(f, "cannot write");
    const int fd = fileno(f->stream);
    const off_t end = ftello(f->stream);
    if (end < 0)
        return SS_OK;
    /* Best effort: if this fails or the file system does not support it, fsync does the work at
     * commit. */
    if (f->begun > f->waited)
        (void)sync_file_range(fd, f->waited, f->begun - f->waited,
                              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                  SYNC_FILE_RANGE_WAIT_AFTER);
    f->waited = f->begun;
    if (end > f->begun)
        (void)sync_file_range(fd, f->begun, end - f->begun, SYNC_FILE_RANGE_WRITE);
    f->begun = end;
    return SS_OK;
}

enum ss_status ss_atomic_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open the folder: %s", folder, strerror(errno));
    int rc = fsync(fd);
    /* Some network file systems do not support fsync on folders; there a rename is durable
     * without it. */
    if (rc != 0 && (errno == EINVAL || errno == ENOTSUP || errno == EROFS))
        rc = 0;
    enum ss_status status = SS_OK;
    if (rc != 0)
        status = ss_fail(SS_ERR_IO, "%s: cannot sync the folder: %s", folder, strerror(errno));
    close(fd);
    return status;
}

/* Truncates path at its last '/': path must be writable and must not be used afterwards. */
static const char *folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    if (slash == path)
        return "/";
    *slash = '\0';
    return path;
}

enum ss_status ss_atomic_commit(struct ss_atomic_file *f)
{
    if (f->status == SS_OK && fflush(f->stream) != 0)
        fail_write(f, "cannot write");
    if (f->status == SS_OK && fsync(fileno(f->stream)) != 0)
        fail_write(f, "cannot sync");
    if (fclose(f->stream) != 0 && f->status == SS_OK)
        fail_write(f, "cannot close");
    if (f->status == SS_OK && rename(f->temp, f->path) != 0)
        f->status =
            ss_fail(SS_ERR_IO, "%s: cannot rename %s to it: %s", f->path, f->temp, strerror(errno));
    enum ss_status status = f->status;
    if (status == SS_OK)
        status = ss_atomic_sync_folder(folder_of(f->path));
    else
        unlink(f->temp);
    release(f);
    return status;
}

enum ss_status ss_atomic_save(const char *path, const void *bytes, size_t n)
{
    struct ss_atomic_file *f;
    SS_TRY(ss_atomic_open(path, &f));
    (void)ss_atomic_write(f, bytes, n); /* commit returns its error */
    return ss_atomic_commit(f);
}

void ss_atomic_abort(struct ss_atomic_file *f)
{
    if (!f)
        return;
    fclose(f->stream);
    unlink(f->temp);
    release(f);
}
