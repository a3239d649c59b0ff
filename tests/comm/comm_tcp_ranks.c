/* comm_tcp_ranks.c: program run on every rank by tests/comm/test_comm_tcp.sh.
 *
 *     comm_tcp_ranks MODE TIMEOUT [RANK]     kill, stop, absent, abort, leave, cut, fails, endless,
 *                                            other: RANK fails in step 5; mismatch: RANK fails at
 *                                            the start; steps: no failure; second: ranks 0 and 1
 *                                            fail in a large broadcast; again: no failure, opened
 *                                            several times
 *
 * LACKS_MEMORY (environment): number of RANK's allocation that fails while the communicator opens.
 * Exit code 0 if all checks passed. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm.h"
#include "comm/comm_base.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/rng.h"
#include "tests/comm/ranks_again.h"
#include "tests/comm/ranks_common.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Smaller than, equal to and larger than one frame. */
static const size_t sizes[] = {0, 1, 7, 1000, 32768, 32769, 300001};
enum { NSIZES = sizeof sizes / sizeof sizes[0] };

static int run_sums(struct ss_comm *comm, size_t n, double *d)
{
    int rank = ss_comm_rank(comm), size = ss_comm_size(comm);
    for (size_t i = 0; i < n; i++)
        d[i] = (rank + 1) * 1e9 + (double)i;
    REQUIRE(ss_comm_allreduce_f64(comm, d, n, "sum") == SS_OK);
    for (size_t i = 0; i < n; i++)
        REQUIRE(d[i] == size * (size + 1) / 2 * 1e9 + size * (double)i);
    return EXIT_SUCCESS;
}

static int run_broadcasts(struct ss_comm *comm, size_t n, double *d)
{
    int rank = ss_comm_rank(comm), size = ss_comm_size(comm);
    for (int root = 0; root<size; root += size> 4 ? 5 : 1) {
        for (size_t i = 0; i < n; i++)
            d[i] = rank == root ? (double)(i + (size_t)root) : -1;
        REQUIRE(ss_comm_bcast(comm, d, n * sizeof *d, root, "broadcast") == SS_OK);
        for (size_t i = 0; i < n; i++)
            REQUIRE(d[i] == (double)(i + (size_t)root));
    }
    return EXIT_SUCCESS;
}

static int run_gather(struct ss_comm *comm, size_t n, double *d)
{
    int rank = ss_comm_rank(comm), size = ss_comm_size(comm);
    double *all = rank == 0 ? malloc((n * (size_t)size + 1) * sizeof *all) : NULL;
    struct ss_comm_request gather = {.kind = SS_COMM_GATHER,
                                     .data = d,
                                     .count = n * sizeof *d,
                                     .gathered = all,
                                     .what = "gather"};
    for (size_t i = 0; i < n; i++)
        d[i] = rank + 1e-3 * (double)i;
    REQUIRE(ss_comm_run(comm, &gather) == SS_OK);
    for (size_t i = 0; rank == 0 && i < n * (size_t)size; i++)
        REQUIRE(all[i] == (double)(i / n) + 1e-3 * (double)(i % n));
    free(all);
    return EXIT_SUCCESS;
}

static int run_maximum(struct ss_comm *comm, size_t n, uint64_t *u)
{
    uint64_t rank = (uint64_t)ss_comm_rank(comm), size = (uint64_t)ss_comm_size(comm);
    struct ss_comm_request most = {
        .kind = SS_COMM_MAX_U64, .data = u, .count = n, .what = "maximum"};
    for (size_t i = 0; i < n; i++)
        u[i] = ~(uint64_t)0 - (rank + i) % size;
    REQUIRE(ss_comm_run(comm, &most) == SS_OK);
    for (size_t i = 0; i < n; i++)
        REQUIRE(u[i] == ~(uint64_t)0);
    return EXIT_SUCCESS;
}

static int check_place(struct ss_comm *comm)
{
    const char *per_node = getenv("RANKS_PER_NODE");
    int local = per_node ? atoi(per_node) : ss_comm_size(comm), size = ss_comm_size(comm);
    REQUIRE(strcmp(ss_comm_backend(comm), "tcp") == 0);
    REQUIRE(ss_comm_local_size(comm) == local && ss_comm_nodes(comm) == size / local);
    REQUIRE(ss_comm_local_rank(comm) == ss_comm_rank(comm) % local);
    return EXIT_SUCCESS;
}

