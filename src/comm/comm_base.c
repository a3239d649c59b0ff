/* comm_base.c: common functions of the backends (contract in comm_base.h). */
#include "comm/comm_base.h"
#include "core/clock.h"

size_t ss_comm_kind_bytes(enum ss_comm_kind kind)
{
    switch (kind) {
    case SS_COMM_SUM_F32:
    case SS_COMM_REDUCE_SCATTER_F32:
    case SS_COMM_ALLGATHER_F32:
        return 4;
    case SS_COMM_SUM_F64:
    case SS_COMM_MAX_U64:
        return 8;
    case SS_COMM_BARRIER:
    case SS_COMM_BCAST:
    case SS_COMM_GATHER:
    case SS_COMM_EXCHANGE:
    case SS_COMM_WATCHED:
        break;
    }
    return 1;
}

size_t ss_comm_wire_bytes(const struct ss_comm_request *request)
{
    if (ss_comm_sums_floats(request->kind))
        return ss_dtype_bytes(request->wire);
    return ss_comm_kind_bytes(request->kind);
}

void ss_comm_account_end(struct ss_comm *comm)
{
    pthread_mutex_lock(&comm->totals_lock);
    if (--comm->under_way == 0)
        comm->totals.busy_ns += ss_now_ns() - comm->busy_since_ns;
    pthread_mutex_unlock(&comm->totals_lock);
}

void ss_comm_finish(struct ss_comm *comm, const struct ss_comm_request *request)
{
    ss_comm_account_end(comm);
    if (comm->observer && request->tag.step && request->channel == SS_COMM_MAIN)
        comm->observer(comm->observer_arg, request->tag, request->begin_ns, ss_now_ns());
    if (request->done)
        request->done(request->arg);
}

void ss_comm_before_abort(struct ss_comm *comm)
{
    for (;;) {
        pthread_mutex_lock(&comm->abort_lock);
        const int i = comm->nabort > 0 ? --comm->nabort : -1;
        pthread_mutex_unlock(&comm->abort_lock);
        if (i < 0)
            return;
        comm->at_abort[i].fn(comm->at_abort[i].arg);
    }
}
