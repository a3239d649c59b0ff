/* loop_tell.c: what a run says at its start and its end (contract in loop.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/standard.h"
#include "train/loop.h"

#include <stdio.h>
#include <sys/resource.h>

void ss_loop_print_summary(struct ss_loop *l, size_t skipped)
{
    const struct ss_comm *comm = l->session.comm;
    struct rusage usage;
    struct ss_comm_totals totals;
    getrusage(RUSAGE_SELF, &usage);
    ss_comm_get_totals(comm, &totals);
    const struct ss_position *at = &l->at;
    double accuracy = at->validation.correct / at->validation.count;
    double time = at->total_s + at->epoch_s, peak_mb = (double)usage.ru_maxrss / 1024;
    double images =
        at->total_images + (double)(at->batches * l->session.step_batch * ss_comm_size(comm));
    double throughput = images / time;
    if (ss_comm_rank(comm) != 0)
        return;
    printf("\nTraining Summary:\n");
    printf("Final accuracy: %.4f\n", accuracy);
    if (l->options->best && at->best_epoch)
        printf("Best %s: %.4f after epoch %lld\n",
               l->options->best == SS_BEST_LOSS ? "validation loss" : "accuracy", at->best,
               (long long)at->best_epoch);
    printf("Total training time: %.3f seconds\n", time);
    printf("Throughput: %.3f images/second\n", throughput);
    printf("Number of nodes: %d\n", ss_comm_nodes(comm));
    printf("Number of ranks per node: %d\n", ss_comm_local_size(comm));
    printf("Total ranks used: %d\n", ss_comm_size(comm));
    printf("Peak memory of rank 0: %.0f MB\n", peak_mb);
    const struct ss_exec_fed fed = ss_exec_fed(l->session.exec);
    const double fed_ms = fed.steps ? 1e3 * fed.seconds / (double)fed.steps : 0;
    if (fed.steps)
        printf("Host time to feed the GPU: %.3f ms a step, %llu of %llu steps by graphs\n", fed_ms,
               (unsigned long long)fed.replayed, (unsigned long long)fed.steps);
    if (l->options->skip_corrupt)
        printf("Corrupt files skipped: %zu\n", skipped);
    ss_journal_event(&l->journal, "end", "step", 'i', at->step, "time", 'f', time, "images_per_s",
                     'f', throughput, "val_accuracy", 'f', accuracy, "nodes", 'i',
                     (int64_t)ss_comm_nodes(comm), "ranks", 'i', (int64_t)ss_comm_size(comm),
                     "peak_mb", 'f', peak_mb, "comm_seconds", 'f', 1e-9 * (double)totals.busy_ns,
                     "comm_bytes", 'i', (int64_t)totals.bytes, "skipped_files", 'i',
                     (int64_t)skipped, "fed_ms", 'f', fed_ms, "replayed_steps", 'i',
                     (int64_t)fed.replayed, "weights_hash", 's', l->hash, NULL);
}

/* What computes on each rank. */
static void print_device(const struct ss_session *s)
{
    const struct ss_runtime *rt = &s->runtime;
    if (rt->lanes)
        printf("%s in %s", rt->kernels->info(rt->device), ss_dtype_name(s->device.dtype));
    else
        printf("%d compute thread%s", rt->placement.threads, rt->placement.threads == 1 ? "" : "s");
}

void ss_loop_print_start(struct ss_loop *l)
{
    struct ss_session *s = &l->session;
    const struct ss_placement *p = &s->runtime.placement;
    struct ss_exec_bytes m = ss_exec_memory(s->exec);
    const int64_t batch = s->step_batch * ss_comm_size(s->comm);
    char micros[48] = "";
    if (ss_comm_rank(s->comm) != 0)
        return;
    if (l->options->accumulate > 1)
        snprintf(micros, sizeof micros, " in %ld micro-steps", l->options->accumulate);
    const int ranks = ss_comm_size(s->comm), nodes = ss_comm_nodes(s->comm);
    printf("Training %s on %zu images with a global batch size of %lld%s: %d rank%s on %d node%s, ",
           l->options->model, s->train->count, (long long)batch, micros, ranks,
           ranks > 1 ? "s" : "", nodes, nodes > 1 ? "s" : "");
    print_device(s);
    printf(" and %d load worker%s each\n", p->workers, p->workers == 1 ? "" : "s");
    ss_standard_flush();
    ss_journal_event(
        &l->journal, "start", "model", 's', l->options->model, "ranks", 'i',
        (int64_t)ss_comm_size(s->comm), "batch", 'i', batch, "accumulate", 'i',
        (int64_t)l->options->accumulate, "threads", 'i', (int64_t)p->threads, "workers", 'i',
        (int64_t)p->workers, "buckets", 'i', (int64_t)s->plan->nbuckets, "activation_bytes", 'i',
        (int64_t)m.activations, "parameter_bytes", 'i', (int64_t)m.parameters, "precision", 's',
        ss_dtype_name(s->device.dtype), "gpu_mb", 'f', (double)m.device_used / 1048576, "nodes",
        'i', (int64_t)ss_comm_nodes(s->comm), "device", 's', s->runtime.lanes ? "cuda" : "cpu",
        "width", 's', l->options->width ? l->options->width : "default", "image_size", 'i',
        (int64_t)s->train->width, "image_height", 'i', (int64_t)s->train->height, "images", 'i',
        (int64_t)s->train->count, NULL);
    ss_session_log_buckets(s, &l->journal);
    for (int r = 0; s->ranks && r < ss_comm_size(s->comm); r++)
        ss_rank_log(&s->ranks[r], &l->journal);
}

enum ss_status ss_loop_open_logs(struct ss_loop *l)
{
    const struct ss_train_options *o = l->options;
    if (ss_comm_rank(l->session.comm) != 0)
        return ss_journal_open(&l->journal, NULL, 0);
    if (!o->resume || o->overwrite)
        SS_TRY(ss_journal_open(&l->journal, o->log_json, 1));
    else
        SS_TRY(ss_journal_append(&l->journal, o->log_json));
    if (l->resumed.yes)
        ss_journal_event(&l->journal, "resume", "step", 'i', l->at.step, "epoch", 'i',
                         l->at.epoch + 1, "batches", 'i', l->at.batches, "ranks_before", 'i',
                         l->resumed.ranks, "from", 's', l->resumed.folder, NULL);
    return o->tensorboard ? ss_tensorboard_open(o->tensorboard, &l->tensorboard) : SS_OK;
}
