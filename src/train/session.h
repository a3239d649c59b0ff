/* What training and evaluation have in common: ranks, data, plan, runtime, weights, set up in one
 * order and with the same checks on every rank. */
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
    struct ss_data_file data; /* with --images: how they are prepared */
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
    /* Who measures, hung on exec; NULL: nobody. */
    struct ss_trace *trace;
    struct ss_gpu_times *gpu_times;
    struct ss_calibrate *calibrate; /* NULL: StarPU times tasks itself, or nobody does */
    struct ss_nvtx *nvtx;
    struct ss_timed_emulation *emulation; /* --task-times; NULL: the device computes */
    struct ss_session_times *times; /* during session_buckets.c's trial */
    int batch;                      /* per rank and micro-step */
    int64_t step_batch;             /* per rank and step: of all its micro-steps */
    int64_t batches;      /* num_batches_tracked so far */
    uint32_t *sample;     /* room for a step's sample indices */
    /* --bucket-mb auto: what was chosen (buckets 0: nothing), and as the option's text. */
    struct ss_bucket_choice buckets;
    char bucket_mb[32];
    struct ss_session_locks *claim; /* rank 0 of a training session: its outputs */
};

/* Build everything; training 0 leaves out the training set and gradients. After an error the
 * session may be closed all the same. When one rank fails, all fail. report: see
 * ss_exec_options. */
enum ss_status ss_session_open(struct ss_session *s, struct ss_train_options *options, int training,
                               struct ss_report report);
void ss_session_close(struct ss_session *s);
/* All of it that needs no other rank, no StarPU and no device: options, outputs, data, graph and
 * plan of a training session of so many ranks, to look at, on this process alone; the same errors.
 * Nothing is left in the file system. --bucket-mb auto has the plan of the default. */
enum ss_status ss_session_open_check(struct ss_session *s, struct ss_train_options *options,
                                     int ranks);

/* Evaluate the test set: every sample once, over all ranks, without augmentation. metrics: the sums
 * over all ranks. Collective. */
enum ss_status ss_session_evaluate(struct ss_session *s, struct ss_metrics *metrics);

/* session_bind.c: what a model for the session's data is made for. */
struct ss_model_options ss_session_images(const struct ss_session *s);

/* Of the executor's options. */
uint64_t ss_session_model_key(const struct ss_session *s);
/* Graph and plan by these options; of training SS_ERR_INVALID where nothing would be trained. */
enum ss_status ss_session_make_plan(struct ss_session *s, const struct ss_train_options *options,
                                    int training);
/* Graph, plan, executor and weights by these options, and rid of them. After the runtime was
 * started. Rank 0 alone has the weights then. */
enum ss_status ss_session_bind(struct ss_session *s, const struct ss_train_options *options,
                               int training, struct ss_report report);
void ss_session_unbind(struct ss_session *s);

/* Layouts agree, the collective adds correctly at every size used, and all start from one state.
 * Collective. */
enum ss_status ss_session_check_collectives(struct ss_session *s);

/* session_buckets.c: --bucket-mb auto: measure a few steps that change nothing, choose, print what
 * and why, and set the options to it. Collective. */
enum ss_status ss_session_choose_buckets(struct ss_session *s, int training);
struct ss_journal;
void ss_session_free_times(struct ss_session *s); /* after the executor's end */
void ss_session_log_buckets(const struct ss_session *s, struct ss_journal *journal);

/* session_lock.c: --checkpoint-dir, --log-json and --trace are this run's until the claim's end
 * (output_lock.h), and have nothing of another run that would be lost. Collective. Errors:
 * SS_ERR_INVALID. */
enum ss_status ss_session_lock_outputs(struct ss_session *s);
/* Only that nothing of another run would be lost there. */
enum ss_status ss_session_check_left(const struct ss_train_options *options);
/* Before something that others read is replaced: the claim still holds. */
enum ss_status ss_session_check_locks(const struct ss_session *s);
void ss_session_unlock_outputs(struct ss_session *s);

/* session_data.c: open what --data-dir names and, with --cache, its packs, which are built where
 * they are missing; check that all ranks have the same data and the same kind of device.
 * Collective. */
enum ss_status ss_session_open_data(struct ss_session *s, int training);

/* The sets alone. */
enum ss_status ss_session_open_sets(struct ss_session *s, int training);

/* Corrupt files that any rank has skipped so far, each counted once; right on rank 0, 0 elsewhere.
 * Collective. */
enum ss_status ss_session_count_skipped(struct ss_session *s, size_t *skipped);

/* session_trace.c, for training: with --trace, record from here on; check the options before that;
 * compare the clocks again and close; only close, after a failure. The first and third one are
 * collective. */
enum ss_status ss_session_open_trace(struct ss_session *s);
enum ss_status ss_session_check_trace(const struct ss_train_options *options);
enum ss_status ss_session_end_trace(struct ss_session *s);
enum ss_status ss_session_close_trace(struct ss_session *s);
/* GPU: take its tasks' times, until ss_session_close_trace. */
enum ss_status ss_session_time_gpu(struct ss_session *s, uint64_t first, uint64_t last,
                                   struct ss_gpu_times_listener listener);

/* session_emulation.c: --task-times: the device computes nothing; before it is opened. And its tasks
 * take their times; before anything that takes times hangs on the executor. SS_ERR_UNSUPPORTED: it is
 * a real one. */
enum ss_status ss_session_emulate(struct ss_session *s);
enum ss_status ss_session_hook_times(struct ss_session *s);

static inline enum ss_status ss_session_agree(struct ss_session *s, enum ss_status status,
                                              const char *what)
{
    return ss_comm_agree(s->comm, status, what);
}

#endif
