#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "train/options.h"
#include "codelets/op.h"
#include "comm/nccl.h"
#include "core/log.h"
#include "core/utf8.h"
#include "kernels/kernels.h"
#include "optim/parameter_groups.h"
#include "runtime/replay.h"
#include "train/epoch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ss_word devices[] = {
    {"auto", SS_DEVICE_AUTO}, {"cpu", SS_DEVICE_CPU}, {"cuda", SS_DEVICE_CUDA}, {0}};
#define FORMATS                                                                                    \
    {"fp32", SS_DTYPE_F32}, {"bf16", SS_DTYPE_BF16},                                               \
    {                                                                                              \
        "fp16", SS_DTYPE_F16                                                                       \
    }
static const struct ss_word formats[] = {FORMATS, {0}};
/* Includes the names of PyTorch, Accelerate and Lightning that also mean mixed precision. */
static const struct ss_word precisions[] = {FORMATS,
                                            {"float32", SS_DTYPE_F32},
                                            {"32", SS_DTYPE_F32},
                                            {"32-true", SS_DTYPE_F32},
                                            {"no", SS_DTYPE_F32},
                                            {"bfloat16", SS_DTYPE_BF16},
                                            {"bf16-mixed", SS_DTYPE_BF16},
                                            {"float16", SS_DTYPE_F16},
                                            {"16", SS_DTYPE_F16},
                                            {"16-mixed", SS_DTYPE_F16},
                                            {0}};
static const struct ss_word conv_algos[] = {{"auto", SS_CONV_AUTO},
                                            {"direct", SS_CONV_DIRECT},
                                            {"winograd", SS_CONV_WINOGRAD},
                                            {"product", SS_CONV_PRODUCT},
                                            {0}};
static const struct ss_word gpu_modes[] = {
    {"ordered", SS_GPU_ORDERED}, {"async", SS_GPU_ASYNC}, {0}};
static const struct ss_word gpu_graphs[] = {
    {"auto", SS_REPLAY_AUTO}, {"on", SS_REPLAY_ON}, {"off", SS_REPLAY_OFF}, {0}};
static const struct ss_word nccl_cta_policies[] = {{"default", SS_NCCL_CTAS_DEFAULT},
                                                   {"efficiency", SS_NCCL_CTAS_EFFICIENCY},
                                                   {"zero", SS_NCCL_CTAS_ZERO},
                                                   {0}};
static const struct ss_word on_nan[] = {{"stop", SS_NAN_STOP}, {"continue", SS_NAN_CONTINUE}, {0}};
static const struct ss_word best_by[] = {
    {"none", SS_BEST_NONE}, {"accuracy", SS_BEST_ACCURACY}, {"loss", SS_BEST_LOSS}, {0}};
static const struct ss_word crops[] = {
    {"auto", SS_CROP_AUTO}, {"resized", SS_CROP_RESIZED}, {"padded", SS_CROP_PADDED}, {0}};
static const struct ss_word epoch_lines[] = {{"auto", SS_EPOCH_LINE_AUTO},
                                             {"cifar", SS_EPOCH_CIFAR},
                                             {"imagenet", SS_EPOCH_IMAGENET},
                                             {"guide-gpu", SS_EPOCH_GUIDE_GPU},
                                             {"guide-older", SS_EPOCH_GUIDE_OLDER},
                                             {"guide-ddp", SS_EPOCH_GUIDE_DDP},
                                             {"guide-imagenet", SS_EPOCH_GUIDE_IMAGENET},
                                             {0}};

#define OWNER(group_, ranks, resuming, ...)                                                        \
    __VA_ARGS__, .group = SS_TRAIN_##group_, .marks = SS_TRAIN_##ranks | SS_TRAIN_##resuming
#define FLAG(field, name, ...)                                                                     \
    SS_OPTION_FLAG(struct ss_train_options, field, name, OWNER(__VA_ARGS__)),
#define INT(field, name, default_, min, max, arg, ...)                                             \
    SS_OPTION_INT(struct ss_train_options, field, name, default_, min, max, arg,                   \
                  OWNER(__VA_ARGS__)),
#define FLOAT(field, name, default_, min, max, arg, ...)                                           \
    SS_OPTION_FLOAT(struct ss_train_options, field, name, default_, min, max, arg,                 \
                    OWNER(__VA_ARGS__)),
#define TEXT(field, name, default_, arg, ...)                                                      \
    SS_OPTION_TEXT(struct ss_train_options, field, name, default_, arg, OWNER(__VA_ARGS__)),
