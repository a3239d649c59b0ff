/* bench/overhead: overhead of the runtime.
 *
 *    bench/overhead [--width A,B,C,D] [--batch-size N] [--threads N] [--rounds N] ...
 *
 * Two measurements, alternately, medians over the rounds:
 *   empty step  the whole step graph, submitted and run with kernels that return immediately: only
 *               submission, dependencies, scheduling, and start and end of tasks
 *   idle        in real steps, the fraction of time in which the compute worker runs no task
 * Both as a fraction of a real step. The target is below 2 % at full width. Idle time includes
 * loading that a step waits for; with few cores the loader dominates, not the runtime. */
#include "apps/commands/option_help.h"
#include "core/clock.h"
#include "data/sampler.h"
#include "apps/data/synthetic.h"
#include "kernels/cpu/cpu.h"
#include "train/session.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ROUNDS = 99 };

struct bench {
    struct ss_session session;
    sem_t in_flight;
    uint64_t step;
    long steps, rounds;
    double submit; /* seconds inside submission, of the last run */
};

static const struct ss_option rows[] = {
    SS_OPTION_INT(struct bench, steps, "--steps", 10, 1, 100000, "N", "real steps a round"),
    SS_OPTION_INT(struct bench, rounds, "--rounds", 5, 1, MAX_ROUNDS, "N", "rounds"),
    {0}};

static void report(void *arg, uint64_t step, double lr, const struct ss_step_facts *facts)
{
    (void)step;
    (void)lr;
    (void)facts;
    sem_post(&((struct bench *)arg)->in_flight);
}

/* Submit `steps` steps as the training loop does and wait for them. Returns seconds per step. */
static double run_steps(struct bench *b, long steps)
{
    struct ss_session *s = &b->session;
    for (int i = 0; i < s->batch; i++)
        s->sample[i] = (uint32_t)i % (uint32_t)s->train->count;
    struct ss_exec_step step = {.lr = 1e-4, .dataset = s->train, .augment = 1, .sample = s->sample};
    double begin = ss_seconds();
    b->submit = 0;
    for (long k = 0; k < steps; k++) {
        sem_wait(&b->in_flight);
        step.step = ++b->step;
        double at = ss_seconds();
        if (ss_exec_submit_train(s->exec, &step) != SS_OK)
            exit(1);
        b->submit += ss_seconds() - at;
    }
    ss_exec_wait(s->exec);
    b->submit /= (double)steps;
    return (ss_seconds() - begin) / (double)steps;
}

static double seconds_of(struct timespec t)
{
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds per step in which the compute worker (the first) ran no task. */
static double idle_seconds(const struct starpu_profiling_worker_info *info, long steps)
{
    return (seconds_of(info->total_time) - seconds_of(info->executing_time)) / (double)steps;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, long n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void measure(struct bench *b)
{
    double real[MAX_ROUNDS], empty[MAX_ROUNDS], submit[MAX_ROUNDS], idle[MAX_ROUNDS],
        share[MAX_ROUNDS], idle_share[MAX_ROUNDS];
    struct ss_run *run = &b->session.runtime.run;
    struct starpu_profiling_worker_info info;
    int compute = starpu_worker_get_by_type(STARPU_CPU_WORKER, 0);
    long empty_steps = 200;
    run_steps(b, 3);
    for (long r = 0; r < b->rounds; r++) {
        starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
        starpu_profiling_worker_get_info(compute, &info);
        real[r] = run_steps(b, b->steps);
        starpu_profiling_worker_get_info(compute, &info);
        idle[r] = idle_seconds(&info, b->steps);
        starpu_profiling_status_set(STARPU_PROFILING_DISABLE);
        /* A failed run continues to submit, and every codelet returns immediately. */
        atomic_store(&run->status, SS_ERR_INTERRUPTED);
        empty[r] = run_steps(b, empty_steps);
        submit[r] = b->submit;
        atomic_store(&run->status, SS_OK);
        share[r] = empty[r] / real[r];
        idle_share[r] = idle[r] / real[r];
    }
    int tasks = b->session.plan->train.count;
    printf("tasks per step          %d\n", tasks);
    printf("real step               %.2f ms\n", 1e3 * median(real, b->rounds));
    printf("empty step              %.3f ms, %.2f us per task (of it in submission: %.3f ms)\n",
           1e3 * median(empty, b->rounds), 1e6 * median(empty, b->rounds) / tasks,
           1e3 * median(submit, b->rounds));
    printf("compute worker idle     %.3f ms per step\n", 1e3 * median(idle, b->rounds));
    printf("runtime / step          %.3f %%\n", 100 * median(share, b->rounds));
    printf("idle / step             %.3f %%\n", 100 * median(idle_share, b->rounds));
}

int main(int argc, char **argv)
{
    struct ss_train_options o;
    struct bench *b = calloc(1, sizeof *b);
    char folder[] = "/tmp/starstep-overhead-XXXXXX";
    if (!b)
        return 1;
    const struct ss_option_set sets[] = {
        ss_train_option_set(&o, SS_TRAIN_OF_EVAL | SS_TRAIN_OPTIMIZER),
        {.rows = rows, .values = b},
        {0}};
    argv[0] = "overhead";
    int code = ss_options_command("usage: overhead [OPTION...]\n"
                                  "Runtime overhead per step of 32 images, unless "
                                  "--batch-size is given. Options:\n",
                                  sets, argc, argv);
    if (code >= 0)
        return code;
    if (!o.batch_size)
        o.batch_size = 32;
    struct ss_synthetic data = {.train = 512, .test = 64, .classes = 10, .seed = 1};
    if (!o.data_dir) {
        if (!mkdtemp(folder) || ss_synthetic_cifar(&ss_cifar100, folder, &data) != SS_OK)
            return 1;
        o.data_dir = folder;
    }
    struct ss_report to = {report, b};
    sem_init(&b->in_flight, 0, (unsigned)o.slots);
    enum ss_status status = ss_session_open(&b->session, &o, 1, to);
    if (status == SS_OK)
        measure(b);
    ss_session_close(&b->session);
    if (o.data_dir == folder) {
        char file[64];
        snprintf(file, sizeof file, "%s/train.bin", folder);
        unlink(file);
        snprintf(file, sizeof file, "%s/test.bin", folder);
        unlink(file);
        rmdir(folder);
    }
    free(b);
    return status == SS_OK ? 0 : 1;
}
