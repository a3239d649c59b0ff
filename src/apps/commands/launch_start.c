/* launch_start.c: starts the ranks' processes (contract in launch.h). */
#include "apps/commands/launch.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_CAPACITY = 4096 };

struct starter {
    struct ss_launch *launch;
    struct ss_local_world world;
    char program[PATH_CAPACITY];
    char **argv;
    pid_t launcher;
    int log[SS_LOCAL_RANKS]; /* -1: output is not redirected */
    int report;              /* write end for ranks; launch->report is the read end */
};

#define ITSELF "/proc/self/exe"

static enum ss_status open_logs(struct starter *s)
{
    const char *dir = s->launch->options->output_dir;
    char path[PATH_CAPACITY], name[32];
    if (!dir)
        return SS_OK;
    SS_TRY(ss_folder_make(dir));
    for (int r = 0; r < s->launch->size; r++) {
        snprintf(name, sizeof name, "rank-%d.log", r);
        SS_TRY(ss_folder_join(path, sizeof path, dir, name));
        /* stdout and stderr of a rank share the file; O_APPEND makes each write go to its current
         * end. */
        s->log[r] = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
        if (s->log[r] < 0)
            return ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    return SS_OK;
}

static enum ss_status open_report(struct starter *s)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return ss_fail(SS_ERR_IO, "launch: cannot make a pipe: %s", strerror(errno));
    s->launch->report = ends[0];
    s->report = ends[1];
    return SS_OK;
}

static enum ss_status make_argv(struct starter *s)
{
    size_t n = 0;
    while (s->launch->options->command[n])
        n++;
    s->argv = calloc(n + 2, sizeof *s->argv);
    if (!s->argv)
        return ss_fail_memory("the ranks' arguments", (n + 2) * sizeof *s->argv);
    s->argv[0] = (char *)"starstep";
    memcpy(s->argv + 1, s->launch->options->command, n * sizeof *s->argv);
    return SS_OK;
}

/* From here to execve() only async-signal-safe functions: the parent may have threads. */
static void give_up(const struct starter *s, int rank, const char *what)
{
    struct ss_launch_report report = {.rank = rank, .error = errno};
    memccpy(report.what, what, '\0', sizeof report.what - 1);
    (void)!write(s->report, &report, sizeof report); /* the exit code reports the failure too */
    _exit(SS_LAUNCH_NOT_STARTED);
}

static void redirect(const struct starter *s, int rank)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), log = s->log[rank];
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        give_up(s, rank, "/dev/null");
    if (log >= 0 && (dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0))
        give_up(s, rank, "dup2");
}

static void become_rank(const struct starter *s, int rank, char **environment)
{
    if (setpgid(0, 0) != 0)
        give_up(s, rank, "setpgid");
    /* Kill the rank if the launcher dies; it may have died already. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        give_up(s, rank, "prctl");
    if (getppid() != s->launcher)
        _exit(SS_LAUNCH_NOT_STARTED);
    redirect(s, rank);
    if (rank == 0 && fcntl(s->world.listener, F_SETFD, 0) != 0)
        give_up(s, rank, "fcntl");
    /* Behave as in the foreground, where the launcher is: `stty tostop` must not stop ranks. */
    if (signal(SIGTTOU, SIG_IGN) == SIG_ERR || sigprocmask(SIG_SETMASK, &s->launch->before, NULL))
        give_up(s, rank, "sigprocmask");
    execve(s->program, s->argv, environment);
    execve(ITSELF, s->argv, environment); /* fails if the program was just replaced */
    give_up(s, rank, s->program);
}

static enum ss_status start_rank(struct starter *s, int rank)
{
    struct ss_local_environment environment;
    SS_TRY(ss_local_environment_make(&s->world, rank, &environment));
    pid_t pid = fork();
    if (pid == 0)
        become_rank(s, rank, environment.list);
    int error = errno;
    ss_local_environment_free(&environment);
    if (pid < 0)
        return ss_fail(SS_ERR_IO, "launch: cannot start rank %d of %d: fork: %s", rank,
                       s->launch->size, strerror(error));
    s->launch->ranks[rank].pid = pid;
    return SS_OK;
}

static enum ss_status start_ranks(struct starter *s)
{
    SS_TRY(make_argv(s));
    SS_TRY(open_logs(s));
    SS_TRY(open_report(s));
    SS_TRY(ss_local_world_open(s->launch->size, &s->world));
    for (int r = 0; r < s->launch->size; r++)
        SS_TRY(start_rank(s, r));
    return SS_OK;
}

/* End the ranks that were started before a start failed. */
static void end_started(struct ss_launch *launch)
{
    ss_launch_signal(launch, SIGKILL);
    for (int r = 0; r < launch->size; r++)
        while (launch->ranks[r].pid > 0 && waitpid(launch->ranks[r].pid, NULL, 0) < 0 &&
               errno == EINTR)
            ;
}

enum ss_status ss_launch_start(struct ss_launch *launch)
{
    struct starter *s = calloc(1, sizeof *s);
    if (!s)
        return ss_fail_memory("the start of ranks", sizeof *s);
    s->launch = launch;
    s->launcher = getpid();
    s->report = launch->report = s->world.listener = -1;
    for (int r = 0; r < SS_LOCAL_RANKS; r++)
        s->log[r] = -1;
    ss_program_path(s->program, sizeof s->program);
    enum ss_status status = start_ranks(s);
    if (status != SS_OK)
        end_started(launch);
    for (int r = 0; r < SS_LOCAL_RANKS; r++)
        if (s->log[r] >= 0)
            close(s->log[r]);
    if (s->report >= 0)
        close(s->report);
    ss_local_world_close(&s->world);
    free(s->argv);
    free(s);
    return status;
}
