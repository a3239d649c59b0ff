/* comm_wire_ranks.c: program run on every rank by tests/comm/test_comm_wire.sh: all-reduces of
 * floats in 2-byte wire formats.
 *
 *     comm_wire_ranks sums        compare with double precision; bit-identical on all ranks; prints
 *                                 hashes
 *     comm_wire_ranks checked     the start-up check with intact data
 *     comm_wire_ranks MODE        the start-up check must detect a bit flip: "share" and "sum" in
 *                                 the two halves of the all-reduce in mpi_all_reduce.c, "mpi" in
 *                                 MPI's
 *     comm_wire_ranks bench       milliseconds of an all-reduce in each format
 * Exit code 0 if all checks passed. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/rng.h"
#include "kernels/cpu/wire.h"
#include "tests/comm/ranks_common.h"

#include <math.h>
#include <mpi.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {1, 7, 64, 1000, 65537, 1000003};
enum { NSIZES = sizeof sizes / sizeof sizes[0], SPECIAL = 4, MOST_DIRECT = 16 };

/* Intercept the library's MPI calls (MPI profiling interface). */
static int flip_half = -1, flip_mpi; /* messages of this rank in which a bit is flipped */
static int longest;                  /* longest message of 2-byte numbers, in elements */

static void flip(const void *data, int count)
{
    flip_half = -1; /* once */
    flip_mpi = 0;
    ((unsigned char *)(uintptr_t)data)[2 * (count / 2) + 1] ^= 0x20;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    if (type == MPI_UINT16_T && flip_half == tag % 2)
        flip(data, count);
    if (type == MPI_UINT16_T && count > longest)
        longest = count;
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    if (type == MPI_UINT16_T && flip_mpi)
        flip(out, count);
    return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

static enum ss_status sum(struct ss_comm *comm, float *x, size_t n, enum ss_dtype wire)
{
    sem_t ended;
    sem_init(&ended, 0, 0);
    enum ss_status status =
        ss_comm_allreduce_start_f32(comm, x, n, wire, (struct ss_comm_tag){1, 0}, post, &ended);
    while (status == SS_OK && sem_wait(&ended) != 0)
        ;
    sem_destroy(&ended);
    return status;
}

/* Fill in a rank's contribution. */
static void fill(float *x, size_t n, int rank, int which)
{
    struct ss_rng rng;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, (uint32_t)rank, (uint32_t)which);
    for (size_t i = 0; i < n; i++)
        x[i] = (ss_rng_uniform(&rng) - 0.5f) * exp2f((float)ss_rng_below(&rng, 24) - 16);
}

/* Half the distance between adjacent numbers: relative, and absolute for subnormal numbers. */
static double half_step(enum ss_dtype t)
{
    return t == SS_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
}
static double smallest_half(enum ss_dtype t)
{
    return t == SS_DTYPE_F16 ? 0x1p-25 : 0x1p-134;
}

/* 1: mpi_all_reduce.c leaves this size to MPI's all-reduce. */
static int by_mpi(const struct ss_comm *comm, size_t n)
{
    const int size = ss_comm_size(comm);
    return size > MOST_DIRECT || n / (size_t)size < 1024 || getenv("STARSTEP_COMM_PART");
}

/* Compare with the sum in double precision. Error bound: each rank's number is rounded once
 * (relative to the sum of magnitudes), then the sum, or each partial sum if MPI's all-reduce is
 * used. */
static int check_sum(struct ss_comm *comm, const float *got, size_t n, int which, enum ss_dtype t)
{
    const int size = ss_comm_size(comm);
    float *x = malloc(n * sizeof *x);
    double *want = calloc(n, sizeof *want), *magnitude = calloc(n, sizeof *magnitude);
    size_t inexact = 0;
    REQUIRE(x && want && magnitude);
    for (int r = 0; r < size; r++) {
        fill(x, n, r, which);
        for (size_t i = 0; i < n; i++) {
            want[i] += (double)x[i];
            magnitude[i] += fabs((double)x[i]);
        }
    }
    const double u = half_step(t), v = size * smallest_half(t);
    for (size_t i = 0; i < n; i++) {
        const double error = fabs((double)got[i] - want[i]);
        const int sums = by_mpi(comm, n) ? size - 1 : 1;
        const double bound = (1 + sums) * u * magnitude[i] * (1 + size * u) + (size + sums) * v;
        if (error > bound * (1 + 1e-5)) {
            ss_fail(SS_ERR_COMM,
                    "%s, %zu elements: element %zu is %.9g, want %.9g: error %.3g, "
                    "bound %.3g",
                    ss_dtype_name(t), n, i, (double)got[i], want[i], error, bound);
            return EXIT_FAILURE;
        }
        inexact += error > 1e-6 * magnitude[i];
    }
    /* The numbers were really sent in 2 bytes. */
    REQUIRE(n < 1000 || inexact > n / 2);
    free(x);
    free(want);
    free(magnitude);
    return EXIT_SUCCESS;
}

