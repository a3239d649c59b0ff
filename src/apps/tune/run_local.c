/* run_local.c: run a trial on this machine (interface in tune.h). */
#include "core/clock.h"
#include "core/log.h"
#include "core/program.h"
#include "train/stop.h"
#include "apps/tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double GRACE_S = 20; /* between SIGTERM and SIGKILL */

enum { EXIT_TIMEOUT = 124, EXIT_NOT_STARTED = 127 }; /* as in timeout(1) and shells */

/* ---- child -------------------------------------------------------------------------------- */

static void give_up(const char *what)
{
    fprintf(stderr, "starstep: error: tune: %s: %s\n", what, strerror(errno));
    fflush(stderr);
    _exit(EXIT_NOT_STARTED);
}

static void redirect(const char *path)
{
    const int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666),
              in = open("/dev/null", O_RDONLY);
    if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0)
        give_up(path);
}

static void set_variables(const struct ss_tune *t, const char *label)
{
    const struct ss_tune_setting *s;
    char number[32];
    snprintf(number, sizeof number, "%ld", ss_tune_ranks(t, label) * t->options->nodes);
    if (setenv("RANKS", number, 1))
        give_up("RANKS");
    while ((s = ss_tune_next_setting(t, &label)))
        if (s->kind == SS_TUNE_VARIABLE && setenv(s->name, s->value, 1))
            give_up(s->name);
}

/* Shell command that starts the ranks; "": a single rank needs no launcher; NULL: starstep launch
 * (ranks on GPUs need no MPI). */
static const char *launcher_for(const struct ss_tune *t, const char *label)
{
    if (t->options->start)
        return t->options->start;
    if (ss_tune_ranks(t, label) * t->options->nodes == 1)
        return "";
    return ss_train_choose_device(&t->train).gpu ? NULL : "mpiexec -n $RANKS --bind-to none";
}

static void exec_trial(const struct ss_tune *t, const struct ss_tune_trial *trial, char *program,
                       char **args, size_t count)
{
    char script[SS_TUNE_PATH];
    const char *start = launcher_for(t, trial->label);
    char **argv = calloc(count + 8, sizeof *argv);
    size_t n = 0;
    if (!argv)
        give_up("arguments");
    if (start && *start) {
        snprintf(script, sizeof script, "exec %s \"$@\"", start);
        argv[n++] = (char *)"sh";
        argv[n++] = (char *)"-c";
        argv[n++] = script;
        argv[n++] = (char *)"sh";
    }
    argv[n++] = program;
    if (!start) {
        argv[n++] = (char *)"launch";
        argv[n++] = (char *)"-n";
        argv[n++] = getenv("RANKS");
    }
    memcpy(argv + n, args, (count + 1) * sizeof *argv);
    execv(start && *start ? "/bin/sh" : argv[0], argv);
    give_up(start && *start ? "/bin/sh" : argv[0]);
}

/* ---- parent ------------------------------------------------------------------------------- */

/* Wait for a signal of `set` and return its number; 0: timed out. */
static int wait_signal(const sigset_t *set, double seconds)
{
    const struct timespec limit = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    int n;
    while ((n = sigtimedwait(set, NULL, &limit)) < 0 && errno == EINTR)
        ;
    return n > 0 ? n : 0;
}

/* Wait for the trial. Send SIGTERM at its deadline or when this process receives a signal, then
 * SIGKILL. Returns the exit code as a shell reports it. */
static int watch(pid_t pid, const sigset_t *set, double deadline_s, int *interrupted)
{
    double until = ss_seconds() + deadline_s;
    int status, signalled = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        const double left = until - ss_seconds();
        const int number = left > 0 ? wait_signal(set, left) : 0;
        if (number == SIGCHLD)
            continue;
        *interrupted |= number != 0;
        (void)kill(-pid, signalled++ ? SIGKILL : SIGTERM);
        until = ss_seconds() + GRACE_S;
    }
    (void)kill(-pid, SIGKILL); /* remaining members of its process group */
    if (signalled)
        return EXIT_TIMEOUT;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void awaited_signals(sigset_t *set)
{
    ss_stop_set(set);
    sigaddset(set, SIGCHLD);
}

void ss_tune_block_signals(struct ss_tune *t)
{
    sigset_t set;
    awaited_signals(&set);
    (void)signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set, &t->trial_mask);
}

enum ss_status ss_tune_run_local(struct ss_tune *t, const struct ss_tune_trial *trial,
                                 int *interrupted)
{
    char log[SS_TUNE_PATH], out[SS_TUNE_PATH], program[SS_PROGRAM_PATH];
    const struct ss_tune_steps steps = ss_tune_steps(t, trial->stage);
    struct ss_tune_args args;
    sigset_t set;
    SS_TRY(ss_tune_path(t, SS_TUNE_LOG, log));
    SS_TRY(ss_tune_path(t, SS_TUNE_OUT, out));
    SS_TRY(ss_tune_mark_started(t, trial));
    SS_TRY(ss_tune_train_args(t, trial->label, log, steps.warmup + steps.measured, &args));
    ss_program_path(program, sizeof program);
    awaited_signals(&set);
    fflush(NULL);
    const double begin = ss_seconds();
    const pid_t pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, &t->trial_mask, NULL);
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        redirect(out);
        set_variables(t, trial->label);
        exec_trial(t, trial, program, args.at, args.count);
    }
    const int error = errno;
    ss_tune_args_free(&args);
    enum ss_status status = SS_OK;
    *interrupted = 0;
    if (pid < 0) {
        status = ss_fail(SS_ERR_IO, "tune: cannot start a trial: fork: %s", strerror(error));
    } else {
        (void)setpgid(pid, pid);
        const int code = watch(pid, &set, ss_tune_deadline(t), interrupted);
        if (!*interrupted)
            status = ss_tune_record(t, trial, code, ss_seconds() - begin);
    }
    return status;
}
