/* mpi_heartbeat.c: heartbeats of the MPI backend. After start-up all of it runs in the
 * communication thread, which makes MPI calls and never blocks in them. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_mpi.h"
#include "comm/mpi_all_reduce.h"
#include "core/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_HEARTBEAT = 1 };

enum ss_status ss_mpi_heartbeats_open(struct ss_mpi *mpi)
{
    struct ss_comm *comm = mpi->comm;
    size_t n = comm->rank == 0 ? (size_t)comm->size : 1;
    char host[SS_WATCH_HOST] = "", *hosts = NULL;
    for (int c = 0; c < SS_COMM_CHANNELS; c++)
        mpi->ranks[c] = calloc(n, sizeof *mpi->ranks[c]);
    mpi->sends = calloc(n, sizeof *mpi->sends);
    hosts = calloc(n, SS_WATCH_HOST);
    if (!mpi->ranks[SS_COMM_MAIN] || !mpi->ranks[SS_COMM_SMALL] || !mpi->sends || !hosts) {
        free(hosts);
        return ss_fail_memory("the watchdog's table of ranks", n * sizeof *mpi->ranks[0]);
    }
    for (size_t r = 0; r < n; r++)
        mpi->sends[r] = MPI_REQUEST_NULL;
    gethostname(host, sizeof host - 1);
    int rc =
        MPI_Gather(host, SS_WATCH_HOST, MPI_CHAR, hosts, SS_WATCH_HOST, MPI_CHAR, 0, mpi->control);
    if (rc == MPI_SUCCESS && comm->rank == 0)
        memcpy(host, hosts, SS_WATCH_HOST);
    if (rc == MPI_SUCCESS)
        rc = MPI_Bcast(host, SS_WATCH_HOST, MPI_CHAR, 0, mpi->control);
    for (int c = 0; rc == MPI_SUCCESS && c < SS_COMM_CHANNELS; c++) {
        for (size_t r = 0; r < n; r++)
            memcpy(mpi->ranks[c][r].host, hosts + r * SS_WATCH_HOST, SS_WATCH_HOST);
        memcpy(mpi->ranks[c][0].host, host, SS_WATCH_HOST);
    }
    free(hosts);
    mpi->heartbeat_every_s = ss_watch_period(comm->timeout_s);
    return rc == MPI_SUCCESS ? SS_OK : ss_mpi_fail("MPI_Gather", rc, "start-up");
}

void ss_mpi_heartbeats_close(struct ss_mpi *mpi)
{
    int n = mpi->comm->rank == 0 ? mpi->comm->size : 1;
    for (int r = 0; mpi->sends && r < n; r++)
        if (mpi->sends[r] != MPI_REQUEST_NULL)
            MPI_Request_free(&mpi->sends[r]); /* they are no longer received */
    for (int c = 0; c < SS_COMM_CHANNELS; c++)
        free(mpi->ranks[c]);
    free(mpi->sends);
}

struct ss_heartbeat ss_mpi_own_heartbeat(const struct ss_mpi *mpi, enum ss_comm_channel channel)
{
    const struct ss_mpi_op *oldest = mpi->under_way.first;
    while (oldest && oldest->request.channel != channel)
        oldest = oldest->next;
    if (!oldest)
        return ss_watch_describe(mpi->started[channel], &mpi->last[channel], NULL, 0, 0);
    struct ss_heartbeat heartbeat =
        ss_watch_describe(mpi->started[channel], &mpi->last[channel], &oldest->request, oldest->seq,
                          mpi->clock.now_s - oldest->started_s);
    heartbeat.not_reached = oldest->not_reached;
    if (oldest->half) {
        heartbeat.missing = ss_mpi_all_reduce_missing(mpi, oldest);
        heartbeat.half = heartbeat.missing >= 0 ? oldest->half : 0;
    }
    return heartbeat;
}

static void check(struct ss_mpi *mpi, const char *call, int rc)
{
    if (rc == MPI_SUCCESS)
        return;
    if (ss_mpi_is_news(mpi, SS_COMM_MAIN))
        ss_mpi_fail(call, rc, "heartbeat; ending all ranks");
    ss_mpi_abort(mpi->comm);
}

