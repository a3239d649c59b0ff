/* comm_ranks.c: program run on every rank by tests/comm/test_comm_mpi.sh, and a small benchmark.
 *
 *     comm_ranks MODE TIMEOUT [RANK]     stop, halt, kill, dies, absent, abort, memory: RANK fails
 *                                        in step 5; mismatch, late: RANK fails at the start;
 *                                        cut: connections break, but all ranks live; steps: no
 *                                        failure; again: no failure, opened several times
 *
 * LACKS_MEMORY (environment): number of RANK's allocation that fails while the communicator opens.
 * Exit code 0 if all checks passed. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm.h"
#include "core/log.h"
#include "core/rng.h"
#include "tests/comm/ranks_again.h"
#include "tests/comm/ranks_common.h"

#include <math.h>
#include <mpi.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const size_t sizes[] = {1, 7, 1000, 65537, 1000003};
enum { NSIZES = sizeof sizes / sizeof sizes[0] };

/* Set: connections are broken, and MPI_Irecv returns an error. */
static atomic_int broken;

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return broken ? MPI_ERR_OTHER : PMPI_Irecv(data, count, type, from, tag, comm, request);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sums of integers are exact in any order. */
static int sums(struct ss_comm *comm)
{
    int rank = ss_comm_rank(comm), size = ss_comm_size(comm), any = -1;
    int ranks_sum = size * (size + 1) / 2;
    sem_t ended;
    sem_init(&ended, 0, 0);
    REQUIRE(strcmp(ss_comm_backend(comm), "mpi") == 0);
    REQUIRE(ss_comm_nodes(comm) == 1 && ss_comm_local_size(comm) == size);
    REQUIRE(ss_comm_local_rank(comm) == rank);
    for (int s = 0; s < NSIZES; s++) {
        size_t n = sizes[s];
        float *f = malloc(n * sizeof *f);
        double *d = malloc(n * sizeof *d);
        REQUIRE(f && d);
        for (size_t i = 0; i < n; i++) {
            f[i] = (float)((rank + 1) * (int)(i % 1000));
            d[i] = (rank + 1) * 1e9 + (double)i;
        }
        struct ss_comm_tag tag = {1, s};
        REQUIRE(ss_comm_allreduce_start_f32(comm, f, n, SS_DTYPE_F32, tag, post, &ended) == SS_OK);
        REQUIRE(ss_comm_allreduce_start_f64(comm, d, n, tag, post, &ended) == SS_OK);
        sem_wait(&ended);
        sem_wait(&ended);
        for (size_t i = 0; i < n; i++) {
            REQUIRE(f[i] == (float)(ranks_sum * (int)(i % 1000)));
            REQUIRE(d[i] == ranks_sum * 1e9 + size * (double)i);
        }
        for (int root = 0; root < size; root++) {
            for (size_t i = 0; i < n; i++)
                f[i] = rank == root ? (float)(i + (size_t)root) : -1;
            REQUIRE(ss_comm_bcast(comm, f, n * sizeof *f, root, "broadcast") == SS_OK);
            for (size_t i = 0; i < n; i++)
                REQUIRE(f[i] == (float)(i + (size_t)root));
        }
        free(f);
        free(d);
    }
    REQUIRE(ss_comm_any(comm, 0, &any, "any") == SS_OK && any == 0);
    REQUIRE(ss_comm_any(comm, rank == size - 1, &any, "any") == SS_OK && any == 1);
    REQUIRE(ss_comm_check_consistent(comm, "option --base-lr", "0.1") == SS_OK);
    REQUIRE(ss_comm_verify(comm, SS_DTYPE_F32, sizes, NSIZES) == SS_OK);
    double two[2] = {1, rank};
    REQUIRE(ss_comm_allreduce_f64(comm, two, 2, "metrics") == SS_OK);
    REQUIRE(two[0] == size && two[1] == size * (size - 1) / 2);
    /* Rank order: rank 1's 1 is rounded away next to rank 0's value, which rank 2 cancels. */
    const double orders[] = {0x1p60, 1, -0x1p60};
    double small[2] = {rank + 1, rank < 3 ? orders[rank] : 0};
    REQUIRE(ss_comm_allreduce_start_small(comm, small, 2, (struct ss_comm_tag){1, 0}, "sync fwd",
                                          post, &ended) == SS_OK);
    sem_wait(&ended);
    REQUIRE(small[0] == ranks_sum && small[1] == (size < 3 ? 0x1p60 : 0));
    void *gathered;
    REQUIRE(ss_comm_gather_alloc(comm, &rank, sizeof rank, &gathered, "gather") == SS_OK);
    REQUIRE((gathered != NULL) == (rank == 0));
    for (int r = 0; gathered && r < size; r++)
        REQUIRE(((const int *)gathered)[r] == r);
    free(gathered);
    struct ss_comm_totals totals;
    ss_comm_get_totals(comm, &totals);
    REQUIRE(totals.collectives > 20 && totals.bytes > 1000000 && totals.busy_ns > 0);
    return EXIT_SUCCESS;
}

