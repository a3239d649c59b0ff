/* Executor: a plan bound to this process, with operations, memory and StarPU handles (registered
 * once). Submits whole steps. The main thread calls these functions. Submitting does not block
 * (exception: ss_exec_submit_train with several micro-batches); the other functions wait for
 * submitted tasks or for other ranks. */
#ifndef SS_RUNTIME_EXEC_H
#define SS_RUNTIME_EXEC_H

#include "codelets/hooks.h"
#include "codelets/report.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "data/mix.h"
#include "graph/plan.h"
#include "kernels/kernels.h"
#include "optim/optim.h"
#include "runtime/input_stats.h"
#include "runtime/replay.h"
#include "runtime/runtime.h"

struct ss_exec;

struct ss_exec_options {
    struct ss_runtime *runtime;
    struct ss_comm *comm;
    const struct ss_plan *plan;
    uint64_t model_key; /* key of the performance models (codelets/model.h) */
    int training;       /* 0: only evaluation steps are submitted */
    int slots;          /* input slots, i.e. micro-batches in flight, >= 1 */
    uint64_t seed;
    struct ss_optim optim; /* for training; its number of states equals the plan's */
    /* Training: label smoothing, 0 .. 1; mixing of a batch's samples; probability of random
     * erasing. */
    float label_smoothing;
    struct ss_mix_how mix;
    double random_erasing;
    /* GPU: normalization of the data set's bytes; initial scale and growth interval of dynamic
     * loss scaling. */
    float mean[SS_INPUT_CHANNELS], std[SS_INPUT_CHANNELS];
    float init_scale;
    int scale_interval;
    /* Single rank: timeout of the step watchdog in seconds, see runtime/step_watch.h; 0:
     * disabled. */
    double timeout_s;
    /* GPU, in stream order: replay the step's segments as GPU graphs (replay.h). predicted_s:
     * predicted seconds per step; 0: unknown. */
    enum ss_replay_mode replay;
    double predicted_s;
    struct ss_report report; /* called for every training step */
};

/* Create an executor. Everything in options must outlive it. The caller destroys it. Errors:
 * SS_ERR_MEMORY, SS_ERR_LIBRARY, SS_ERR_SHAPE. */
enum ss_status ss_exec_create(const struct ss_exec_options *options, struct ss_exec **out);
/* Wait for submitted tasks, then free the executor. exec may be NULL. */
void ss_exec_destroy(struct ss_exec *exec);

struct ss_exec_step {
    uint64_t step; /* training step, from 1 */
    double lr;
    const struct ss_dataset *dataset;
    uint32_t epoch;
    int augment;
    /* Sample indices, copied: one batch, in training one per micro-batch. UINT32_MAX: no image
     * here and in the rest of the batch. In training the gradients are then those of the mean
     * over the present images, or 0 if there are none. */
    const uint32_t *sample;
};
/* Submit one training step and return. At most `slots` steps should be in flight: the caller
 * throttles by the reports. With several micro-batches it blocks until at most `slots` of them
 * are in flight. */
enum ss_status ss_exec_submit_train(struct ss_exec *exec, const struct ss_exec_step *step);
/* Submit forward and loss of one batch in evaluation mode. Metrics accumulate in the executor. */
enum ss_status ss_exec_submit_eval(struct ss_exec *exec, const struct ss_exec_step *step);

/* Wait for all submitted tasks. Returns the run's first failure, which is already reported. */
enum ss_status ss_exec_wait(struct ss_exec *exec);

/* Reset or get this rank's metrics of the evaluation steps since the last reset. Call them after
 * ss_exec_wait. */
enum ss_status ss_exec_reset_eval(struct ss_exec *exec);
enum ss_status ss_exec_eval_metrics(const struct ss_exec *exec, struct ss_metrics *out);

/* Get the logits of the last evaluation step, after ss_exec_wait: out (batch, ss_exec_classes()),
 * row-major. */
enum ss_status ss_exec_eval_logits(const struct ss_exec *exec, float *out);
int ss_exec_classes(const struct ss_exec *exec);

/* Set or get parameter i of the plan, in PyTorch's layout (`elements` floats); not for
 * num_batches_tracked. Call them only between ss_exec_wait and the next submission. */
enum ss_status ss_exec_set_param(struct ss_exec *exec, int i, const float *plain);
enum ss_status ss_exec_get_param(struct ss_exec *exec, int i, float *plain);

