#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "train/train.h"
#include "codelets/lane.h"
#include "core/clock.h"
#include "core/log.h"
#include "train/epoch.h"
#include "train/journal.h"
#include "train/session.h"
#include "train/state.h"

#include <errno.h>
#include <math.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SIGNALS = 64, SECOND_SIGNAL_NS = 1000000000 };

struct loop {
    struct ss_session session;
    struct ss_journal journal;
    struct ss_tensorboard *tensorboard; /* rank 0, with --tensorboard */
    struct ss_train_options *options;
    sem_t in_flight; /* steps that may still be submitted; a step's report gives one back */
    double start;
    /* Written by reports, which run one after the other; the main thread reads after taking from
     * in_flight, or after all tasks have ended. */
    double epoch_loss;
    long epoch_steps; /* of it, reported */
    struct ss_metrics epoch_metrics;
    _Atomic uint64_t stop_step; /* the step whose metrics brought a stop request; 0: none */
    _Atomic float last_loss;
    long epoch;
    int warned;
    /* Main thread */
    uint64_t step; /* submitted so far */
    double total_time;
    double total_images;
    long reached; /* epochs in a row at the target */
    struct ss_metrics validation;
    char hash[32]; /* of the weights after the last epoch */
};

static struct ss_run *_Atomic signalled_run;

static _Atomic uint64_t signalled_ns[SIGNALS]; /* by number: when the first one came */

/* The first signal of a kind asks for a stop. Launchers and batch systems both send it, so one that
 * follows at once is the same; a later one of its kind ends the process. */
static void on_signal(int number)
{
    uint64_t now = ss_now_ns(), never = 0;
    if (atomic_compare_exchange_strong(&signalled_ns[number % SIGNALS], &never, now)) {
        struct ss_run *run = atomic_load(&signalled_run);
        if (run)
            atomic_store(&run->stop, 1);
    } else if (now - never > SECOND_SIGNAL_NS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void catch_signals(struct ss_run *run)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1};
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < SIGNALS; i++)
        atomic_store(&signalled_ns[i], 0);
    atomic_store(&signalled_run, run);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

/* A step's metrics, summed over all ranks; on a service worker, in step order. */
static void report_step(void *arg, uint64_t step, double lr, const struct ss_metrics *m)
{
    struct loop *l = arg;
    if (m) {
        double loss = m->bad > 0 ? NAN : m->loss / m->count;
        l->epoch_loss += loss;
        l->epoch_steps++;
        l->epoch_metrics.loss += m->loss;
        l->epoch_metrics.correct += m->correct;
        l->epoch_metrics.count += m->count;
        l->epoch_metrics.bad += m->bad;
        atomic_store(&l->last_loss, (float)loss);
        if (m->stop > 0 && !atomic_load(&l->stop_step))
            atomic_store(&l->stop_step, step);
        if (m->bad > 0 && !l->warned && ss_comm_rank(l->session.comm) == 0) {
            l->warned = 1;
            ss_warn("step %llu: the loss is not finite; try a smaller --base-lr",
                    (unsigned long long)step);
        }
        ss_journal_event(&l->journal, "step", "step", 'i', (int64_t)step, "epoch", 'i',
                         (int64_t)l->epoch + 1, "loss", 'f', loss, "lr", 'f', lr, "time", 'f',
                         ss_seconds() - l->start, "scale", 'f',
                         m->scale / ss_comm_size(l->session.comm), NULL);
    }
    sem_post(&l->in_flight);
}

/* Wait until another step may be submitted. Returns 0 when the run must end instead. A step s is
 * submitted only after the report of step s - slots, so all ranks see a stop request that came with
 * step t before they decide on step t + slots + 1, and all end after step t + slots. */
static int may_submit(struct loop *l)
{
    while (sem_wait(&l->in_flight) && errno == EINTR)
        ;
    uint64_t stop = atomic_load(&l->stop_step);
    int end = (stop && l->step >= stop + (uint64_t)l->options->slots) ||
              !ss_run_ok(&l->session.runtime.run);
    if (end)
        sem_post(&l->in_flight);
    return !end;
}

