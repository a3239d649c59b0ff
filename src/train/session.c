#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "train/session.h"
#include "codelets/lane.h"
#include "core/log.h"
#include "core/stdio_guard.h"
#include "kernels/cpu/cpu.h"
#include "runtime/environment.h"
#include "runtime/fxt.h"
#include "runtime/model_files.h"
#include "train/outputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Several ranks on GPUs need NCCL. */
static enum ss_status check_device(struct ss_session *s, int ranks)
{
    s->device.sums = s->device.gpu && (ranks > 1 || s->options->nccl_always);
    s->device.ranks = ranks;
#ifndef HAVE_NCCL
    if (!s->device.sums)
        return SS_OK;
    if (s->options->nccl_always)
        return ss_fail(SS_ERR_UNSUPPORTED, "--nccl-always: this build has no NCCL; configure it "
                                           "with --with-nccl");
    if (s->options->device != SS_DEVICE_AUTO || s->device.dtype != SS_DTYPE_F32)
        return ss_fail(
            SS_ERR_UNSUPPORTED,
            "GPUs on %d ranks: this build has no NCCL; configure it with --with-nccl, use "
            "one rank, or --device cpu --precision fp32",
            ranks);
    if (ss_comm_rank(s->comm) == 0)
        ss_warn("computing on CPU cores: this build has no NCCL to all-reduce across GPUs");
    s->device.gpu = s->device.sums = 0;
#endif
    return SS_OK;
}

static enum ss_status cannot_sum(int ranks)
{
    return ss_fail(SS_ERR_UNSUPPORTED,
                   "CPU ranks all-reduce gradients with MPI: "
#ifndef HAVE_MPI
                   "configure with --with-mpi, and then "
#endif
                   "start with mpiexec -n %d starstep train, or srun --mpi=pmix; ranks that start "
                   "without MPI train on GPUs, one each",
                   ranks);
}

/* CPU ranks need MPI to all-reduce gradients; the tcp backend cannot. */
static enum ss_status check_sums(struct ss_session *s, int training)
{
    int cpu;
    if (!training || ss_comm_size(s->comm) == 1 || strcmp(ss_comm_backend(s->comm), "tcp"))
        return SS_OK;
    SS_TRY(ss_comm_any(s->comm, !s->device.gpu, &cpu, "choice of a device"));
    if (!cpu)
        return SS_OK;
    return ss_comm_rank(s->comm) == 0 ? cannot_sum(ss_comm_size(s->comm)) : SS_ERR_UNSUPPORTED;
}

static enum ss_status check_mixing(const struct ss_session *s)
{
    const struct ss_train_options *o = s->options;
    if (!s->train || s->batch > 1 || !(o->mixup > 0 || o->cutmix > 0))
        return SS_OK;
    return ss_fail(SS_ERR_INVALID,
                   "%s mixes the images of a rank's batch, which has one image; give a "
                   "larger --batch-size, or leave it out",
                   o->mixup > 0 ? "--mixup" : "--cutmix");
}

/* Check the batch size against the data set before memory is allocated for it. */
static enum ss_status check_batch(const struct ss_session *s, int ranks)
{
    size_t micros = (size_t)s->options->accumulate;
    size_t most = s->train ? s->train->count / micros / (size_t)ranks : 0;
    if (!s->train || (size_t)s->batch <= most || (s->options->no_drop_last && most))
        return check_mixing(s);
    if (most == 0)
        return ss_fail(SS_ERR_INVALID,
                       "%s: only %zu image%s for %d rank%s and %zu batch%s per step, which need at "
                       "least one image each; start fewer ranks, or give a smaller --accumulate",
                       s->train->path, s->train->count, s->train->count == 1 ? "" : "s", ranks,
                       ranks > 1 ? "s" : "", micros, micros > 1 ? "es" : "");
    if (micros == 1)
        return ss_fail(SS_ERR_INVALID,
                       "%s: %zu images do not fill one batch of %d on each of %d rank%s; give a "
                       "--batch-size of at most %zu",
                       s->train->path, s->train->count, s->batch, ranks, ranks > 1 ? "s" : "",
                       most * (size_t)ranks);
    return ss_fail(SS_ERR_INVALID,
                   "%s: %zu images do not fill %zu batches of %d on each of %d rank%s; give a "
                   "smaller --accumulate, or a --batch-size of at most %zu",
                   s->train->path, s->train->count, micros, s->batch, ranks, ranks > 1 ? "s" : "",
                   most * (size_t)ranks);
}

