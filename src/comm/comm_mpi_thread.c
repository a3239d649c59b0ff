/* comm_mpi_thread.c: the thread that makes all MPI calls. It starts queued collectives, tests those
 * under way, exchanges heartbeats, and sleeps in between.
 *
 * Open MPI progresses only inside MPI calls, so the thread must keep testing. While data move it
 * tests again immediately. While it waits for a slow rank it sleeps between tests, with increasing
 * back-off (backoff.h), and leaves the core to the compute workers. Once the pieces of an
 * all-reduce show how slow the link is, it sleeps until the next piece can arrive: testing earlier
 * would only take time from the compute workers. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/call_timeout.h"
#include "comm/comm_mpi.h"
#include "comm/mpi_all_reduce.h"
#include "core/clock.h"
#include "core/log.h"

#include <poll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    EAGER_NS = 60000,       /* after progress, test for this long without sleeping */
    SECOND_LOOK_NS = 10000, /* the same after possible progress */
    USUAL_SMALL_NS = 50000, /* SS_BACKOFF_USUAL_NS while compute waits for a small all-reduce */
    PACE_MAX_NS = 2000000,  /* between pieces; longer sleeps would let a socket run empty */
};

/* Start one part with MPI's own collectives, for requests that mpi_all_reduce.c does not handle.
 *
 * Results are bit-identical on all ranks and in all runs with the same rank count: Open MPI's
 * nonblocking all-reduce fixes the order of additions by rank and count alone (it either reduces to
 * one rank and broadcasts the result, or adds pairs, and a + b == b + a), independent of arrival
 * order. tests/comm/test_comm_mpi.sh checks it. */
static int start_part(struct ss_mpi *mpi, struct ss_mpi_op *op, size_t first, int n,
                      MPI_Request *request)
{
    const struct ss_comm_request *r = &op->request;
    char *data = r->data ? (char *)r->data + first * ss_comm_kind_bytes(r->kind) : NULL;
    switch (r->kind) {
    case SS_COMM_SUM_F32:
    case SS_COMM_REDUCE_SCATTER_F32: /* the whole all-reduce: identical in the share */
        if (r->wire != SS_DTYPE_F32)
            return ss_mpi_all_reduce_part(mpi, op, first, n, request);
        return MPI_Iallreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM, mpi->world, request);
    case SS_COMM_SUM_F64:
        return MPI_Iallreduce(MPI_IN_PLACE, data, n, MPI_DOUBLE, MPI_SUM,
                              r->channel == SS_COMM_SMALL ? mpi->small : mpi->world, request);
    case SS_COMM_MAX_U64:
        return MPI_Iallreduce(MPI_IN_PLACE, data, n, MPI_UINT64_T, MPI_MAX, mpi->world, request);
    case SS_COMM_BCAST:
        return MPI_Ibcast(data, n, MPI_BYTE, r->root, mpi->world, request);
    case SS_COMM_GATHER: /* always one part */
        return MPI_Igather(data, n, MPI_BYTE, r->gathered, n, MPI_BYTE, 0, mpi->world, request);
    case SS_COMM_WATCHED: /* not reached */
    case SS_COMM_EXCHANGE:
    case SS_COMM_ALLGATHER_F32: /* only with one rank */
    case SS_COMM_BARRIER:
        break;
    }
    return MPI_Ibarrier(mpi->world, request);
}

static int peer(int rank)
{
    return rank < 0 ? MPI_PROC_NULL : rank;
}

/* Post all receives, then all sends, in pieces, so that progress shows. MPI preserves the order of
 * messages between two ranks. */
static int start_exchange(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const struct ss_comm_request *r = &op->request;
    const size_t part = SS_MPI_EXCHANGE_PIECE;
    const int half = op->nparts / 2;
    int rc = MPI_SUCCESS;
    for (int i = 0; i < op->nparts && rc == MPI_SUCCESS; i++) {
        const size_t first = (size_t)(i % half) * part, left = r->count - first;
        const int n = (int)(left < part ? left : part);
        rc = i < half ? MPI_Irecv((char *)r->received + first, n, MPI_BYTE, peer(r->from), 0,
                                  mpi->world, &op->parts[i])
                      : MPI_Isend((const char *)r->data + first, n, MPI_BYTE, peer(r->to), 0,
                                  mpi->world, &op->parts[i]);
    }
    return rc;
}

