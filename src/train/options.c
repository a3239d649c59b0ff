#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "train/options.h"
#include "kernels/cuda/gpu.h"
#include "core/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ss_train_options ss_train_defaults(void)
{
    return (struct ss_train_options){
        .model = "wideresnet",
        .device = "auto",
        .precision = "fp32",
        .grad_dtype = "fp32",
        .conv_algo = "auto",
        .gpu_mode = "ordered",
        .epoch_line = "auto",
        .on_nan = "stop",
        .nan_steps = 10,
        .gpu = -1,
        .init_scale = 65536,
        .scale_interval = 2000,
        .epochs = 100,
        .patience = 2,
        .slots = 4,
        .base_lr = 0.01,
        .momentum = 0.9,
        .weight_decay = 5e-4,
        .lr_gamma = 0.1,
        .target_accuracy = 0.95,
        .dropout = -1,
        .timeout = 60,
    };
}

static int add(struct ss_option *table, int n, struct ss_option option)
{
    table[n] = option;
    memset(&table[n + 1], 0, sizeof table[n + 1]);
    return n + 1;
}

int ss_train_model_options(struct ss_train_options *o, struct ss_option *t, int n)
{
    n = add(
        t, n,
        (struct ss_option){"model", SS_OPT_STRING, &o->model, 0, 0, "NAME", "network to train"});
    n = add(t, n,
            (struct ss_option){"width", SS_OPT_STRING, &o->width, 0, 0, "A,B,C,D",
                               "channel widths of the stages"});
    n = add(t, n,
            (struct ss_option){
                "batch-size", SS_OPT_INT, &o->batch_size, 1, 1 << 24, "N",
                "images a step over all ranks; 0: 256 unless --per-rank-batch-size is given"});
    n = add(t, n,
            (struct ss_option){"per-rank-batch-size", SS_OPT_INT, &o->per_rank_batch_size, 1,
                               1 << 24, "N", "images a step on each rank, instead; 0: not given"});
    n = add(t, n,
            (struct ss_option){"image-size", SS_OPT_INT, &o->image_size, 0, 4096, "N",
                               "side of an image in pixels; 0: CIFAR's 32, or 224 of pictures"});
    n = add(t, n,
            (struct ss_option){"bucket-mb", SS_OPT_STRING, &o->bucket_mb, 0, 0, "F|auto",
                               "cap of a gradient bucket in MiB; default: a tenth of the model, "
                               "at most 25; auto: measure, and choose sizes and order"});
    n = add(t, n,
            (struct ss_option){"first-bucket-mb", SS_OPT_FLOAT, &o->first_bucket_mb, 0, 1e6, "F",
                               "cap of the first one; 0: 1, or --bucket-mb if that is less"});
    n = add(t, n,
            (struct ss_option){"last-bucket-mb", SS_OPT_FLOAT, &o->last_bucket_mb, 0, 1e6, "F",
                               "cap of the last one; 0: as the others"});
    n = add(t, n,
            (struct ss_option){"bucket-order", SS_OPT_STRING, &o->bucket_order, 0, 0, "K,K,...",
                               "in which buckets are summed; default: as they get ready"});
    n = add(t, n,
            (struct ss_option){"no-overlap", SS_OPT_FLAG, &o->no_overlap, 0, 0, NULL,
                               "sum gradients after backward, for comparison"});
    n = add(t, n,
            (struct ss_option){"dropout", SS_OPT_FLOAT, &o->dropout, -1, 0.999, "F",
                               "dropout probability; below 0: the model's own"});
    n = add(
        t, n,
        (struct ss_option){"device", SS_OPT_STRING, &o->device, 0, 0, "NAME", "auto, cpu or cuda"});
    n = add(t, n,
            (struct ss_option){"precision", SS_OPT_STRING, &o->precision, 0, 0, "NAME",
                               "fp32, bf16 or fp16"});
    n = add(t, n,
            (struct ss_option){"grad-dtype", SS_OPT_STRING, &o->grad_dtype, 0, 0, "NAME",
                               "fp32, bf16 or fp16: gradients between ranks are rounded to it"});
    return n;
}

