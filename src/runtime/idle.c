/* idle.c: StarPU calls the hook on a worker each time that it has looked for a task and found none.
 * No lock is held there. */
#include "runtime/idle.h"
#include "core/clock.h"
#include "core/log.h"

#include <starpu.h>
#include <starpu_expert.h>
#include <stdint.h>
#include <time.h>

enum {
    BUSY_NS = 20000,  /* a longer time between two calls was a task, or a sleep of StarPU's own */
    EAGER_NS = 50000, /* look for so long without sleeping */
    SLEEP_MIN_NS = 20000,
    SLEEP_MAX_NS = 200000, /* of a rank with a core of its own */
};

static uint64_t longest_ns;
static int hook = -1;

static unsigned sleep_a_little(void *unused)
{
    static _Thread_local uint64_t last_ns, idle_since_ns, sleep_ns;
    (void)unused;
    if (starpu_worker_get_type(starpu_worker_get_id()) != STARPU_CPU_WORKER)
        return 1; /* it feeds a GPU */
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
    return 1;
}

enum ss_status ss_idle_start(int ranks, int cores)
{
    longest_ns = SLEEP_MAX_NS;
    if (ranks > cores)
        longest_ns = longest_ns * (uint64_t)ranks / (uint64_t)cores;
    hook = starpu_idle_hook_register(sleep_a_little, NULL);
    if (hook < 0)
        return ss_fail(SS_ERR_LIBRARY, "StarPU: starpu_idle_hook_register: no room for a hook");
    return SS_OK;
}

void ss_idle_stop(void)
{
    if (hook >= 0)
        starpu_idle_hook_deregister(hook);
    hook = -1;
}
