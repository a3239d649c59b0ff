/* comm_mpi.c: start-up, shutdown and queue of the MPI backend.
 *
 * After start-up one thread makes all MPI calls (comm_mpi_thread.c). Callers append collectives
 * to a queue; the thread starts them in that order. Only ss_mpi_abort() may be called from any
 * thread, which requires MPI_THREAD_MULTIPLE. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_mpi.h"
#include "comm/call_timeout.h"
#include "comm/mpi_all_reduce.h"
#include "comm/stopped_ranks.h"
#include "core/log.h"
#include "core/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MPI_TRY(call, where)                                                                       \
    do {                                                                                           \
        int mpi_try_rc_ = (call);                                                                  \
        if (mpi_try_rc_ != MPI_SUCCESS)                                                            \
            return ss_mpi_fail(#call, mpi_try_rc_, where);                                         \
    } while (0)

const char *ss_comm_mpi_library(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = '\0'; /* "Open MPI v4.1.4, package: ..." */
    char *v = strstr(text, " v");
    if (v && v[2] >= '0' && v[2] <= '9')
        memmove(v + 1, v + 2, strlen(v + 2) + 1);
    return text;
}

static void wake(struct ss_mpi *mpi)
{
    uint64_t one = 1;
    (void)!write(mpi->wake, &one, sizeof one); /* fails only if the eventfd counter overflows */
}

static enum ss_status mpi_start(struct ss_comm *comm, const struct ss_comm_request *request)
{
    struct ss_mpi *mpi = comm->state;
    size_t part = ss_mpi_part_elements();
    size_t nparts = request->count / part + (request->count % part != 0);
    /* A barrier and an empty all-reduce still take their turn; a gather is small and not split. */
    if (nparts == 0 || request->kind == SS_COMM_GATHER)
        nparts = 1;
    if (request->kind == SS_COMM_EXCHANGE)
        nparts = 2 * (request->count / SS_MPI_EXCHANGE_PIECE + 1);
    else if (ss_mpi_small_fits(comm, request))
        nparts = 2 * (size_t)(comm->size - 1);
    else if (ss_mpi_all_reduce_fits(comm, request))
        nparts = (size_t)ss_mpi_all_reduce_parts(mpi, request);
    size_t bytes = sizeof(struct ss_mpi_op) + nparts * sizeof(MPI_Request);
    struct ss_mpi_op *op = calloc(1, bytes);
    if (!op)
        return ss_fail_memory("a collective", bytes);
    op->request = *request;
    op->nparts = (int)nparts;
    pthread_mutex_lock(&mpi->lock);
    *mpi->queue.end = op;
    mpi->queue.end = &op->next;
    pthread_mutex_unlock(&mpi->lock);
    wake(mpi);
    return SS_OK;
}

static int stays, started;    /* ss_comm_stay() was called; src/comm has started MPI */
static double exit_timeout_s; /* timeout of the last communicator */

void ss_comm_mpi_stay(void)
{
    stays = 1;
}

static void end_mpi(double timeout_s)
{
    ss_call_timeout_explain(ss_stopped_ranks_describe);
    ss_call_timeout_set(timeout_s, "the end of the run: MPI_Finalize did not return in time");
    MPI_Finalize();
    ss_call_timeout_clear();
    ss_call_timeout_explain(NULL);
}

static void end_at_exit(void)
{
    int ended;
    if (MPI_Finalized(&ended) == MPI_SUCCESS && !ended)
        end_mpi(exit_timeout_s);
}

static void mpi_close(struct ss_comm *comm)
{
    struct ss_mpi *mpi = comm->state;
    pthread_mutex_lock(&mpi->lock);
    mpi->stop = 1;
    pthread_mutex_unlock(&mpi->lock);
    wake(mpi);
    ss_peer_death_end(&mpi->neighbour); /* all ranks have passed the last barrier */
    pthread_join(mpi->thread, NULL);
    ss_call_timeout_explain(ss_stopped_ranks_describe);
    ss_call_timeout_set(comm->timeout_s,
                        "the end of the run: MPI did not free its communicators in time");
    ss_mpi_all_reduce_close(mpi);
    ss_mpi_heartbeats_close(mpi);
    MPI_Comm_free(&mpi->world);
    MPI_Comm_free(&mpi->sums);
    MPI_Comm_free(&mpi->small);
    MPI_Comm_free(&mpi->control);
    ss_call_timeout_clear();
    ss_call_timeout_explain(NULL);
    if (!stays)
        end_mpi(comm->timeout_s);
    ss_peer_death_close(&mpi->neighbour);
    close(mpi->wake);
    pthread_mutex_destroy(&mpi->lock);
    free(mpi->node);
    free(mpi);
}

static const struct ss_comm_ops mpi_ops = {"mpi", mpi_start, ss_mpi_abort, mpi_close};

/* Slurm started several tasks, but MPI found no PMI: each task would be its own world. */
static enum ss_status check_world(int size)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (size > 1 || !tasks || atoi(tasks) <= 1 || getenv("OMPI_COMM_WORLD_SIZE"))
        return SS_OK;
    return ss_fail(SS_ERR_UNSUPPORTED,
                   "Slurm started %s tasks, but MPI reports a single rank; start them with "
                   "srun --mpi=pmix (srun --mpi=list prints the available types)",
                   tasks);
}

