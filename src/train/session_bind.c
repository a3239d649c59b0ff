/* session_bind.c: plan and executor of a session (interface in session.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/log.h"
#include "kernels/cpu/cpu.h"
#include "runtime/timed_emulation.h"
#include "sim/roofline.h"
#include "train/model_file.h"
#include "train/session.h"
#include "train/task_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ss_model_options ss_session_images(const struct ss_session *s)
{
    const struct ss_dataset *d = s->test;
    return (struct ss_model_options){
        .classes = d->classes, .channels = d->channels, .height = d->height, .width_px = d->width};
}

/* Lower bound of the step time on this GPU, in seconds; 0: not known. */
static double predict_step(const struct ss_session *s)
{
    const struct ss_runtime *rt = &s->runtime;
    const struct ss_machine *machine =
        s->device.gpu ? ss_machine_of_gpu(rt->kernels->info(rt->device)) : NULL;
    struct ss_roofline r;
    char ignored[512];
    double seconds = 0;
    if (!machine)
        return 0;
    ss_log_capture(ignored, sizeof ignored);
    if (ss_roofline_predict(s->plan, machine, s->options->tf32, &r) == SS_OK) {
        seconds = r.step.seconds;
        ss_roofline_close(&r);
    }
    ss_log_capture(NULL, 0);
    return seconds;
}

/* BatchNorm of a single value has no variance: reject this at the start, not at the end of an
 * epoch. */
static enum ss_status check_last_batch(const struct ss_session *s)
{
    const struct ss_plan *plan = s->plan;
    const size_t shard = s->train->count / (size_t)s->device.ranks;
    if (!s->options->no_drop_last || shard % (size_t)s->batch != 1 || plan->options.sync_stats > 1)
        return SS_OK;
    for (int i = 0; i < plan->nblocks; i++) {
        const int norm = plan->block[i].layer[SS_PLACE_NORM];
        const struct ss_value_info *v =
            norm < 0 ? NULL
                     : ss_graph_value(plan->graph, ss_graph_layer(plan->graph, norm)->output);
        if (v && v->h * v->w == 1)
            return ss_fail(
                SS_ERR_INVALID,
                "--no-drop-last: the last batch of an epoch is one image%s, and BatchNorm in %s "
                "has one value per channel; give another --batch-size than %lld, or "
                "leave it out",
                s->device.ranks > 1 ? " on each rank" : "", plan->block[i].name,
                (long long)s->step_batch * s->device.ranks);
    }
    return SS_OK;
}

uint64_t ss_session_model_key(const struct ss_session *s)
{
    return ss_train_model_key(s->options, &s->device, s->placement.threads);
}

enum ss_status ss_session_make_plan(struct ss_session *s, const struct ss_train_options *o,
                                    int training)
{
    struct ss_model_options images = ss_session_images(s);
    SS_TRY(ss_train_make_plan(o, &s->device, &images, s->batch, ss_cpu_preferred_block(), &s->graph,
                              &s->plan));
    if (training && !s->plan->nbuckets)
        return ss_fail(SS_ERR_INVALID,
                       "model %s has nothing to train: it has no parameters, or all are frozen",
                       ss_graph_name(s->graph));
    return training && s->train ? check_last_batch(s) : SS_OK;
}

enum ss_status ss_session_bind(struct ss_session *s, const struct ss_train_options *o, int training,
                               struct ss_report report)
{
    const struct ss_dataset *d = s->test;
    SS_TRY(ss_session_make_plan(s, o, training));
    struct ss_exec_options options = {.runtime = &s->runtime,
                                      .comm = s->comm,
                                      .plan = s->plan,
                                      .model_key = ss_session_model_key(s),
                                      .training = training,
                                      .slots = (int)o->slots,
                                      .seed = (uint64_t)o->seed,
                                      .optim = s->optim,
                                      .label_smoothing = (float)o->label_smoothing,
                                      .mix = {o->mixup, o->cutmix},
                                      .random_erasing = o->random_erasing,
                                      .init_scale = (float)o->init_scale,
                                      .scale_interval = (int)o->scale_interval,
                                      .timeout_s = ss_comm_size(s->comm) == 1 ? o->timeout : 0,
                                      .replay = (enum ss_replay_mode)o->gpu_graphs,
                                      .report = report};
    if (o->gpu_graphs == SS_REPLAY_AUTO && training)
        options.predicted_s = predict_step(s);
    memcpy(options.mean, d->mean, sizeof d->mean);
    memcpy(options.std, d->std, sizeof d->std);
    SS_TRY(ss_exec_create(&options, &s->exec));
    SS_TRY(ss_session_hook_times(s));
    s->sample = malloc((size_t)s->step_batch * sizeof *s->sample);
    if (!s->sample)
        return ss_fail_memory("sample indices", (size_t)s->step_batch * sizeof *s->sample);
    /* Rank 0's state is broadcast, so only rank 0 reads the file. */
    if (ss_comm_rank(s->comm) != 0)
        return SS_OK;
    if (o->init)
        return ss_model_file_read(s->exec, s->plan, o->init, &s->batches);
    return ss_model_init(s->exec, s->plan, (uint64_t)o->seed);
}

static enum ss_status start_from_rank_0(struct ss_session *s)
{
    SS_TRY(ss_exec_broadcast_params(s->exec));
    return ss_comm_bcast(s->comm, &s->batches, sizeof s->batches, 0,
                         "broadcast of the batch count");
}

void ss_session_unbind(struct ss_session *s)
{
#ifdef HAVE_NCCL
    ss_nccl_close(s->nccl); /* refers to the executor's memory */
    s->nccl = NULL;
#endif
    if (s->exec)
        ss_exec_destroy(s->exec);
    ss_timed_emulation_close(s->emulation);
    free(s->sample);
    ss_plan_destroy(s->plan);
    ss_graph_destroy(s->graph);
    s->exec = NULL;
    s->emulation = NULL;
    s->sample = NULL;
    s->plan = NULL;
    s->graph = NULL;
}

enum ss_status ss_session_check_collectives(struct ss_session *s)
{
    if (ss_comm_size(s->comm) == 1 && !s->device.sums)
        return SS_OK;
    char text[32];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)ss_exec_layout_hash(s->exec));
    SS_TRY(ss_comm_check_consistent(s->comm, "parameter layout (processor kind, oneDNN version)",
                                    text));
#ifdef HAVE_NCCL
    if (s->device.sums) {
        struct ss_nccl_options options = {.ctas = (int)s->options->nccl_ctas,
                                          .cta_policy =
                                              (enum ss_nccl_cta_policy)s->options->nccl_cta_policy,
                                          .device = s->runtime.gpu,
                                          .small = s->plan->options.sync_stats > 1};
        ss_placement_nccl_cores(&s->placement, &options.cores);
        SS_TRY(ss_nccl_open(s->comm, &options, &s->nccl));
        SS_TRY(ss_exec_use_nccl(s->exec, s->nccl));
        return start_from_rank_0(s);
    }
#endif
    if (!s->train)
        return start_from_rank_0(s); /* evaluation has no gradients */
    size_t *counts = calloc((size_t)s->plan->nbuckets, sizeof *counts);
    if (!counts)
        return ss_fail_memory("bucket sizes", (size_t)s->plan->nbuckets * sizeof *counts);
    ss_exec_bucket_counts(s->exec, counts);
    enum ss_status status =
        ss_comm_verify(s->comm, s->device.grad_dtype, counts, (size_t)s->plan->nbuckets);
    free(counts);
    SS_TRY(status);
    return start_from_rank_0(s);
}
