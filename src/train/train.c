#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "train/train.h"
#include "codelets/lane.h"
#include "core/clock.h"
#include "core/log.h"
#include "train/checkpoint.h"
#include "train/epoch.h"
#include "train/loop.h"
#include "train/resume.h"
#include "train/stop.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int stops_on_nan(const struct ss_loop *l)
{
    return l->options->on_nan == SS_NAN_STOP;
}

/* Count consecutive losses that are not finite. All ranks report the same losses in the same
 * order, so they stop after the same step. */
static void count_bad(struct ss_loop *l, uint64_t step, double loss)
{
    if (isfinite(loss) || l->options->task_times) { /* computes no losses */
        l->bad_steps = 0;
        return;
    }
    if (!l->bad_steps++)
        l->bad_since = (int64_t)step;
    if (!l->warned && ss_comm_rank(l->session.comm) == 0)
        ss_warn("step %llu: the loss is not finite; try a smaller --base-lr",
                (unsigned long long)step);
    l->warned = 1;
    if (stops_on_nan(l) && l->bad_steps >= l->options->nan_steps && !l->diverged) {
        l->diverged = 1;
        if (!atomic_load(&l->stop_step))
            atomic_store(&l->stop_step, step);
    }
}

/* Report a step's metrics, summed over all ranks. Runs on a service worker, in step order. */
static void report_step(void *arg, uint64_t step, double lr, const struct ss_step_facts *facts)
{
    struct ss_loop *l = arg;
    if (facts) {
        const struct ss_metrics *m = &facts->metrics;
        double loss = m->bad > 0 ? NAN : m->loss / m->count;
        l->at.loss += loss;
        l->at.summed++;
        l->at.train.loss += m->loss;
        l->at.train.correct += m->correct;
        l->at.train.count += m->count;
        l->at.train.bad += m->bad;
        l->at.train.top5 += m->top5;
        atomic_store(&l->last_loss, (float)loss);
        count_bad(l, step, loss);
        if (facts->stop > 0 && !atomic_load(&l->stop_step))
            atomic_store(&l->stop_step, step);
        ss_journal_event(&l->journal, "step", "step", 'i', (int64_t)step, "epoch", 'i',
                         l->at.epoch + 1, "loss", 'f', loss, "lr", 'f', lr, "time", 'f',
                         ss_seconds() - l->start, "scale", 'f',
                         m->scale / ss_comm_size(l->session.comm), NULL);
    }
    sem_post(&l->in_flight);
}

/* Wait until another step may be submitted. Returns 0 if the run must stop instead. Step s is
 * submitted only after the report of step s - ahead. So all ranks receive a stop request of step
 * t before they decide on step t + ahead + 1, and all stop after step t + ahead. */
static int may_submit(struct ss_loop *l)
{
    while (sem_wait(&l->in_flight) && errno == EINTR)
        ;
    uint64_t stop = atomic_load(&l->stop_step);
    int end = (stop && (uint64_t)l->at.step >= stop + (uint64_t)l->ahead) ||
              !ss_run_ok(&l->session.runtime.run);
    if (end)
        sem_post(&l->in_flight);
    return !end;
}

/* Set l->sound if the state may be saved: weights and last losses are finite. Weights that are
 * not finite do not recover and end the run with --on-nan stop; after a loss that is not finite
 * the run may recover. finite: this rank's weights and running statistics are finite. */
static enum ss_status judge(struct ss_loop *l, int finite)
{
    int bad;
    SS_TRY(ss_comm_any(l->session.comm, !finite, &bad, "check for finite weights"));
    l->sound = !bad && !l->bad_steps;
    if (l->sound)
        l->told_unsound = 0;
    if (bad && stops_on_nan(l))
        l->diverged = 1;
    return l->diverged ? SS_ERR_DIVERGED : SS_OK;
}

/* Check that all ranks have bit-identical weights and the same losses. Called before every
 * checkpoint, so that a faulty rank's results do not replace a good one. */
static enum ss_status check_replicas(struct ss_loop *l)
{
    static const char advice[] =
        "a network, a GPU or memory corrupts data; train on other nodes from the last checkpoint";
    uint64_t h;
    int finite;
    char weights[80], losses[80], sum[32];
    SS_TRY(ss_exec_hash_params(l->session.exec, &h, &finite));
    snprintf(l->hash, sizeof l->hash, "%016llx", (unsigned long long)h);
    snprintf(weights, sizeof weights, "hash of the weights after step %lld", (long long)l->at.step);
    snprintf(losses, sizeof losses, "sum of the losses of %lld steps up to step %lld",
             (long long)l->at.summed, (long long)l->at.step);
    snprintf(sum, sizeof sum, "%.17g", l->at.loss);
    const struct ss_comm_fact facts[] = {
        {.name = weights, .value = l->hash, .advice = advice},
        {.name = losses, .value = sum, .advice = advice},
    };
    SS_TRY(ss_comm_check_facts(l->session.comm, "comparison of weights", facts,
                               sizeof facts / sizeof *facts));
    return judge(l, finite);
}