/* Exact result of the all-reduce in mpi_all_reduce.c: all numbers rounded, added in rank order. */
static int check_exact(struct ss_comm *comm, const float *got, size_t n, int which, enum ss_dtype t)
{
    const int size = ss_comm_size(comm);
    float *x = malloc(n * sizeof *x);
    uint16_t *packed = malloc(n * (size_t)size * sizeof *packed);
    const uint16_t *from[MOST_DIRECT];
    REQUIRE(x && packed && size <= MOST_DIRECT);
    for (int r = 0; r < size; r++) {
        fill(x, n, r, which);
        ss_wire_pack(t, x, 1.0f / (float)size, packed + (size_t)r * n, n);
        from[r] = packed + (size_t)r * n;
    }
    ss_wire_sum(t, from, size, packed, n);
    ss_wire_unpack(t, packed, (float)size, x, n);
    REQUIRE(memcmp(got, x, n * sizeof *x) == 0);
    free(x);
    free(packed);
    return EXIT_SUCCESS;
}

static int check_bits(struct ss_comm *comm, const float *x, size_t n, enum ss_dtype t)
{
    uint64_t hash = 0;
    char text[32];
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &x[i], sizeof word);
        hash = ss_mix64(hash, word);
    }
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    REQUIRE(ss_comm_check_consistent(comm, "bits of the sum", text) == SS_OK);
    if (ss_comm_rank(comm) == 0)
        printf("%s %zu %s\n", ss_dtype_name(t), n, text);
    return EXIT_SUCCESS;
}

static int sums(struct ss_comm *comm, enum ss_dtype t)
{
    const int rank = ss_comm_rank(comm), size = ss_comm_size(comm);
    for (int s = 0; s < NSIZES; s++) {
        const size_t n = sizes[s];
        struct ss_comm_totals before, after;
        float *x = malloc(n * sizeof *x);
        REQUIRE(x);
        fill(x, n, rank, s);
        ss_comm_get_totals(comm, &before);
        REQUIRE(sum(comm, x, n, t) == SS_OK);
        ss_comm_get_totals(comm, &after);
        REQUIRE(after.bytes - before.bytes == 2 * n);
        if (check_sum(comm, x, n, s, t) || check_bits(comm, x, n, t) ||
            (!by_mpi(comm, n) && check_exact(comm, x, n, s, t)))
            return EXIT_FAILURE;
        free(x);
    }
    /* A value that is or becomes infinite or NaN on one rank arrives on all ranks. A mean within
     * the range arrives although the sum exceeds the range. Both all-reduce algorithms. */
    for (int s = 2; s < NSIZES; s++) {
        const size_t n = sizes[s];
        float *x = calloc(n, sizeof *x);
        REQUIRE(x);
        for (size_t at = 0; at + SPECIAL <= n; at += n - SPECIAL) {
            x[at] = rank == size - 1 ? -INFINITY : 1;
            x[at + 1] = rank == 0 ? NAN : 1;
            x[at + 2] = 1e5f;
            x[at + 3] = 60000;
        }
        REQUIRE(sum(comm, x, n, t) == SS_OK);
        for (size_t at = 0; at + SPECIAL <= n; at += n - SPECIAL) {
            const float large = 1e5f * (float)size, fits = 60000.0f * (float)size;
            REQUIRE(x[at] == -INFINITY && isnan(x[at + 1]));
            REQUIRE(t == SS_DTYPE_F16 ? x[at + 2] == INFINITY
                                      : fabsf(x[at + 2] - large) < 0.01f * large);
            REQUIRE(fabsf(x[at + 3] - fits) < 0.01f * fits);
        }
        if (check_bits(comm, x, n, t))
            return EXIT_FAILURE;
        free(x);
    }
    return EXIT_SUCCESS;
}

