/* Check for signals that were ignored when the process was started. */
#ifndef SS_CORE_SIGNALS_H
#define SS_CORE_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/* Return 1 if the process ignores the signal, as under nohup or a shell's &. */
static inline int ss_signal_is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

#endif
