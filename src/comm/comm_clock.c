/* comm_clock.c: clock offsets between ranks (contract in comm.h).
 *
 * Ranks on the same kernel read the same clock. Otherwise rank 0 broadcasts its time t0; each
 * rank records its own time r1 on arrival and sends back its time r2, which arrives at t3. A
 * message cannot arrive before it was sent, so t0 <= r1 + offset and r2 + offset <= t3: the
 * offset is within [t0 - r1, t3 - r2], and after several rounds within the intersection of these
 * intervals. Source: the bounds of Marzullo's interval method as RFC 5905 uses them. */
#include "comm/comm.h"
#include "core/boot_id.h"
#include "core/clock.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 16 };

/* Sent as bytes between identical programs. */
struct times {
    int64_t arrived, sent; /* on the rank's clock */
    char boot[SS_BOOT_ID];
};
struct bounds {
    int64_t low, high; /* bounds of rank 0's clock minus the rank's */
};

static void narrow(struct bounds *b, const struct times *own, const struct times *other,
                   int64_t sent, int64_t arrived)
{
    if (*own->boot && !memcmp(own->boot, other->boot, SS_BOOT_ID)) {
        *b = (struct bounds){0, 0};
        return;
    }
    if (sent - other->arrived > b->low)
        b->low = sent - other->arrived;
    if (arrived - other->sent < b->high)
        b->high = arrived - other->sent;
}

static enum ss_status exchange(struct ss_comm *comm, struct times *all, struct bounds *bounds)
{
    struct times own;
    size_t ranks = (size_t)ss_comm_size(comm);
    for (size_t r = 0; r < ranks; r++)
        bounds[r] = (struct bounds){INT64_MIN, INT64_MAX};
    ss_boot_id(own.boot);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t t0 = (int64_t)ss_now_ns();
        SS_TRY(ss_comm_bcast(comm, &t0, sizeof t0, 0, "comparison of clocks"));
        own.arrived = own.sent = (int64_t)ss_now_ns();
        SS_TRY(ss_comm_gather(comm, &own, sizeof own, all, "comparison of clocks"));
        int64_t t3 = (int64_t)ss_now_ns();
        for (size_t r = 0; ss_comm_rank(comm) == 0 && r < ranks; r++)
            narrow(&bounds[r], &own, &all[r], t0, t3);
    }
    return ss_comm_bcast(comm, bounds, ranks * sizeof *bounds, 0, "comparison of clocks");
}

enum ss_status ss_comm_clock(struct ss_comm *comm, int64_t *offset_ns, uint64_t *error_ns)
{
    *offset_ns = 0;
    *error_ns = 0;
    size_t ranks = (size_t)ss_comm_size(comm);
    if (ranks == 1)
        return SS_OK;
    struct times *all = calloc(ranks, sizeof *all);
    struct bounds *bounds = calloc(ranks, sizeof *bounds);
    enum ss_status status = SS_OK;
    if (!all || !bounds) {
        /* The other ranks wait in the exchange. */
        status = ss_fail_memory("times of all ranks", ranks * sizeof *all);
        ss_comm_abort(comm, status);
    }
    if (status == SS_OK)
        status = exchange(comm, all, bounds);
    if (status == SS_OK) {
        const struct bounds *b = &bounds[ss_comm_rank(comm)];
        *offset_ns = b->low + (b->high - b->low) / 2;
        *error_ns = (uint64_t)(b->high - *offset_ns);
    }
    free(all);
    free(bounds);
    return status;
}