#define WORD(field, name, default_, words, ...)                                                    \
    SS_OPTION_WORD(struct ss_train_options, field, name, default_, words, OWNER(__VA_ARGS__)),
#define SIZE(field, name, default_, min, max, arg, ...)                                            \
    SS_OPTION_SIZE(struct ss_train_options, field, name, default_, min, max, arg,                  \
                   OWNER(__VA_ARGS__)),
const struct ss_option ss_train_rows[] = {
#include "train/options.def"
    {0}};

static const struct ss_option_heading headings[] = {
    {SS_TRAIN_MODEL, "Model"},
    {SS_TRAIN_DATA | SS_TRAIN_PREDICT | SS_TRAIN_IMAGES | SS_TRAIN_SAMPLES, "Data"},
    {SS_TRAIN_RECIPE | SS_TRAIN_BATCH | SS_TRAIN_STEP | SS_TRAIN_LOOP, "Training"},
    {SS_TRAIN_OPTIMIZER, "Optimizer"},
    {SS_TRAIN_BUCKETS | SS_TRAIN_NCCL | SS_TRAIN_SUMS, "Distributed"},
    {SS_TRAIN_DEVICE | SS_TRAIN_CORES | SS_TRAIN_COMPUTE | SS_TRAIN_REPLAY, "Device"},
    {SS_TRAIN_WEIGHTS | SS_TRAIN_CHECKPOINT, "Checkpoints"},
    {SS_TRAIN_OUTPUT | SS_TRAIN_RECORD, "Output"},
    {0}};
static const struct ss_option_heading lists[] = {
    {SS_TRAIN_OWN, "May differ between ranks"},
    {SS_TRAIN_FIXED, "Must be the same when a run is resumed"},
    {SS_TRAIN_WARN, "May differ then, with a warning"},
    {0}};

/* Options of torchrun, PyTorch's examples, torchvision's references, timm, Transformers and
 * Lightning that do not exist here or have another meaning. Options with an exact equivalent are
 * ALIASES in options.def. */
static const struct ss_option_elsewhere elsewhere[] = {
    {"--fp16", "use --precision fp16"},
    {"--bf16", "use --precision bf16"},
    {"--fp32", "use --precision fp32, the default"},
    {"--amp-dtype", "use --precision bf16, or --precision fp16 with loss scaling"},
    {"--drop-last", "it is the default; --no-drop-last trains on the last, smaller batch too"},
    {"--pretrained", "use --init FILE with weights in safetensors format"},
    {"--evaluate", "use starstep eval"},
    {"--test-only", "use starstep eval"},
    {"--start-epoch", "use --resume auto, which continues at the checkpoint's step"},
    {"--fast-dev-run", "use --check, or --max-steps 1"},
    {"--lr-scheduler", "use --schedule constant, step, multistep, cosine, poly or onecycle"},
    {"--lr-warmup-epochs", "use --warmup-epochs, which rises linearly from 0"},
    {"--warmup-ratio", "use --warmup-epochs or --warmup-steps"},
    {"--opt-betas", "use --beta1 and --beta2"},
    {"--betas", "use --beta1 and --beta2"},
    {"--model-ema", "use --ema-decay, such as --ema-decay 0.9998"},
    {"--reprob", "use --random-erasing, which fills with the mean colour"},
    {"--no-aug", "use --no-augment; mixing and erasing are off unless given"},
    {"--train-crop-size", "use --image-size, in training and evaluation"},
    {"--num-classes", "leave it out: the data set determines it"},
    {"--print-freq", "set STARSTEP_PROGRESS to the seconds between two lines"},
    {"--log-interval", "set STARSTEP_PROGRESS to the seconds between two lines"},
    {"--use-deterministic-algorithms", "leave it out: runs are deterministic"},
    {"--deterministic", "leave it out: runs are deterministic"},
    {"--save-total-limit", "use --keep, which counts checkpoints of epochs"},
    {"--checkpoint-hist", "use --keep, which retains the last ones, and --best accuracy"},
    {"--no-cuda", "use --device cpu"},
    {"--no-accel", "use --device cpu"},
    {"--accelerator", "use --device cpu or cuda"},
    {"--gpus", "each rank has one GPU: starstep launch -n 4 train ..., or slurm/4gpu.sh"},
    {"--ngpus", "each rank has one GPU: starstep launch -n 4 train ..., or slurm/4gpu.sh"},
    {"--devices", "each rank has one GPU: starstep launch -n 4 train ..., or slurm/4gpu.sh"},
    {"--nproc-per-node", "start ranks with starstep launch -n N train ..., mpiexec or srun"},
    {"--nnodes", "start ranks on several nodes with mpiexec or srun, as slurm/2node.sh does"},
    {"--num-nodes", "start ranks on several nodes with mpiexec or srun, as slurm/2node.sh does"},
    {"--world-size", "leave it out: starstep launch, mpiexec or srun sets it"},
    {"--rank", "leave it out: starstep launch, mpiexec or srun sets it"},
    {"--local-rank", "leave it out: starstep launch, mpiexec or srun sets it"},
    {"--dist-url", "leave it out: starstep launch, mpiexec or srun sets it"},
    {"--dist-backend", "leave it out: NCCL reduces gradients on GPUs, MPI on CPUs"},
    {"--strategy", "leave it out: gradients are all-reduced as in DistributedDataParallel"},
    {"--channels-last", "leave it out: it is the layout on GPUs; on CPUs oneDNN's are used"},
    {"--compile", "leave it out: layers are fused when the step is planned"},
    {"--torchcompile", "leave it out: layers are fused when the step is planned"},
    {"--find-unused-parameters", "leave it out: the step plan has no unused parameters"},
    {NULL, NULL}};

