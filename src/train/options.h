/* Options of a run, their defaults, and values derived from them. */
#ifndef SS_TRAIN_OPTIONS_H
#define SS_TRAIN_OPTIONS_H

#include "comm/comm.h"
#include "core/options.h"
#include "data/sampler.h"
#include "graph/plan.h"
#include "graphs/models.h"
#include "optim/optim.h"
#include "optim/schedule.h"

enum { SS_DEVICE_AUTO, SS_DEVICE_CPU, SS_DEVICE_CUDA };
enum { SS_GPU_ASYNC, SS_GPU_ORDERED };
enum { SS_NAN_STOP, SS_NAN_CONTINUE };
enum { SS_BEST_NONE, SS_BEST_ACCURACY, SS_BEST_LOSS }; /* by validation */
enum { SS_EPOCH_LINE_AUTO = -1 };                      /* else an enum ss_epoch_form */

/* One field per row of options.def, which documents them. */
struct ss_train_options {
#define FLAG(field, ...) int field;
#define INT(field, ...) long field;
#define FLOAT(field, ...) double field;
#define TEXT(field, ...) const char *field;
#define WORD(field, ...) int field;
#define SIZE(field, ...) struct ss_size field;
#include "train/options.def"
};

/* Option groups. */
enum {
    SS_TRAIN_MODEL = 1 << 0,
    SS_TRAIN_DATA = 1 << 1,
    SS_TRAIN_SAMPLES = 1 << 2,
    SS_TRAIN_LOOP = 1 << 3,
    SS_TRAIN_OPTIMIZER = 1 << 4,
    SS_TRAIN_BUCKETS = 1 << 5,
    SS_TRAIN_SUMS = 1 << 6,
    SS_TRAIN_DEVICE = 1 << 7,
    SS_TRAIN_CORES = 1 << 8,
    SS_TRAIN_COMPUTE = 1 << 9,
    SS_TRAIN_WEIGHTS = 1 << 10,
    SS_TRAIN_CHECKPOINT = 1 << 11,
    SS_TRAIN_OUTPUT = 1 << 12,
    SS_TRAIN_RECORD = 1 << 13,
    SS_TRAIN_RECIPE = 1 << 14,
    SS_TRAIN_STEP = 1 << 15, /* training only */
    SS_TRAIN_BATCH = 1 << 16,
    SS_TRAIN_IMAGES = 1 << 17,
    SS_TRAIN_NCCL = 1 << 18,
    SS_TRAIN_REPLAY = 1 << 19,
    SS_TRAIN_PREDICT = 1 << 20,
    /* Groups that each command accepts. */
    SS_TRAIN_OF_INFO = SS_TRAIN_DEVICE | SS_TRAIN_CORES,
    SS_TRAIN_OF_EVAL = SS_TRAIN_RECIPE | SS_TRAIN_MODEL | SS_TRAIN_BATCH | SS_TRAIN_DATA |
                       SS_TRAIN_IMAGES | SS_TRAIN_SUMS | SS_TRAIN_DEVICE | SS_TRAIN_CORES |
                       SS_TRAIN_COMPUTE | SS_TRAIN_WEIGHTS | SS_TRAIN_OUTPUT,
    SS_TRAIN_OF_PREDICT =
        SS_TRAIN_PREDICT | (SS_TRAIN_OF_EVAL & ~(SS_TRAIN_DATA | SS_TRAIN_OUTPUT)),
    SS_TRAIN_OF_PLAN = SS_TRAIN_RECIPE | SS_TRAIN_MODEL | SS_TRAIN_BATCH | SS_TRAIN_STEP |
                       SS_TRAIN_BUCKETS | SS_TRAIN_DEVICE | SS_TRAIN_CORES | SS_TRAIN_COMPUTE |
                       SS_TRAIN_LOOP | SS_TRAIN_OPTIMIZER,
    SS_TRAIN_OF_TRAIN = SS_TRAIN_PREDICT - 1,
};