int ss_train_run_options(struct ss_train_options *o, struct ss_option *t, int n)
{
    n = add(t, n,
            (struct ss_option){"data-dir", SS_OPT_STRING, &o->data_dir, 0, 0, "DIR",
                               "folder with train.bin and test.bin, or train and val"});
    n = add(t, n,
            (struct ss_option){"cache", SS_OPT_STRING, &o->cache, 0, 0, "DIR",
                               "pictures: keep them decoded in packed files here"});
    n = add(t, n,
            (struct ss_option){"skip-corrupt", SS_OPT_FLAG, &o->skip_corrupt, 0, 0, NULL,
                               "pictures: go on without files that cannot be decoded"});
    n = add(t, n,
            (struct ss_option){"reduced-decode", SS_OPT_FLAG, &o->reduced_decode, 0, 0, NULL,
                               "pictures: decode large ones at a reduced scale; not PIL's bits"});
    n = add(t, n,
            (struct ss_option){"init", SS_OPT_STRING, &o->init, 0, 0, "FILE",
                               "start from these weights (safetensors, PyTorch's names)"});
    n = add(t, n,
            (struct ss_option){"log-json", SS_OPT_STRING, &o->log_json, 0, 0, "FILE",
                               "one JSON object per step and epoch"});
    n = add(t, n,
            (struct ss_option){"overwrite", SS_OPT_FLAG, &o->overwrite, 0, 0, NULL,
                               "replace another run's checkpoints, log and trace"});
    n = add(t, n,
            (struct ss_option){"workers", SS_OPT_INT, &o->workers, 0, 256, "N",
                               "load workers; 0: by the cores left"});
    n = add(t, n,
            (struct ss_option){"threads", SS_OPT_INT, &o->threads, 0, 1024, "N",
                               "compute threads; 0: OMP_NUM_THREADS, else this rank's cores"});
    n = add(t, n,
            (struct ss_option){"conv-algo", SS_OPT_STRING, &o->conv_algo, 0, 0, "NAME",
                               "auto (Winograd where it pays) or direct"});
    n = add(t, n,
            (struct ss_option){"gpu", SS_OPT_INT, &o->gpu, -1, 1024, "N",
                               "which GPU; -1: by the rank's number on its node"});
    n = add(t, n,
            (struct ss_option){
                "nccl-ctas", SS_OPT_INT, &o->nccl_ctas, 0, 64, "N",
                "several GPUs: blocks that a sum may take from compute; 0: NCCL's choice"});
    n = add(t, n,
            (struct ss_option){"nccl-always", SS_OPT_FLAG, &o->nccl_always, 0, 0, NULL,
                               "sum with NCCL on a single GPU too, to test or time it"});
    n = add(
        t, n,
        (struct ss_option){"gpu-mode", SS_OPT_STRING, &o->gpu_mode, 0, 0, "NAME",
                           "ordered (tasks are enqueued ahead) or async (one after the other)"});
    n = add(t, n,
            (struct ss_option){"tf32", SS_OPT_FLAG, &o->tf32, 0, 0, NULL,
                               "fp32 on a GPU: let tensor cores round inputs to TF32"});
    n = add(t, n,
            (struct ss_option){"gpu-cache", SS_OPT_STRING, &o->gpu_cache, 0, 0, "FILE",
                               "tuned convolutions of this GPU; default: in $XDG_CACHE_HOME"});
    n = add(t, n,
            (struct ss_option){"no-autotune", SS_OPT_FLAG, &o->no_autotune, 0, 0, NULL,
                               "take cuDNN's own ranking of convolutions"});
    n = add(t, n,
            (struct ss_option){"show-ranks", SS_OPT_FLAG, &o->show_ranks, 0, 0, NULL,
                               "print where each rank runs, and with what"});
    n = add(
        t, n,
        (struct ss_option){"timeout", SS_OPT_FLOAT, &o->timeout, 1, 86400, "S",
                           "longest wait for another rank, seconds; for a task: 10 times that"});
    return n;
}

