/* Common setup of training, evaluation and prediction: ranks, data, plan, runtime and weights,
 * initialized in the same order and with the same checks on every rank. */
#ifndef SS_TRAIN_SESSION_H
#define SS_TRAIN_SESSION_H

#include "comm/nccl.h"
#include "data/sampler.h"
#include "graph/bucket_choose.h"
#include "runtime/exec.h"
#include "runtime/calibrate.h"
#include "runtime/gpu_times.h"
#include "train/data_file.h"
#include "train/gpu_options.h"
#include "train/options.h"
#include "train/ranks.h"

struct ss_trace;
struct ss_nvtx;
struct ss_timed_emulation;
struct ss_session_times;

struct ss_session {
    struct ss_train_options *options;
    struct ss_train_device device;
    struct ss_optim optim;
    struct ss_comm *comm;
    struct ss_dataset *train, *test;
    struct ss_data_file data; /* data.json beside --init: preprocessing and classes */
    struct ss_graph *graph;
    struct ss_plan *plan;
    struct ss_gpu_cache_path gpu_cache; /* the runtime's GPU retains a pointer to it */
    struct ss_placement placement;
    int gpu_device;
    struct ss_rank *ranks; /* --show-ranks: all of them, on rank 0 */
    struct ss_runtime runtime;
    int runtime_started;
    struct ss_exec *exec;
    struct ss_nccl *nccl; /* NULL: one rank, or CPUs */
    /* Observers attached to exec; NULL: not active. */
    struct ss_trace *trace;
    struct ss_gpu_times *gpu_times;
    struct ss_calibrate *calibrate; /* NULL: StarPU times tasks itself, or not calibrating */
    struct ss_nvtx *nvtx;
    struct ss_timed_emulation *emulation; /* --task-times; NULL: the device computes */
    struct ss_session_times *times;       /* during session_buckets.c's trial */
    int batch;                            /* per rank and micro-batch */
    int64_t step_batch;                   /* per rank and step: sum of its micro-batches */
    int64_t batches;                      /* num_batches_tracked so far */
    uint32_t *sample;                     /* sample indices of a step */
    /* --bucket-mb auto: the choice (buckets 0: none), and its text for the option. */
    struct ss_bucket_choice buckets;
    char bucket_mb[32];
    struct ss_session_locks *claim; /* locks of the outputs; on rank 0 */
};

/* Open a session. training 0: without training set and gradients. If one rank fails, all fail.
 * The caller closes the session, also after an error. report: see ss_exec_options. */
enum ss_status ss_session_open(struct ss_session *s, struct ss_train_options *options, int training,
                               struct ss_report report);
void ss_session_close(struct ss_session *s);
/* Open a training session of `ranks` ranks for checks in this process alone: options, outputs,
 * data, graph and plan, without other ranks, StarPU or device. Same errors. Leaves no files
 * behind. --bucket-mb auto uses the plan of the default. */
enum ss_status ss_session_open_check(struct ss_session *s, struct ss_train_options *options,
                                     int ranks);

/* Evaluate the test set: every sample once, distributed over all ranks, without augmentation.
 * *metrics: sums over all ranks. Collective. */
enum ss_status ss_session_evaluate(struct ss_session *s, struct ss_metrics *metrics);

/* session_bind.c: image shape and number of classes of the session's data. */
struct ss_model_options ss_session_images(const struct ss_session *s);

/* Model key for ss_exec_options. */
uint64_t ss_session_model_key(const struct ss_session *s);
/* Build graph and plan from the options. Errors: those of ss_train_make_plan; SS_ERR_INVALID if a
 * training has no trainable parameter. */
enum ss_status ss_session_make_plan(struct ss_session *s, const struct ss_train_options *options,
                                    int training);
/* Create graph, plan, executor and weights from the options, after the runtime has started.
 * Afterwards only rank 0 has the weights. ss_session_unbind destroys all of them. */
enum ss_status ss_session_bind(struct ss_session *s, const struct ss_train_options *options,
                               int training, struct ss_report report);
void ss_session_unbind(struct ss_session *s);

/* Check that the parameter layouts agree and that all-reduces are correct at every size used,
 * then broadcast rank 0's state. Collective. */
enum ss_status ss_session_check_collectives(struct ss_session *s);

/* session_buckets.c: --bucket-mb auto: measure a few steps without lasting effect, choose the
 * buckets, print the choice with its reasons, and set the options. Collective. */
enum ss_status ss_session_choose_buckets(struct ss_session *s, int training);
struct ss_journal;
void ss_session_free_times(struct ss_session *s); /* after the executor was destroyed */
void ss_session_log_buckets(const struct ss_session *s, struct ss_journal *journal);

/* session_lock.c: lock --checkpoint-dir, --log-json and --trace for this run (output_lock.h), and
 * check that no output of another run would be overwritten. Collective. Errors:
 * SS_ERR_INVALID. */
enum ss_status ss_session_lock_outputs(struct ss_session *s);
/* Check only that no output of another run would be overwritten. */
enum ss_status ss_session_check_left(const struct ss_train_options *options);
/* Check that the locks are still held; call before replacing files that others read. */
enum ss_status ss_session_check_locks(const struct ss_session *s);
void ss_session_unlock_outputs(struct ss_session *s);

/* session_data.c: open the data of --data-dir and, with --cache, its packs, and build missing
 * packs; check that all ranks have the same data and the same kind of device. Collective. */
enum ss_status ss_session_open_data(struct ss_session *s, int training);

/* Open only the data sets. */
enum ss_status ss_session_open_sets(struct ss_session *s, int training);

/* Count the corrupt files that any rank has skipped so far, each once. Valid on rank 0, 0 on
 * other ranks. Collective. */
enum ss_status ss_session_count_skipped(struct ss_session *s, size_t *skipped);

/* session_trace.c, for training. Attach NVTX and calibration and, with --trace, start recording.
 * Collective. */
enum ss_status ss_session_open_trace(struct ss_session *s);
/* Check the trace options. */
enum ss_status ss_session_check_trace(const struct ss_train_options *options);
/* With --trace: compare the clocks again and close the trace. Collective. */
enum ss_status ss_session_end_trace(struct ss_session *s);
/* Close the trace without comparing clocks, for example after a failure. */
enum ss_status ss_session_close_trace(struct ss_session *s);
/* Record the times of the GPU's tasks until ss_session_close_trace. */
enum ss_status ss_session_time_gpu(struct ss_session *s, uint64_t first, uint64_t last,
                                   struct ss_gpu_times_listener listener);

/* session_emulation.c: with --task-times, make the GPU an emulated one that computes no values.
 * Call before the runtime starts. Errors: SS_ERR_INVALID; SS_ERR_UNSUPPORTED (the build has a
 * real GPU). */
enum ss_status ss_session_emulate(struct ss_session *s);
/* Give the tasks of the emulated GPU their times. Call before attaching other hooks that take
 * times. */
enum ss_status ss_session_hook_times(struct ss_session *s);

static inline enum ss_status ss_session_agree(struct ss_session *s, enum ss_status status,
                                              const char *what)
{
    return ss_comm_agree(s->comm, status, what);
}

#endif
