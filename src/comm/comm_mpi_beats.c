/* comm_mpi_beats.c: the heartbeats of the MPI backend. All of it runs in the communication thread,
 * which calls MPI and never waits in it. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_mpi.h"
#include "comm/comm_mpi_sum.h"
#include "core/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_BEAT = 1 };

enum ss_status ss_mpi_beats_open(struct ss_mpi *mpi)
{
    struct ss_comm *comm = mpi->comm;
    size_t n = comm->rank == 0 ? (size_t)comm->size : 1;
    char host[SS_WATCH_HOST] = "", *hosts = NULL;
    mpi->ranks = calloc(n, sizeof *mpi->ranks);
    mpi->sends = calloc(n, sizeof *mpi->sends);
    hosts = calloc(n, SS_WATCH_HOST);
    if (!mpi->ranks || !mpi->sends || !hosts) {
        free(hosts);
        return ss_fail_memory("the watchdog's table of ranks", n * sizeof *mpi->ranks);
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
    if (rc == MPI_SUCCESS) {
        for (size_t r = 0; r < n; r++)
            memcpy(mpi->ranks[r].host, hosts + r * SS_WATCH_HOST, SS_WATCH_HOST);
        memcpy(mpi->ranks[0].host, host, SS_WATCH_HOST);
    }
    free(hosts);
    mpi->beat_every_s = ss_watch_period(comm->timeout_s);
    return rc == MPI_SUCCESS ? SS_OK : ss_mpi_fail("MPI_Gather", rc, "start-up");
}

void ss_mpi_beats_close(struct ss_mpi *mpi)
{
    int n = mpi->comm->rank == 0 ? mpi->comm->size : 1;
    for (int r = 0; mpi->sends && r < n; r++)
        if (mpi->sends[r] != MPI_REQUEST_NULL)
            MPI_Request_free(&mpi->sends[r]); /* nobody listens any more */
    free(mpi->ranks);
    free(mpi->sends);
}

struct ss_beat ss_mpi_own_beat(const struct ss_mpi *mpi)
{
    const struct ss_mpi_op *oldest = mpi->under_way.first;
    if (!oldest)
        return ss_watch_describe(mpi->started, &mpi->last, NULL, 0, 0);
    struct ss_beat beat = ss_watch_describe(mpi->started, &mpi->last, &oldest->request, oldest->seq,
                                            mpi->clock.now_s - oldest->started_s);
    beat.not_reached = oldest->not_reached;
    if (oldest->half) {
        beat.missing = ss_mpi_sum_missing(mpi, oldest);
        beat.half = beat.missing >= 0 ? oldest->half : 0;
    }
    return beat;
}

static void check(struct ss_mpi *mpi, const char *call, int rc)
{
    if (rc == MPI_SUCCESS)
        return;
    if (!ss_neighbour_ended(&mpi->neighbour))
        ss_mpi_fail(call, rc, "heartbeat; ending all ranks");
    ss_mpi_abort(mpi->comm);
}

static void send_beat(struct ss_mpi *mpi)
{
    int n = mpi->comm->rank == 0 ? mpi->comm->size : 1, idle = 1;
    for (int r = 0; r < n; r++) {
        int sent = 1;
        check(mpi, "MPI_Test", MPI_Test(&mpi->sends[r], &sent, MPI_STATUS_IGNORE));
        idle = idle && sent;
    }
    /* The buffer is shared, so as long as one rank has not taken the last beat it must not change.
     * Beats are small and sent eagerly: this happens only when a rank is in trouble already, and
     * resending the old one is as good a sign of life. */
    if (idle)
        mpi->own = ss_mpi_own_beat(mpi);
    for (int r = 0; r < n; r++) {
        if (r == mpi->comm->rank || mpi->sends[r] != MPI_REQUEST_NULL)
            continue;
        check(mpi, "MPI_Isend",
              MPI_Isend(&mpi->own, sizeof mpi->own, MPI_BYTE, r, TAG_BEAT, mpi->control,
                        &mpi->sends[r]));
    }
}

static void receive_beats(struct ss_mpi *mpi)
{
    MPI_Status status;
    int there = 0, most = 4 * mpi->comm->size;
    for (;;) {
        check(mpi, "MPI_Iprobe",
              MPI_Iprobe(MPI_ANY_SOURCE, TAG_BEAT, mpi->control, &there, &status));
        if (!there || most-- == 0)
            return;
        struct ss_watch_rank *from = &mpi->ranks[status.MPI_SOURCE];
        check(mpi, "MPI_Recv",
              MPI_Recv(&from->beat, sizeof from->beat, MPI_BYTE, status.MPI_SOURCE, TAG_BEAT,
                       mpi->control, MPI_STATUS_IGNORE));
        from->heard_s = mpi->clock.now_s;
    }
}

void ss_mpi_beats_tick(struct ss_mpi *mpi)
{
    const struct ss_comm *comm = mpi->comm;
    char text[1024];
    if (comm->size == 1)
        return;
    send_beat(mpi);
    receive_beats(mpi);
    struct ss_beat now = ss_mpi_own_beat(mpi);
    if (ss_watch_look(comm, mpi->ranks, &now, mpi->clock.now_s, text, sizeof text)) {
        if (!ss_neighbour_ended(&mpi->neighbour))
            ss_fail(SS_ERR_TIMEOUT, "%s", text);
        ss_mpi_abort(mpi->comm);
    }
}
