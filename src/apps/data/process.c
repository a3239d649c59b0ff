#include "apps/data/process.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int redirect(posix_spawn_file_actions_t *actions, int fd, const char *file)
{
    int flags = fd == STDIN_FILENO ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    return posix_spawn_file_actions_addopen(actions, fd, file ? file : "/dev/null", flags, 0666);
}

enum ss_status ss_process_run(const struct ss_process *process, int *code)
{
    const char *program = process->argv[0];
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return ss_fail(SS_ERR_MEMORY, "cannot run %s: %s", program, strerror(rc));
    rc = redirect(&actions, STDIN_FILENO, process->in);
    if (rc == 0)
        rc = redirect(&actions, STDOUT_FILENO, process->out);
    if (rc == 0)
        rc = redirect(&actions, STDERR_FILENO, process->err);
    pid_t pid = 0;
    /* posix_spawnp takes char *const *, but does not modify the strings. */
    union {
        const char *const *constant;
        char *const *plain;
    } argv = {process->argv};
    if (rc == 0)
        rc = posix_spawnp(&pid, program, &actions, NULL, argv.plain, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc == ENOENT) {
        *code = -1;
        return SS_OK;
    }
    if (rc != 0)
        return ss_fail(SS_ERR_IO, "cannot run %s: %s", program, strerror(rc));
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return ss_fail(SS_ERR_IO, "cannot wait for %s: %s", program, strerror(errno));
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    /* A missing program may be reported only here, by exit status 127 (POSIX, posix_spawn()). */
    if (*code == 127)
        *code = -1;
    return SS_OK;
}
