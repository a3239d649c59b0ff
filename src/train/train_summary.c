/* train_summary.c: output of a run at its start and its end (interface in loop.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/stdio_guard.h"
#include "kernels/cpu/cpu.h"
#include "train/guide_lines.h"
#include "train/loop.h"

#include <stdio.h>
#include <sys/resource.h>

/* --epoch-line auto: the ImageNet guide's form for image folders, else the CIFAR guides' form. */
static enum ss_epoch_form epoch_form(const struct ss_loop *l)
{
    int form = l->options->epoch_line;
    if (form != SS_EPOCH_LINE_AUTO)
        return (enum ss_epoch_form)form;
    return ss_dataset_folder(l->session.train) ? SS_EPOCH_IMAGENET : SS_EPOCH_CIFAR;
}

void ss_loop_print_epoch(const struct ss_loop *l, const struct ss_epoch *e)
{
    const enum ss_epoch_form form = epoch_form(l);
    if (form == SS_EPOCH_CIFAR || form == SS_EPOCH_IMAGENET)
        ss_epoch_print(e, form, stdout);
    else
        ss_guide_print_epoch(form, e, l->at.total_s + l->at.epoch_s);
}

void ss_loop_print_stop(const struct ss_loop *l)
{
    ss_guide_print_stop(epoch_form(l), l->at.epoch);
}

/* Results of a run. */
struct outcome {
    double accuracy, seconds, images, images_per_s, peak_mb, fed_ms;
    struct ss_exec_fed fed;
};

static struct outcome come_to(const struct ss_loop *l)
{
    const struct ss_position *at = &l->at;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct outcome o = {.accuracy = ss_epoch_accuracy(&at->validation),
                        .seconds = at->total_s + at->epoch_s,
                        .images = at->total_images + (double)(at->batches * l->session.step_batch *
                                                              ss_comm_size(l->session.comm)),
                        .peak_mb = (double)usage.ru_maxrss / 1024,
                        .fed = ss_exec_fed(l->session.exec)};
    o.images_per_s = o.images / o.seconds;
    o.fed_ms = o.fed.steps ? 1e3 * o.fed.seconds / (double)o.fed.steps : 0;
    return o;
}

static void print_summary(const struct ss_loop *l, const struct outcome *o)
{
    const struct ss_comm *comm = l->session.comm;
    printf("\nTraining Summary:\n");
    printf("Final accuracy: %.4f\n", o->accuracy);
    if (l->options->best && l->at.best_epoch)
        printf("Best %s: %.4f after epoch %lld\n",
               l->options->best == SS_BEST_LOSS ? "validation loss" : "accuracy", l->at.best,
               (long long)l->at.best_epoch);
    printf("Total training time: %.3f seconds\n", o->seconds);
    printf("Throughput: %.3f images/second\n", o->images_per_s);
    printf("Number of nodes: %d\n", ss_comm_nodes(comm));
    printf("Number of ranks per node: %d\n", ss_comm_local_size(comm));
    printf("Total ranks used: %d\n", ss_comm_size(comm));
    printf("Peak memory of rank 0: %.0f MB\n", o->peak_mb);
    if (o->fed.steps)
        printf("Host time to feed the GPU: %.3f ms a step, %llu of %llu steps by graphs\n",
               o->fed_ms, (unsigned long long)o->fed.replayed, (unsigned long long)o->fed.steps);
}

void ss_loop_print_summary(struct ss_loop *l, size_t skipped)
{
    const struct ss_comm *comm = l->session.comm;
    const struct outcome o = come_to(l);
    struct ss_comm_totals totals;
    ss_comm_get_totals(comm, &totals);
    if (ss_comm_rank(comm) != 0)
        return;
    if (ss_guide_has_lines(epoch_form(l)))
        ss_guide_print_end(epoch_form(l), l, o.accuracy, o.images, o.seconds);
    else
        print_summary(l, &o);
    if (l->options->skip_corrupt)
        printf("Corrupt files skipped: %zu\n", skipped);
    ss_journal_event(&l->journal, "end", "step", 'i', l->at.step, "time", 'f', o.seconds,
                     "images_per_s", 'f', o.images_per_s, "val_accuracy", 'f', o.accuracy, "nodes",
                     'i', (int64_t)ss_comm_nodes(comm), "ranks", 'i', (int64_t)ss_comm_size(comm),
                     "peak_mb", 'f', o.peak_mb, "comm_seconds", 'f', 1e-9 * (double)totals.busy_ns,
                     "comm_bytes", 'i', (int64_t)totals.bytes, "skipped_files", 'i',
                     (int64_t)skipped, "fed_ms", 'f', o.fed_ms, "replayed_steps", 'i',
                     (int64_t)o.fed.replayed, "weights_hash", 's', l->hash, NULL);
}

/* Print the compute device of each rank. */
static void print_device(const struct ss_session *s)
{
    const struct ss_runtime *rt = &s->runtime;
    if (rt->lanes)
        printf("%s in %s", rt->kernels->info(rt->device), ss_dtype_name(s->device.dtype));
    else
        printf("%d compute thread%s%s", rt->placement.threads,
               rt->placement.threads == 1 ? "" : "s",
               s->device.dtype == SS_DTYPE_BF16 ? " in bf16" : "");
}

static void print_start(const struct ss_loop *l, int64_t batch)
{
    const struct ss_session *s = &l->session;
    const struct ss_placement *p = &s->runtime.placement;
    char micros[48] = "";
    if (l->options->accumulate > 1)
        snprintf(micros, sizeof micros, " in %ld micro-batches", l->options->accumulate);
    const int ranks = ss_comm_size(s->comm), nodes = ss_comm_nodes(s->comm);
    printf("Training %s on %zu images with a global batch size of %lld%s: %d rank%s on %d node%s, ",
           l->options->model, s->train->count, (long long)batch, micros, ranks,
           ranks > 1 ? "s" : "", nodes, nodes > 1 ? "s" : "");
    print_device(s);
    printf(" and %d load worker%s each\n", p->workers, p->workers == 1 ? "" : "s");
    if (s->device.dtype == SS_DTYPE_BF16 && !s->device.gpu)
        printf("Activations and compute weights: stored in bf16, %s\n", ss_cpu_bf16());
    const int64_t frozen = ss_plan_frozen(s->plan);
    if (frozen)
        printf("Frozen: %lld parameters, as the model file specifies\n", (long long)frozen);
    const size_t rest = s->train->count % (size_t)batch;
    if (rest > s->train->count / 20 && !l->options->no_drop_last)
        printf("Left out of each epoch: %zu images (%.0f %%)%s, which do not fill the last batch; "
               "--no-drop-last trains on them\n",
               rest, 100.0 * (double)rest / (double)s->train->count,
               l->options->no_shuffle ? "" : ", different ones each time");
}

void ss_loop_print_start(struct ss_loop *l)
{
    struct ss_session *s = &l->session;
    const struct ss_placement *p = &s->runtime.placement;
    struct ss_exec_bytes m = ss_exec_memory(s->exec);
    const int64_t batch = s->step_batch * ss_comm_size(s->comm);
    if (ss_comm_rank(s->comm) != 0)
        return;
    if (ss_guide_has_lines(epoch_form(l)))
        ss_guide_print_start(epoch_form(l), l);
    else
        print_start(l, batch);
    ss_stdio_flush();
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