/* Format small values in scientific notation: 5e-4 instead of 0.0005. */
static void print_short(double value, char *text, size_t capacity)
{
    int exponent = 0;
    double digits = value;
    for (; digits > 0 && digits < 1; exponent++)
        digits *= 10;
    if (exponent > 3)
        snprintf(text, capacity, "%.3ge-%d", digits, exponent);
    else
        snprintf(text, capacity, "%g", value);
}

/* Describe the default of a hyperparameter by optimizer: "sgd/lars 0.9", "sgd 5e-4, adam 0,
 * ...". */
static const char *describe_default(const struct ss_option *o, char *text, size_t capacity)
{
    char value[2][32];
    size_t n = 0;
    *text = '\0';
    for (const struct ss_optim_class *const *c = ss_optim_classes; *c; c++)
        for (const struct ss_hyper *h = (*c)->hyper; h->option; h++) {
            if (strcmp(h->option, o->name) != 0 || o->type == SS_OPT_FLAG || n >= capacity)
                continue;
            print_short(h->initial, value[0], sizeof value[0]);
            const int is_same = n && !strcmp(value[0], value[1]);
            if (is_same)
                n -= strlen(value[1]) + 1; /* insert another name before the value */
            n += (size_t)snprintf(text + n, capacity - n, "%s%s %s",
                                  is_same ? "/"
                                  : n     ? ", "
                                          : "",
                                  (*c)->name, value[0]);
            memcpy(value[1], value[0], sizeof value[0]);
        }
    return n ? text : NULL;
}

struct ss_option_set ss_train_option_set(struct ss_train_options *o, unsigned groups)
{
    return (struct ss_option_set){.rows = ss_train_rows,
                                  .values = o,
                                  .groups = groups,
                                  .headings = headings,
                                  .lists = groups == SS_TRAIN_OF_TRAIN ? lists : NULL,
                                  .elsewhere = elsewhere,
                                  .describe_default = describe_default};
}

struct ss_train_options ss_train_defaults(void)
{
    struct ss_train_options o;
    ss_options_default(ss_train_rows, &o);
    return o;
}

int ss_train_is_default(const struct ss_train_options *o, const char *name)
{
    char text[2][SS_OPTION_TEXT_CAPACITY];
    struct ss_train_options defaults = ss_train_defaults();
    const struct ss_option_set sets[] = {ss_train_option_set(&defaults, 0), {0}};
    const struct ss_option *row = ss_option_find(sets, name);
    return !strcmp(ss_option_text(row, o, text[0]), ss_option_text(row, &defaults, text[1]));
}

struct ss_train_device ss_train_choose_device(const struct ss_train_options *o)
{
    struct ss_train_device d = {.gpu = o->device == SS_DEVICE_CUDA,
                                .dtype = (enum ss_dtype)o->precision,
                                .grad_dtype = (enum ss_dtype)o->grad_dtype};
    if (o->device == SS_DEVICE_AUTO)
        d.gpu = ss_cuda_kernels.count() > 0;
    return d;
}

