/* backoff.c: sleep times of communication threads (contract in backoff.h). */
#include "comm/backoff.h"

static uint64_t most_after(uint64_t waited_ns, uint64_t usual_ns)
{
    const uint64_t part = waited_ns / SS_BACKOFF_PART;
    if (part <= usual_ns)
        return usual_ns;
    return part < SS_BACKOFF_MOST_NS ? part : SS_BACKOFF_MOST_NS;
}

void ss_backoff_restart(struct ss_backoff *backoff)
{
    backoff->next_ns = 0;
}

void ss_backoff_progressed(struct ss_backoff *backoff, uint64_t now_ns)
{
    backoff->since_ns = now_ns;
    ss_backoff_restart(backoff);
}

uint64_t ss_backoff_next(struct ss_backoff *backoff, uint64_t now_ns, uint64_t usual_ns)
{
    const uint64_t most = most_after(now_ns - backoff->since_ns, usual_ns);
    uint64_t ns = backoff->next_ns > 0 ? backoff->next_ns : SS_BACKOFF_LEAST_NS;
    ns = ns < most ? ns : most;
    backoff->next_ns = 2 * ns;
    return ns;
}