/* Assign cores and a GPU to this rank. Collective. */
static enum ss_status place(struct ss_session *s)
{
    const struct ss_train_options *o = s->options;
    if (!s->device.gpu)
        return ss_placement_decide((int)o->threads, (int)o->workers, ss_comm_local_rank(s->comm),
                                   ss_comm_local_size(s->comm), &s->placement);
    SS_TRY(ss_runtime_place_gpu(s->comm, (int)o->workers, o->gpu, &s->gpu_device, &s->placement));
    return ss_placement_bind_communication(&s->placement, s->comm);
}

/* Print the ranks with --show-ranks; warn in any case if GPUs are hidden from a rank. */
static enum ss_status show_ranks(struct ss_session *s)
{
    const int several_gpus = s->device.gpu && ss_comm_size(s->comm) > 1;
    if (!s->options->show_ranks && !several_gpus)
        return SS_OK;
    SS_TRY(ss_ranks_gather(s->comm, &s->placement, s->gpu_device, s->device.sums, &s->ranks));
    ss_ranks_warn(s->ranks);
    if (!s->options->show_ranks) {
        free(s->ranks);
        s->ranks = NULL;
        return SS_OK;
    }
    for (int r = 0; s->ranks && r < ss_comm_size(s->comm); r++)
        ss_rank_print_line(&s->ranks[r], stdout);
    ss_stdio_flush();
    return SS_OK;
}

/* Start StarPU with the compute device. */
static enum ss_status start_runtime(struct ss_session *s)
{
    const struct ss_train_options *o = s->options;
    struct ss_runtime_gpu gpu = {.ordered = o->gpu_mode == SS_GPU_ORDERED};
    if (s->device.gpu)
        gpu.gpu = ss_train_gpu_options(o, s->gpu_device, s->device.dtype, &s->gpu_cache);
    if (ss_comm_rank(s->comm) > 0)
        ss_model_files_only_read();
    SS_TRY(ss_fxt_prepare(o->trace, ss_comm_rank(s->comm)));
    SS_TRY(
        ss_runtime_start(&s->runtime, &s->placement, s->device.dtype, s->device.gpu ? &gpu : NULL));
    s->runtime_started = 1;
    ss_fxt_end(); /* the trace contains the start of the workers, which starpu_fxt_tool needs */
    return SS_OK;
}

enum ss_status ss_session_open(struct ss_session *s, struct ss_train_options *options, int training,
                               struct ss_report report)
{
    memset(s, 0, sizeof *s);
    s->options = options;
    struct ss_comm_config config = {.backend = "auto", .timeout_s = options->timeout};
    SS_TRY(ss_environment_prepare());
    if (options->trace)
        ss_fxt_announce();
    SS_TRY(ss_train_check(options));
    SS_TRY(ss_train_check_schedule(options));
    SS_TRY(ss_train_optim(options, &s->optim));
    SS_TRY(ss_session_check_trace(options));
    s->device = ss_train_choose_device(options);
    SS_TRY(ss_comm_open(&config, &s->comm));
    if (ss_comm_rank(s->comm) == 0)
        ss_environment_report();
    SS_TRY(ss_train_check_ranks(options, s->comm));
    SS_TRY(check_device(s, ss_comm_size(s->comm)));
    SS_TRY(check_sums(s, training));
    SS_TRY(ss_train_rank_batch(options, ss_comm_size(s->comm), &s->batch));
    s->step_batch = (int64_t)s->batch * options->accumulate;
    SS_TRY(ss_session_agree(
        s, ss_outputs_try(options, ss_comm_rank(s->comm), s->device.gpu, SS_OUTPUTS_KEEP_FOLDERS),
        "checking the output paths"));
    SS_TRY(ss_session_lock_outputs(s));
    SS_TRY(ss_session_open_data(s, training));
    SS_TRY(check_batch(s, ss_comm_size(s->comm)));
    SS_TRY(ss_session_agree(s, place(s), "placement"));
    SS_TRY(show_ranks(s));
    SS_TRY(ss_session_agree(s, ss_session_emulate(s), "start-up"));
    SS_TRY(ss_session_agree(s, start_runtime(s), "start-up"));
    if (ss_train_buckets_auto(options))
        SS_TRY(ss_session_choose_buckets(s, training));
    SS_TRY(ss_session_agree(s, ss_session_bind(s, options, training, report), "start-up"));
    SS_TRY(ss_session_check_collectives(s));
    return ss_exec_start_ema(s->exec);
}

