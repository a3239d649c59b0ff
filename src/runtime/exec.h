/* A plan bound to this process: operations, memory, StarPU handles (registered once), and
 * submission of whole steps. The main thread calls these. Submitting does not block; all else
 * waits for tasks that were submitted, or for other ranks. */
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
    uint64_t model_key; /* of performance models (codelets/model.h) */
    int training; /* 0: only evaluation steps will be submitted */
    int slots;    /* input slots, that is micro-steps in flight, >= 1 */
    uint64_t seed;
    struct ss_optim optim; /* of training; its states are as many as the plan's */
    /* Of training: of labels, 0 .. 1; mixing of a batch's samples; probability of erasing. */
    float label_smoothing;
    struct ss_mix_how mix;
    double random_erasing;
    /* GPU: normalisation of the data sets' bytes; start and interval of dynamic loss scaling. */
    float mean[SS_INPUT_CHANNELS], std[SS_INPUT_CHANNELS];
    float init_scale;
    int scale_interval;
    /* Of one rank: end the process when no task ends, see runtime/step_watch.h; 0: never. */
    double timeout_s;
    /* GPU, in stream order: replay the step's segments as graphs of the GPU (replay.h). predicted_s: of
     * a step there; 0: unknown. */
    enum ss_replay_mode replay;
    double predicted_s;
    struct ss_report report; /* called for every training step */
};

/* Everything in options outlives the executor. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY, SS_ERR_SHAPE.
 * The caller destroys it. */
enum ss_status ss_exec_create(const struct ss_exec_options *options, struct ss_exec **out);
/* Waits for submitted tasks. NULL is fine. */
void ss_exec_destroy(struct ss_exec *exec);

struct ss_exec_step {
    uint64_t step; /* training step, from 1 */
    double lr;
    const struct ss_dataset *dataset;
    uint32_t epoch;
    int augment;
    /* Plan batch entries, in training for each micro-step; copied. UINT32_MAX: none, and none behind it in
     * the batch; in training its gradients are those of the mean over the others, 0 if there are none. */
    const uint32_t *sample;
};
/* Submit one training step and return. At most `slots` steps should be in flight: the caller
 * throttles by the reports. A step of several micro-steps waits until all but `slots` of them have
 * ended. */
enum ss_status ss_exec_submit_train(struct ss_exec *exec, const struct ss_exec_step *step);
/* Submit forward and loss of one batch in evaluation mode; metrics accumulate in the executor. */
enum ss_status ss_exec_submit_eval(struct ss_exec *exec, const struct ss_exec_step *step);

/* Wait for all submitted tasks. Returns the run's first failure, already reported. */
enum ss_status ss_exec_wait(struct ss_exec *exec);

/* Metrics of the evaluation steps since the last reset, of this rank. Call after ss_exec_wait. */
enum ss_status ss_exec_reset_eval(struct ss_exec *exec);
enum ss_status ss_exec_eval_metrics(const struct ss_exec *exec, struct ss_metrics *out);

/* Of the last evaluation step, likewise: out (batch, ss_exec_classes()), row-major. */
enum ss_status ss_exec_eval_logits(const struct ss_exec *exec, float *out);
int ss_exec_classes(const struct ss_exec *exec);

/* Parameter i of the plan, in PyTorch's layout (elements floats); not for num_batches_tracked.
 * Between ss_exec_wait and the next submission only. */
enum ss_status ss_exec_set_param(struct ss_exec *exec, int i, const float *plain);
enum ss_status ss_exec_get_param(struct ss_exec *exec, int i, float *plain);

/* A state that the optimizer has of parameter i (below ss_plan_states), likewise; of training. */
enum ss_status ss_exec_set_state(struct ss_exec *exec, int i, int state, const float *plain);
enum ss_status ss_exec_get_state(struct ss_exec *exec, int i, int state, float *plain);