static int collectives(struct ss_comm *comm)
{
    int rank = ss_comm_rank(comm), size = ss_comm_size(comm), any = -1;
    struct ss_comm_tag tag = {1, 0};
    struct ss_comm_totals totals;
    float f = 1;
    if (check_place(comm) != EXIT_SUCCESS)
        return EXIT_FAILURE;
    for (int s = 0; s < NSIZES; s++) {
        size_t n = sizes[s];
        double *d = malloc((n + 1) * sizeof *d);
        REQUIRE(d);
        if (run_sums(comm, n, d) || run_broadcasts(comm, n, d) || run_gather(comm, n, d) ||
            run_maximum(comm, n, (uint64_t *)(void *)d))
            return EXIT_FAILURE;
        free(d);
    }
    REQUIRE(ss_comm_any(comm, 0, &any, "any") == SS_OK && any == 0);
    REQUIRE(ss_comm_any(comm, rank == size - 1, &any, "any") == SS_OK && any == 1);
    REQUIRE(ss_comm_check_consistent(comm, "option --base-lr", "0.1") == SS_OK);
    REQUIRE(ss_comm_barrier(comm, "barrier") == SS_OK);
    ss_comm_get_totals(comm, &totals);
    REQUIRE(totals.collectives > 20 && totals.bytes > 1000000 && totals.busy_ns > 0);
    ss_log_set_quiet(1);
    REQUIRE(ss_comm_allreduce_start_f32(comm, &f, 1, SS_DTYPE_F32, tag, NULL, NULL) ==
            SS_ERR_UNSUPPORTED);
    REQUIRE(ss_comm_verify(comm, SS_DTYPE_F32, sizes, NSIZES) == SS_ERR_COMM);
    ss_log_set_quiet(0);
    REQUIRE(strstr(ss_log_last_error(), "gradients of CPU ranks are reduced through MPI"));
    return EXIT_SUCCESS;
}

/* Sums of random numbers are bit-identical on all ranks. The script compares the printed hashes of
 * two runs. Ranks arrive in a different order each time. */
static int bits(struct ss_comm *comm)
{
    double d[100];
    char text[32];
    uint64_t hash = 0;
    struct ss_rng rng;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, (uint32_t)ss_comm_rank(comm), 0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 100; i++)
            d[i] = (double)ss_rng_uniform(&rng) / (1 + (double)ss_rng_below(&rng, 1 << 20));
        usleep((unsigned)(getpid() * 7919 % 3000));
        REQUIRE(ss_comm_allreduce_f64(comm, d, 100, "sum") == SS_OK);
        for (int i = 0; i < 100; i++) {
            uint64_t word;
            memcpy(&word, &d[i], 8);
            hash = ss_mix64(hash, word);
        }
    }
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    REQUIRE(ss_comm_check_consistent(comm, "bits of the sum", text) == SS_OK);
    if (ss_comm_rank(comm) == 0)
        printf("%s\n", text);
    return EXIT_SUCCESS;
}

enum { MANY = 60, MANY_COUNT = 20000 };
static double many_data[MANY][MANY_COUNT];
static atomic_int many_ended;

static void count(void *arg)
{
    /* Must complete in the order of starting. */
    if (atomic_fetch_add(&many_ended, 1) != *(int *)arg)
        atomic_fetch_add(&many_ended, 1000000);
}

/* Many all-reduces in flight, started at different times on each rank, must not be mixed up. */
static int many(struct ss_comm *comm)
{
    static int order[MANY];
    int rank = ss_comm_rank(comm), size = ss_comm_size(comm);
    struct ss_rng rng;
    ss_rng_open(&rng, 2, SS_RNG_SYNTHETIC, (uint32_t)rank, 0);
    for (int k = 0; k < MANY; k++) {
        size_t n = (size_t)(1 + (k * 7919) % MANY_COUNT);
        for (size_t i = 0; i < n; i++)
            many_data[k][i] = (rank + 1) * (k + 1);
        struct ss_comm_tag tag = {(uint64_t)k, 0};
        order[k] = k;
        REQUIRE(ss_comm_allreduce_start_f64(comm, many_data[k], n, tag, count, &order[k]) == SS_OK);
        if (ss_rng_below(&rng, 3) == 0)
            usleep(ss_rng_below(&rng, 5000));
    }
    while (atomic_load(&many_ended) < MANY)
        usleep(1000);
    REQUIRE(atomic_load(&many_ended) == MANY);
    for (int k = 0; k < MANY; k++)
        for (size_t i = 0; i < (size_t)(1 + (k * 7919) % MANY_COUNT); i++)
            REQUIRE(many_data[k][i] == size * (size + 1) / 2 * (k + 1));
    return EXIT_SUCCESS;
}