static enum ss_status check_gpu_options(const struct ss_train_options *o,
                                        const struct ss_train_device *d)
{
    if (d->gpu && ss_cuda_kernels.missing)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "--device cuda: %s; use --device cpu, or configure with CUDA, cuDNN and a "
                       "StarPU built with CUDA",
                       ss_cuda_kernels.missing);
    if (!d->gpu && d->dtype == SS_DTYPE_F16)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "--precision fp16: CPUs compute in fp32 and bf16; use --precision bf16, or "
                       "--device cuda");
    if (o->tf32 && (!d->gpu || d->dtype != SS_DTYPE_F32))
        return ss_fail(SS_ERR_INVALID, "--tf32 needs --precision fp32 and --device cuda");
    if (o->nccl_always && !d->gpu)
        return ss_fail(SS_ERR_INVALID, "--nccl-always needs --device cuda");
    return SS_OK;
}

static const struct ss_option *hyper_row(const struct ss_hyper *h)
{
    const struct ss_option_set sets[] = {ss_train_option_set(NULL, 0), {0}};
    return ss_option_find(sets, h->option);
}

static double hyper_value(const struct ss_train_options *o, const struct ss_option *row)
{
    const char *at = (const char *)o + row->offset;
    return row->type == SS_OPT_FLAG ? *(const int *)(const void *)at
                                    : *(const double *)(const void *)at;
}

enum ss_status ss_train_optim(struct ss_train_options *o, struct ss_optim *out)
{
    SS_TRY(ss_optim_find(o->optimizer, out));
    for (const struct ss_optim_class *const *c = ss_optim_classes; *c; c++)
        for (const struct ss_hyper *h = (*c)->hyper; h->option; h++) {
            const struct ss_option *row = hyper_row(h);
            const double given = hyper_value(o, row);
            if (given != row->number && !ss_optim_set(out, h->option, given))
                return ss_fail(SS_ERR_INVALID, "--optimizer %s has no %s; leave it out",
                               o->optimizer, h->option);
        }
    for (int i = 0; out->cls->hyper[i].option; i++) {
        const struct ss_option *row = hyper_row(&out->cls->hyper[i]);
        if (row->type == SS_OPT_FLOAT)
            *(double *)(void *)((char *)o + row->offset) = out->hyper[i];
    }
    if (o->no_decay)
        SS_TRY(ss_optim_words("--no-decay", o->no_decay, &out->no_decay));
    out->lr_factor = o->lr_factor;
    out->clip = o->clip_norm;
    out->ema_decay = o->ema_decay;
    return ss_optim_check(out);
}

/* Reject options that need whole parameters: a rank updates only its shard of them. */
static enum ss_status check_shards(const struct ss_train_options *o, int gpu,
                                   const struct ss_optim *optim)
{
    /* On GPUs a shard may begin inside a vector, which must not span two parameter groups. */
    if (gpu && (optim->no_decay || optim->lr_factor))
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "--shard-optimizer and %s do not go together on GPUs; leave one of them out",
                       optim->no_decay ? "--no-decay" : "--lr-factor");
    if (ss_optim_has_norms(optim))
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "--shard-optimizer and --optimizer %s do not go together: it needs norms of "
                       "whole parameters; leave one of them out",
                       o->optimizer);
    return SS_OK;
}

/* Check that the parameter groups match the model. */
static enum ss_status check_groups(const struct ss_optim *optim, const struct ss_plan *plan)
{
    struct ss_span *span = malloc((size_t)plan->nparams * sizeof *span);
    if (!span)
        return ss_fail_memory("groups of parameters", (size_t)plan->nparams * sizeof *span);
    enum ss_status status = ss_optim_groups(optim, plan, span);
    free(span);
    return status;
}

int ss_train_buckets_auto(const struct ss_train_options *o)
{
    return o->bucket_mb && !strcmp(o->bucket_mb, "auto");
}

/* *mb is 0 if the option is not given. */
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
    if (o->shard_optimizer)
        return ss_fail(SS_ERR_INVALID,
                       "--bucket-mb auto measures all-reduces, but --shard-optimizer uses "
                       "reduce-scatters and all-gathers; give a size in MiB");
    return SS_OK;
}

/* Check that texts stored in checkpoints (JSON) are UTF-8. The path of a model file is not
 * stored: its layers are. */
static enum ss_status check_texts(const struct ss_train_options *o)
{
    char text[SS_OPTION_TEXT_CAPACITY];
    for (const struct ss_option *row = ss_train_rows; row->name; row++)
        if (row->marks & (SS_TRAIN_FIXED | SS_TRAIN_WARN) &&
            !ss_utf8_is(ss_option_text(row, o, text)) &&
            (strcmp(row->name, "--model") || !ss_model_is_file(o->model)))
            return ss_fail(SS_ERR_INVALID, "%s: the text is not UTF-8", row->name);
    return SS_OK;
}