static void send_heartbeat(struct ss_mpi *mpi)
{
    int n = mpi->comm->rank == 0 ? mpi->comm->size : 1, idle = 1;
    for (int r = 0; r < n; r++) {
        int sent = 1;
        check(mpi, "MPI_Test", MPI_Test(&mpi->sends[r], &sent, MPI_STATUS_IGNORE));
        idle = idle && sent;
    }
    /* The buffer is shared, so it must not change until all ranks have received the last
     * heartbeat. Heartbeats are small and sent eagerly: a send is pending only if a rank already
     * has a problem, and resending the old heartbeat is equally good. */
    for (int c = 0; idle && c < SS_COMM_CHANNELS; c++)
        mpi->own[c] = ss_mpi_own_heartbeat(mpi, (enum ss_comm_channel)c);
    for (int r = 0; r < n; r++) {
        if (r == mpi->comm->rank || mpi->sends[r] != MPI_REQUEST_NULL)
            continue;
        check(mpi, "MPI_Isend",
              MPI_Isend(mpi->own, sizeof mpi->own, MPI_BYTE, r, TAG_HEARTBEAT, mpi->control,
                        &mpi->sends[r]));
    }
}

static void receive_heartbeats(struct ss_mpi *mpi)
{
    MPI_Status status;
    int there = 0, most = 4 * mpi->comm->size;
    for (;;) {
        check(mpi, "MPI_Iprobe",
              MPI_Iprobe(MPI_ANY_SOURCE, TAG_HEARTBEAT, mpi->control, &there, &status));
        if (!there || most-- == 0)
            return;
        struct ss_heartbeat heartbeat[SS_COMM_CHANNELS];
        check(mpi, "MPI_Recv",
              MPI_Recv(heartbeat, sizeof heartbeat, MPI_BYTE, status.MPI_SOURCE, TAG_HEARTBEAT,
                       mpi->control, MPI_STATUS_IGNORE));
        for (int c = 0; c < SS_COMM_CHANNELS; c++) {
            mpi->ranks[c][status.MPI_SOURCE].heartbeat = heartbeat[c];
            mpi->ranks[c][status.MPI_SOURCE].heard_s = mpi->clock.now_s;
        }
    }
}

static int check_deadline(struct ss_mpi *mpi, enum ss_comm_channel channel, double timeout_s,
                          char *text, size_t capacity)
{
    struct ss_comm with = *mpi->comm; /* rank, size and deadline are used */
    struct ss_heartbeat now = ss_mpi_own_heartbeat(mpi, channel);
    with.timeout_s = timeout_s;
    return ss_watch_check(&with, mpi->ranks[channel], &now, mpi->clock.now_s, text, capacity);
}

/* Whether any rank waits in a small all-reduce, by heartbeats received within the deadline. A rank
 * that stopped in one that the others have completed must not hide their buckets. */
static int waits_in_small(const struct ss_mpi *mpi)
{
    int waits = ss_mpi_own_heartbeat(mpi, SS_COMM_SMALL).waiting_seq != 0;
    for (int r = 0; r < (mpi->comm->rank == 0 ? mpi->comm->size : 1); r++) {
        const struct ss_watch_rank *other = &mpi->ranks[SS_COMM_SMALL][r];
        waits |= other->heartbeat.waiting_seq != 0 &&
                 mpi->clock.now_s - other->heard_s <= mpi->comm->timeout_s;
    }
    return waits;
}

void ss_mpi_heartbeats_tick(struct ss_mpi *mpi)
{
    const struct ss_comm *comm = mpi->comm;
    const double timeout_s = comm->timeout_s;
    char text[1024];
    if (comm->size == 1)
        return;
    send_heartbeat(mpi);
    receive_heartbeats(mpi);
    const int small = waits_in_small(mpi);
    int late = small && check_deadline(mpi, SS_COMM_SMALL, timeout_s, text, sizeof text);
    if (!late && check_deadline(mpi, SS_COMM_MAIN, timeout_s, text, sizeof text)) {
        /* A bucket may be late because a rank waits in a small all-reduce: then name that one. */
        char why[sizeof text];
        late = 1;
        if (small && check_deadline(mpi, SS_COMM_SMALL, timeout_s / 2, why, sizeof why))
            memcpy(text, why, sizeof text);
    }
    if (late) {
        if (!ss_peer_death_ended(&mpi->neighbour))
            ss_fail(SS_ERR_TIMEOUT, "%s", text);
        ss_mpi_abort(mpi->comm);
    }
}