static enum ss_status write_checkpoint(struct ss_loop *l, enum ss_checkpoint_kind kind,
                                       int64_t number)
{
    const struct ss_train_options *o = l->options;
    SS_TRY(ss_session_check_locks(&l->session));
    SS_TRY(ss_checkpoint_write(&l->session, &l->at, o->checkpoint_dir, kind, number, o->keep));
    /* Only after the first own checkpoint is complete. */
    if (o->overwrite && !l->replaced)
        ss_checkpoint_remove_others(o->checkpoint_dir, kind, number);
    l->replaced = 1;
    return SS_OK;
}

/* Write a checkpoint. number: completed epochs or steps. All submitted steps must have ended. */
static enum ss_status checkpoint(struct ss_loop *l, enum ss_checkpoint_kind kind, int64_t number)
{
    enum ss_status status = SS_OK;
    if (!l->resumed.checkpoints)
        return SS_OK;
    if (!l->sound) {
        if (!l->told_unsound && ss_comm_rank(l->session.comm) == 0)
            ss_warn("step %lld: the loss or the weights are not finite: no checkpoint is written, "
                    "the last one stays",
                    (long long)l->at.step);
        l->told_unsound = 1;
        return SS_OK;
    }
    l->at.elapsed_s = ss_seconds() - l->start;
    SS_TRY(ss_exec_collect_states(l->session.exec));
    if (ss_comm_rank(l->session.comm) == 0)
        status = write_checkpoint(l, kind, number);
    ss_exec_drop_states(l->session.exec, -1);
    return ss_session_agree(&l->session, status, "checkpoint");
}

/* Wait for the submitted steps and add their time to epoch_s. *begin: start of the interval, set
 * to the current time. */
static enum ss_status settle(struct ss_loop *l, double *begin)
{
    SS_TRY(ss_exec_wait(l->session.exec));
    double now = ss_seconds();
    l->at.epoch_s += now - *begin;
    *begin = now;
    return SS_OK;
}

/* --checkpoint-steps */
static enum ss_status checkpoint_step(struct ss_loop *l, double *begin)
{
    const struct ss_train_options *o = l->options;
    if (!o->checkpoint_steps || l->at.step % o->checkpoint_steps)
        return SS_OK;
    SS_TRY(settle(l, begin));
    SS_TRY(check_replicas(l));
    SS_TRY(checkpoint(l, SS_CHECKPOINT_STEP, l->at.step));
    *begin = ss_seconds();
    return SS_OK;
}

/* Number of the epoch's steps to run, limited by --max-steps. */
static int64_t epoch_end(const struct ss_loop *l, const struct ss_sampler *sampler)
{
    int64_t end = (int64_t)sampler->steps, left = l->options->max_steps - l->at.step;
    if (l->options->max_steps && left < end - l->at.batches)
        end = l->at.batches + left;
    return end;
}

/* Position in steps, counted from completed epochs, for the learning-rate schedule. */
static int64_t course(const struct ss_position *at, const struct ss_sampler *sampler)
{
    return at->epoch * (int64_t)sampler->steps + at->batches;
}

static enum ss_status submit(struct ss_loop *l, const struct ss_sampler *sampler,
                             struct ss_exec_step *step)
{
    struct ss_session *s = &l->session;
    ss_sampler_batch(sampler, (size_t)l->at.batches, s->sample);
    step->lr = ss_schedule_lr(&l->schedule, course(&l->at, sampler));
    step->step = (uint64_t)++l->at.step;
    SS_TRY(ss_exec_submit_train(s->exec, step));
    l->at.batches++;
    s->batches += l->options->accumulate;
    return SS_OK;
}

/* Images of all ranks in steps [begin, end) of an epoch. */
static double images_of(const struct ss_loop *l, const struct ss_sampler *sampler, int64_t begin,
                        int64_t end)
{
    return (double)(ss_sampler_read(sampler, (size_t)end) -
                    ss_sampler_read(sampler, (size_t)begin)) *
           ss_comm_size(l->session.comm);
}