enum ss_status ss_train_check(const struct ss_train_options *o)
{
    const struct ss_train_device device = ss_train_choose_device(o);
    SS_TRY(check_texts(o));
    SS_TRY(check_buckets(o));
    SS_TRY(check_gpu_options(o, &device));
    if (o->ranks && !o->check)
        return ss_fail(
            SS_ERR_INVALID,
            "--ranks %ld needs --check; the launcher sets the number of ranks of a training",
            o->ranks);
    if (o->no_drop_last && o->accumulate > 1)
        return ss_fail(SS_ERR_INVALID,
                       "--no-drop-last with --accumulate %ld: the last batch of an epoch has fewer "
                       "micro-batches; leave one of them out",
                       o->accumulate);
    return SS_OK;
}

enum ss_sampler_end ss_train_end(const struct ss_train_options *o)
{
    return o->no_drop_last ? SS_END_KEEP : SS_END_DROP;
}

enum ss_status ss_train_rank_batch(const struct ss_train_options *o, int world, int *out)
{
    long total = o->batch_size;
    if (o->per_rank_batch_size) {
        if (total && total != o->per_rank_batch_size * world)
            return ss_fail(SS_ERR_INVALID,
                           "--batch-size %ld and --per-rank-batch-size %ld on %d rank%s disagree; "
                           "give one of them",
                           total, o->per_rank_batch_size, world, world > 1 ? "s" : "");
        *out = (int)o->per_rank_batch_size;
        return SS_OK;
    }
    if (!total)
        total = 256;
    if (total % world)
        return ss_fail(SS_ERR_INVALID,
                       "--batch-size %ld is not divisible by %d ranks; give a multiple of %d, or "
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
                                      .accumulate = (int)o->accumulate,
                                      .channel_block = device->gpu ? 0 : channel_block,
                                      .dtype = device->dtype,
                                      .grad_dtype = device->grad_dtype,
                                      .device = device->gpu,
                                      .device_sums = device->gpu && device->sums,
                                      .input_block = ss_gpu_input_block(device->dtype),
                                      .nondeterministic = device->gpu && o->nondeterministic,
                                      .loss_scaling = device->gpu && device->dtype == SS_DTYPE_F16,
                                      .first_bucket_mb = o->first_bucket_mb,
                                      .last_bucket_mb = o->last_bucket_mb,
                                      .bucket_order = o->bucket_order,
                                      .defer_weight_grads = (int)o->defer_weight_grads,
                                      .no_overlap = o->no_overlap,
                                      .makes_x = device->gpu ? NULL : ss_op_makes_x,
                                      .adds = device->gpu ? NULL : ss_op_adds,
                                      .algo = (int)o->conv_algo,
                                      .sync_stats = o->sync_bn ? device->ranks : 0,
                                      .slices =
                                          batch < SS_PLAN_MAX_SLICES ? batch : SS_PLAN_MAX_SLICES};
    struct ss_graph *built;
    struct ss_optim optim;
    if (ss_train_buckets_auto(o))
        return ss_fail(SS_ERR_INVALID, "--bucket-mb auto is for train, which measures and prints "
                                       "its choice; give a size in MiB");
    SS_TRY(parse_bucket_mb(o, &options.bucket_mb));
    if (o->shard_optimizer && device->ranks > 1) {
        options.shards = device->ranks;
        options.device_sums = device->gpu;
    }
    struct ss_train_options copy = *o;
    SS_TRY(ss_train_optim(&copy, &optim));
    if (options.shards > 1)
        SS_TRY(check_shards(o, device->gpu, &optim));
    options.states = ss_optim_states(&optim);
    options.clipping = optim.clip > 0;
    options.norms = ss_optim_has_norms(&optim);
    model.width = o->width;
    model.dropout = (float)o->dropout;
    SS_TRY(ss_model_build(o->model, &model, &built));
    enum ss_status status = ss_plan_lower(built, &options, plan);
    if (status == SS_OK && (status = check_groups(&optim, *plan)) != SS_OK) {
        ss_plan_destroy(*plan);
        *plan = NULL;
    }
    if (status != SS_OK)
        ss_graph_destroy(built);
    else
        *graph = built;
    return status;
}
