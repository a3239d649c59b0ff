/* Detection of leaked files; AddressSanitizer and check-mutants detect only leaked memory. If a
 * process of a test exits with 0 but still has files open, or files /tmp/test_* mapped, it prints
 * them and exits with 97. */
#ifndef TESTS_LEFT_OPEN_H
#define TESTS_LEFT_OPEN_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEFT_OPEN = 97, LEFT_OPEN_FILES = 4096, LEFT_OPEN_MOST = 8 };

static struct {
    pid_t process; /* parent, whose files are in `open`; only its children are checked */
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

/* Reports an open file. Exceptions: Check's unlinked message file /tmp/check_*, Open MPI 5's
 * prterun files, and devices. Only paths count, not events, epolls and sockets, which libraries
 * hold open until exit. */
static inline void left_open_tell(int fd, const char *path, void *found)
{
    if (left_open.open[fd] || path[0] != '/' || !strncmp(path, "/tmp/check_", 11) ||
        !strncmp(path, "/dev/", 5) || strstr(path, "/prterun."))
        return;
    if (++*(int *)found <= LEFT_OPEN_MOST)
        fprintf(stderr, "left open: %s\n", path);
}

static inline void left_open_maps(int *found)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        const char *path = strchr(line, '/');
        if (path && !strncmp(path, "/tmp/test_", 10) && strstr(line, " r--")) {
            if (++*found <= LEFT_OPEN_MOST)
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

/* Enables the check at the exit of all later children. */
static inline void left_open_watch(void)
{
    left_open.process = getpid();
    left_open_each(left_open_mark, NULL);
    on_exit(left_open_at_exit, NULL);
}

#endif