/* Run the remaining steps of an epoch and store this rank's results in *e. */
static enum ss_status train_epoch(struct ss_loop *l, struct ss_sampler *sampler, struct ss_epoch *e)
{
    struct ss_session *s = &l->session;
    const struct ss_train_options *o = l->options;
    ss_sampler_set_epoch(sampler, (uint32_t)l->at.epoch);
    *e = (struct ss_epoch){
        .epoch = l->at.epoch + 1, .epochs = o->epochs, .feed = {ss_exec_input_stats(s->exec)}};
    double first = ss_seconds(), begin = first;
    struct ss_exec_step step = {.dataset = s->train,
                                .epoch = (uint32_t)l->at.epoch,
                                .augment = !o->no_augment,
                                .sample = s->sample};
    const int64_t start = l->at.batches, end = epoch_end(l, sampler);
    while (l->at.batches < end && may_submit(l)) {
        SS_TRY(submit(l, sampler, &step));
        SS_TRY(checkpoint_step(l, &begin));
        int64_t done = l->at.batches - 1 > start + l->ahead ? l->at.batches - 1 - l->ahead : start;
        ss_journal_progress(&l->journal, e->epoch, o->epochs, (long)done, (long)end,
                            (double)atomic_load(&l->last_loss),
                            images_of(l, sampler, start, done) / (ss_seconds() - first));
    }
    SS_TRY(settle(l, &begin));
    e->train_s = l->at.epoch_s;
    e->images = images_of(l, sampler, 0, l->at.batches);
    e->lr = ss_schedule_lr(&l->schedule, course(&l->at, sampler) - 1);
    e->feed[1] = ss_exec_input_stats(s->exec);
    ss_journal_end_progress(&l->journal);
    return SS_OK;
}

static enum ss_status evaluate(struct ss_loop *l, struct ss_epoch *e)
{
    const struct ss_train_options *o = l->options;
    const double begin = ss_seconds();
    const int last = e->epoch >= o->epochs || (o->max_steps && l->at.step >= o->max_steps);
    if (!o->eval_every || (e->epoch % o->eval_every && !last))
        return SS_OK;
    SS_TRY(ss_session_evaluate(&l->session, &l->at.validation));
    if (l->session.optim.ema_decay > 0) {
        SS_TRY(ss_exec_swap_ema(l->session.exec));
        SS_TRY(ss_session_evaluate(&l->session, &e->ema));
        SS_TRY(ss_exec_swap_ema(l->session.exec));
    }
    e->validation_s = ss_seconds() - begin;
    e->validation = l->at.validation;
    return SS_OK;
}

/* Update the best epoch (--best) before the epoch's checkpoint is written. An epoch truncated by
 * --max-steps is re-evaluated once completed, because its checkpoint is replaced. */
static void compare_with_best(struct ss_loop *l, const struct ss_epoch *e)
{
    struct ss_position *at = &l->at;
    const struct ss_metrics *m = &e->validation;
    const int loss = l->options->best == SS_BEST_LOSS;
    if (at->best_epoch == e->epoch)
        at->best_epoch = 0;
    if (!l->options->best || !l->sound || !(m->count > 0) || m->bad > 0)
        return;
    const double value = (loss ? m->loss : m->correct) / m->count;
    if (!at->best_epoch || (loss ? value < at->best : value > at->best)) {
        at->best = value;
        at->best_epoch = e->epoch;
    }
}

static enum ss_status notify(struct ss_loop *l, const struct ss_epoch *e)
{
    if (!l->callbacks->epoch)
        return SS_OK;
    return ss_comm_any(l->session.comm, l->callbacks->epoch(e, l->callbacks->arg) != 0, &l->enough,
                       "whether to continue");
}

/* Evaluate the epoch, then print and log its results. */
static enum ss_status end_epoch(struct ss_loop *l, struct ss_epoch *e)
{
    struct ss_session *s = &l->session;
    SS_TRY(evaluate(l, e));
    compare_with_best(l, e);
    e->step = (uint64_t)l->at.step;
    e->train_loss = l->at.loss / (double)l->at.summed;
    e->train = l->at.train;
    SS_TRY(ss_epoch_gather(s, e));
    if (ss_comm_rank(s->comm) == 0) {
        ss_loop_print_epoch(l, e);
        ss_epoch_log(e, &l->journal);
        if (l->tensorboard)
            ss_epoch_write_scalars(e, l->tensorboard);
    }
    return notify(l, e);
}

