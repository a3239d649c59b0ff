/* mpi_progress.c: progress of operations under way: test them, start the second half of
 * all-reduces, and finish them (contract in comm_mpi.h).
 *
 * The cost of a test is the call into the MPI library, not the number of requests: even an empty
 * call polls all shared memory and sockets, and progresses all messages. So one call tests the next
 * message of every all-reduce. Polling a watched operation calls a GPU's driver and NCCL; watched
 * operations complete in the order of starting, so only the first of each channel is polled.
 *
 * MPI reports progress only when a message completes, so a call that takes much longer than those
 * before it counts as progress, unless another thread had the core meanwhile. On a node with more
 * ranks than cores, Open MPI yields in each call, and its duration carries no information. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_mpi.h"
#include "comm/mpi_all_reduce.h"
#include "core/clock.h"

#include <stdlib.h>
#include <sys/resource.h>

enum {
    HEADS = 64, /* operations tested in one call; later ones wait for these */
    /* A call that takes this much longer than an empty one has moved data: 32 KiB take 3 us. */
    WORKED_NS = 2000,
    WORKED_COLD_NS = 5000, /* the same after a sleep, with cold caches */
    EMPTY_NS = 10000,      /* no empty call takes longer */
};

static void finish(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    struct ss_mpi_op **link = &mpi->under_way.first;
    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
    if (!*link)
        mpi->under_way.end = link;
    ss_mpi_all_reduce_end(mpi, op);
    ss_comm_finish(mpi->comm, &op->request);
    free(op);
}

/* Collect the next part of each operation, per channel in the order of starting. Small all-reduces
 * first: compute waits for them. */
static int find_heads(const struct ss_mpi *mpi, struct ss_mpi_op **op, MPI_Request *request)
{
    int n = 0;
    for (int channel = SS_COMM_CHANNELS - 1; channel >= 0; channel--)
        for (struct ss_mpi_op *o = mpi->under_way.first; o && n < HEADS; o = o->next)
            if (o->nparts > 0 && (int)o->request.channel == channel) {
                op[n] = o;
                request[n++] = o->parts[o->ended_parts];
            }
    return n;
}

/* op's next part has completed: advance to the first one that has not, and to the next half. */
static void advance(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    const int before = op->ended_parts;
    int ended = 1;
    op->parts[op->ended_parts++] = MPI_REQUEST_NULL;
    while (ended && op->ended_parts < op->nparts) {
        ss_mpi_check(mpi, "MPI_Test",
                     MPI_Test(&op->parts[op->ended_parts], &ended, MPI_STATUS_IGNORE),
                     &op->request);
        op->ended_parts += ended;
    }
    op->last_ns = ss_now_ns();
    if (before == 0) {
        op->first_ns = op->last_ns;
        op->first_parts = op->ended_parts;
    }
    if (!ended)
        return;
    if (op->half == 1)
        ss_mpi_all_reduce_add(mpi, op);
    if (op->half == 1 && op->request.kind != SS_COMM_REDUCE_SCATTER_F32) {
        ss_mpi_check(mpi, "all-reduce", ss_mpi_all_reduce_gather(mpi, op), &op->request);
        op->ended_parts = 0;
        return;
    }
    finish(mpi, op);
}

/* Context switches of this thread. The call takes up to a microsecond. */
static long switches(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return u.ru_nvcsw + u.ru_nivcsw;
}

/* Judge a call of duration `took` in which no message has completed. An empty call takes from 50 ns
 * to several us, depending on what MPI polls, so it is compared with the shortest preceding ones,
 * whose weight decays. A context switch rules out progress: on a node with more ranks than cores,
 * Open MPI yields the core in every empty call. */
static enum ss_mpi_found judge(struct ss_mpi *mpi, uint64_t took, int slept)
{
    const uint64_t empty = mpi->empty_ns, more = empty + empty / 16 + 10;
    mpi->empty_ns = took < more ? took : more < EMPTY_NS ? more : EMPTY_NS;
    if (took <= empty + (slept ? WORKED_COLD_NS : WORKED_NS))
        return SS_MPI_NOTHING;
    const long before = mpi->switches;
    mpi->switches = switches();
    if (mpi->switches != before)
        return SS_MPI_NOTHING;
    if (slept)
        return SS_MPI_PERHAPS;
    return mpi->worked++ == 0 ? SS_MPI_LIKELY : SS_MPI_MOVED;
}

enum ss_mpi_found ss_mpi_test_sums(struct ss_mpi *mpi, int slept)
{
    struct ss_mpi_op *op[HEADS];
    MPI_Request request[HEADS];
    MPI_Status status[HEADS];
    int ended[HEADS], nended = 0;
    const int n = find_heads(mpi, op, request);
    if (n == 0)
        return SS_MPI_NOTHING;
    if (slept) {
        mpi->switches = switches();
        mpi->worked = 0;
    }
    const uint64_t begin = ss_now_ns();
    int rc = MPI_Testsome(n, request, &nended, ended, status);
    const uint64_t took = ss_now_ns() - begin;
    for (int i = 0; i < nended && rc == MPI_ERR_IN_STATUS; i++)
        ss_mpi_check(mpi, "MPI_Testsome", status[i].MPI_ERROR, &op[ended[i]]->request);
    ss_mpi_check(mpi, "MPI_Testsome", rc, &op[0]->request);
    for (int i = 0; i < nended; i++)
        advance(mpi, op[ended[i]]);
    return nended > 0 ? SS_MPI_MOVED : judge(mpi, took, slept);
}

static struct ss_mpi_op *first_watched(const struct ss_mpi *mpi, enum ss_comm_channel channel)
{
    struct ss_mpi_op *op = mpi->under_way.first;
    while (op && (op->request.kind != SS_COMM_WATCHED || op->request.channel != channel))
        op = op->next;
    return op;
}

/* Poll a watched operation; 1 if it has completed, and op is freed. */
static int ask(struct ss_mpi *mpi, struct ss_mpi_op *op)
{
    enum ss_comm_poll state = op->request.poll(op->request.poll_arg);
    if (state == SS_POLL_FAILED)
        ss_mpi_abort(mpi->comm);
    op->not_reached = state == SS_POLL_NOT_REACHED;
    if (state != SS_POLL_ENDED)
        return 0;
    finish(mpi, op);
    return 1;
}

uint64_t ss_mpi_test_watched(struct ss_mpi *mpi)
{
    uint64_t now = ss_now_ns(), least = UINT64_MAX;
    for (int channel = 0; channel < SS_COMM_CHANNELS; channel++) {
        struct ss_mpi_watch *w = &mpi->watch[channel];
        struct ss_mpi_op *op = first_watched(mpi, (enum ss_comm_channel)channel);
        while (op && (op->seq != w->head || now >= w->due_ns)) {
            if (op->seq != w->head)
                ss_backoff_progressed(&w->backoff, now);
            w->head = op->seq;
            if (!ask(mpi, op)) {
                w->due_ns = now + ss_backoff_next(&w->backoff, now, SS_BACKOFF_USUAL_NS);
                break;
            }
            op = first_watched(mpi, (enum ss_comm_channel)channel);
        }
        if (op && w->due_ns - now < least)
            least = w->due_ns - now;
    }
    return least;
}