/* All steps of an epoch; *e: what this rank knows of it afterwards. */
static enum ss_status train_epoch(struct loop *l, struct ss_sampler *sampler, long epoch,
                                  struct ss_epoch *e)
{
    struct ss_session *s = &l->session;
    const struct ss_train_options *o = l->options;
    ss_sampler_set_epoch(sampler, (uint32_t)epoch);
    size_t todo = sampler->steps;
    if (o->max_steps && (uint64_t)o->max_steps - l->step < todo)
        todo = (size_t)((uint64_t)o->max_steps - l->step);
    l->epoch = epoch;
    l->epoch_loss = 0;
    l->epoch_steps = 0;
    l->epoch_metrics = (struct ss_metrics){0};
    *e = (struct ss_epoch){.epoch = epoch + 1,
                           .epochs = o->epochs,
                           .lr = ss_train_lr(o, epoch),
                           .feed = {ss_exec_feed(s->exec)}};
    double begin = ss_seconds(), images = (double)s->batch * ss_comm_size(s->comm);
    struct ss_exec_step step = {.lr = e->lr,
                                .dataset = s->train,
                                .epoch = (uint32_t)epoch,
                                .augment = !o->no_augment,
                                .sample = s->sample};
    size_t k = 0;
    for (; k < todo && may_submit(l); k++) {
        for (int i = 0; i < s->batch; i++)
            s->sample[i] = (uint32_t)ss_sampler_index(sampler, k, (size_t)i);
        step.step = ++l->step;
        SS_TRY(ss_exec_submit_train(s->exec, &step));
        size_t done = k > (size_t)o->slots ? k - (size_t)o->slots : 0;
        ss_journal_bar(&l->journal, epoch + 1, o->epochs, (long)done, (long)todo,
                       (double)atomic_load(&l->last_loss),
                       (double)done * images / (ss_seconds() - begin));
    }
    SS_TRY(ss_exec_wait(s->exec));
    e->train_s = ss_seconds() - begin;
    e->images = (double)k * images;
    e->feed[1] = ss_exec_feed(s->exec);
    s->batches += (int64_t)k;
    ss_journal_clear_bar(&l->journal);
    return SS_OK;
}

/* Pictures in folders are what the ImageNet guide trains on. */
static enum ss_epoch_form epoch_form(const struct loop *l)
{
    const char *form = l->options->epoch_line;
    if (!strcmp(form, "auto"))
        return ss_dataset_folder(l->session.train) ? SS_EPOCH_IMAGENET : SS_EPOCH_CIFAR;
    return !strcmp(form, "imagenet") ? SS_EPOCH_IMAGENET : SS_EPOCH_CIFAR;
}

/* Evaluate, and tell what the epoch came to. */
static enum ss_status end_epoch(struct loop *l, struct ss_epoch *e)
{
    struct ss_session *s = &l->session;
    double begin = ss_seconds();
    SS_TRY(ss_session_evaluate(s, &l->validation));
    e->validation_s = ss_seconds() - begin;
    e->step = l->step;
    e->train_loss = l->epoch_loss / (double)l->epoch_steps;
    e->train = l->epoch_metrics;
    e->validation = l->validation;
    SS_TRY(ss_epoch_gather(s, e));
    l->total_time += e->train_s;
    l->total_images += e->images;
    if (ss_comm_rank(s->comm) != 0)
        return SS_OK;
    ss_epoch_print(e, epoch_form(l), stdout);
    ss_epoch_log(e, &l->journal);
    if (l->tensorboard)
        ss_epoch_write_scalars(e, l->tensorboard);
    return SS_OK;
}

/* All ranks have the same weights, bit for bit, and have seen the same losses. Before every
 * checkpoint, so that what a rank with a defect has computed does not replace a good one. */
static enum ss_status check_replicas(struct loop *l)
{
    static const char advice[] =
        "a network, a GPU or memory corrupts data; train on other nodes from the last checkpoint";
    uint64_t h;
    char weights[80], losses[80], sum[32];
    SS_TRY(ss_exec_hash_params(l->session.exec, &h));
    snprintf(l->hash, sizeof l->hash, "%016llx", (unsigned long long)h);
    snprintf(weights, sizeof weights, "hash of the weights after step %llu",
             (unsigned long long)l->step);
    snprintf(losses, sizeof losses, "sum of the losses of %ld steps up to step %llu",
             l->epoch_steps, (unsigned long long)l->step);
    snprintf(sum, sizeof sum, "%.17g", l->epoch_loss);
    const struct ss_comm_fact facts[] = {
        {.name = weights, .value = l->hash, .advice = advice},
        {.name = losses, .value = sum, .advice = advice},
    };
    return ss_comm_check_facts(l->session.comm, "comparison of weights", facts,
                               sizeof facts / sizeof *facts);
}

