/* bench/slow_rank: CPU cost of the communication thread while all-reduces wait for a straggler.
 *
 *    mpiexec -n 2 bench/slow_rank [--what sums|watched|gpu] [--sums N] [--kib KIB] [--seconds S]
 *
 * In each round all ranks but the last start N all-reduces immediately; the last one follows S
 * seconds later. Meanwhile rank 0 queries the kernel for the CPU time of the threads started by
 * ss_comm_open (those of src/comm and of the MPI library). It also measures the time between the
 * last rank's start and the end of its last all-reduce. Ranks on one host; without mpiexec,
 * torchrun's variables select ranks over TCP. --what selects the operation:
 *
 * sums     all-reduces of floats on CPUs (with MPI)
 * watched  operations that are only watched, as GPU all-reduces are, with a poll that costs
 *          nothing: the cost of the thread itself. They end on all ranks after S seconds
 * gpu      all-reduces over NCCL, each rank on the GPU of its local rank (with NCCL)
 *
 * Rank 0 prints medians. bench/straggler runs it for each operation that the build supports. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm.h"
#include "core/clock.h"
#include "core/log.h"
#include "apps/commands/option_help.h"
#ifdef HAVE_NCCL
#    include "comm/nccl.h"
#endif

#include <dirent.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 64, MOST_ROUNDS = 99 };

enum what { SUMS, WATCHED, GPU };

struct arguments {
    int what;
    long sums, kib, rounds;
    double seconds;
};

struct bench {
    struct arguments a;
    struct ss_comm *comm;
    long thread[MOST_THREADS]; /* started by ss_comm_open */
    int nthreads;
    float *data; /* on the GPU if GPU */
    size_t count;
    sem_t ended;
    atomic_int over; /* WATCHED: completed on this rank */
#ifdef HAVE_NCCL
    struct ss_device *gpu;
    struct ss_nccl *nccl;
#endif
};

static enum ss_status find_threads(struct bench *b)
{
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return ss_fail(SS_ERR_IO, "/proc/self/task cannot be read");
    for (struct dirent *e; (e = readdir(tasks)) && b->nthreads < MOST_THREADS;) {
        const long id = atol(e->d_name);
        if (id > 0 && id != (long)getpid()) /* the main thread's id equals the process id */
            b->thread[b->nthreads++] = id;
    }
    closedir(tasks);
    return SS_OK;
}

/* CPU time in ns used so far by these threads. */
static enum ss_status used(const struct bench *b, uint64_t *ns)
{
    *ns = 0;
    for (int i = 0; i < b->nthreads; i++) {
        char path[64];
        unsigned long long one = 0;
        snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", b->thread[i]);
        FILE *f = fopen(path, "r");
        const int got = f ? fscanf(f, "%llu", &one) : 0;
        if (f)
            fclose(f);
        if (got != 1)
            return ss_fail(SS_ERR_IO, "%s: no time found", path);
        *ns += one;
    }
    return SS_OK;
}

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    while (nanosleep(&t, &t) != 0)
        ; /* interrupted by a signal handler */
}

static void post(void *semaphore)
{
    sem_post(semaphore);
}

static enum ss_comm_poll ask(void *bench)
{
    return atomic_load(&((struct bench *)bench)->over) ? SS_POLL_ENDED : SS_POLL_UNDER_WAY;
}

static enum ss_status begin(struct bench *b)
{
    for (int k = 0; k < (int)b->a.sums; k++) {
        const struct ss_comm_tag tag = {1, k};
        float *data = b->data ? b->data + (size_t)k * b->count : NULL;
        if (b->a.what == SUMS)
            SS_TRY(ss_comm_allreduce_start_f32(b->comm, data, b->count, SS_DTYPE_F32, tag, post,
                                               &b->ended));
        if (b->a.what == WATCHED)
            SS_TRY(ss_comm_watch(b->comm, tag, NULL, ask, b, post, &b->ended));
#ifdef HAVE_NCCL
        if (b->a.what == GPU)
            SS_TRY(ss_nccl_allreduce(b->nccl, data, b->count, SS_DTYPE_F32, tag, NULL,
                                     ss_cuda_stream(b->gpu)));
#endif
    }
    return SS_OK;
}

static enum ss_status wait_for_end(struct bench *b)
{
#ifdef HAVE_NCCL
    if (b->a.what == GPU)
        return ss_cuda_synchronize(b->gpu);
#endif
    for (int k = 0; k < (int)b->a.sums; k++)
        while (sem_wait(&b->ended) != 0)
            ; /* interrupted by a signal handler */
    return SS_OK;
}

/* Run a round. *percent: of a core, on this rank, while the last one is late; *late_ms: from the
 * last rank's start to the end. */
