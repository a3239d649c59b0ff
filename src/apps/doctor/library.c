#include "apps/doctor/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 10 };

/* Load the library; runs in the child. */
static void load(const char *name, const char *needs, struct ss_library *out)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    struct link_map *map = NULL;
    if (!library) {
        const char *why = dlerror();
        size_t length = strlen(name);
        snprintf(out->why, sizeof out->why, "%s", why ? why : "no reason is given");
        /* The loader's message begins with the missing file: this library, or one that it depends
         * on. */
        out->state = !strncmp(out->why, name, length) && out->why[length] == ':' &&
                             strstr(out->why, "No such file or directory")
                         ? SS_LIBRARY_ABSENT
                         : SS_LIBRARY_FAILS;
        return;
    }
    out->state = SS_LIBRARY_LOADS;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
        return;
    snprintf(out->path, sizeof out->path, "%s", map->l_name);
    for (; needs && map; map = map->l_next) {
        const char *base = strrchr(map->l_name, '/');
        if (base && !strncmp(base + 1, needs, strlen(needs)))
            snprintf(out->with, sizeof out->with, "%s", map->l_name);
    }
}

/* Returns whether the child sent its complete result in time. */
static int read_answer(int from, struct ss_library *out)
{
    size_t done = 0;
    struct pollfd in = {.fd = from, .events = POLLIN};
    while (done < sizeof *out) {
        int ready = poll(&in, 1, PATIENCE_S * 1000);
        ssize_t n = ready > 0 ? read(from, (char *)out + done, sizeof *out - done) : ready;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        done += (size_t)n;
    }
    return 1;
}

static void fail(struct ss_library *out, const char *why)
{
    *out = (struct ss_library){.state = SS_LIBRARY_FAILS};
    snprintf(out->why, sizeof out->why, "%s", why);
}

void ss_library_try(const char *name, const char *needs, struct ss_library *out)
{
    int pipe_fd[2], status = 0;
    *out = (struct ss_library){.state = SS_LIBRARY_FAILS};
    if (pipe(pipe_fd) != 0) {
        fail(out, strerror(errno));
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(pipe_fd[0]);
        load(name, needs, out);
        _exit(write(pipe_fd[1], out, sizeof *out) == (ssize_t)sizeof *out ? 0 : 1);
    }
    int error = errno;
    close(pipe_fd[1]);
    if (child < 0)
        fail(out, strerror(error));
    else if (!read_answer(pipe_fd[0], out))
        fail(out, "loading it crashed or did not end");
    close(pipe_fd[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
}