/* Advance the position to the beginning of the next epoch. */
static void next_epoch(struct ss_loop *l, const struct ss_epoch *e)
{
    struct ss_position *at = &l->at;
    const double accuracy = e->validation.correct / e->validation.count;
    if (e->validation.count > 0)
        at->reached = accuracy >= l->options->target_accuracy ? at->reached + 1 : 0;
    at->total_s += at->epoch_s;
    at->total_images += e->images;
    at->epoch++;
    at->batches = at->summed = 0;
    at->loss = at->epoch_s = 0;
    at->train = (struct ss_metrics){0};
}

/* 1 after the last epoch, at --max-steps, when the callback requested a stop, or for the guides'
 * early stop: the last `patience` epochs all reached the target. */
static int is_done(const struct ss_loop *l)
{
    const struct ss_train_options *o = l->options;
    if (l->at.epoch > 0 && !l->at.batches && l->at.reached >= o->patience &&
        (!o->max_steps || l->at.step < o->max_steps)) {
        if (ss_comm_rank(l->session.comm) == 0)
            ss_loop_print_stop(l);
        return 1;
    }
    return l->enough || l->at.epoch >= o->epochs || (o->max_steps && l->at.step >= o->max_steps);
}

static enum ss_status train_epochs(struct ss_loop *l, struct ss_sampler *sampler)
{
    while (!is_done(l)) {
        struct ss_epoch e;
        SS_TRY(train_epoch(l, sampler, &e));
        SS_TRY(check_replicas(l));
        if (atomic_load(&l->stop_step)) {
            /* No evaluation: batch systems kill the job about 30 s after their signal. */
            SS_TRY(checkpoint(l, SS_CHECKPOINT_STEP, l->at.step));
            return SS_ERR_INTERRUPTED;
        }
        SS_TRY(end_epoch(l, &e));
        /* If --max-steps ended the epoch early, a resumed run continues it. */
        if (l->at.batches >= (int64_t)sampler->steps)
            next_epoch(l, &e);
        SS_TRY(checkpoint(l, SS_CHECKPOINT_EPOCH, e.epoch));
    }
    return l->hash[0] ? SS_OK : check_replicas(l);
}

/* Report a run stopped by a signal, without a summary, since the run is not complete. */
static enum ss_status report_interruption(struct ss_loop *l)
{
    int saved = l->resumed.checkpoints;
    enum ss_status status = saved ? SS_ERR_INTERRUPTED : SS_ERR_INVALID;
    ss_journal_event(&l->journal, "interrupted", "step", 'i', l->at.step, "epoch", 'i',
                     l->at.epoch + 1, "batches", 'i', l->at.batches, NULL);
    if (ss_comm_rank(l->session.comm) == 0)
        ss_fail(status, "interrupted by a signal after step %lld; %s", (long long)l->at.step,
                saved ? "--resume auto continues from the checkpoint"
                      : "without --checkpoint-dir nothing is saved");
    return status;
}

/* Report a diverged run, without a summary: its values are meaningless. */
static enum ss_status report_divergence(struct ss_loop *l)
{
    const struct ss_train_options *o = l->options;
    char since[64] = "", name[SS_CHECKPOINT_NAME];
    /* With --overwrite the other run's checkpoints may still exist. */
    const int has = o->checkpoint_dir && (!o->overwrite || l->replaced) &&
                    ss_checkpoint_any(o->checkpoint_dir, name);
    ss_journal_event(&l->journal, "diverged", "step", 'i', l->at.step, "epoch", 'i',
                     l->at.epoch + 1, "batches", 'i', l->at.batches, "since", 'i',
                     l->bad_steps ? l->bad_since : l->at.step, NULL);
    ss_journal_end_progress(&l->journal);
    if (ss_comm_rank(l->session.comm) != 0)
        return SS_ERR_DIVERGED;
    if (l->bad_steps)
        snprintf(since, sizeof since, " since step %lld", (long long)l->bad_since);
    return ss_fail(
        SS_ERR_DIVERGED,
        "step %lld: the run has diverged: %s not finite%s; %s with a smaller --base-lr",
        (long long)l->at.step, l->bad_steps ? "the loss is" : "weights are", since,
        has ? "continue from the last checkpoint, which is finite, with --resume auto and"
            : "start again");
}

