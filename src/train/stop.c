#include "train/stop.h"
#include "core/clock.h"
#include "core/signals.h"

enum { SIGNALS = 64, SECOND_SIGNAL_NS = 1000000000 };

static _Atomic int asked;                      /* static: the handlers may outlive a run */
static _Atomic uint64_t signalled_ns[SIGNALS]; /* by signal number: time of the first */

static void on_signal(int number)
{
    /* Two threads may handle one signal each: the exchange may then fail with an earlier
     * `now`. */
    uint64_t now = ss_now_ns(), never = 0;
    if (atomic_compare_exchange_strong(&signalled_ns[number % SIGNALS], &never, now)) {
        atomic_store(&asked, 1);
    } else if (now > never && now - never > SECOND_SIGNAL_NS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

const int ss_stop_signals[SS_STOP_SIGNALS] = {SIGTERM, SIGUSR1, SIGINT, SIGHUP};

/* SIGTERM and SIGUSR1 are sent by batch systems: caught even if a script has ignored them. */
static int is_wanted(int number)
{
    return number == SIGTERM || number == SIGUSR1 || !ss_signal_is_ignored(number);
}

void ss_stop_set(sigset_t *set)
{
    sigemptyset(set);
    for (int i = 0; i < SS_STOP_SIGNALS; i++)
        if (is_wanted(ss_stop_signals[i]))
            sigaddset(set, ss_stop_signals[i]);
}

void ss_stop_catch(struct ss_run *run)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < SIGNALS; i++)
        atomic_store(&signalled_ns[i], 0);
    atomic_store(&asked, 0);
    atomic_store(&run->stop, &asked);
    for (int i = 0; i < SS_STOP_SIGNALS; i++)
        if (is_wanted(ss_stop_signals[i]))
            sigaction(ss_stop_signals[i], &action, NULL);
}
