/* idle.c: StarPU calls the hook on a worker after each poll that found no task. No lock is held
 * there. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "runtime/idle.h"
#include "core/clock.h"
#include "core/log.h"

#include <starpu.h>
#include <starpu_expert.h>
#include <stdint.h>
#include <time.h>

enum {
    BUSY_NS = 20000,  /* a longer time between two calls was a task, or a sleep inside StarPU */
    EAGER_NS = 50000, /* poll for this time without sleeping */
    SLEEP_MIN_NS = 20000,
    SLEEP_MAX_NS = 200000, /* of a rank with its own core */
};

static uint64_t longest_ns;
static int hook = -1;

static void sleep_briefly(void)
{
    static _Thread_local uint64_t last_ns, idle_since_ns, sleep_ns;
    uint64_t now = ss_now_ns();
    if (now - last_ns > BUSY_NS) {
        idle_since_ns = now;
        sleep_ns = SLEEP_MIN_NS;
    } else if (now - idle_since_ns > EAGER_NS) {
        struct timespec time = {0, (long)sleep_ns};
        nanosleep(&time, NULL);
        sleep_ns = 2 * sleep_ns < longest_ns ? 2 * sleep_ns : longest_ns;
        now = ss_now_ns();
    }
    last_ns = now;
}

static unsigned cpu_worker_idles(void *unused)
{
    (void)unused;
    if (starpu_worker_get_type(starpu_worker_get_id()) == STARPU_CPU_WORKER)
        sleep_briefly(); /* other workers drive a GPU */
    return 1;
}

#ifdef SS_HOSTGPU
static int hook_of_feeder = -1;

/* An emulated GPU computes on the cores of the thread that drives it. StarPU has no idle hooks
 * for that thread, but calls this hook on each of its polls. While the GPU has a task a poll
 * takes longer than BUSY_NS, as cudaEventQuery does then. */
static unsigned feeder_polls(void *unused)
{
    const int worker = starpu_worker_get_id();
    (void)unused;
    if (worker >= 0 && starpu_worker_get_type(worker) == STARPU_CUDA_WORKER)
        sleep_briefly();
    return 1;
}
#endif

enum ss_status ss_idle_start(int ranks, int cores)
{
    longest_ns = SLEEP_MAX_NS;
    if (ranks > cores)
        longest_ns = longest_ns * (uint64_t)ranks / (uint64_t)cores;
    hook = starpu_idle_hook_register(cpu_worker_idles, NULL);
    if (hook < 0)
        return ss_fail(SS_ERR_LIBRARY, "StarPU: starpu_idle_hook_register: no free hook slot");
#ifdef SS_HOSTGPU
    hook_of_feeder = starpu_progression_hook_register(feeder_polls, NULL);
    if (hook_of_feeder < 0)
        return ss_fail(SS_ERR_LIBRARY,
                       "StarPU: starpu_progression_hook_register: no free hook slot");
#endif
    return SS_OK;
}

void ss_idle_stop(void)
{
    if (hook >= 0)
        starpu_idle_hook_deregister(hook);
    hook = -1;
#ifdef SS_HOSTGPU
    if (hook_of_feeder >= 0)
        starpu_progression_hook_deregister(hook_of_feeder);
    hook_of_feeder = -1;
#endif
}
