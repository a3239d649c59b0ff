/* Files that a test's process has opened and not closed, and files below /tmp that it has mapped and not unmapped, are
 * found when it exits with 0: it then names them and exits with 97. For what does not go by memory, which the address
 * sanitizer and check-mutants ask for. */
#ifndef TESTS_LEFT_OPEN_H
#define TESTS_LEFT_OPEN_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEFT_OPEN = 97, LEFT_OPEN_FILES = 4096, LEFT_OPEN_TOLD = 8 };

static struct {
    pid_t process; /* whose files are in `open`: its children are asked */
    char open[LEFT_OPEN_FILES];
} left_open;

/* Calls see(fd, path, arg) for each open file. */
static inline void left_open_each(void (*see)(int fd, const char *path, void *arg), void *arg)
{
    DIR *fds = opendir("/proc/self/fd");
    for (struct dirent *entry; fds && (entry = readdir(fds));) {
        char path[4096];
        const int fd = atoi(entry->d_name);
        const ssize_t n = readlinkat(dirfd(fds), entry->d_name, path, sizeof path - 1);
        if (n < 0 || fd == dirfd(fds) || fd >= LEFT_OPEN_FILES)
            continue;
        path[n] = '\0';
        see(fd, path, arg);
    }
    if (fds)
        closedir(fds);
}

static inline void left_open_mark(int fd, const char *path, void *arg)
{
    (void)path;
    (void)arg;
    left_open.open[fd] = 1;
}

/* Check's own file of messages is /tmp/check_*, and already without a name; prterun's is Open MPI 5's. Events, epolls
 * and sockets of libraries that a process keeps to its end are theirs, so only files and folders count, and devices of
 * no interest do not. */
static inline void left_open_tell(int fd, const char *path, void *found)
{
    if (left_open.open[fd] || path[0] != '/' || !strncmp(path, "/tmp/check_", 11) ||
        !strncmp(path, "/dev/", 5) || strstr(path, "/prterun."))
        return;
    if (++*(int *)found <= LEFT_OPEN_TOLD)
        fprintf(stderr, "left open: %s\n", path);
}

static inline void left_open_maps(int *found)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        const char *path = strchr(line, '/');
        if (path && !strncmp(path, "/tmp/test_", 10) && strstr(line, " r--")) {
            if (++*found <= LEFT_OPEN_TOLD)
                fprintf(stderr, "left mapped: %s", path);
        }
    }
    if (maps)
        fclose(maps);
}

static inline void left_open_at_exit(int code, void *arg)
{
    int found = 0;
    (void)arg;
    if (code != 0 || getpid() == left_open.process)
        return;
    left_open_each(left_open_tell, &found);
    left_open_maps(&found);
    if (found)
        _exit(LEFT_OPEN);
}

/* From here on children are asked at their exit. */
static inline void left_open_watch(void)
{
    left_open.process = getpid();
    left_open_each(left_open_mark, NULL);
    on_exit(left_open_at_exit, NULL);
}

#endif