/* Random floats: bit-identical on all ranks. The script compares the printed hashes of two runs. */
static int bits(struct ss_comm *comm)
{
    for (int s = 0; s < NSIZES; s++) {
        size_t n = sizes[s];
        float *f = malloc(n * sizeof *f);
        struct ss_rng rng;
        sem_t ended;
        char text[32];
        REQUIRE(f);
        sem_init(&ended, 0, 0);
        ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, (uint32_t)ss_comm_rank(comm), (uint32_t)s);
        for (size_t i = 0; i < n; i++)
            f[i] = (ss_rng_uniform(&rng) - 0.5f) * exp2f((float)ss_rng_below(&rng, 24));
        /* Ranks arrive in a different order for every size. */
        usleep(1000u * (unsigned)((ss_comm_rank(comm) * 7 + s * 5) % 11));
        struct ss_comm_tag tag = {1, s};
        REQUIRE(ss_comm_allreduce_start_f32(comm, f, n, SS_DTYPE_F32, tag, post, &ended) == SS_OK);
        sem_wait(&ended);
        uint64_t hash = 0;
        for (size_t i = 0; i < n; i++) {
            uint32_t word;
            memcpy(&word, &f[i], 4);
            hash = ss_mix64(hash, word);
        }
        snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
        REQUIRE(ss_comm_check_consistent(comm, "bits of the sum", text) == SS_OK);
        if (ss_comm_rank(comm) == 0)
            printf("%zu %s\n", n, text);
        free(f);
    }
    return EXIT_SUCCESS;
}

/* Reduce-scatter and all-gather are bit-identical to the all-reduce in all formats, with all sizes
 * under way simultaneously. */
static int halves(struct ss_comm *comm)
{
    const int rank = ss_comm_rank(comm), size = ss_comm_size(comm);
    float *whole[NSIZES], *half[NSIZES];
    sem_t ended;
    sem_init(&ended, 0, 0);
    for (int t = SS_DTYPE_F32; t <= SS_DTYPE_BF16; t++) {
        const enum ss_dtype wire = (enum ss_dtype)t;
        for (int s = 0; s < NSIZES; s++) {
            const size_t n = sizes[s];
            struct ss_comm_tag tag = {1, s};
            struct ss_rng rng;
            whole[s] = malloc(n * sizeof(float));
            half[s] = malloc(n * sizeof(float));
            REQUIRE(whole[s] && half[s]);
            ss_rng_open(&rng, 3, SS_RNG_SYNTHETIC, (uint32_t)rank, (uint32_t)s);
            for (size_t i = 0; i < n; i++)
                whole[s][i] = (ss_rng_uniform(&rng) - 0.5f) * exp2f((float)ss_rng_below(&rng, 12));
            memcpy(half[s], whole[s], n * sizeof(float));
            REQUIRE(ss_comm_allreduce_start_f32(comm, whole[s], n, wire, tag, post, &ended) ==
                    SS_OK);
            REQUIRE(ss_comm_reduce_scatter_start_f32(comm, half[s], n, wire, tag, post, &ended) ==
                    SS_OK);
        }
        for (int s = 0; s < 2 * NSIZES; s++)
            sem_wait(&ended);
        for (int s = 0; s < NSIZES; s++) {
            const size_t n = sizes[s], begin = ss_share_begin(n, size, rank),
                         end = ss_share_begin(n, size, rank + 1);
            struct ss_comm_tag tag = {1, SS_COMM_GATHERED + s};
            REQUIRE(memcmp(half[s] + begin, whole[s] + begin, (end - begin) * sizeof(float)) == 0);
            memset(half[s], 0xff, begin * sizeof(float));
            memset(half[s] + end, 0xff, (n - end) * sizeof(float));
            REQUIRE(ss_comm_allgather_start_f32(comm, half[s], n, tag, post, &ended) == SS_OK);
        }
        for (int s = 0; s < NSIZES; s++)
            sem_wait(&ended);
        for (int s = 0; s < NSIZES; s++) {
            REQUIRE(memcmp(half[s], whole[s], sizes[s] * sizeof(float)) == 0);
            free(whole[s]);
            free(half[s]);
        }
    }
    return EXIT_SUCCESS;
}

