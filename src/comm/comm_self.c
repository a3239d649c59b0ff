/* comm_self.c: the backend of a single rank. Every collective completes when it starts. */
#include "comm/comm_base.h"
#include "core/clock.h"
#include "core/log.h"

#include <sched.h>
#include <string.h>

static enum ss_status watch(const struct ss_comm *comm, const struct ss_comm_request *request)
{
    const double begin = ss_seconds();
    for (;;) {
        enum ss_comm_poll state = request->poll(request->poll_arg);
        if (state == SS_POLL_FAILED)
            return SS_ERR_COMM;
        if (state == SS_POLL_ENDED)
            return SS_OK;
        if (ss_seconds() - begin > comm->timeout_s)
            return ss_fail(SS_ERR_TIMEOUT, "%s: waited %.1f s, with no other rank to wait for",
                           request->what ? request->what : "a collective", ss_seconds() - begin);
        sched_yield();
    }
}

static enum ss_status self_start(struct ss_comm *comm, const struct ss_comm_request *request)
{
    if (request->kind == SS_COMM_WATCHED)
        SS_TRY(watch(comm, request));
    if (request->kind == SS_COMM_GATHER)
        memcpy(request->gathered, request->data, request->count);
    if (request->kind == SS_COMM_EXCHANGE && request->to == 0 && request->from == 0)
        memcpy(request->received, request->data, request->count);
    ss_comm_finish(comm, request);
    return SS_OK;
}

static void self_abort(struct ss_comm *comm)
{
    (void)comm;
}

static void self_close(struct ss_comm *comm)
{
    (void)comm;
}

static const struct ss_comm_ops self_ops = {"self", self_start, self_abort, self_close};

enum ss_status ss_comm_self_open(struct ss_comm *comm)
{
    comm->ops = &self_ops;
    comm->rank = comm->local_rank = 0;
    comm->size = comm->local_size = comm->nodes = 1;
    return SS_OK;
}