/* Within a node a share is one message. Between nodes it is split into pieces below Open MPI's
 * eager limit over TCP. */
static int check_messages(const struct ss_comm *comm)
{
    const char *asked = getenv("STARSTEP_COMM_PIECE");
    const int whole = (int)(sizes[NSIZES - 1] / (size_t)ss_comm_size(comm));
    if (asked)
        REQUIRE(longest > 0 && 2 * longest <= atoi(asked));
    else if (ss_comm_nodes(comm) == ss_comm_size(comm))
        REQUIRE(longest > 20000 && 2 * longest < 65000);
    else if (ss_comm_nodes(comm) == 1)
        REQUIRE(longest >= whole || getenv("STARSTEP_COMM_PART"));
    return EXIT_SUCCESS;
}

/* Data of one rank are corrupted: the start-up check fails on all ranks. */
static int harmed(struct ss_comm *comm, enum ss_dtype t, const char *mode)
{
    const size_t small = 100, large = 100003;
    const int mpi = strcmp(mode, "mpi") == 0;
    if (ss_comm_rank(comm) == 1) {
        flip_half = strcmp(mode, "share") == 0 ? 0 : strcmp(mode, "sum") == 0 ? 1 : -1;
        flip_mpi = mpi;
    }
    REQUIRE(ss_comm_verify(comm, t, mpi ? &small : &large, 1) == SS_ERR_COMM);
    REQUIRE(flip_half == -1 && flip_mpi == 0);
    REQUIRE(ss_comm_verify(comm, t, &large, 1) == SS_OK);
    return EXIT_SUCCESS;
}

static int bench(struct ss_comm *comm, enum ss_dtype t)
{
    static const size_t counts[] = {10000, 1 << 18, 1 << 20, 6553600};
    for (size_t s = 0; s < sizeof counts / sizeof counts[0]; s++) {
        enum { REPEATS = 15 };
        float *x = calloc(counts[s], sizeof *x);
        double total = 0, least = INFINITY;
        REQUIRE(x);
        for (int k = 0; k < REPEATS; k++) {
            REQUIRE(ss_comm_barrier(comm, "bench") == SS_OK);
            const uint64_t begin = ss_now_ns();
            REQUIRE(sum(comm, x, counts[s], t) == SS_OK);
            const double ms = 1e-6 * (double)(ss_now_ns() - begin);
            total += ms;
            least = fmin(least, ms);
        }
        if (ss_comm_rank(comm) == 0)
            printf("%s, %9zu floats: mean %.3f ms, minimum %.3f ms\n", ss_dtype_name(t), counts[s],
                   total / REPEATS, least);
        free(x);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: comm_wire_ranks MODE\n");
        return 2;
    }
    const struct ss_comm_config config = {"auto", 30};
    struct ss_comm *comm;
    int rc = EXIT_SUCCESS;
    if (ss_comm_open(&config, &comm) != SS_OK)
        return EXIT_FAILURE;
    for (int t = SS_DTYPE_F32; t <= SS_DTYPE_BF16 && rc == EXIT_SUCCESS; t++) {
        const enum ss_dtype wire = (enum ss_dtype)t;
        if (strcmp(argv[1], "bench") == 0)
            rc = bench(comm, wire);
        else if (strcmp(argv[1], "checked") == 0)
            rc = ss_comm_verify(comm, wire, sizes, NSIZES) == SS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
        else if (t != SS_DTYPE_F32)
            rc = strcmp(argv[1], "sums") == 0 ? sums(comm, wire) : harmed(comm, wire, argv[1]);
    }
    if (rc == EXIT_SUCCESS && strcmp(argv[1], "sums") == 0)
        rc = check_messages(comm);
    if (rc == EXIT_FAILURE)
        ss_comm_abort(comm, SS_ERR_COMM);
    ss_comm_close(comm);
    return rc;
}