static enum ss_status checkpoint(struct loop *l, long epoch)
{
    const struct ss_train_options *o = l->options;
    enum ss_status status = SS_OK;
    if (!o->checkpoint_dir)
        return SS_OK;
    if (ss_comm_rank(l->session.comm) == 0)
        status = ss_checkpoint_write(l->session.exec, l->session.plan, o->checkpoint_dir, epoch + 1,
                                     l->session.batches, o->keep);
    return ss_session_agree(&l->session, status, "checkpoint");
}

/* The guides' early stop: the last `patience` epochs all reached the target. */
static int reached_target(struct loop *l)
{
    double accuracy = l->validation.correct / l->validation.count;
    l->reached = accuracy >= l->options->target_accuracy ? l->reached + 1 : 0;
    return l->reached >= l->options->patience;
}

static enum ss_status train_epochs(struct loop *l, struct ss_sampler *sampler)
{
    const struct ss_train_options *o = l->options;
    for (long epoch = 0; epoch < o->epochs; epoch++) {
        struct ss_epoch e;
        SS_TRY(train_epoch(l, sampler, epoch, &e));
        SS_TRY(check_replicas(l));
        if (atomic_load(&l->stop_step)) {
            /* Batch systems kill half a minute after their signal, and an evaluation may take
             * longer. The epoch is not complete, so only `latest` is written. */
            SS_TRY(checkpoint(l, -1));
            return SS_ERR_INTERRUPTED;
        }
        if (e.images > 0) {
            SS_TRY(end_epoch(l, &e));
            SS_TRY(checkpoint(l, epoch));
        }
        if (o->max_steps && l->step >= (uint64_t)o->max_steps)
            return SS_OK;
        if (reached_target(l)) {
            if (ss_comm_rank(l->session.comm) == 0)
                printf("Target accuracy reached. Early stopping after epoch %ld.\n", epoch + 1);
            return SS_OK;
        }
    }
    return SS_OK;
}

static void print_summary(struct loop *l, size_t skipped)
{
    const struct ss_comm *comm = l->session.comm;
    struct rusage usage;
    struct ss_comm_totals totals;
    getrusage(RUSAGE_SELF, &usage);
    ss_comm_get_totals(comm, &totals);
    double accuracy = l->validation.correct / l->validation.count;
    double throughput = l->total_images / l->total_time, peak_mb = (double)usage.ru_maxrss / 1024;
    if (ss_comm_rank(comm) != 0)
        return;
    printf("\nTraining Summary:\n");
    printf("Final accuracy: %.4f\n", accuracy);
    printf("Total training time: %.3f seconds\n", l->total_time);
    printf("Throughput: %.3f images/second\n", throughput);
    printf("Number of nodes: %d\n", ss_comm_nodes(comm));
    printf("Number of ranks per node: %d\n", ss_comm_local_size(comm));
    printf("Total ranks used: %d\n", ss_comm_size(comm));
    printf("Peak memory of rank 0: %.0f MB\n", peak_mb);
    if (l->options->skip_corrupt)
        printf("Corrupt files skipped: %zu\n", skipped);
    ss_journal_event(&l->journal, "end", "step", 'i', (int64_t)l->step, "time", 'f', l->total_time,
                     "images_per_s", 'f', throughput, "val_accuracy", 'f', accuracy, "nodes", 'i',
                     (int64_t)ss_comm_nodes(comm), "ranks", 'i', (int64_t)ss_comm_size(comm),
                     "peak_mb", 'f', peak_mb, "comm_seconds", 'f', 1e-9 * (double)totals.busy_ns,
                     "comm_bytes", 'i', (int64_t)totals.bytes, "skipped_files", 'i',
                     (int64_t)skipped, "weights_hash", 's', l->hash, NULL);
}

/* What computes on each rank. */
static void print_device(const struct ss_session *s)
{
#ifdef HAVE_CUDA
    if (s->runtime.gpu) {
        printf("%s in %s", ss_gpu_info(s->runtime.gpu), ss_dtype_name(s->device.dtype));
        return;
    }
#endif
    printf("%d compute threads", s->runtime.placement.threads);
}

