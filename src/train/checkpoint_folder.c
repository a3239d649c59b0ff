/* checkpoint_folder.c: checkpoint names, links and removal (interface in checkpoint.h). */
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const forms[] = {
    [SS_CHECKPOINT_EPOCH] = "epoch-%04" PRId64, [SS_CHECKPOINT_STEP] = "step-%08" PRId64};
static const char *const scans[] = {
    [SS_CHECKPOINT_EPOCH] = "epoch-%" SCNd64 "%n", [SS_CHECKPOINT_STEP] = "step-%" SCNd64 "%n"};
static const char suffix[] = ".new";

void ss_checkpoint_name(enum ss_checkpoint_kind kind, int64_t number, char *name)
{
    snprintf(name, SS_CHECKPOINT_NAME, forms[kind], number);
}

struct checkpoint {
    enum ss_checkpoint_kind kind;
    int64_t number;
};

/* Parse a checkpoint's name. Returns the text that follows it, or NULL for other names. */
static const char *parse_name(const char *name, struct checkpoint *out)
{
    for (int kind = SS_CHECKPOINT_EPOCH; kind <= SS_CHECKPOINT_STEP; kind++) {
        int end = 0;
        *out = (struct checkpoint){.kind = (enum ss_checkpoint_kind)kind};
        if (sscanf(name, scans[kind], &out->number, &end) == 1 && end && out->number >= 0)
            return name + end;
    }
    return NULL;
}

/* 1 if the file may be removed: a file of a checkpoint, or a temporary left by writing one. */
static int is_part(const char *name)
{
    static const char *const parts[] = {SS_CHECKPOINT_MODEL, SS_CHECKPOINT_EMA, SS_CHECKPOINT_GRAPH,
                                        SS_CHECKPOINT_DATA, SS_CHECKPOINT_TRAINING};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t n = strlen(parts[i]);
        if (!strncmp(name, parts[i], n) && (!name[n] || !strncmp(name + n, ".tmp.", 5)))
            return 1;
    }
    return 0;
}

/* Open a subfolder. Symbolic links are not followed: they may point outside the run's folder. */
static int open_inside(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void remove_parts(int folder)
{
    DIR *d = fdopendir(folder);
    if (!d) {
        close(folder);
        return;
    }
    for (struct dirent *entry; (entry = readdir(d));)
        if (is_part(entry->d_name))
            unlinkat(dirfd(d), entry->d_name, 0);
    closedir(d);
}

/* Remove DIR/NAME and its checkpoint files. Returns 0 if it remains because it is a symbolic link
 * or contains other files; these are not removed. */
static int remove_checkpoint(const char *dir, const char *name)
{
    int above = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0)
        return errno == ENOENT;
    int folder = open_inside(above, name);
    int gone = folder < 0 && errno == ENOENT;
    if (folder >= 0) {
        remove_parts(folder);
        gone = !unlinkat(above, name, AT_REMOVEDIR) || errno == ENOENT;
    }
    close(above);
    return gone;
}

/* Create the link DIR/LINK to `name` and atomically replace an existing one. */
static enum ss_status make_link(const char *dir, const char *link, const char *name)
{
    char path[PATH_MAX], new_name[16], temporary[PATH_MAX];
    snprintf(new_name, sizeof new_name, "%s.tmp", link);
    SS_TRY(ss_folder_join(path, sizeof path, dir, link));
    SS_TRY(ss_folder_join(temporary, sizeof temporary, dir, new_name));
    unlink(temporary);
    if (symlink(name, temporary))
        return ss_fail(SS_ERR_IO, "%s: cannot create this link: %s", temporary, strerror(errno));
    if (rename(temporary, path)) {
        enum ss_status status =
            ss_fail(SS_ERR_IO, "%s: cannot replace the link: %s", path, strerror(errno));
        unlink(temporary);
        return status;
    }
    return ss_atomic_sync_folder(dir);
}

/* Point `latest` to a checkpoint. `latest` may be a folder: an earlier version created one with a
 * model only, and a copy of a run may contain one with all files. */
