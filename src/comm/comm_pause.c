/* comm_pause.c: sleeps of communication threads (contract in comm_pause.h). */
#include "comm/comm_pause.h"

static uint64_t most_after(uint64_t waited_ns, uint64_t usual_ns)
{
    const uint64_t part = waited_ns / SS_PAUSE_PART;
    if (part <= usual_ns)
        return usual_ns;
    return part < SS_PAUSE_MOST_NS ? part : SS_PAUSE_MOST_NS;
}

void ss_pause_restart(struct ss_pause *pause)
{
    pause->next_ns = 0;
}

void ss_pause_moved(struct ss_pause *pause, uint64_t now_ns)
{
    pause->since_ns = now_ns;
    ss_pause_restart(pause);
}

uint64_t ss_pause_next(struct ss_pause *pause, uint64_t now_ns, uint64_t usual_ns)
{
    const uint64_t most = most_after(now_ns - pause->since_ns, usual_ns);
    uint64_t ns = pause->next_ns > 0 ? pause->next_ns : SS_PAUSE_LEAST_NS;
    ns = ns < most ? ns : most;
    pause->next_ns = 2 * ns;
    return ns;
}
