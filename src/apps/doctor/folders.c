#include "apps/doctor/folders.h"
#include "core/folder.h"
#include "core/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Magic numbers from linux/magic.h and of out-of-tree file systems. */
static const struct kind {
    unsigned long magic;
    const char *name;
    int shared;
} kinds[] = {
    {0x0BD00BD0, "Lustre", 1},  {0x6969, "NFS", 1},          {0x47504653, "GPFS", 1},
    {0x19830326, "BeeGFS", 1},  {0x00C36400, "Ceph", 1},     {0xFF534D42, "SMB", 1},
    {0xEF53, "ext4", 0},        {0x58465342, "XFS", 0},      {0x9123683E, "btrfs", 0},
    {0x2FC12FC1, "ZFS", 0},     {0x01021994, "tmpfs", 0},    {0x858458F6, "ramfs", 0},
    {0x794C7630, "overlay", 0}, {0x73717368, "squashfs", 0}, {0x65735546, "FUSE", 0},
    {0x01021997, "9p", 1},
};
static const struct kind unknown = {0, "an unknown file system", 0};

static const struct kind *kind_of(const char *folder)
{
    char path[PATH_MAX];
    struct statfs s;
    snprintf(path, sizeof path, "%s", folder);
    while (statfs(path, &s) != 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return &unknown;
        *slash = '\0';
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].magic == ((unsigned long)s.f_type & 0xFFFFFFFF))
            return &kinds[i];
    return &unknown;
}

const char *ss_folder_system(const char *folder)
{
    return kind_of(folder)->name;
}

int ss_folder_shared(const char *folder)
{
    return kind_of(folder)->shared;
}

double ss_folder_space(const char *folder)
{
    struct statvfs s;
    if (statvfs(folder, &s) != 0)
        return 0;
    return (double)s.f_bavail * (double)s.f_frsize / (1 << 30);
}

static int fill(int fd)
{
    static const char content[4096];
    int ok = write(fd, content, sizeof content) == (ssize_t)sizeof content;
    int error = errno;
    ok &= close(fd) == 0; /* network file systems may report a full disk only here */
    if (error)
        errno = error;
    return ok;
}

int ss_folder_try(const char *folder, char *why, size_t capacity)
{
    char path[PATH_MAX], message[512];
    ss_log_capture(message, sizeof message);
    enum ss_status status = ss_folder_make(folder);
    ss_log_capture(NULL, 0);
    if (status != SS_OK) {
        snprintf(why, capacity, "%s", message);
        return 0;
    }
    int n = snprintf(path, sizeof path, "%s/starstep-doctor-XXXXXX", folder);
    errno = ENAMETOOLONG;
    int fd = n > 0 && n < PATH_MAX ? mkstemp(path) : -1;
    if (fd < 0) {
        snprintf(why, capacity, "%s", strerror(errno));
        return 0;
    }
    errno = 0;
    int ok = fill(fd);
    if (!ok)
        snprintf(why, capacity, "%s", strerror(errno));
    unlink(path);
    return ok;
}