/* With shards (plan option) each rank has its share of every state, and on a GPU that computes in 2
 * bytes of the parameters. To read either on rank 0, collect them first, which is collective; what
 * was collected of a bucket (-1: of all) goes by ss_exec_drop_states. What is set on rank 0 gets to
 * all ranks by ss_exec_broadcast_states. Without shards the first two do nothing. */
enum ss_status ss_exec_collect_states(struct ss_exec *exec);
void ss_exec_drop_states(struct ss_exec *exec, int bucket);

/* The average of the weights (optim.ema_decay), likewise: it begins as the weights; takes their place,
 * or gives it back, which with shards is collective; nothing without one. And parameter i of it, as
 * ss_exec_get_state; running statistics are the model's. */
enum ss_status ss_exec_start_ema(struct ss_exec *exec);
enum ss_status ss_exec_get_ema(struct ss_exec *exec, int i, float *plain);
enum ss_status ss_exec_swap_ema(struct ss_exec *exec);

/* State of the dynamic loss scaling, likewise. */
struct ss_exec_scaler {
    float scale; /* 0: there is none; setting that leaves what there is */
    int steps;   /* since the scale last changed */
    int skipped; /* steps left out since the start */
};
enum ss_status ss_exec_get_scaler(const struct ss_exec *exec, struct ss_exec_scaler *out);
enum ss_status ss_exec_set_scaler(struct ss_exec *exec, const struct ss_exec_scaler *in);

/* Rank 0's parameters (or only BatchNorm's running statistics, or the optimizer's states) to all
 * ranks. Collective. */
enum ss_status ss_exec_broadcast_params(struct ss_exec *exec);
enum ss_status ss_exec_broadcast_states(struct ss_exec *exec);
enum ss_status ss_exec_broadcast_running(struct ss_exec *exec);

/* Of a GPU: what giving it work has taken the host so far, evaluation included; training steps, and how many
 * of them were replayed. All 0 on a CPU. */
struct ss_exec_fed {
    double seconds;
    uint64_t steps, replayed;
};
struct ss_exec_fed ss_exec_fed(const struct ss_exec *exec);

struct ss_nccl;
/* Sum gradients and metrics over GPUs from now on, after a check that sums come out right at every
 * bucket's size. Before the first step; of plans with device_sums. nccl is closed before the
 * executor is destroyed. Collective. */
enum ss_status ss_exec_use_nccl(struct ss_exec *exec, struct ss_nccl *nccl);

/* Collective with shards. Hash of parameters, not of the optimizer's states: equal on two ranks iff
 * replicas are bit-equal. finite: 1 if all of them are, and BatchNorm's running statistics, which
 * each rank has of its own.
 */
enum ss_status ss_exec_hash_params(const struct ss_exec *exec, uint64_t *out, int *finite);

/* Hang hooks on it, and take them off again; while no task is running. The executor owns none of
 * them. NULL is fine, and to take off what does not hang there. */
void ss_exec_hook(struct ss_exec *exec, struct ss_hooks *hooks);
void ss_exec_unhook(struct ss_exec *exec, struct ss_hooks *hooks);

/* How the loader keeps up, in the training steps reported so far. */
struct ss_input_totals ss_exec_input_stats(const struct ss_exec *exec);

/* Bytes held: activations, parameters with gradients and states, input slots. With a GPU also
 * what it holds of ours in all, and its own size (else 0). */
struct ss_exec_bytes {
    size_t activations, parameters, input;
    size_t device_used, device;
};
struct ss_exec_bytes ss_exec_memory(const struct ss_exec *exec);

/* Native bytes of each bucket, for the start-up check of collectives. counts has plan->nbuckets
 * entries, in floats. */
void ss_exec_bucket_counts(const struct ss_exec *exec, size_t *counts);

/* Hash of the bound layouts: ranks must agree before gradients can be added. */
uint64_t ss_exec_layout_hash(const struct ss_exec *exec);

#endif
