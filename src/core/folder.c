#include "core/folder.h"
#include "core/log.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_CAPACITY = 4096 };

enum ss_status ss_folder_join(char *out, size_t capacity, const char *dir, const char *name)
{
    int n = snprintf(out, capacity, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= capacity)
        return ss_fail(SS_ERR_INVALID, "%.80s...: the folder's name is too long (%zu bytes)", dir,
                       strlen(dir));
    return SS_OK;
}

int ss_folder_has(const char *dir, const char *name)
{
    char path[PATH_CAPACITY];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

int ss_folder_beside(char *out, size_t capacity, const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0;
    const int n = snprintf(out, capacity, "%.*s%s", folder, path, name);
    return n > 0 && (size_t)n < capacity && access(out, F_OK) == 0;
}

enum ss_status ss_folder_make(const char *path)
{
    char part[PATH_CAPACITY];
    size_t len = strlen(path);
    if (len == 0)
        return ss_fail(SS_ERR_INVALID, "the folder's name is empty");
    if (len >= sizeof part)
        return ss_fail(SS_ERR_INVALID, "%.80s...: the folder's name is too long (%zu bytes)", path,
                       len);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return ss_fail(SS_ERR_IO,
                           "%s: cannot make this folder: %s; name one that can be written", part,
                           strerror(errno));
        part[i] = i < len ? '/' : '\0';
    }
    struct stat st;
    if (stat(path, &st) != 0)
        return ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return ss_fail(SS_ERR_IO, "%s: is not a folder; remove it or name another", path);
    return SS_OK;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    (void)remove(path); /* errors are ignored; the walk continues */
    return 0;
}

void ss_folder_remove(const char *path)
{
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