static void print_start(struct loop *l)
{
    struct ss_session *s = &l->session;
    const struct ss_placement *p = &s->runtime.placement;
    struct ss_exec_memory m = ss_exec_memory(s->exec);
    if (ss_comm_rank(s->comm) != 0)
        return;
    printf("Training %s on %zu images with a global batch size of %d: %d ranks on %d nodes, ",
           l->options->model, s->train->count, s->batch * ss_comm_size(s->comm),
           ss_comm_size(s->comm), ss_comm_nodes(s->comm));
    print_device(s);
    printf(" and %d load workers each\n", p->workers);
    fflush(stdout);
    ss_journal_event(
        &l->journal, "start", "model", 's', l->options->model, "ranks", 'i',
        (int64_t)ss_comm_size(s->comm), "batch", 'i', (int64_t)s->batch * ss_comm_size(s->comm),
        "threads", 'i', (int64_t)p->threads, "workers", 'i', (int64_t)p->workers, "buckets", 'i',
        (int64_t)s->plan->nbuckets, "activation_bytes", 'i', (int64_t)m.activations,
        "parameter_bytes", 'i', (int64_t)m.parameters, "precision", 's',
        ss_dtype_name(s->device.dtype), "gpu_mb", 'f', (double)m.device_used / 1048576, "nodes",
        'i', (int64_t)ss_comm_nodes(s->comm), "device", 's', s->runtime.gpu ? "cuda" : "cpu",
        "width", 's', l->options->width ? l->options->width : "default", "image_size", 'i',
        (int64_t)s->train->width, "images", 'i', (int64_t)s->train->count, NULL);
}

/* Rank 0's. */
static enum ss_status open_logs(struct loop *l)
{
    int first = ss_comm_rank(l->session.comm) == 0;
    SS_TRY(ss_journal_open(&l->journal, l->options->log_json, first));
    return first && l->options->tensorboard
               ? ss_tensorboard_open(l->options->tensorboard, &l->tensorboard)
               : SS_OK;
}

static enum ss_status run(struct loop *l)
{
    struct ss_session *s = &l->session;
    struct ss_sampler sampler;
    SS_TRY(ss_session_agree(s, open_logs(l), "opening the logs"));
    /* Sizes are equal on all ranks, so this fails on all or none. */
    SS_TRY(ss_sampler_open(&sampler, s->train->count, ss_comm_rank(s->comm), ss_comm_size(s->comm),
                           (size_t)s->batch, !l->options->no_shuffle, 1,
                           (uint64_t)l->options->seed));
    SS_TRY(ss_session_open_trace(s));
    print_start(l);
    ss_session_log_buckets(s, &l->journal);
    for (int r = 0; s->ranks && r < ss_comm_size(s->comm); r++)
        ss_rank_log(&s->ranks[r], &l->journal);
    catch_signals(&s->runtime.run);
    l->start = ss_seconds();
    enum ss_status status = train_epochs(l, &sampler);
    atomic_store(&signalled_run, NULL); /* the handlers stay: the end is orderly, too */
    ss_sampler_close(&sampler);
    if (status != SS_OK && status != SS_ERR_INTERRUPTED)
        return status;
#ifdef HAVE_CUDA
    if (l->options->gpu_times && ss_comm_rank(s->comm) == 0)
        SS_TRY(ss_lane_times_write(s->runtime.lanes, l->options->gpu_times));
#endif
    SS_TRY(ss_session_end_trace(s));
    if (l->validation.count > 0) {
        size_t skipped = 0;
        SS_TRY(ss_session_count_skipped(s, &skipped));
        print_summary(l, skipped);
    }
    if (ss_comm_rank(s->comm) == 0 && status == SS_ERR_INTERRUPTED)
        ss_fail(status, "interrupted by a signal after step %llu", (unsigned long long)l->step);
    return status;
}

enum ss_status ss_train_run(struct ss_train_options *options)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("training loop", sizeof *l);
    l->options = options;
    if (sem_init(&l->in_flight, 0, (unsigned)options->slots)) {
        free(l);
        return ss_fail(SS_ERR_LIBRARY, "sem_init: %s", strerror(errno));
    }
    struct ss_report report = {report_step, l};
    enum ss_status status = ss_session_open(&l->session, options, 1, report);
    if (status == SS_OK)
        status = run(l);
    enum ss_status closed = ss_journal_close(&l->journal);
    enum ss_status scalars = ss_tensorboard_close(l->tensorboard);
    if (l->session.comm && status == SS_OK)
        status =
            ss_session_agree(&l->session, closed != SS_OK ? closed : scalars, "closing the logs");
    /* A failure inside the step is this rank's alone: the others wait in a collective. */
    if (l->session.runtime_started && !ss_run_ok(&l->session.runtime.run))
        ss_comm_abort(l->session.comm, status);
    ss_session_close(&l->session);
    sem_destroy(&l->in_flight);
    free(l);
    return status;
}
