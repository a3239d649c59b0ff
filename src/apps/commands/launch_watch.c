/* launch_watch.c: supervises the ranks from start to exit (contract in launch.h).
 *
 * When a rank fails, the others detect and report it themselves, within the time of --grace. A
 * killed rank may take longer to disappear than the others take to fail over it. The first
 * failure is therefore determined a moment after the first exit, and a rank ended by a signal
 * takes precedence over ranks that exited by themselves. */
#include "apps/commands/launch.h"
#include "core/clock.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DECIDE_SECONDS 1.0
#define DEATH_SECONDS 10.0 /* time for the kernel to end killed processes */
#define TICK_SECONDS 0.2

struct watch {
    struct ss_launch *launch;
    int running;
    int failed; /* the rank considered the first to fail; -1: none */
    int said;   /* the first failure has been reported */
    int killed; /* the remaining ranks were killed */
    int passed; /* the last forwarded signal that may end ranks; 0: none */
    double since_failure_s, since_kill_s;
    int given_up;
};

static int failed(const struct ss_launch_rank *rank)
{
    return rank->ended && rank->status != 0;
}

static void note_end(struct watch *w, int r)
{
    const struct ss_launch_rank *rank = &w->launch->ranks[r];
    w->running--;
    if (!failed(rank) || w->killed)
        return;
    if (w->failed < 0 ||
        (!w->said && WIFSIGNALED(rank->status) && WIFEXITED(w->launch->ranks[w->failed].status)))
        w->failed = r;
}

static void reap(struct watch *w)
{
    struct ss_launch *launch = w->launch;
    /* Wait for each rank's pid: children that this process had before it became the launcher must
     * not be reaped. */
    for (int r = 0; r < launch->size; r++) {
        struct ss_launch_rank *rank = &launch->ranks[r];
        if (rank->ended || waitpid(rank->pid, &rank->status, WNOHANG) != rank->pid)
            continue;
        rank->ended = 1;
        note_end(w, r);
    }
}

/* Report why a rank could not exec the program; returns 0 if it could. */
static int not_started(struct watch *w, const struct ss_launch_rank *rank)
{
    struct ss_launch_report report;
    if (!WIFEXITED(rank->status) || WEXITSTATUS(rank->status) != SS_LAUNCH_NOT_STARTED ||
        read(w->launch->report, &report, sizeof report) != (ssize_t)sizeof report)
        return 0;
    ss_fail(SS_ERR_IO, "launch: cannot start rank %d of %d: %s: %s", report.rank, w->launch->size,
            report.what, strerror(report.error));
    return 1;
}

static void report_first(struct watch *w)
{
    const struct ss_launch_rank *rank = &w->launch->ranks[w->failed];
    const char *rest = w->running > 0 ? "; ending the others" : "";
    int status = rank->status;
    w->said = 1;
    /* No report if a forwarded signal ended the rank: its sender knows, and ranks stopped by it
     * have reported it. */
    if (w->passed && (WIFEXITED(status) || WTERMSIG(status) == w->passed))
        return;
    if (WIFSIGNALED(status))
        ss_fail(SS_ERR_COMM, "launch: rank %d (process %d) was ended by signal %d (%s)%s%s",
                w->failed, (int)rank->pid, WTERMSIG(status), strsignal(WTERMSIG(status)),
                WTERMSIG(status) == SIGKILL ? ", perhaps because memory ran out" : "", rest);
    else if (!not_started(w, rank))
        ss_fail(SS_ERR_COMM, "launch: rank %d (process %d) ended with exit code %d%s", w->failed,
                (int)rank->pid, WEXITSTATUS(status), rest);
}

static void report_left(const struct watch *w, const char *did, double seconds, const char *then)
{
    const struct ss_launch *launch = w->launch;
    int r = 0;
    char more[48] = "";
    while (launch->ranks[r].ended)
        r++;
    if (w->running > 1)
        snprintf(more, sizeof more, " and %d more", w->running - 1);
    ss_warn("launch: rank %d (process %d)%s %s %g s; %s", r, (int)launch->ranks[r].pid, more, did,
            seconds, then);
}

/* Count seconds since a failure, excluding time in which this process was stopped. */
static void count_time(struct watch *w, double seconds)
{
    const struct ss_launch_options *options = w->launch->options;
    if (w->failed < 0)
        return;
    if (seconds > 2 * TICK_SECONDS)
        seconds = 2 * TICK_SECONDS;
    if (w->killed)
        w->since_kill_s += seconds;
    else
        w->since_failure_s += seconds;
    int signalled = WIFSIGNALED(w->launch->ranks[w->failed].status);
    if (!w->said && (signalled || w->running == 0 || w->since_failure_s >= DECIDE_SECONDS ||
                     w->since_failure_s >= options->grace_s))
        report_first(w);
    if (w->said && w->running > 0 && !w->killed && w->since_failure_s >= options->grace_s) {
        report_left(w, "did not end within", options->grace_s, "killing");
        w->killed = 1;
        ss_launch_signal(w->launch, SIGKILL);
    }
    if (w->running > 0 && w->since_kill_s >= DEATH_SECONDS && !w->given_up) {
        report_left(w, "has been killed and is not gone after", DEATH_SECONDS,
                    "it hangs in the kernel; leaving it there");
        w->given_up = 1;
    }
}

static void take(struct watch *w, const siginfo_t *signal)
{
    int number = signal->si_signo;
    if (number == SIGTSTP) {
        ss_launch_suspend(w->launch);
    } else if (number == SIGCONT) {
        ss_launch_signal(w->launch, number);
    } else if (number != SIGCHLD) {
        w->passed = number;
        ss_launch_signal(w->launch, number);
    }
}

/* Wait for the next signal. Returns 1 and the signal, or 0 after a tick. Without a failure there
 * is no timeout. */
static int next_signal(const struct watch *w, siginfo_t *signal)
{
    const struct timespec tick = {0, (long)(1e9 * TICK_SECONDS)};
    int number = w->failed < 0 ? sigwaitinfo(&w->launch->taken, signal)
                               : sigtimedwait(&w->launch->taken, signal, &tick);
    return number > 0;
}

int ss_launch_watch(struct ss_launch *launch)
{
    struct watch w = {.launch = launch, .running = launch->size, .failed = -1};
    double before = ss_seconds();
    siginfo_t signal;
    ss_log_set_patience(SS_LAST_WORDS_S);
    while (w.running > 0 && !w.given_up) {
        int counting = w.failed >= 0;
        if (next_signal(&w, &signal))
            take(&w, &signal);
        reap(&w);
        double now = ss_seconds();
        count_time(&w, counting ? now - before : 0);
        before = now;
    }
    close(launch->report);
    if (w.failed < 0)
        return 0;
    int status = launch->ranks[w.failed].status;
    launch->ended_by = WIFSIGNALED(status) && WTERMSIG(status) == w.passed ? w.passed : 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
