#include "train/outputs.h"
#include "core/folder.h"
#include "core/log.h"
#include "data/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct output {
    const char *option, *path; /* NULL: not given */
    int file;                  /* else a folder */
};

/* Returns the length of the longest prefix of the path that exists. */
static size_t existing(const char *path)
{
    char part[PATH_MAX];
    struct stat st;
    size_t n = strlen(path);
    if (n >= sizeof part)
        return n; /* creating it will fail */
    for (memcpy(part, path, n + 1); n && lstat(part, &st); part[n] = '\0') {
        while (n && part[n - 1] != '/')
            n--;
        while (n && part[n - 1] == '/')
            n--;
    }
    return n;
}

/* Remove the created folders of the path that are empty. */
static void remove_folders(const char *path, size_t existed)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof part)
        return;
    memcpy(part, path, n + 1);
    for (; n > existed && n > 0; n--)
        if (part[n] == '/' || part[n] == '\0') {
            part[n] = '\0';
            (void)rmdir(part);
        }
}

/* Test a folder by writing a file: permission bits do not reflect root, quotas or a full disk.
 * The file is unlinked before it is written, so that a killed run leaves none. Returns an
 * errno. */
static int try_folder(const char *path)
{
    char name[PATH_MAX];
    if (snprintf(name, sizeof name, "%s/.starstep-XXXXXX", path) >= (int)sizeof name)
        return ENAMETOOLONG;
    int error = 0, fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (unlink(name) || write(fd, "", 1) != 1 || (fsync(fd) && errno != EINVAL))
        error = errno;
    if (close(fd) && !error)
        error = errno;
    return error;
}

/* Test an existing file by opening it, without writing. Pipes and devices are not opened: opening
 * a pipe may block. Returns an errno. */
static int try_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? EISDIR : 0;
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    return fd < 0 || close(fd) ? errno : 0;
}

static enum ss_status cannot_write(const struct output *out, int error)
{
    return ss_fail(SS_ERR_IO, "--%s %s: cannot write: %s; name a %s that can be written",
                   out->option, out->path, strerror(error), out->file ? "file" : "folder");
}

/* Get the folder of a path: "a/b" for "a/b/c". */
static enum ss_status folder_of(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/');
    size_t n = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= PATH_MAX)
        return ss_fail(SS_ERR_INVALID, "%.80s...: the file's name is too long", path);
    memcpy(folder, slash ? path : ".", slash ? n : 1);
    folder[slash ? n : 1] = '\0';
    return SS_OK;
}

static enum ss_status try_output(const struct output *out, enum ss_outputs_folders folders)
{
    char folder[PATH_MAX];
    const char *path = out->path;
    if (out->file) {
        if (access(path, F_OK) == 0) {
            int error = try_file(path);
            return error ? cannot_write(out, error) : SS_OK;
        }
        SS_TRY(folder_of(path, folder));
        path = folder;
    }
    size_t existed = existing(path);
    enum ss_status status = ss_folder_make(path);
    if (status == SS_OK) {
        int error = try_folder(path);
        if (error)
            status = cannot_write(out, error);
    }
    if (status != SS_OK || folders == SS_OUTPUTS_REMOVE_FOLDERS)
        remove_folders(path, existed);
    return status;
}

static int has_packs(const char *cache)
{
    char train[PATH_MAX], test[PATH_MAX];
    return ss_pack_path(train, sizeof train, cache, SS_SPLIT_TRAIN) == SS_OK &&
           ss_pack_path(test, sizeof test, cache, SS_SPLIT_TEST) == SS_OK &&
           access(train, F_OK) == 0 && access(test, F_OK) == 0;
}

enum ss_status ss_outputs_try(const struct ss_train_options *o, int rank, int gpu,
                              enum ss_outputs_folders folders)
{
    /* Only rank 0's packs are tested; other nodes that build packs report their own errors. */
    int packs = o->cache && !has_packs(o->cache);
    int tunes = gpu && o->gpu_cache && !o->no_autotune && access(o->gpu_cache, F_OK) != 0;
    const struct output of_first[] = {
        {"checkpoint-dir", o->checkpoint_dir, 0},
        {"log-json", o->log_json, 1},
        {"tensorboard", o->tensorboard, 0},
        {"cache", packs ? o->cache : NULL, 0},
    };
    const struct output of_all[] = {
        {"trace", o->trace, 0},
        {"gpu-cache", tunes ? o->gpu_cache : NULL, 1},
    };
    for (size_t i = 0; rank == 0 && i < sizeof of_first / sizeof *of_first; i++)
        if (of_first[i].path)
            SS_TRY(try_output(&of_first[i], folders));
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        if (of_all[i].path)
            SS_TRY(try_output(&of_all[i], folders));
    return SS_OK;
}