static int start_parts(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    size_t part = ss_mpi_part_elements();
    int begun = ss_mpi_all_reduce_begin(mpi, op);
    if (begun != MPI_SUCCESS)
        return begun;
    for (int i = 0; i < op->nparts; i++) {
        size_t first = (size_t)i * part, left = op->request.count - first;
        size_t n = left < part || op->nparts == 1 ? left : part;
        int rc = start_part(mpi, op, first, (int)n, &op->parts[i]);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return MPI_SUCCESS;
}

static void start_op(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    op->seq = ++mpi->started[op->request.channel];
    op->started_s = mpi->clock.now_s;
    op->next = NULL;
    ss_watch_note(&mpi->last[op->request.channel], &op->request);
    if (op->request.kind == SS_COMM_WATCHED)
        op->nparts = 0;
    else if (op->request.kind == SS_COMM_EXCHANGE)
        ss_mpi_check(mpi, "exchange", start_exchange(mpi, op), &op->request);
    else if (ss_mpi_all_reduce_fits(mpi->comm, &op->request) &&
             op->request.kind == SS_COMM_ALLGATHER_F32)
        ss_mpi_check(mpi, "all-gather", ss_mpi_all_reduce_gather(mpi, op), &op->request);
    else if (ss_mpi_small_fits(mpi->comm, &op->request))
        ss_mpi_check(mpi, "small all-reduce", ss_mpi_small_start(mpi, op), &op->request);
    else if (ss_mpi_all_reduce_fits(mpi->comm, &op->request))
        ss_mpi_check(mpi, "all-reduce", ss_mpi_all_reduce_scatter(mpi, op), &op->request);
    else
        ss_mpi_check(mpi, "collective", start_parts(mpi, op), &op->request);
    *mpi->under_way.end = op;
    mpi->under_way.end = &op->next;
}

/* Start all queued collectives; 1 if any of them moves data. */
static int start_queued(struct ss_mpi *mpi)
{
    pthread_mutex_lock(&mpi->lock);
    struct ss_mpi_op *op = mpi->queue.first;
    mpi->queue.first = NULL;
    mpi->queue.end = &mpi->queue.first;
    pthread_mutex_unlock(&mpi->lock);
    int any = 0;
    while (op) {
        struct ss_mpi_op *next = op->next;
        any |= op->request.kind != SS_COMM_WATCHED;
        start_op(mpi, op);
        op = next;
    }
    return any;
}

/* Nanoseconds to sleep until the next piece of an all-reduce can arrive; shorter for the last
 * piece, as the all-reduce waits for it. 0 if the pace is unknown, or if no piece has arrived for
 * too long: then another rank is late rather than the link slow. */
static uint64_t pace_of(const struct ss_mpi_op *op, uint64_t now)
{
    const int pieces = op->ended_parts - op->first_parts, receives = op->nparts / 2;
    if (op->half == 0 || op->ended_parts == 0 || pieces == 0)
        return 0;
    uint64_t each = (op->last_ns - op->first_ns) / (uint64_t)pieces;
    if (now - op->last_ns > 4 * each)
        return 0;
    if (receives - op->ended_parts == 1)
        each /= 8;
    return each < PACE_MAX_NS ? each : PACE_MAX_NS;
}

/* The shortest pace of the all-reduces under way. */
static uint64_t least_pace(const struct ss_mpi *mpi, uint64_t now)
{
    uint64_t least = 0;
    for (const struct ss_mpi_op *op = mpi->under_way.first; op; op = op->next) {
        uint64_t pace = pace_of(op, now);
        if (pace > 0 && (least == 0 || pace < least))
            least = pace;
    }
    return least >= SS_BACKOFF_LEAST_NS ? least : 0;
}

/* Nanoseconds to sleep before the next test of MPI's requests; UINT64_MAX if there are none. found:
 * result of the last test; MOVED also after collectives were started. */
static uint64_t rest(struct ss_mpi *mpi, enum ss_mpi_found found)
{
    const uint64_t now = ss_now_ns();
    int any = 0, small = 0;
    for (const struct ss_mpi_op *op = mpi->under_way.first; op; op = op->next) {
        any |= op->nparts > 0;
        small |= op->nparts > 0 && op->request.channel == SS_COMM_SMALL;
    }
    if (found == SS_MPI_MOVED)
        ss_backoff_progressed(&mpi->backoff, now);
    else if (found != SS_MPI_NOTHING)
        ss_backoff_restart(&mpi->backoff);
    if (found != SS_MPI_NOTHING) {
        const uint64_t eager = now + (found == SS_MPI_PERHAPS ? SECOND_LOOK_NS : EAGER_NS);
        mpi->eager_until_ns = eager > mpi->eager_until_ns ? eager : mpi->eager_until_ns;
    }
    if (!any)
        return UINT64_MAX;
    const uint64_t pace = small ? 0 : least_pace(mpi, now); /* compute waits for small ones */
    if (pace > 0)
        return pace;
    if (now < mpi->eager_until_ns)
        return 0;
    return ss_backoff_next(&mpi->backoff, now, small ? USUAL_SMALL_NS : SS_BACKOFF_USUAL_NS);
}

static void check_neighbour(struct ss_mpi *mpi)
{
    if (!ss_peer_death_happened(&mpi->neighbour))
        return;
    ss_watch_clock_advance(&mpi->clock);
    struct ss_heartbeat own = ss_mpi_own_heartbeat(mpi, SS_COMM_SMALL);
    if (!own.waiting_seq)
        own = ss_mpi_own_heartbeat(mpi, SS_COMM_MAIN);
    ss_mpi_end_for_death(mpi, &own);
}

/* Sleep for ns, or until something is queued or the next rank of this node dies. Returns 1 when the
 * thread should end. */
static int nap(struct ss_mpi *mpi, uint64_t ns)
{
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    struct pollfd events[2] = {{.fd = mpi->wake, .events = POLLIN},
                               {.fd = mpi->neighbour.fd, .events = POLLIN}};
    uint64_t times;
    int n = ppoll(events, 2, &time, NULL);
    if (n > 0 && events[0].revents)
        (void)!read(mpi->wake, &times, sizeof times); /* reset the counter */
    if (n > 0 && events[1].revents)
        check_neighbour(mpi);
    pthread_mutex_lock(&mpi->lock);
    int stop = mpi->stop && !mpi->queue.first && !mpi->under_way.first;
    pthread_mutex_unlock(&mpi->lock);
    return stop;
}

void *ss_mpi_thread(void *arg)
{
    struct ss_mpi *mpi = arg;
    int stop = 0, slept = 0;
    ss_log_set_patience(SS_LAST_WORDS_S);
    prctl(PR_SET_TIMERSLACK, 1000); /* the default of 50 us would double short sleeps */
    mpi->clock.ns = ss_now_ns();
    while (!stop) {
        /* If an MPI call below hangs, the timeout ends this rank, and the launcher the others. */
        ss_call_timeout_set(mpi->comm->timeout_s + 5,
                            "an MPI call of the communication thread has hung");
        const int begun = start_queued(mpi);
        const enum ss_mpi_found found = ss_mpi_test_sums(mpi, slept);
        const uint64_t watched = ss_mpi_test_watched(mpi);
        const uint64_t sums = rest(mpi, begun ? SS_MPI_MOVED : found);
        ss_watch_clock_advance(&mpi->clock);
        if (mpi->clock.now_s >= mpi->next_heartbeat_s) {
            check_neighbour(mpi); /* nap() does not run while data move */
            ss_mpi_heartbeats_tick(mpi);
            mpi->next_heartbeat_s = mpi->clock.now_s + mpi->heartbeat_every_s;
        }
        uint64_t ns = (uint64_t)(1e9 * mpi->heartbeat_every_s);
        ns = sums < ns ? sums : ns;
        ns = watched < ns ? watched : ns;
        slept = ns > 0;
        if (slept)
            stop = nap(mpi, ns);
    }
    return NULL;
}