enum { MANY = 60, MANY_COUNT = 20000 };
static float many_data[MANY][MANY_COUNT];
static atomic_int many_ended;

static void count(void *arg)
{
    (void)arg;
    atomic_fetch_add(&many_ended, 1);
}

/* Many all-reduces in flight, started at different times on each rank, must not be mixed up. */
static int many(struct ss_comm *comm)
{
    int rank = ss_comm_rank(comm), size = ss_comm_size(comm);
    struct ss_rng rng;
    ss_rng_open(&rng, 2, SS_RNG_SYNTHETIC, (uint32_t)rank, 0);
    for (int k = 0; k < MANY; k++) {
        size_t n = (size_t)(1 + (k * 7919) % MANY_COUNT);
        for (size_t i = 0; i < n; i++)
            many_data[k][i] = (float)((rank + 1) * (k + 1));
        struct ss_comm_tag tag = {(uint64_t)k, 0};
        REQUIRE(ss_comm_allreduce_start_f32(comm, many_data[k], n, SS_DTYPE_F32, tag, count,
                                            NULL) == SS_OK);
        if (ss_rng_below(&rng, 3) == 0)
            usleep(ss_rng_below(&rng, 5000));
    }
    while (atomic_load(&many_ended) < MANY)
        usleep(1000);
    for (int k = 0; k < MANY; k++)
        for (size_t i = 0; i < (size_t)(1 + (k * 7919) % MANY_COUNT); i++)
            REQUIRE(many_data[k][i] == (float)(size * (size + 1) / 2 * (k + 1)));
    return EXIT_SUCCESS;
}

/* A small all-reduce: rank `bad` is stopped while it waits in it, and the others complete it. */
static int stop_in_small_sum(struct ss_comm *comm, int bad, sem_t *ended)
{
    static double values[4];
    const struct ss_comm_tag tag = {5, 0};
    const int stops = ss_comm_rank(comm) == bad;
    if (!stops)
        usleep(1000000);
    REQUIRE(ss_comm_allreduce_start_small(comm, values, 4, tag, "sync fwd", post, ended) == SS_OK);
    if (stops) {
        usleep(800000);
        raise(SIGSTOP);
    }
    sem_wait(ended);
    return EXIT_SUCCESS;
}