/* A login node may have no GPU although the job will have one. */
static void expect_device(struct ss_session *s)
{
    struct ss_train_options *o = s->options;
    if (!ss_cuda_kernels.missing && o->device == SS_DEVICE_AUTO && o->precision != SS_DTYPE_F32)
        o->device = SS_DEVICE_CUDA;
}

enum ss_status ss_session_open_check(struct ss_session *s, struct ss_train_options *options,
                                     int ranks)
{
    memset(s, 0, sizeof *s);
    s->options = options;
    struct ss_comm_config config = {.backend = "self", .timeout_s = options->timeout};
    expect_device(s);
    SS_TRY(ss_environment_check());
    ss_environment_report();
    SS_TRY(ss_train_check(options));
    SS_TRY(ss_train_check_schedule(options));
    SS_TRY(ss_train_optim(options, &s->optim));
    SS_TRY(ss_session_check_trace(options));
    s->device = ss_train_choose_device(options);
    SS_TRY(ss_comm_open(&config, &s->comm));
    SS_TRY(check_device(s, ranks));
#ifndef HAVE_MPI
    if (ranks > 1 && !s->device.gpu)
        return cannot_sum(ranks);
#endif
    SS_TRY(ss_train_rank_batch(options, ranks, &s->batch));
    s->step_batch = (int64_t)s->batch * options->accumulate;
    SS_TRY(ss_outputs_try(options, 0, s->device.gpu, SS_OUTPUTS_REMOVE_FOLDERS));
    SS_TRY(ss_session_check_left(options));
    SS_TRY(ss_session_open_sets(s, 1));
    SS_TRY(check_batch(s, ranks));
    struct ss_train_options trial = *options;
    if (ss_train_buckets_auto(options))
        trial.bucket_mb = NULL;
    return ss_session_make_plan(s, &trial, 1);
}

void ss_session_close(struct ss_session *s)
{
    ss_session_unbind(s);
    (void)ss_session_close_trace(s); /* after a failure */
    ss_session_free_times(s);
    if (s->runtime_started)
        ss_runtime_stop(&s->runtime);
    ss_calibrate_close(s->calibrate);
    ss_fxt_withdraw();
    ss_session_unlock_outputs(s);
    free(s->ranks);
    ss_dataset_close(s->train);
    ss_dataset_close(s->test);
    ss_data_file_clear(&s->data);
    if (s->comm)
        ss_comm_close(s->comm);
}

enum ss_status ss_session_evaluate(struct ss_session *s, struct ss_metrics *metrics)
{
    struct ss_sampler sampler;
    if (s->emulation) { /* no values are computed */
        *metrics = (struct ss_metrics){.loss = NAN, .count = 1};
        return SS_OK;
    }
    /* All ranks use rank 0's BatchNorm running statistics, as in DistributedDataParallel. */
    SS_TRY(ss_exec_broadcast_running(s->exec));
    SS_TRY(ss_sampler_open(&sampler, s->test->count, ss_comm_rank(s->comm), ss_comm_size(s->comm),
                           (size_t)s->batch, 0, SS_END_EVERY, 0));
    ss_sampler_set_epoch(&sampler, 0);
    SS_TRY(ss_exec_reset_eval(s->exec));
    struct ss_exec_step step = {.dataset = s->test, .sample = s->sample};
    enum ss_status status = SS_OK;
    for (size_t k = 0; status == SS_OK && k < sampler.steps; k++) {
        ss_sampler_batch(&sampler, k, s->sample);
        status = ss_exec_submit_eval(s->exec, &step);
        starpu_task_wait_for_n_submitted((unsigned)(s->plan->eval.count * (int)s->options->slots));
    }
    ss_sampler_close(&sampler);
    if (status == SS_OK)
        status = ss_exec_wait(s->exec);
    SS_TRY(ss_session_agree(s, status, "evaluation"));
    SS_TRY(ss_exec_eval_metrics(s->exec, metrics));
    SS_TRY(ss_comm_allreduce_f64(s->comm, (double *)metrics, sizeof *metrics / sizeof(double),
                                 "metrics of the evaluation"));
    if (metrics->count < 1)
        return ss_fail(SS_ERR_INVALID, "%s: no sample was evaluated", s->test->path);
    return SS_OK;
}
