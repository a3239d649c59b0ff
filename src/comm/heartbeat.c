/* heartbeat.c: contents and period of heartbeats (contract in comm_watch.h). */
#include "comm/comm_watch.h"
#include "core/clock.h"

#include <stdio.h>
#include <string.h>

void ss_watch_clock_advance(struct ss_watch_clock *clock)
{
    uint64_t now = ss_now_ns();
    double passed = 1e-9 * (double)(now - clock->ns);
    clock->now_s += passed < 1 ? passed : 1;
    clock->ns = now;
}

double ss_watch_period(double timeout_s)
{
    return timeout_s < 5 ? timeout_s / 10 : 0.5;
}

void ss_watch_note(struct ss_watch_last *last, const struct ss_comm_request *request)
{
    last->tag = request->tag;
    snprintf(last->what, sizeof last->what, "%s", request->what ? request->what : "");
}

struct ss_heartbeat ss_watch_describe(uint64_t started, const struct ss_watch_last *last,
                                      const struct ss_comm_request *oldest, uint64_t seq,
                                      double waited_s)
{
    struct ss_watch_last place = *last;
    struct ss_heartbeat heartbeat = {.started = started};
    if (oldest) {
        ss_watch_note(&place, oldest);
        heartbeat.waiting_seq = seq;
        heartbeat.waited_s = waited_s;
        heartbeat.kind = (int32_t)oldest->kind;
        heartbeat.root = oldest->root;
        heartbeat.count = oldest->count;
    }
    heartbeat.step = place.tag.step;
    heartbeat.bucket = place.tag.bucket;
    memcpy(heartbeat.what, place.what, sizeof heartbeat.what);
    return heartbeat;
}
