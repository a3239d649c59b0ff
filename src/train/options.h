/* Everything a run is told, with its defaults, and what follows from it. */
#ifndef SS_TRAIN_OPTIONS_H
#define SS_TRAIN_OPTIONS_H

#include "comm/comm.h"
#include "core/options.h"
#include "graph/plan.h"
#include "graphs/models.h"

struct ss_train_options {
    const char *model, *width, *data_dir;
    const char *init, *checkpoint_dir, *log_json;
    const char *cache, *tensorboard, *epoch_line;
    const char *trace, *trace_steps;
    const char *resume; /* "auto" or a checkpoint's folder */
    const char *device, *precision, *grad_dtype, *conv_algo;
    const char *gpu_mode, *gpu_cache;
    long batch_size, per_rank_batch_size; /* 0: not given */
    long epochs, max_steps, lr_step, patience, keep, checkpoint_steps;
    long image_size; /* 0: the data set's */
    long workers, threads, slots, seed;
    double base_lr, momentum, weight_decay, lr_gamma, target_accuracy;
    const char *bucket_mb, *bucket_order; /* bucket_mb: a number or "auto" */
    double first_bucket_mb, last_bucket_mb, dropout, timeout;
    const char *on_nan; /* "stop" or "continue" */
    long nan_steps;
    double init_scale;
    long scale_interval, nccl_ctas, gpu; /* -1: by the local rank */
    int no_shuffle, no_augment, tf32, no_autotune, no_overlap, nccl_always, show_ranks;
    int skip_corrupt, reduced_decode, overwrite;
    int check; /* for so many ranks */
    long ranks;
};

/* The guides' values where the guides have them. */
struct ss_train_options ss_train_defaults(void);

/* Append the options of one group to a table; returns its new length. Tables have room for
 * SS_TRAIN_MAX_OPTIONS and end with a zeroed entry. */
enum { SS_TRAIN_MAX_OPTIONS = 80 };
int ss_train_model_options(struct ss_train_options *o, struct ss_option *table, int n);
int ss_train_run_options(struct ss_train_options *o, struct ss_option *table, int n);
int ss_train_loop_options(struct ss_train_options *o, struct ss_option *table, int n);

/* An option's value as text: a constant string, or in `text`. */
const char *ss_train_option_text(const struct ss_option *option, char *text, size_t bytes);

/* Where and in which format steps compute. */
struct ss_train_device {
    int gpu;  /* 0: CPU */
    int sums; /* over several GPUs; the session's to set */
    enum ss_dtype dtype;
    enum ss_dtype grad_dtype; /* in which gradients travel */
};
/* From --device, --precision and --grad-dtype; "auto" takes a GPU where this process may use one.
 * Errors: SS_ERR_INVALID. */
enum ss_status ss_train_device(const struct ss_train_options *o, struct ss_train_device *out);

/* What this build cannot do: devices, precisions. Errors: SS_ERR_UNSUPPORTED, SS_ERR_INVALID. */
enum ss_status ss_train_check(const struct ss_train_options *o);

/* --bucket-mb auto. */
int ss_train_buckets_auto(const struct ss_train_options *o);

/* The per-rank batch. Errors: SS_ERR_INVALID (does not divide, both given and different). */
enum ss_status ss_train_rank_batch(const struct ss_train_options *o, int world, int *out);

/* Build the model for images of this kind, and its step plan for `batch` images per rank on this
 * device. channel_block: of a CPU plan, see struct ss_plan_options. The caller destroys *plan, then
 * *graph. */
enum ss_status ss_train_make_plan(const struct ss_train_options *o,
                                  const struct ss_train_device *device,
                                  const struct ss_model_options *images, int batch,
                                  int channel_block, struct ss_graph **graph,
                                  struct ss_plan **plan);

/* The program and every option that changes results must be the same on all ranks. Collective. */
enum ss_status ss_train_check_ranks(struct ss_train_options *o, struct ss_comm *comm);

/* Learning rate of an epoch (from 0): base_lr * lr_gamma^floor(epoch / lr_step), as PyTorch's
 * StepLR. */
double ss_train_lr(const struct ss_train_options *o, long epoch);

#endif