int ss_train_loop_options(struct ss_train_options *o, struct ss_option *t, int n)
{
    n = add(t, n,
            (struct ss_option){"epochs", SS_OPT_INT, &o->epochs, 1, 1 << 24, "N",
                               "passes over the training set"});
    n = add(t, n,
            (struct ss_option){"max-steps", SS_OPT_INT, &o->max_steps, 0, 1L << 40, "N",
                               "stop after so many optimizer steps in all; 0: no limit"});
    n = add(t, n,
            (struct ss_option){"base-lr", SS_OPT_FLOAT, &o->base_lr, 0, 1e6, "F", "learning rate"});
    n = add(t, n,
            (struct ss_option){"momentum", SS_OPT_FLOAT, &o->momentum, 0, 1, "F", "SGD momentum"});
    n = add(t, n,
            (struct ss_option){"weight-decay", SS_OPT_FLOAT, &o->weight_decay, 0, 1e6, "F",
                               "L2 penalty on all parameters"});
    n = add(t, n,
            (struct ss_option){"init-scale", SS_OPT_FLOAT, &o->init_scale, 1e-30, 1e38, "F",
                               "fp16: first loss scale"});
    n = add(t, n,
            (struct ss_option){"scale-interval", SS_OPT_INT, &o->scale_interval, 1, 1 << 30, "N",
                               "fp16: steps without overflow until it doubles"});
    n = add(t, n,
            (struct ss_option){"on-nan", SS_OPT_STRING, &o->on_nan, 0, 0, "stop|continue",
                               "what to do when the loss is no longer finite"});
    n = add(t, n,
            (struct ss_option){"nan-steps", SS_OPT_INT, &o->nan_steps, 1, 1 << 30, "N",
                               "stop: after so many such steps in a row"});
    n = add(t, n,
            (struct ss_option){"lr-step", SS_OPT_INT, &o->lr_step, 0, 1 << 24, "N",
                               "epochs between decays of the learning rate; 0: none"});
    n = add(t, n,
            (struct ss_option){"lr-gamma", SS_OPT_FLOAT, &o->lr_gamma, 0, 1e6, "F",
                               "its factor at each decay"});
    n = add(t, n,
            (struct ss_option){"target-accuracy", SS_OPT_FLOAT, &o->target_accuracy, 0, 2, "F",
                               "stop early at this validation accuracy (above 1: never)"});
    n = add(t, n,
            (struct ss_option){"patience", SS_OPT_INT, &o->patience, 1, 1 << 24, "N",
                               "epochs in a row that must reach it"});
    n = add(t, n,
            (struct ss_option){"seed", SS_OPT_INT, &o->seed, 0, 1L << 53, "N",
                               "of initial weights, order, augmentation, dropout"});
    n = add(t, n,
            (struct ss_option){"no-shuffle", SS_OPT_FLAG, &o->no_shuffle, 0, 0, NULL,
                               "read samples in file order"});
    n = add(t, n,
            (struct ss_option){"no-augment", SS_OPT_FLAG, &o->no_augment, 0, 0, NULL,
                               "no random crop and flip"});
    n = add(t, n,
            (struct ss_option){"checkpoint-dir", SS_OPT_STRING, &o->checkpoint_dir, 0, 0, "DIR",
                               "write checkpoints here, one each epoch"});
    n = add(t, n,
            (struct ss_option){"checkpoint-steps", SS_OPT_INT, &o->checkpoint_steps, 0, 1L << 40,
                               "N", "and one every N steps; 0: none"});
    n = add(t, n,
            (struct ss_option){"resume", SS_OPT_STRING, &o->resume, 0, 0, "auto|FOLDER",
                               "continue from --checkpoint-dir's newest checkpoint, or from this"});
    n = add(t, n,
            (struct ss_option){"tensorboard", SS_OPT_STRING, &o->tensorboard, 0, 0, "DIR",
                               "write each epoch's figures as TensorBoard events here"});
    n = add(t, n,
            (struct ss_option){"trace", SS_OPT_STRING, &o->trace, 0, 0, "DIR",
                               "record when each task and collective ran, a file per rank"});
    n = add(t, n,
            (struct ss_option){"trace-steps", SS_OPT_STRING, &o->trace_steps, 0, 0, "A-B",
                               "of these steps; default: all"});
    n = add(t, n,
            (struct ss_option){"epoch-line", SS_OPT_STRING, &o->epoch_line, 0, 0, "NAME",
                               "form of it: cifar, imagenet or auto (by the data set)"});
    n = add(t, n,
            (struct ss_option){"keep", SS_OPT_INT, &o->keep, 0, 1 << 24, "N",
                               "checkpoints of epochs kept, and of steps; 0: all epochs'"});
    n = add(t, n,
            (struct ss_option){"check", SS_OPT_FLAG, &o->check, 0, 0, NULL,
                               "check all that can be known before the run, and end"});
    n = add(t, n,
            (struct ss_option){"ranks", SS_OPT_INT, &o->ranks, 0, 1 << 20, "N",
                               "with --check: for so many ranks; 0: 1"});
    n = add(t, n,
            (struct ss_option){"slots", SS_OPT_INT, &o->slots, 1, 64, "N",
                               "steps in flight, each with an input slot"});
    return n;
}

