/* comm_mpi_base.c: functions shared by the files of the MPI backend (contract in comm_mpi.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/call_timeout.h"
#include "comm/comm_mpi.h"
#include "core/log.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ABORT_SECONDS 5
#define WORDS_NS 100000000L
#define NEWS_NS 200000000L

enum ss_status ss_mpi_fail(const char *call, int rc, const char *where)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0, name = (int)strcspn(call, "(");
    MPI_Error_string(rc, text, &n);
    return ss_fail(SS_ERR_COMM, "%s: %.*s failed: %s", where, name, call, text);
}

/* MPI_Abort() of Open MPI 4 sends mpiexec a notice, which one thread of mpiexec reads while another
 * frees it (rml_oob_send.c): in one run of three it prints garbage, and sometimes it crashes with
 * exit code 139. Our own message is complete, and this variable is the only way to suppress the
 * notice. */
static void leave_out_notice(void)
{
    bool *quiet = dlsym(RTLD_DEFAULT, "orte_execute_quiet"); /* NULL with every other MPI */
    if (quiet)
        *quiet = true;
}

void ss_mpi_abort(struct ss_comm *comm)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    struct ss_mpi *mpi = comm->state;
    if (comm->size == 1)
        return;
    while (atomic_flag_test_and_set(&begun))
        pause(); /* another thread is ending the process */
    ss_peer_death_end(&mpi->neighbour);
    ss_call_timeout_set_final(ABORT_SECONDS, "aborting all ranks hangs; ending this rank alone");
    ss_comm_before_abort(comm);
    /* When a rank aborts, mpiexec drops output of the ranks that it has not read yet. */
    nanosleep(&(struct timespec){0, WORDS_NS}, NULL);
    leave_out_notice();
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

void ss_mpi_end_for_death(struct ss_mpi *mpi, const struct ss_heartbeat *own)
{
    char text[512], host[SS_WATCH_HOST] = "";
    gethostname(host, sizeof host - 1);
    ss_watch_died(mpi->neighbour.rank, host, mpi->neighbour.pid, own, text, sizeof text);
    ss_fail(SS_ERR_COMM, "%s", text);
    ss_mpi_abort(mpi->comm);
}

int ss_mpi_is_news(struct ss_mpi *mpi, enum ss_comm_channel channel)
{
    const struct timespec moment = {0, NEWS_NS / 40};
    const struct ss_heartbeat own =
        ss_watch_describe(mpi->started[channel], &mpi->last[channel], NULL, 0, 0);
    for (int i = 0; i < 40 && mpi->neighbour.board && !ss_peer_death_ended(&mpi->neighbour); i++) {
        if (ss_peer_death_happened(&mpi->neighbour))
            ss_mpi_end_for_death(mpi, &own);
        nanosleep(&moment, NULL);
    }
    return !ss_peer_death_ended(&mpi->neighbour);
}

void ss_mpi_check(struct ss_mpi *mpi, const char *call, int rc,
                  const struct ss_comm_request *request)
{
    char where[96];
    if (rc == MPI_SUCCESS)
        return;
    if (ss_mpi_is_news(mpi, request->channel)) {
        ss_watch_place(request->what, request->tag, where, sizeof where);
        ss_mpi_fail(call, rc, where);
    }
    ss_mpi_abort(mpi->comm);
}

size_t ss_mpi_part_elements(void)
{
    /* Below 2^31 bytes for every type: some transports count bytes in ints. The variable is for
     * tests of split collectives; it must be equal on all ranks. */
    static size_t elements;
    if (elements == 0) {
        const char *env = getenv("STARSTEP_COMM_PART");
        long asked = env ? atol(env) : 0;
        elements = asked > 0 && asked < 1 << 27 ? (size_t)asked : (size_t)1 << 27;
    }
    return elements;
}