static enum ss_status link_latest(const char *dir, const char *name)
{
    char latest[PATH_MAX];
    struct stat st;
    SS_TRY(ss_folder_join(latest, sizeof latest, dir, "latest"));
    if (!lstat(latest, &st) && S_ISDIR(st.st_mode) && !remove_checkpoint(dir, "latest"))
        return ss_fail(SS_ERR_IO,
                       "%s: is a folder that contains other files than a checkpoint; move it away",
                       latest);
    return make_link(dir, "latest", name);
}

/* Read a link's target; "" if it is not a link. */
static void read_link(const char *dir, const char *link, char *name, size_t capacity)
{
    char path[PATH_MAX];
    ssize_t n = -1;
    if (ss_folder_join(path, sizeof path, dir, link) == SS_OK)
        n = readlink(path, name, capacity - 1);
    name[n > 0 ? n : 0] = '\0';
}

/* Remove the link `best` if its target does not exist. */
static void remove_stale_best(const char *dir)
{
    char path[PATH_MAX], name[NAME_MAX + 1];
    read_link(dir, "best", name, sizeof name);
    if (*name && !ss_folder_has(dir, name) &&
        ss_folder_join(path, sizeof path, dir, "best") == SS_OK)
        unlink(path);
}

enum ss_status ss_checkpoint_link_best(const char *dir, int64_t epoch)
{
    char name[SS_CHECKPOINT_NAME], was[NAME_MAX + 1], path[PATH_MAX];
    ss_checkpoint_name(SS_CHECKPOINT_EPOCH, epoch, name);
    read_link(dir, "best", was, sizeof was);
    if (ss_folder_has(dir, name))
        return strcmp(was, name) ? make_link(dir, "best", name) : SS_OK;
    if (*was && ss_folder_join(path, sizeof path, dir, "best") == SS_OK)
        unlink(path);
    return SS_OK;
}

enum ss_status ss_checkpoint_install(const char *dir, const char *name)
{
    char made[SS_CHECKPOINT_NAME + sizeof suffix], from[PATH_MAX], to[PATH_MAX];
    snprintf(made, sizeof made, "%s%s", name, suffix);
    SS_TRY(ss_folder_join(from, sizeof from, dir, made));
    SS_TRY(ss_folder_join(to, sizeof to, dir, name));
    if (ss_folder_has(dir, name)) {
        /* Not every file system exchanges folders atomically: link the new one meanwhile. */
        SS_TRY(link_latest(dir, made));
        if (!remove_checkpoint(dir, name))
            return ss_fail(SS_ERR_IO,
                           "%s: cannot replace this: it is a link, or contains other files than a "
                           "checkpoint; move it away",
                           to);
    }
    if (rename(from, to))
        return ss_fail(SS_ERR_IO, "%s: cannot rename %s to it: %s", to, from, strerror(errno));
    SS_TRY(ss_atomic_sync_folder(dir));
    return link_latest(dir, name);
}

/* Remove the suffix ".new" from a checkpoint's name. Returns 0 for other names, such as a path
 * that a link points to. */
static int cut_suffix(char *name)
{
    struct checkpoint one;
    const char *rest = parse_name(name, &one);
    if (!rest || strcmp(rest, suffix))
        return 0;
    name[rest - name] = '\0';
    return 1;
}

enum ss_status ss_checkpoint_clean(const char *dir)
{
    char name[NAME_MAX + 1], made[NAME_MAX + 1];
    read_link(dir, "latest", made, sizeof made);
    strcpy(name, made);
    if (cut_suffix(name)) /* a crash inside ss_checkpoint_install */
        SS_TRY(ss_folder_has(dir, made) ? ss_checkpoint_install(dir, name)
                                        : link_latest(dir, name));
    DIR *d = opendir(dir);
    if (!d)
        return ss_fail(SS_ERR_IO, "%s: cannot read the folder: %s", dir, strerror(errno));
    for (struct dirent *entry; (entry = readdir(d));) {
        struct checkpoint made_of;
        const char *rest = parse_name(entry->d_name, &made_of);
        if (rest && !strcmp(rest, suffix))
            remove_checkpoint(dir, entry->d_name);
    }
    closedir(d);
    return SS_OK;
}

