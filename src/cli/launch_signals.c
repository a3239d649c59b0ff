/* launch_signals.c: signals that reach the launcher are the ranks' too (contract in launch.h).
 *
 * The ranks are in process groups of their own: what the terminal sends to the foreground comes to
 * them from here alone, and so once. */
#include "cli/launch.h"
#include "core/log.h"
#include "core/signals.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Taken even if this process was told to ignore them: starstep train takes them too. */
static const int always[] = {SIGTERM, SIGUSR1, SIGCHLD, SIGCONT};
/* nohup and a shell's & may have said that these are not for us; the ranks then ignore them as well. */
static const int unless_ignored[] = {SIGINT, SIGHUP, SIGQUIT, SIGUSR2, SIGTSTP};

enum ss_status ss_launch_take_signals(struct ss_launch *launch)
{
    sigemptyset(&launch->taken);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        sigaddset(&launch->taken, always[i]);
    for (size_t i = 0; i < sizeof unless_ignored / sizeof *unless_ignored; i++)
        if (!ss_signal_is_ignored(unless_ignored[i]))
            sigaddset(&launch->taken, unless_ignored[i]);
    /* Ignored, it would take the ranks' exit codes away. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR ||
        sigprocmask(SIG_BLOCK, &launch->taken, &launch->before) != 0)
        return ss_fail(SS_ERR_LIBRARY, "launch: cannot take signals: %s", strerror(errno));
    return SS_OK;
}

void ss_launch_signal(const struct ss_launch *launch, int number)
{
    /* A rank that has ended keeps its number until it is waited for: no other process is hit. */
    for (int r = 0; r < launch->size; r++)
        if (launch->ranks[r].pid > 0 && !launch->ranks[r].ended)
            (void)kill(launch->ranks[r].pid, number);
}

void ss_launch_suspend(const struct ss_launch *launch)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    ss_launch_signal(launch, SIGSTOP);
    /* The shell shall see a job that was suspended. Where no shell would continue it (an orphaned
     * process group), the kernel does not stop it, and all go on at once. */
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    ss_launch_signal(launch, SIGCONT);
}
