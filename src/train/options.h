/* Everything a run is told, with its defaults, and what follows from it. */
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
enum { SS_BEST_NONE, SS_BEST_ACCURACY, SS_BEST_LOSS }; /* of the validation */
enum { SS_EPOCH_LINE_AUTO = -1 }; /* else an enum ss_epoch_form */

/* A field for each row of options.def, which says what they are. */
struct ss_train_options {
#define FLAG(field, ...) int field;
#define INT(field, ...) long field;
#define FLOAT(field, ...) double field;
#define TEXT(field, ...) const char *field;
#define WORD(field, ...) int field;
#define SIZE(field, ...) struct ss_size field;
#include "train/options.def"
};

/* Rows' groups. */
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
    SS_TRAIN_STEP = 1 << 15, /* of training alone */
    SS_TRAIN_BATCH = 1 << 16,
    SS_TRAIN_IMAGES = 1 << 17,
    SS_TRAIN_NCCL = 1 << 18,
    SS_TRAIN_REPLAY = 1 << 19,
    SS_TRAIN_PREDICT = 1 << 20,
    /* What each command takes. */
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

/* Rows' marks. */
enum {
    SS_TRAIN_SAME = 0,
    SS_TRAIN_OWN = 1 << 0, /* each rank's */
    SS_TRAIN_FREE = 0,
    SS_TRAIN_FIXED = 1 << 1, /* while a run lasts */
    SS_TRAIN_TOLD = 1 << 2,  /* when it changes at a resume */
    SS_TRAIN_CALL = 1 << 3,  /* of one call, such as a place that is written to: no recipe's */
};
extern const struct ss_option ss_train_rows[];
/* A bound: no field is smaller. */
enum { SS_TRAIN_MOST_ROWS = sizeof(struct ss_train_options) / sizeof(int) };

/* What a command of these groups takes. */
struct ss_option_set ss_train_option_set(struct ss_train_options *o, unsigned groups);

/* The guides' values where the guides have them. */
struct ss_train_options ss_train_defaults(void);
/* Has the option of that name its default? */
int ss_train_is_default(const struct ss_train_options *o, const char *name);

/* Where and in which format steps compute. */
struct ss_train_device {
    int gpu;  /* 0: CPU */
    int sums;  /* over several GPUs; the session's to set */
    int ranks; /* that may share BatchNorm's statistics and the optimizer, likewise; 0: one */
    enum ss_dtype dtype;
    enum ss_dtype grad_dtype; /* in which gradients travel */
};
/* From --device, --precision and --grad-dtype; "auto" takes a GPU where this process may use one. */
struct ss_train_device ss_train_choose_device(const struct ss_train_options *o);

/* What this build cannot do: devices, precisions. Errors: SS_ERR_UNSUPPORTED, SS_ERR_INVALID. */
enum ss_status ss_train_check(const struct ss_train_options *o);

/* The optimizer. Its hyperparameters that were not given get its defaults, also in the options.
 * Errors: SS_ERR_INVALID. */
enum ss_status ss_train_optim(struct ss_train_options *o, struct ss_optim *out);

/* --bucket-mb auto. */
int ss_train_buckets_auto(const struct ss_train_options *o);

/* What becomes of an epoch's end. */
enum ss_sampler_end ss_train_end(const struct ss_train_options *o);

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

/* The program and every option marked so must be the same on all ranks. Collective. */
enum ss_status ss_train_check_ranks(const struct ss_train_options *o, struct ss_comm *comm);

/* learning_rate.c: what decides the learning rate, beside the options: the global batch, and where
 * the run is, which is at `at` steps by its epochs and has made `steps` of them; these differ
 * when it has gone on with another global batch. */
struct ss_train_course {
    int64_t batch, steps_per_epoch, at, steps;
};
/* The schedule, whose steps are counted by epochs. Errors: SS_ERR_INVALID. */
enum ss_status ss_train_schedule(const struct ss_train_options *o,
                                 const struct ss_train_course *course, struct ss_schedule *out);
/* Only its errors. */
enum ss_status ss_train_check_schedule(const struct ss_train_options *o);

#endif