/* Flags of a row. */
enum {
    SS_TRAIN_SAME = 0,
    SS_TRAIN_OWN = 1 << 0, /* may differ between ranks */
    SS_TRAIN_FREE = 0,
    SS_TRAIN_FIXED = 1 << 1, /* must not change at a resume */
    SS_TRAIN_WARN = 1 << 2,  /* a change at a resume is reported */
    SS_TRAIN_CALL = 1 << 3,  /* of a single run, such as an output path: not allowed in a recipe */
};
extern const struct ss_option ss_train_rows[];
/* Upper bound: no field is smaller than int. */
enum { SS_TRAIN_MOST_ROWS = sizeof(struct ss_train_options) / sizeof(int) };

/* The options of a command that accepts these groups; values are stored in *o. */
struct ss_option_set ss_train_option_set(struct ss_train_options *o, unsigned groups);

/* Default options: the guides' values where the guides have them. */
struct ss_train_options ss_train_defaults(void);
/* Returns 1 if the option of that name has its default value. */
int ss_train_is_default(const struct ss_train_options *o, const char *name);

/* Device and number formats of the steps. */
struct ss_train_device {
    int gpu;   /* 0: CPU */
    int sums;  /* gradients are all-reduced by NCCL; set by the session */
    int ranks; /* number of ranks (for sync-BN and sharding); set by the session; 0: one */
    enum ss_dtype dtype;
    enum ss_dtype grad_dtype; /* format of communicated gradients */
};
/* Choose the device from --device, --precision and --grad-dtype; "auto" selects a GPU if this
 * process can use one. */
struct ss_train_device ss_train_choose_device(const struct ss_train_options *o);

/* Reject options that this build or device does not support, and invalid combinations. Errors:
 * SS_ERR_UNSUPPORTED, SS_ERR_INVALID. */
enum ss_status ss_train_check(const struct ss_train_options *o);

/* Set *out to the optimizer of the options. Hyperparameters that were not given get the
 * optimizer's defaults, in *o as well. Errors: SS_ERR_INVALID. */
enum ss_status ss_train_optim(struct ss_train_options *o, struct ss_optim *out);

/* Returns 1 for --bucket-mb auto. */
int ss_train_buckets_auto(const struct ss_train_options *o);

/* Treatment of the last, incomplete batch of an epoch (--no-drop-last). */
enum ss_sampler_end ss_train_end(const struct ss_train_options *o);

/* Compute the per-rank batch size. Errors: SS_ERR_INVALID (the batch is not divisible by `world`,
 * or both sizes are given and disagree). */
enum ss_status ss_train_rank_batch(const struct ss_train_options *o, int world, int *out);

/* Build the model for the given image shape, and its step plan for `batch` images per rank on
 * `device`. channel_block: for CPU plans, see struct ss_plan_options. The caller destroys *plan,
 * then *graph. */
enum ss_status ss_train_make_plan(const struct ss_train_options *o,
                                  const struct ss_train_device *device,
                                  const struct ss_model_options *images, int batch,
                                  int channel_block, struct ss_graph **graph,
                                  struct ss_plan **plan);

/* Check that the program, the model file and all options without SS_TRAIN_OWN are the same on all
 * ranks. Collective. */
enum ss_status ss_train_check_ranks(const struct ss_train_options *o, struct ss_comm *comm);

/* learning_rate.c: inputs of the learning-rate schedule besides the options. batch: global batch
 * size. at: position in steps, counted from completed epochs with the current batch size. steps:
 * optimizer steps so far. `at` and `steps` differ after a resume with another global batch
 * size. */
struct ss_train_course {
    int64_t batch, steps_per_epoch, at, steps;
};
/* Build the schedule; its step numbers count like `at`. Errors: SS_ERR_INVALID. */
enum ss_status ss_train_schedule(const struct ss_train_options *o,
                                 const struct ss_train_course *course, struct ss_schedule *out);
/* Check the schedule options. Same errors. */
enum ss_status ss_train_check_schedule(const struct ss_train_options *o);

#endif