/* Order by kind, newest first. */
static int by_age(const void *a, const void *b)
{
    const struct checkpoint *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->number < y->number) - (x->number > y->number);
}

/* List the checkpoints of DIR. The caller frees the list. */
static struct checkpoint *list(const char *dir, size_t *n)
{
    struct checkpoint *all = NULL, one;
    DIR *d = opendir(dir);
    *n = 0;
    for (struct dirent *entry; d && (entry = readdir(d));) {
        const char *rest = parse_name(entry->d_name, &one);
        struct checkpoint *more = rest && !*rest ? realloc(all, (*n + 1) * sizeof *all) : NULL;
        if (!more)
            continue;
        all = more;
        all[(*n)++] = one;
    }
    if (d)
        closedir(d);
    if (*n)
        qsort(all, *n, sizeof *all, by_age);
    return all;
}

static void remove_one(const char *dir, const struct checkpoint *c)
{
    char name[SS_CHECKPOINT_NAME];
    ss_checkpoint_name(c->kind, c->number, name);
    remove_checkpoint(dir, name);
}

void ss_checkpoint_prune(const char *dir, enum ss_checkpoint_kind kind, int64_t below, long keep)
{
    size_t n;
    char best[NAME_MAX + 1], name[SS_CHECKPOINT_NAME];
    struct checkpoint *all = list(dir, &n);
    read_link(dir, "best", best, sizeof best);
    for (size_t i = 0; i < n; i++) {
        ss_checkpoint_name(all[i].kind, all[i].number, name);
        if (all[i].kind == kind && all[i].number < below && keep-- <= 0 && strcmp(name, best))
            remove_one(dir, &all[i]);
    }
    free(all);
}

int ss_checkpoint_any(const char *dir, char *name)
{
    char latest[PATH_MAX];
    struct stat st;
    size_t n;
    struct checkpoint *all = list(dir, &n);
    if (n)
        ss_checkpoint_name(all[0].kind, all[0].number, name);
    free(all);
    if (n)
        return 1;
    strcpy(name, "latest");
    return ss_folder_join(latest, sizeof latest, dir, name) == SS_OK && !lstat(latest, &st);
}

void ss_checkpoint_remove_others(const char *dir, enum ss_checkpoint_kind kind, int64_t number)
{
    size_t n;
    struct checkpoint *all = list(dir, &n);
    for (size_t i = 0; i < n; i++)
        if (all[i].kind != kind || all[i].number != number)
            remove_one(dir, &all[i]);
    free(all);
    remove_stale_best(dir);
}

static int is_checkpoint(const char *folder)
{
    return ss_folder_has(folder, SS_CHECKPOINT_MODEL);
}

/* Without `latest`: find the only checkpoint, left by a crash before the link was created. */
static enum ss_status find_only(const char *dir, char *folder, size_t capacity, int *found)
{
    char name[SS_CHECKPOINT_NAME];
    size_t n;
    struct checkpoint *all = list(dir, &n);
    enum ss_status status = SS_OK;
    for (size_t i = 0; status == SS_OK && i < n; i++) {
        ss_checkpoint_name(all[i].kind, all[i].number, name);
        if (*found || (i + 1 < n && all[i + 1].kind == all[i].kind))
            status = ss_fail(SS_ERR_INVALID,
                             "%s: has checkpoints, but no link latest to the newest; "
                             "name one, such as --resume %s/%s",
                             dir, dir, name);
        else
            status = ss_folder_join(folder, capacity, dir, name);
        *found = status == SS_OK && is_checkpoint(folder);
    }
    free(all);
    return status;
}

enum ss_status ss_checkpoint_newest(const char *dir, char *folder, size_t capacity, int *found)
{
    char name[NAME_MAX + 1];
    SS_TRY(ss_folder_join(folder, capacity, dir, "latest"));
    *found = is_checkpoint(folder);
    if (*found)
        return SS_OK;
    read_link(dir, "latest", name, sizeof name);
    if (!cut_suffix(name))
        return find_only(dir, folder, capacity, found);
    /* A crash inside ss_checkpoint_install, after the rename. */
    SS_TRY(ss_folder_join(folder, capacity, dir, name));
    *found = is_checkpoint(folder);
    return SS_OK;
}
