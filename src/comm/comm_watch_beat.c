/* comm_watch_beat.c: what a rank tells the watchdog, and when (contract in comm_watch.h). */
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

struct ss_beat ss_watch_describe(uint64_t started, const struct ss_watch_last *last,
                                 const struct ss_comm_request *oldest, uint64_t seq,
                                 double waited_s)
{
    struct ss_watch_last place = *last;
    struct ss_beat beat = {.started = started};
    if (oldest) {
        ss_watch_note(&place, oldest);
        beat.waiting_seq = seq;
        beat.waited_s = waited_s;
        beat.kind = (int32_t)oldest->kind;
        beat.root = oldest->root;
        beat.count = oldest->count;
    }
    beat.step = place.tag.step;
    beat.bucket = place.tag.bucket;
    memcpy(beat.what, place.what, sizeof beat.what);
    return beat;
}