/* An operation that completes by itself, at a different time on each rank. */
struct watched {
    int asked, needed, ended;
};

static enum ss_comm_poll ask(void *arg)
{
    struct watched *w = arg;
    if (w->needed < 0)
        return SS_POLL_FAILED;
    return ++w->asked >= w->needed ? SS_POLL_ENDED : SS_POLL_UNDER_WAY;
}

static void note_end(void *arg)
{
    struct watched *w = arg;
    w->ended = w->asked == w->needed;
    atomic_fetch_add(&many_ended, 1);
}

/* Watched operations, such as all-reduces on GPUs, interleaved with collectives. Same order on all
 * ranks. */
static int watched(struct ss_comm *comm)
{
    static struct watched all[MANY];
    int rank = ss_comm_rank(comm), size = ss_comm_size(comm);
    for (int k = 0; k < MANY; k++) {
        struct ss_comm_tag tag = {1, k};
        all[k].needed = 1 + (k * 7 + rank * 13) % 40;
        REQUIRE(ss_comm_watch(comm, tag, NULL, ask, &all[k], note_end, &all[k]) == SS_OK);
        double one = rank;
        if (k % 4 == 0)
            REQUIRE(ss_comm_allreduce_f64(comm, &one, 1, "sum") == SS_OK);
        REQUIRE(k % 4 != 0 || one == size * (size - 1) / 2);
        REQUIRE(k % 4 != 0 || all[k].ended);
    }
    REQUIRE(ss_comm_barrier(comm, "barrier") == SS_OK);
    REQUIRE(atomic_load(&many_ended) == MANY);
    for (int k = 0; k < MANY; k++)
        REQUIRE(all[k].ended);
    return EXIT_SUCCESS;
}

/* Broadcasts of 200 MiB, more than socket buffers hold; the last rank is late for the second. */
static int large(struct ss_comm *comm)
{
    size_t bytes = (size_t)200 << 20;
    int rank = ss_comm_rank(comm), last = ss_comm_size(comm) - 1;
    uint64_t *u = malloc(bytes);
    REQUIRE(u);
    for (int root = 0; root <= last; root += last) {
        for (size_t i = 0; i < bytes / 8; i++)
            u[i] = rank == root ? i * 0x9e3779b97f4a7c15u + (uint64_t)root : 0;
        if (root > 0 && rank == last)
            sleep(1);
        double begin = ss_seconds();
        REQUIRE(ss_comm_bcast(comm, u, bytes, root, "large broadcast") == SS_OK);
        if (rank == 0)
            printf("%.0f MB/s\n", 1e-6 * (double)bytes / (ss_seconds() - begin));
        for (size_t i = 0; i < bytes / 8; i++)
            REQUIRE(u[i] == i * 0x9e3779b97f4a7c15u + (uint64_t)root);
    }
    free(u);
    return EXIT_SUCCESS;
}

/* Simulate a network failure: shut down all connections; the process continues. */
static void cut_connections(void)
{
    struct sockaddr_storage peer;
    for (int fd = 3; fd < 256; fd++) {
        socklen_t length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0)
            shutdown(fd, SHUT_RDWR);
    }
}

