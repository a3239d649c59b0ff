/* launch_signals.c: forwards the launcher's signals to the ranks (contract in launch.h).
 *
 * Ranks are in process groups of their own, so signals that the terminal sends to the foreground
 * reach them only through the launcher, and only once. */
#include "apps/commands/launch.h"
#include "core/log.h"
#include "core/signals.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Handled even if this process inherited them as ignored; starstep train handles them too. */
static const int always[] = {SIGTERM, SIGUSR1, SIGCHLD, SIGCONT};
/* Not handled if inherited as ignored (nohup, or & in a shell); the ranks then ignore them as
 * well. */
static const int unless_ignored[] = {SIGINT, SIGHUP, SIGQUIT, SIGUSR2, SIGTSTP};

enum ss_status ss_launch_take_signals(struct ss_launch *launch)
{
    sigemptyset(&launch->taken);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        sigaddset(&launch->taken, always[i]);
    for (size_t i = 0; i < sizeof unless_ignored / sizeof *unless_ignored; i++)
        if (!ss_signal_is_ignored(unless_ignored[i]))
            sigaddset(&launch->taken, unless_ignored[i]);
    /* If ignored, SIGCHLD would discard the ranks' exit codes. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR ||
        sigprocmask(SIG_BLOCK, &launch->taken, &launch->before) != 0)
        return ss_fail(SS_ERR_LIBRARY, "launch: cannot take signals: %s", strerror(errno));
    return SS_OK;
}

void ss_launch_signal(const struct ss_launch *launch, int number)
{
    /* An ended rank retains its pid until it is waited for, so no other process is signaled. */
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
    /* Stop this process too, so that the shell sees a suspended job. In an orphaned process
     * group, which no shell would continue, the kernel does not stop it, and all ranks continue
     * immediately. */
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    ss_launch_signal(launch, SIGCONT);
}