static enum ss_status one(struct bench *b, double *percent, double *late_ms)
{
    const int last = ss_comm_size(b->comm) - 1, late = ss_comm_rank(b->comm) == last;
    const double part = b->a.seconds / 10;
    uint64_t before = 0, after = 0, start_ns = 0;
    atomic_store(&b->over, 0);
    SS_TRY(ss_comm_barrier(b->comm, "a round"));
    if (late) {
        pause_for(b->a.seconds);
        start_ns = ss_now_ns();
        SS_TRY(begin(b));
    } else {
        SS_TRY(begin(b));
        pause_for(part);
        uint64_t begin_ns = ss_now_ns();
        SS_TRY(used(b, &before));
        pause_for(8 * part);
        SS_TRY(used(b, &after));
        *percent = 100 * (double)(after - before) / (double)(ss_now_ns() - begin_ns);
        pause_for(part);
    }
    if (b->a.what == WATCHED)
        start_ns = ss_now_ns();
    atomic_store(&b->over, 1);
    SS_TRY(wait_for_end(b));
    const uint64_t end_ns = ss_now_ns();
    if (b->a.what != WATCHED)
        SS_TRY(ss_comm_bcast(b->comm, &start_ns, sizeof start_ns, last, "the slow rank's start"));
    *late_ms = 1e-6 * (double)(int64_t)(end_ns - start_ns);
    return SS_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum ss_status run(struct bench *b)
{
    double percent[MOST_ROUNDS], late_ms[MOST_ROUNDS];
    const int n = (int)b->a.rounds;
    SS_TRY(one(b, &percent[0], &late_ms[0])); /* warm-up */
    for (int k = 0; k < n; k++)
        SS_TRY(one(b, &percent[k], &late_ms[k]));
    qsort(percent, (size_t)n, sizeof *percent, compare);
    qsort(late_ms, (size_t)n, sizeof *late_ms, compare);
    if (ss_comm_rank(b->comm) == 0)
        printf("%.2f %% of a core (%.2f to %.2f), ended %.3f ms after the start (%.3f to %.3f)\n",
               percent[n / 2], percent[0], percent[n - 1], late_ms[n / 2], late_ms[0],
               late_ms[n - 1]);
    return SS_OK;
}

static enum ss_status prepare(struct bench *b)
{
    const size_t bytes = (size_t)b->a.sums * (size_t)b->a.kib * 1024;
    b->count = (size_t)b->a.kib * 1024 / sizeof(float);
    if (b->a.what == SUMS) {
        b->data = calloc(1, bytes);
        return b->data ? SS_OK : ss_fail_memory("the numbers", bytes);
    }
#ifdef HAVE_NCCL
    if (b->a.what == GPU) {
        void *data;
        const int here = ss_comm_local_rank(b->comm);
        const struct ss_device_options device = {.device = here, .dtype = SS_DTYPE_F32};
        const struct ss_nccl_options options = {.device = here};
        SS_TRY(ss_cuda_open(&device, &b->gpu));
        SS_TRY(ss_nccl_open(b->comm, &options, &b->nccl));
        SS_TRY(ss_nccl_alloc(b->gpu, bytes, "the numbers", &data));
        b->data = data;
    }
#else
    if (b->a.what == GPU)
        return ss_fail(SS_ERR_UNSUPPORTED, "--what gpu needs a build with NCCL");
#endif
    return SS_OK;
}

static void finish(struct bench *b)
{
#ifdef HAVE_NCCL
    if (b->a.what == GPU) {
        ss_nccl_close(b->nccl);
        ss_nccl_free(b->data);
        ss_cuda_close(b->gpu);
        return;
    }
#endif
    free(b->data);
}

static const struct ss_word words[] = {{"sums", SUMS}, {"watched", WATCHED}, {"gpu", GPU}, {0}};

static const struct ss_option rows[] = {
    SS_OPTION_WORD(struct arguments, what, "--what", SUMS, words, "operation that waits"),
    SS_OPTION_INT(struct arguments, sums, "--sums", 12, 1, 1000, "N",
                  "number of concurrent all-reduces"),
    SS_OPTION_INT(struct arguments, kib, "--kib", 1024, 1, 1 << 20, "KIB", "size of an all-reduce"),
    SS_OPTION_INT(struct arguments, rounds, "--rounds", 5, 1, MOST_ROUNDS, "N", "measured"),
    SS_OPTION_FLOAT(struct arguments, seconds, "--seconds", 1, 0.01, 1000, "S",
                    "delay of the last rank"),
    {0}};

int main(int argc, char **argv)
{
    struct bench b = {0};
    const struct ss_option_set sets[] = {{.rows = rows, .values = &b.a}, {0}};
    argv[0] = "slow_rank";
    int code =
        ss_options_command("usage: mpiexec -n RANKS slow_rank [OPTION...]\n"
                           "CPU cost of the communication thread while a rank is late. Options:\n",
                           sets, argc, argv);
    if (code >= 0)
        return code;
    const struct ss_comm_config config = {"auto", 60 + b.a.seconds};
    if (ss_comm_open(&config, &b.comm) != SS_OK)
        return 1;
    sem_init(&b.ended, 0, 0);
    enum ss_status status = SS_OK;
    if (ss_comm_size(b.comm) < 2)
        status = ss_fail(SS_ERR_INVALID, "slow_rank needs two ranks: start it with mpiexec -n 2");
    if (status == SS_OK)
        status = find_threads(&b);
    if (status == SS_OK)
        status = prepare(&b);
    if (status == SS_OK)
        status = run(&b);
    if (status != SS_OK) {
        ss_comm_abort(b.comm, status); /* the other ranks wait for this one */
        return 1;
    }
    finish(&b);
    ss_comm_close(b.comm);
    return 0;
}