static enum ss_status parse_dtype(const char *option, const char *text, enum ss_dtype *out)
{
    static const enum ss_dtype all[] = {SS_DTYPE_F32, SS_DTYPE_BF16, SS_DTYPE_F16};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(text, ss_dtype_name(all[i]))) {
            *out = all[i];
            return SS_OK;
        }
    return ss_fail(SS_ERR_INVALID, "--%s: \"%s\" is not fp32, bf16 or fp16", option, text);
}

enum ss_status ss_train_device(const struct ss_train_options *o, struct ss_train_device *out)
{
    *out = (struct ss_train_device){.dtype = SS_DTYPE_F32};
    if (!strcmp(o->device, "cuda"))
        out->gpu = 1;
#ifdef HAVE_CUDA
    else if (!strcmp(o->device, "auto"))
        out->gpu = ss_gpu_count() > 0;
#endif
    else if (strcmp(o->device, "auto") && strcmp(o->device, "cpu"))
        return ss_fail(SS_ERR_INVALID, "--device: \"%s\" is not auto, cpu or cuda", o->device);
    SS_TRY(parse_dtype("precision", o->precision, &out->dtype));
    return parse_dtype("grad-dtype", o->grad_dtype, &out->grad_dtype);
}

static enum ss_status check_gpu_options(const struct ss_train_options *o,
                                        const struct ss_train_device *d)
{
#ifndef HAVE_CUDA
    if (d->gpu)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "--device cuda: this build has no CUDA codelets; use --device cpu, or "
                       "configure with CUDA, cuDNN and a StarPU built with CUDA");
#endif
    if (!d->gpu && d->dtype != SS_DTYPE_F32)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "--precision %s: the CPU codelets compute in fp32 only; use --precision "
                       "fp32, or --device cuda",
                       o->precision);
    if (strcmp(o->gpu_mode, "ordered") && strcmp(o->gpu_mode, "async"))
        return ss_fail(SS_ERR_INVALID, "--gpu-mode: \"%s\" is not ordered or async", o->gpu_mode);
    if (o->tf32 && (!d->gpu || d->dtype != SS_DTYPE_F32))
        return ss_fail(SS_ERR_INVALID, "--tf32 is a way of --precision fp32 on --device cuda");
    if (o->nccl_always && !d->gpu)
        return ss_fail(SS_ERR_INVALID, "--nccl-always needs --device cuda");
    return SS_OK;
}

int ss_train_buckets_auto(const struct ss_train_options *o)
{
    return o->bucket_mb && !strcmp(o->bucket_mb, "auto");
}

/* 0: not given. */
static enum ss_status parse_bucket_mb(const struct ss_train_options *o, double *mb)
{
    char *end = NULL;
    *mb = o->bucket_mb ? strtod(o->bucket_mb, &end) : 0;
    if (o->bucket_mb && (end == o->bucket_mb || *end || !(*mb >= 1e-6) || *mb > 1e6))
        return ss_fail(SS_ERR_INVALID,
                       "--bucket-mb: \"%s\" is not auto or a size in MiB, such as 25",
                       o->bucket_mb);
    return SS_OK;
}

static enum ss_status check_buckets(const struct ss_train_options *o)
{
    double mb;
    if (!ss_train_buckets_auto(o))
        return parse_bucket_mb(o, &mb);
    const char *given = o->first_bucket_mb > 0  ? "--first-bucket-mb"
                        : o->last_bucket_mb > 0 ? "--last-bucket-mb"
                        : o->bucket_order       ? "--bucket-order"
                                                : NULL;
    if (given)
        return ss_fail(SS_ERR_INVALID, "--bucket-mb auto chooses %s, too; leave it out", given);
    return SS_OK;
}