/* Two buckets per step for about 3 s, or until rank `bad` fails in step 5. */
static int steps(struct ss_comm *comm, const char *mode, int bad)
{
    static float data[2][5000];
    sem_t ended;
    sem_init(&ended, 0, 0);
    for (uint64_t step = 1; step <= 1000; step++) {
        if (step == 5 && ss_comm_rank(comm) == bad) {
            if (strcmp(mode, "dies") == 0)
                usleep(50000); /* the others lose its connections first */
            if (strcmp(mode, "kill") == 0 || strcmp(mode, "dies") == 0)
                raise(SIGKILL);
            if (strcmp(mode, "stop") == 0)
                raise(SIGSTOP);
            while (strcmp(mode, "absent") == 0)
                pause();
            if (strcmp(mode, "abort") == 0) {
                ss_fail(SS_ERR_IO, "disk full");
                ss_comm_abort(comm, SS_ERR_IO);
            }
        }
        broken = step == 5 && (strcmp(mode, "dies") == 0 || strcmp(mode, "cut") == 0);
        if (step == 5 && strcmp(mode, "halt") == 0)
            REQUIRE(stop_in_small_sum(comm, bad, &ended) == EXIT_SUCCESS);
        if (step == 5 && strcmp(mode, "memory") == 0) {
            const void *own = ss_comm_rank(comm) == bad ? NULL : data;
            void *all;
            REQUIRE(ss_comm_gather_alloc(comm, own, sizeof data, &all, "figures") == SS_OK);
            free(all);
        }
        for (int b = 0; b < 2; b++) {
            struct ss_comm_tag tag = {step, b};
            REQUIRE(ss_comm_allreduce_start_f32(comm, data[b], 5000, SS_DTYPE_F32, tag, post,
                                                &ended) == SS_OK);
        }
        sem_wait(&ended);
        sem_wait(&ended);
        usleep(2000);
    }
    return bad < 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* --base-lr differs on rank `bad`. */
static int mismatch(struct ss_comm *comm, int bad)
{
    REQUIRE(ss_comm_check_consistent(comm, "--epochs", "90") == SS_OK);
    const char *value = ss_comm_rank(comm) == bad ? "0.01" : "0.1";
    enum ss_status status = ss_comm_check_consistent(comm, "option --base-lr", value);
    return status == SS_ERR_MISMATCH ? 3 : EXIT_FAILURE;
}

static double cpu_s(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Milliseconds of one all-reduce; CPU time of the process while it waits for a straggler. */
static int bench(struct ss_comm *comm)
{
    static const size_t counts[] = {1, 10000, 1 << 18, 1 << 20, 6553600};
    int rank = ss_comm_rank(comm);
    for (size_t s = 0; s < sizeof counts / sizeof counts[0]; s++) {
        float *f = calloc(counts[s], sizeof *f);
        enum { REPEATS = 50 };
        double times[REPEATS], cpu = cpu_s(RUSAGE_SELF);
        sem_t ended;
        REQUIRE(f);
        sem_init(&ended, 0, 0);
        for (int k = 0; k < REPEATS; k++) {
            struct ss_comm_tag tag = {0, 0};
            REQUIRE(ss_comm_barrier(comm, "bench") == SS_OK);
            double begin = now_s();
            REQUIRE(ss_comm_allreduce_start_f32(comm, f, counts[s], SS_DTYPE_F32, tag, post,
                                                &ended) == SS_OK);
            sem_wait(&ended);
            times[k] = now_s() - begin;
        }
        double sum = 0, least = times[0];
        for (int k = 0; k < REPEATS; k++) {
            sum += times[k];
            least = times[k] < least ? times[k] : least;
        }
        if (rank == 0)
            printf("%9zu bytes: mean %.3f ms, minimum %.3f ms, CPU %.3f ms\n", 4 * counts[s],
                   1e3 * sum / REPEATS, 1e3 * least, 1e3 * (cpu_s(RUSAGE_SELF) - cpu) / REPEATS);
        free(f);
    }
    double cpu = cpu_s(RUSAGE_SELF), begin = now_s();
    if (rank == 1)
        sleep(3);
    REQUIRE(ss_comm_barrier(comm, "bench") == SS_OK);
    printf("rank %d: %.1f %% of a core in %.1f s until the last rank arrived\n", rank,
           100 * (cpu_s(RUSAGE_SELF) - cpu) / (now_s() - begin), now_s() - begin);
    return EXIT_SUCCESS;
}

/* For the script, which kills ranks that outlive their parent. */
static void write_pid(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/pid.%ld", folder, (long)getpid());
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(file, "%ld\n", (long)getpid());
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: comm_ranks MODE TIMEOUT [RANK]\n");
        return 2;
    }
    const char *mode = argv[1];
    int bad = argc > 3 ? atoi(argv[3]) : -1, rc = 2;
    struct ss_comm_config config = {"auto", atof(argv[2])};
    struct ss_comm *comm;
    const char *pids = getenv("COMM_RANKS_PIDS"), *me = getenv("OMPI_COMM_WORLD_RANK");
    if (pids)
        write_pid(pids);
    if (strcmp(mode, "late") == 0 && me && atoi(me) == bad)
        sleep(20); /* the others wait in MPI_Init */
    if (strcmp(mode, "again") == 0)
        return again(&config, 1);
    limit_memory(me, bad);
    if (ss_comm_open(&config, &comm) != SS_OK)
        return EXIT_FAILURE;
    if (strcmp(mode, "sums") == 0)
        rc = sums(comm);
    else if (strcmp(mode, "bits") == 0)
        rc = bits(comm);
    else if (strcmp(mode, "halves") == 0)
        rc = halves(comm);
    else if (strcmp(mode, "many") == 0)
        rc = many(comm);
    else if (strcmp(mode, "mismatch") == 0)
        rc = mismatch(comm, bad);
    else if (strcmp(mode, "bench") == 0)
        rc = bench(comm);
    else
        rc = steps(comm, mode, bad);
    if (rc == EXIT_FAILURE)
        ss_comm_abort(comm, SS_ERR_COMM);
    ss_comm_close(comm);
    return rc;
}