/* Exchange process ids between the ranks of this node. */
static enum ss_status meet_neighbour(struct ss_mpi *mpi, MPI_Comm node)
{
    struct ss_peer_death_card own, root, next;
    int here = mpi->comm->local_rank, n = mpi->comm->local_size;
    if (n == 1)
        return SS_OK;
    ss_peer_death_describe(&mpi->neighbour, mpi->comm->rank, here == 0, &own);
    root = own;
    MPI_TRY(MPI_Bcast(&root, sizeof root, MPI_BYTE, 0, node), "start-up");
    MPI_TRY(MPI_Sendrecv(&own, sizeof own, MPI_BYTE, (here + n - 1) % n, 0, &next, sizeof next,
                         MPI_BYTE, (here + 1) % n, 0, node, MPI_STATUS_IGNORE),
            "start-up");
    ss_peer_death_open(&mpi->neighbour, &own, &root, &next);
    return SS_OK;
}

/* Find which ranks share a node, and count the nodes. */
static enum ss_status count_nodes(struct ss_mpi *mpi, MPI_Comm node)
{
    struct ss_comm *comm = mpi->comm;
    const size_t bytes = (size_t)comm->size * sizeof *mpi->node;
    int first = comm->rank;
    mpi->node = malloc(bytes);
    if (!mpi->node)
        return ss_fail_memory("the nodes of all ranks", bytes);
    MPI_TRY(MPI_Bcast(&first, 1, MPI_INT, 0, node), "start-up");
    MPI_TRY(MPI_Allgather(&first, 1, MPI_INT, mpi->node, 1, MPI_INT, MPI_COMM_WORLD), "start-up");
    for (int r = 0; r < comm->size; r++)
        comm->nodes += mpi->node[r] == r;
    comm->node = first;
    return SS_OK;
}

/* Find rank and size, in the world and on this node. */
static enum ss_status find_place(struct ss_mpi *mpi)
{
    struct ss_comm *comm = mpi->comm;
    MPI_Comm node;
    MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "start-up");
    MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &comm->rank), "start-up");
    MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &comm->size), "start-up");
    ss_log_set_rank(comm->rank, comm->size);
    SS_TRY(check_world(comm->size));
    MPI_TRY(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &node),
        "start-up");
    MPI_TRY(MPI_Comm_rank(node, &comm->local_rank), "start-up");
    MPI_TRY(MPI_Comm_size(node, &comm->local_size), "start-up");
    SS_TRY(meet_neighbour(mpi, node));
    SS_TRY(count_nodes(mpi, node));
    MPI_TRY(MPI_Comm_free(&node), "start-up");
    return SS_OK;
}

static enum ss_status init(void)
{
    int provided, initialized, ended;
    MPI_TRY(MPI_Initialized(&initialized), "start-up");
    MPI_TRY(MPI_Finalized(&ended), "start-up");
    if (started && !ended)
        return SS_OK;
    if (initialized)
        return ss_fail(SS_ERR_INVALID,
                       "this program has already %s MPI, which can be initialized only once; "
                       "let starstep initialize MPI, and train with ss_train(), which "
                       "leaves MPI initialized for the next call",
                       ended ? "finalized" : "initialized");
    MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided), "start-up");
    if (provided < MPI_THREAD_MULTIPLE)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "%s does not provide MPI_THREAD_MULTIPLE; use a build of MPI with it",
                       ss_comm_mpi_library());
    started = 1;
    /* Registered now, to run before MPI's own exit handlers. */
    if (stays && atexit(end_at_exit))
        return ss_fail(SS_ERR_LIBRARY, "atexit failed: MPI cannot be finalized at exit");
    return SS_OK;
}

static enum ss_status start_mpi(struct ss_mpi *mpi)
{
    exit_timeout_s = mpi->comm->timeout_s;
    SS_TRY(init());
    ss_call_timeout_set(
        mpi->comm->timeout_s,
        "start-up: the first messages between ranks did not arrive before the timeout; check "
        "that no rank has exited and that the nodes can reach each other");
    SS_TRY(find_place(mpi));
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &mpi->world), "start-up");
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &mpi->sums), "start-up");
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &mpi->small), "start-up");
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &mpi->control), "start-up");
    ss_mpi_all_reduce_open(mpi);
    return ss_mpi_heartbeats_open(mpi);
}

static enum ss_status start_thread(struct ss_mpi *mpi)
{
    mpi->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mpi->wake < 0)
        return ss_fail(SS_ERR_LIBRARY, "cannot create an eventfd for the communication thread: %s",
                       strerror(errno));
    pthread_mutex_init(&mpi->lock, NULL);
    mpi->queue.end = &mpi->queue.first;
    mpi->under_way.end = &mpi->under_way.first;
    return ss_thread_start(&mpi->thread, ss_mpi_thread, mpi, "the communication thread");
}

enum ss_status ss_comm_mpi_open(struct ss_comm *comm)
{
    struct ss_mpi *mpi = calloc(1, sizeof *mpi);
    if (!mpi)
        return ss_fail_memory("the MPI communicator", sizeof *mpi);
    mpi->comm = comm;
    mpi->neighbour.fd = mpi->neighbour.own_board = -1;
    comm->state = mpi;
    enum ss_status status = ss_call_timeout_start();
    if (status == SS_OK) {
        ss_call_timeout_explain(ss_stopped_ranks_describe);
        ss_call_timeout_set(
            comm->timeout_s,
            "start-up: MPI_Init did not return before the timeout; check that every rank is "
            "started and that the nodes can reach each other");
        status = start_mpi(mpi);
        ss_call_timeout_explain(NULL);
    }
    if (status == SS_OK)
        status = start_thread(mpi);
    if (status != SS_OK) {
        /* Half-initialized MPI cannot be undone: the caller ends the process, and the launcher then
         * ends the other ranks. */
        ss_call_timeout_clear();
        free(mpi->node);
        free(mpi);
        return status;
    }
    comm->ops = &mpi_ops;
    return SS_OK;
}