static int misbehave(struct ss_comm *comm, const char *mode)
{
    if (strcmp(mode, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(mode, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(mode, "leave") == 0)
        _exit(3);
    while (strcmp(mode, "absent") == 0)
        pause();
    if (strcmp(mode, "abort") == 0) {
        ss_fail(SS_ERR_IO, "disk full");
        ss_comm_abort(comm, SS_ERR_IO);
    }
    if (strcmp(mode, "cut") == 0) {
        cut_connections();
        pause(); /* the communication thread ends the process */
    }
    struct ss_comm_tag tag = {5, 0};
    static struct watched fails = {0, -1, 0};
    if (strcmp(mode, "fails") == 0) {
        ss_fail(SS_ERR_COMM, "the GPU is gone");
        ss_comm_watch(comm, tag, NULL, ask, &fails, note_end, &fails);
        pause(); /* the communication thread ends the process */
    }
    double other[3] = {0};
    return ss_comm_bcast(comm, other, sizeof other, 0, "something else") == SS_OK;
}

/* Two all-reduces per step for about 3 s, or until rank `bad` fails in step 5. */
static int steps(struct ss_comm *comm, const char *mode, int bad)
{
    static double data[2][5000];
    sem_t ended;
    sem_init(&ended, 0, 0);
    static struct watched watch = {0, 1, 0};
    printf("started\n");
    fflush(stdout);
    for (uint64_t step = 1; step <= 300; step++) {
        struct ss_comm_tag tag = {step, 0};
        if (step == 5 && strcmp(mode, "endless") == 0) {
            watch.needed = ss_comm_rank(comm) == bad ? 1 << 30 : 3;
            REQUIRE(ss_comm_watch(comm, tag, NULL, ask, &watch, post, &ended) == SS_OK);
            sem_wait(&ended);
        } else if (step == 5 && ss_comm_rank(comm) == bad)
            return misbehave(comm, mode);
        for (int b = 0; b < 2; b++) {
            tag.bucket = b;
            REQUIRE(ss_comm_allreduce_start_f64(comm, data[b], 5000, tag, post, &ended) == SS_OK);
        }
        sem_wait(&ended);
        sem_wait(&ended);
        usleep(8000);
    }
    return bad < 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Rank 1 dies during a broadcast from rank 0. Rank 0 cannot report it to rank 2, which is stopped
 * and does not read; meanwhile rank 0 fails a second time. Rank 2 must receive the first reason. */
static struct ss_comm *second_comm;

static void *fail_again(void *first)
{
    const volatile uint64_t *u = first;
    int rank = ss_comm_rank(second_comm);
    while (rank > 0 && *u == 0)
        usleep(100);
    if (rank == 2)
        raise(SIGSTOP);
    usleep(rank == 1 ? 500000 : 1500000); /* rank 2 has stopped; rank 0 is about to end */
    if (rank == 1)
        raise(SIGKILL);
    if (rank == 0) {
        ss_fail(SS_ERR_IO, "disk full");
        ss_comm_abort(second_comm, SS_ERR_IO);
    }
    return NULL;
}

static int second(struct ss_comm *comm)
{
    size_t bytes = (size_t)200 << 20;
    uint64_t *u = calloc(bytes, 1);
    pthread_t thread;
    REQUIRE(u);
    u[0] = ss_comm_rank(comm) == 0;
    second_comm = comm;
    REQUIRE(pthread_create(&thread, NULL, fail_again, u) == 0);
    ss_comm_bcast(comm, u, bytes, 0, "large broadcast");
    pause(); /* the communication thread ends the process */
    return EXIT_FAILURE;
}

/* The value differs on rank `bad` only. */
static int mismatch(struct ss_comm *comm, int bad)
{
    const char *value = ss_comm_rank(comm) == bad ? "0.01" : "0.1";
    enum ss_status status = ss_comm_check_consistent(comm, "option --base-lr", value);
    return status == SS_ERR_MISMATCH ? 3 : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: comm_tcp_ranks MODE TIMEOUT [RANK]\n");
        return 2;
    }
    const char *mode = argv[1], *backend = getenv("BACKEND");
    int bad = argc > 3 ? atoi(argv[3]) : -1, rc;
    struct ss_comm_config config = {backend ? backend : "auto", atof(argv[2])};
    struct ss_comm *comm;
    if (strcmp(mode, "again") == 0)
        return again(&config, 0);
    limit_memory(getenv("RANK"), bad);
    if (ss_comm_open(&config, &comm) != SS_OK)
        return EXIT_FAILURE;
    if (strcmp(mode, "name") == 0) {
        printf("%s\n", ss_comm_backend(comm));
        rc = EXIT_SUCCESS;
    } else if (strcmp(mode, "collectives") == 0) {
        rc = collectives(comm);
    } else if (strcmp(mode, "bits") == 0) {
        rc = bits(comm);
    } else if (strcmp(mode, "many") == 0) {
        rc = many(comm);
    } else if (strcmp(mode, "watched") == 0) {
        rc = watched(comm);
    } else if (strcmp(mode, "large") == 0) {
        rc = large(comm);
    } else if (strcmp(mode, "second") == 0) {
        rc = second(comm);
    } else if (strcmp(mode, "mismatch") == 0) {
        rc = mismatch(comm, bad);
    } else {
        rc = steps(comm, mode, bad);
    }
    if (rc == EXIT_FAILURE)
        ss_comm_abort(comm, SS_ERR_COMM);
    ss_comm_close(comm);
    return rc;
}
