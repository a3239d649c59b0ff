/* comm_wait_ranks.c: program run on every rank by tests/comm/test_comm_mpi.sh and test_comm_tcp.sh.
 * Counts how often the communication thread polls while it waits, and checks an upper bound.
 *
 *     comm_wait_ranks
 *
 * Exit code 0 if all checks passed. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm.h"
#include "tests/comm/ranks_common.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without progress a thread polls 1000 to 12000 times per second for any number of operations;
 * without sleeps, up to a million times. On a busy machine both are lower. */
enum { SUMS = 12, COUNT = 100000, WAIT_US = 1000000, MOST_ASKED = 60000 };

#ifdef HAVE_MPI
#    include <mpi.h>

/* Number of MPI completion tests, counted through MPI's profiling interface. */
static atomic_int mpi_asked;

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    atomic_fetch_add(&mpi_asked, 1);
    return PMPI_Test(request, flag, status);
}

int MPI_Testsome(int n, MPI_Request *requests, int *nended, int *ended, MPI_Status *statuses)
{
    atomic_fetch_add(&mpi_asked, 1);
    return PMPI_Testsome(n, requests, nended, ended, statuses);
}

/* All ranks except the last one start all-reduces and wait for the last one. */
static int sums_wait(struct ss_comm *comm)
{
    static float data[SUMS][COUNT];
    static double small = 1;
    const int size = ss_comm_size(comm), late = ss_comm_rank(comm) == size - 1;
    sem_t ended;
    sem_init(&ended, 0, 0);
    for (int k = 0; k < SUMS; k++)
        for (int i = 0; i < COUNT; i++)
            data[k][i] = (float)(i % 1000 + k);
    REQUIRE(ss_comm_barrier(comm, "barrier") == SS_OK);
    if (late)
        usleep(2 * WAIT_US);
    REQUIRE(ss_comm_allreduce_start_small(comm, &small, 1, (struct ss_comm_tag){1, -1}, "small",
                                          post, &ended) == SS_OK);
    for (int k = 0; k < SUMS; k++)
        REQUIRE(ss_comm_allreduce_start_f32(comm, data[k], COUNT, SS_DTYPE_F32,
                                            (struct ss_comm_tag){1, k}, post, &ended) == SS_OK);
    if (!late) {
        usleep(WAIT_US / 4); /* at first data may still arrive */
        atomic_store(&mpi_asked, 0);
        usleep(WAIT_US);
        const int asked = atomic_load(&mpi_asked);
        printf("MPI was polled %d times\n", asked);
        REQUIRE(asked > 0 && asked < MOST_ASKED);
    }
    for (int k = 0; k <= SUMS; k++)
        sem_wait(&ended);
    REQUIRE(small == size);
    for (int k = 0; k < SUMS; k++)
        for (int i = 0; i < COUNT; i++)
            REQUIRE(data[k][i] == (float)(size * (i % 1000 + k)));
    return EXIT_SUCCESS;
}
#endif

static struct watched {
    atomic_int asked, over, turn; /* turn: order of completion, from 1 */
} all[SUMS];
static atomic_int turns;

static enum ss_comm_poll ask(void *arg)
{
    struct watched *w = arg;
    atomic_fetch_add(&w->asked, 1);
    return atomic_load(&w->over) ? SS_POLL_ENDED : SS_POLL_UNDER_WAY;
}

static void note_end(void *arg)
{
    struct watched *w = arg;
    atomic_store(&w->turn, atomic_fetch_add(&turns, 1) + 1);
}

static int total(void)
{
    int sum = 0;
    for (int k = 0; k < SUMS; k++)
        sum += atomic_load(&all[k].asked);
    return sum;
}

/* Only the first operation can end next, and only that one is polled. The last two use the other
 * channel, which has its own order over MPI and the same order over TCP. */
static int watches_wait(struct ss_comm *comm)
{
    const int orders = strcmp(ss_comm_backend(comm), "mpi") == 0 ? 2 : 1;
    for (int k = 0; k < SUMS; k++) {
        const struct ss_comm_tag tag = {1, k};
        REQUIRE((k < SUMS - 2 ? ss_comm_watch : ss_comm_watch_small)(comm, tag, NULL, ask, &all[k],
                                                                     note_end, &all[k]) == SS_OK);
    }
    usleep(WAIT_US);
    const int asked = total();
    printf("polled %d times\n", asked);
    REQUIRE(asked > 0 && asked < MOST_ASKED);
    for (int k = 0; k < SUMS; k++) {
        const int first = k == 0 || (orders == 2 && k == SUMS - 2);
        REQUIRE((atomic_load(&all[k].asked) > 0) == first);
    }
    for (int k = SUMS - 1; k >= 0; k--)
        atomic_store(&all[k].over, 1);
    REQUIRE(ss_comm_barrier(comm, "barrier") == SS_OK);
    while (atomic_load(&turns) < SUMS)
        usleep(1000);
    for (int k = 1; k < SUMS; k++)
        REQUIRE(k == SUMS - 2 || atomic_load(&all[k].turn) > atomic_load(&all[k - 1].turn));
    return EXIT_SUCCESS;
}

int main(void)
{
    const struct ss_comm_config config = {"auto", 20};
    struct ss_comm *comm;
    if (ss_comm_open(&config, &comm) != SS_OK)
        return EXIT_FAILURE;
    int rc = watches_wait(comm);
#ifdef HAVE_MPI
    if (rc == EXIT_SUCCESS && strcmp(ss_comm_backend(comm), "mpi") == 0)
        rc = sums_wait(comm);
#endif
    if (rc != EXIT_SUCCESS)
        ss_comm_abort(comm, SS_ERR_COMM);
    ss_comm_close(comm);
    return rc;
}
