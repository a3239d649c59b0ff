/* Signals that the process may have been started with ignored. */
#ifndef SS_CORE_SIGNALS_H
#define SS_CORE_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/* 1 if the process ignores it, as nohup and a shell's & start programs. */
static inline int ss_signal_is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

#endif
