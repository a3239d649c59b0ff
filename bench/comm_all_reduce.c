/* bench/comm_all_reduce: time of an all-reduce over ranks, compared with the MPI library's own.
 *
 *    mpiexec -n 2 bench/comm_all_reduce [--least KIB] [--most KIB] [--seconds S]
 *
 * For each size, growing by factors of 2, run one all-reduce of src/comm and one MPI_Iallreduce
 * in place, alternately, as often as the time permits. A measurement ends when the last rank has
 * the result; CPU is the time used meanwhile by the busier rank's process. MPI_Iallreduce is
 * completed with MPI_Wait, which spins, as its progress requires calls. Bus bandwidth is the
 * minimum that each rank must send, 2 (ranks - 1) / ranks of the bytes, divided by the time. Rank
 * 0 prints medians, and the median over the rounds of the ratio of MPI_Iallreduce's time to that
 * of src/comm. Run by bench/comm_speed. */
#include "comm/comm.h"
#include "core/clock.h"
#include "core/log.h"
#include "apps/commands/option_help.h"

#include <mpi.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { LEAST_ROUNDS = 3, MOST_ROUNDS = 101, OWN = 0, LIBRARY = 1 };

struct bench {
    struct ss_comm *comm;
    MPI_Comm world; /* for the MPI library's all-reduces */
    sem_t ended;
    float *data;
    size_t count;
};

struct taken {
    double ms, cpu_ms;
};

static double cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void post(void *semaphore)
{
    sem_post(semaphore);
}

static enum ss_status sum(struct bench *b, int who)
{
    MPI_Request request;
    if (who == OWN) {
        SS_TRY(ss_comm_allreduce_start_f32(b->comm, b->data, b->count, SS_DTYPE_F32,
                                           (struct ss_comm_tag){1, 0}, post, &b->ended));
        while (sem_wait(&b->ended) != 0)
            ; /* interrupted by a signal handler */
        return SS_OK;
    }
    if (MPI_Iallreduce(MPI_IN_PLACE, b->data, (int)b->count, MPI_FLOAT, MPI_SUM, b->world,
                       &request) != MPI_SUCCESS ||
        MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return ss_fail(SS_ERR_COMM, "MPI_Iallreduce failed");
    return SS_OK;
}

/* Run one all-reduce and verify it. The values are whole numbers: the result is exact. */
static enum ss_status one(struct bench *b, int who, struct taken *out)
{
    const int rank = ss_comm_rank(b->comm), size = ss_comm_size(b->comm);
    const float want = (float)(size * (size + 1) / 2);
    for (size_t i = 0; i < b->count; i++)
        b->data[i] = (float)(rank + 1);
    MPI_Barrier(b->world);
    double used = cpu_ms();
    uint64_t begin = ss_now_ns();
    SS_TRY(sum(b, who));
    double mine[2] = {1e-6 * (double)(ss_now_ns() - begin), cpu_ms() - used}, most[2];
    for (size_t i = 0; i < b->count; i++)
        if (b->data[i] != want)
            return ss_fail(SS_ERR_COMM, "%s: element %zu of %zu is %g, not %g",
                           who == OWN ? "starstep" : "MPI_Iallreduce", i, b->count,
                           (double)b->data[i], (double)want);
    MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, b->world);
    *out = (struct taken){most[0], most[1]};
    return SS_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static enum ss_status measure(struct bench *b, double seconds)
{
    double ms[2][MOST_ROUNDS], cpu[2][MOST_ROUNDS], ratio[MOST_ROUNDS];
    struct taken t[2];
    const double ranks = ss_comm_size(b->comm), bytes = 4.0 * (double)b->count;
    /* The first round warms up and determines the number of rounds, the same on all ranks. */
    for (int who = OWN; who <= LIBRARY; who++)
        SS_TRY(one(b, who, &t[who]));
    double fit = 1e3 * seconds / (t[OWN].ms + t[LIBRARY].ms);
    int n = fit < LEAST_ROUNDS ? LEAST_ROUNDS : fit > MOST_ROUNDS ? MOST_ROUNDS : (int)fit;
    for (int k = 0; k < n; k++) {
        for (int turn = 0; turn < 2; turn++) {
            int who = (k + turn) % 2;
            SS_TRY(one(b, who, &t[who]));
            ms[who][k] = t[who].ms;
            cpu[who][k] = t[who].cpu_ms;
        }
        ratio[k] = t[LIBRARY].ms / t[OWN].ms;
    }
    double own = median(ms[OWN], n), library = median(ms[LIBRARY], n);
    double bus = 1e-6 * 2 * (ranks - 1) / ranks * bytes; /* GB/s, from ms */
    if (ss_comm_rank(b->comm) == 0)
        printf("%9.0f %6d %10.3f %8.3f %8.2f %10.3f %8.3f %8.2f %7.2f\n", bytes / 1024, n, own,
               bus / own, median(cpu[OWN], n), library, bus / library, median(cpu[LIBRARY], n),
               median(ratio, n));
    fflush(stdout);
    return SS_OK;
}

static enum ss_status run(struct bench *b, long least, long most, double seconds)
{
    b->data = malloc((size_t)most * 1024);
    if (!b->data)
        return ss_fail_memory("the numbers", (size_t)most * 1024);
    if (ss_comm_rank(b->comm) == 0)
        printf("%d ranks on %d nodes, %s; ms, GB/s of bus bandwidth, ms of CPU\n"
               "%9s %6s %10s %8s %8s %10s %8s %8s %7s\n",
               ss_comm_size(b->comm), ss_comm_nodes(b->comm), ss_comm_library(), "KiB", "rounds",
               "starstep", "GB/s", "CPU", "Iallreduce", "GB/s", "CPU", "ratio");
    for (long kib = least; kib <= most; kib *= 2) {
        b->count = (size_t)kib * 1024 / sizeof(float);
        SS_TRY(measure(b, seconds));
    }
    free(b->data);
    return SS_OK;
}

struct arguments {
    long least, most;
    double seconds;
};

static const struct ss_option rows[] = {
    SS_OPTION_INT(struct arguments, least, "--least", 64, 1, 1 << 20, "KIB", "smallest all-reduce"),
    SS_OPTION_INT(struct arguments, most, "--most", 32768, 1, 1 << 20, "KIB", "largest all-reduce"),
    SS_OPTION_FLOAT(struct arguments, seconds, "--seconds", 1, 0, 1000, "S", "time for each size"),
    {0}};

int main(int argc, char **argv)
{
    struct arguments a;
    const struct ss_option_set sets[] = {{.rows = rows, .values = &a}, {0}};
    const struct ss_comm_config config = {"mpi", 60};
    struct bench b = {0};
    argv[0] = "comm_all_reduce";
    int code = ss_options_command("usage: mpiexec -n RANKS comm_all_reduce [OPTION...]\n"
                                  "Time of all-reduces over ranks. Options:\n",
                                  sets, argc, argv);
    if (code >= 0)
        return code;
    if (ss_comm_open(&config, &b.comm) != SS_OK)
        return 1;
    sem_init(&b.ended, 0, 0);
    enum ss_status status = SS_OK;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &b.world) != MPI_SUCCESS)
        status = ss_fail(SS_ERR_COMM, "MPI_Comm_dup failed");
    if (status == SS_OK)
        status = run(&b, a.least, a.most, a.seconds);
    if (status != SS_OK) {
        ss_comm_abort(b.comm, status); /* the other ranks wait for this one */
        return 1;
    }
    MPI_Comm_free(&b.world);
    ss_comm_close(b.comm);
    return 0;
}