enum ss_status ss_train_check(const struct ss_train_options *o)
{
    struct ss_train_device device;
    SS_TRY(ss_train_device(o, &device));
    SS_TRY(check_buckets(o));
    SS_TRY(check_gpu_options(o, &device));
    if (o->ranks && !o->check)
        return ss_fail(SS_ERR_INVALID,
                       "--ranks %ld goes with --check; a launcher says how many ranks train",
                       o->ranks);
    if (strcmp(o->conv_algo, "auto") && strcmp(o->conv_algo, "direct"))
        return ss_fail(SS_ERR_INVALID, "--conv-algo: \"%s\" is not auto or direct", o->conv_algo);
    if (strcmp(o->on_nan, "stop") && strcmp(o->on_nan, "continue"))
        return ss_fail(SS_ERR_INVALID, "--on-nan: \"%s\" is not stop or continue", o->on_nan);
    if (strcmp(o->epoch_line, "auto") && strcmp(o->epoch_line, "cifar") &&
        strcmp(o->epoch_line, "imagenet"))
        return ss_fail(SS_ERR_INVALID, "--epoch-line: \"%s\" is not auto, cifar or imagenet",
                       o->epoch_line);
    return SS_OK;
}

enum ss_status ss_train_rank_batch(const struct ss_train_options *o, int world, int *out)
{
    long total = o->batch_size;
    if (o->per_rank_batch_size) {
        if (total && total != o->per_rank_batch_size * world)
            return ss_fail(SS_ERR_INVALID,
                           "--batch-size %ld and --per-rank-batch-size %ld on %d ranks disagree; "
                           "give one of them",
                           total, o->per_rank_batch_size, world);
        *out = (int)o->per_rank_batch_size;
        return SS_OK;
    }
    if (!total)
        total = 256;
    if (total % world)
        return ss_fail(SS_ERR_INVALID,
                       "--batch-size %ld does not divide by %d ranks; give a multiple of %d, or "
                       "--per-rank-batch-size",
                       total, world, world);
    *out = (int)(total / world);
    return SS_OK;
}

enum ss_status ss_train_make_plan(const struct ss_train_options *o,
                                  const struct ss_train_device *device,
                                  const struct ss_model_options *images, int batch,
                                  int channel_block, struct ss_graph **graph, struct ss_plan **plan)
{
    struct ss_model_options model = *images;
    struct ss_plan_options options = {.batch = batch,
                                      .channel_block = device->gpu ? 0 : channel_block,
                                      .dtype = device->dtype,
                                      .grad_dtype = device->grad_dtype,
                                      .device = device->gpu,
                                      .device_sums = device->gpu && device->sums,
                                      .input_block = ss_gpu_input_block(device->dtype),
                                      .loss_scaling = device->gpu && device->dtype == SS_DTYPE_F16,
                                      .first_bucket_mb = o->first_bucket_mb,
                                      .last_bucket_mb = o->last_bucket_mb,
                                      .bucket_order = o->bucket_order,
                                      .no_overlap = o->no_overlap,
                                      .slices =
                                          batch < SS_PLAN_MAX_SLICES ? batch : SS_PLAN_MAX_SLICES};
    struct ss_graph *built;
    if (ss_train_buckets_auto(o))
        return ss_fail(SS_ERR_INVALID, "--bucket-mb auto is for train, which measures and prints "
                                       "what it chooses; give a size in MiB");
    SS_TRY(parse_bucket_mb(o, &options.bucket_mb));
    model.width = o->width;
    model.dropout = (float)o->dropout;
    SS_TRY(ss_model_build(o->model, &model, &built));
    enum ss_status status = ss_plan_lower(built, &options, plan);
    if (status != SS_OK)
        ss_graph_destroy(built);
    else
        *graph = built;
    return status;
}

double ss_train_lr(const struct ss_train_options *o, long epoch)
{
    long decays = o->lr_step ? epoch / o->lr_step : 0;
    return o->base_lr * pow(o->lr_gamma, (double)decays);
}