/* Build the schedule for the current position of the run. */
static enum ss_status make_schedule(struct ss_loop *l, const struct ss_sampler *sampler)
{
    const struct ss_session *s = &l->session;
    const int64_t was = l->at.length;
    if (l->at.epoch >= l->options->epochs)
        return SS_OK; /* no step will run */
    const struct ss_train_course c = {.batch = s->step_batch * ss_comm_size(s->comm),
                                      .steps_per_epoch = (int64_t)sampler->steps,
                                      .at = course(&l->at, sampler),
                                      .steps = l->at.step};
    SS_TRY(ss_train_schedule(l->options, &c, &l->schedule));
    l->at.length = l->schedule.length;
    if (ss_comm_rank(s->comm) != 0)
        return SS_OK;
    if (l->schedule.cls->whole && was && was != l->at.length)
        ss_warn("--schedule %s was for a run of %lld steps and is now for %lld (--epochs, "
                "--max-steps, the global batch); the run continues with the new length",
                l->schedule.cls->name, (long long)was, (long long)l->at.length);
    if (l->schedule.warmup >= l->schedule.length)
        ss_warn("the warmup of %lld steps does not end within the run of %lld",
                (long long)l->schedule.warmup, (long long)l->schedule.length);
    return SS_OK;
}

/* Restore the link `best`: a crash, or a resume from an earlier checkpoint, may have left another
 * target. */
static enum ss_status link_best(const struct ss_loop *l)
{
    const struct ss_train_options *o = l->options;
    if (ss_comm_rank(l->session.comm) != 0 || !o->best || !l->at.best_epoch)
        return SS_OK;
    return ss_checkpoint_link_best(o->checkpoint_dir, l->at.best_epoch);
}

static enum ss_status run(struct ss_loop *l)
{
    struct ss_session *s = &l->session;
    struct ss_sampler sampler;
    ss_stop_catch(&s->runtime.run);
    SS_TRY(ss_resume(s, &l->resumed));
    l->at = l->resumed.at;
    SS_TRY(ss_session_agree(s, ss_loop_open_logs(l), "opening the logs"));
    /* Sizes are equal on all ranks, so this fails on all of them or on none. */
    SS_TRY(ss_sampler_open(&sampler, s->train->count, ss_comm_rank(s->comm), ss_comm_size(s->comm),
                           (size_t)s->step_batch, !l->options->no_shuffle, ss_train_end(l->options),
                           (uint64_t)l->options->seed));
    SS_TRY(make_schedule(l, &sampler));
    SS_TRY(ss_session_agree(s, link_best(l), "link to the best checkpoint"));
    SS_TRY(ss_session_open_trace(s));
    ss_loop_print_start(l);
    l->start = ss_seconds() - l->at.elapsed_s;
    enum ss_status status = train_epochs(l, &sampler);
    ss_sampler_close(&sampler);
    if (status != SS_OK && status != SS_ERR_INTERRUPTED && status != SS_ERR_DIVERGED)
        return status;
    SS_TRY(ss_session_end_trace(s));
    if (status == SS_ERR_DIVERGED)
        return report_divergence(l);
    if (status == SS_ERR_INTERRUPTED)
        return report_interruption(l);
    if (!(l->at.validation.count > 0))
        return SS_OK; /* --max-steps was reached before the first evaluation */
    size_t skipped = 0;
    SS_TRY(ss_session_count_skipped(s, &skipped));
    ss_loop_print_summary(l, skipped);
    return SS_OK;
}

/* Number of steps in flight: as many micro-batches as slots, but at least two steps if slots > 1,
 * so that input is loaded during a step. */
static int steps_ahead(const struct ss_train_options *o)
{
    const int steps = (int)((o->slots + o->accumulate - 1) / o->accumulate);
    return steps < 2 && o->slots > 1 ? 2 : steps;
}

enum ss_status ss_train_run(struct ss_train_options *options,
                            const struct ss_train_callbacks *callbacks)
{
    struct ss_loop *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("training loop", sizeof *l);
    l->options = options;
    l->callbacks = callbacks;
    l->ahead = steps_ahead(options);
    if (sem_init(&l->in_flight, 0, (unsigned)l->ahead)) {
        free(l);
        return ss_fail(SS_ERR_LIBRARY, "sem_init: %s", strerror(errno));
    }
    struct ss_report report = {report_step, l};
    enum ss_status status = ss_session_open(&l->session, options, 1, report);
    if (status == SS_OK)
        status = run(l);
    /* A failure inside a step concerns this rank alone; the others wait in a collective. */
    if (l->session.runtime_started && !ss_run_ok(&l->session.runtime.run))
        ss_comm_abort(l->session.comm, status);
    if (status != SS_OK && l->session.exec)
        (void)ss_exec_wait(l->session.exec); /* step reports write to the logs */
    enum ss_status closed = ss_journal_close(&l->journal);
    enum ss_status scalars = ss_tensorboard_close(l->tensorboard);
    if (l->session.comm && status == SS_OK)
        status =
            ss_session_agree(&l->session, closed != SS_OK ? closed : scalars, "closing the logs");
    ss_session_close(&l->session);
    sem_destroy(&l->in_flight);
    free(l);
    return status;
}