/* Set or get an optimizer state (below ss_plan_states) of parameter i, likewise. Training only. */
enum ss_status ss_exec_set_state(struct ss_exec *exec, int i, int state, const float *plain);
enum ss_status ss_exec_get_state(struct ss_exec *exec, int i, int state, float *plain);

/* With shards (plan option) each rank holds its share of every optimizer state. Before rank 0
 * reads states, collect them (collective). ss_exec_drop_states frees the collected states of a
 * bucket (-1: all). States set on rank 0 reach all ranks by ss_exec_broadcast_states. Without
 * shards the first two functions do nothing. */
enum ss_status ss_exec_collect_states(struct ss_exec *exec);
void ss_exec_drop_states(struct ss_exec *exec, int bucket);

/* EMA of the weights (optim.ema_decay): initialize it from the weights; get parameter i of it, as
 * ss_exec_get_param (running statistics are the model's); swap it with the weights (collective
 * with shards). Call them at the same times. Without EMA, start and swap do nothing. */
enum ss_status ss_exec_start_ema(struct ss_exec *exec);
enum ss_status ss_exec_get_ema(struct ss_exec *exec, int i, float *plain);
enum ss_status ss_exec_swap_ema(struct ss_exec *exec);

/* State of dynamic loss scaling, likewise. */
struct ss_exec_scaler {
    float scale; /* 0: disabled; setting 0 leaves scale and steps unchanged */
    int steps;   /* since the scale last changed */
    int skipped; /* steps skipped since the start */
};
enum ss_status ss_exec_get_scaler(const struct ss_exec *exec, struct ss_exec_scaler *out);
enum ss_status ss_exec_set_scaler(struct ss_exec *exec, const struct ss_exec_scaler *in);

/* Broadcast from rank 0 to all ranks: the parameters with BatchNorm's running statistics, the
 * optimizer's states, or only the running statistics. Collective. */
enum ss_status ss_exec_broadcast_params(struct ss_exec *exec);
enum ss_status ss_exec_broadcast_states(struct ss_exec *exec);
enum ss_status ss_exec_broadcast_running(struct ss_exec *exec);

/* GPU: host time spent enqueuing work so far, including evaluation; number of training steps, and
 * of those replayed. All 0 on a CPU. */
struct ss_exec_fed {
    double seconds;
    uint64_t steps, replayed;
};
struct ss_exec_fed ss_exec_fed(const struct ss_exec *exec);

struct ss_nccl;
/* All-reduce gradients and metrics with NCCL from now on, after verifying the result of an
 * all-reduce of every bucket's size. Call it before the first step, for plans with device_sums.
 * nccl is closed before the executor is destroyed. Collective. */
enum ss_status ss_exec_use_nccl(struct ss_exec *exec, struct ss_nccl *nccl);

/* Hash the parameters, without optimizer states: equal on two ranks iff their replicas are
 * bit-identical. finite: 1 if all parameters and this rank's BatchNorm running statistics are
 * finite. */
enum ss_status ss_exec_hash_params(const struct ss_exec *exec, uint64_t *out, int *finite);

/* Attach or detach hooks, while no task is running. The caller owns them. hooks may be NULL;
 * detaching hooks that are not attached does nothing. */
void ss_exec_hook(struct ss_exec *exec, struct ss_hooks *hooks);
void ss_exec_unhook(struct ss_exec *exec, struct ss_hooks *hooks);

/* Statistics of the input pipeline over the training steps reported so far. */
struct ss_input_totals ss_exec_input_stats(const struct ss_exec *exec);

/* Allocated bytes: activations; parameters with gradients and states; input slots. On a GPU also
 * the bytes allocated there in total and the device's memory size; otherwise 0. */
struct ss_exec_bytes {
    size_t activations, parameters, input;
    size_t device_used, device;
};
struct ss_exec_bytes ss_exec_memory(const struct ss_exec *exec);

/* Get the size of each bucket in floats, for the start-up check of collectives. counts has
 * plan->nbuckets entries. */
void ss_exec_bucket_counts(const struct ss_exec *exec, size_t *counts);

/* Hash of the bound memory layouts: must be equal on all ranks before gradients are all-reduced. */
uint64_t ss_exec_layout_hash(const struct ss_exec *exec);

#endif
