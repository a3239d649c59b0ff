/* Public API: use starstep from other programs. Add models, train and evaluate them. This header
 * includes all other headers of the library; docs/library.md describes them. Names begin with ss_
 * and SS_. Requires C11 or C++17, with gcc's or clang's attributes. The command line is in
 * starstep-cli.h.
 *
 * Not thread-safe: one call at a time per process, from one thread, while no other thread reads
 * the environment. starstep changes some of StarPU's variables. */
#ifndef SS_API_STARSTEP_H
#define SS_API_STARSTEP_H

#include "core/message.h"
#include "core/status.h"
#include "graphs/model.h"
#include "layers/layers.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return the version of the loaded library, for example "0.2.0"; a constant string. */
const char *ss_version(void);

/* Results of an epoch, over all ranks. NAN: not computed, for example validation between
 * --eval-every. Later versions may add members at the end; the library sets `size` to the bytes
 * it has filled. */
struct ss_epoch_result {
    size_t size;           /* bytes that the library has filled */
    int64_t epoch;         /* from 1 */
    int64_t epochs;        /* total number */
    int64_t steps;         /* optimizer steps in all epochs so far */
    double learning_rate;  /* of the last step */
    double train_loss;     /* mean of the epoch's steps */
    double train_accuracy; /* 0 to 1, on augmented images */
    double val_loss;       /* mean over the validation set */
    double val_accuracy;   /* 0 to 1 */
    double val_top5;       /* 0 to 1 */
    double seconds;        /* training only */
    double images_per_s;   /* training only, all ranks */
};

/* Called after each epoch, before its checkpoint is written, on every rank with the same values.
 * If it returns non-zero on any rank, the run ends after that checkpoint, as after the last
 * epoch. It may read files and the clock, but must not call starstep functions except messages. */
typedef int (*ss_epoch_function)(const struct ss_epoch_result *epoch, void *user);

/* Results of a training. The caller sets size to sizeof(struct ss_train_result), so that members
 * can be added at the end. Values are those of the last epoch; NAN and 0 if no epoch was left to
 * train. */
struct ss_train_result {
    size_t size;           /* sizeof(struct ss_train_result), set by the caller */
    int64_t epochs;        /* total, including those before a --resume */
    int64_t steps;         /* optimizer steps in these epochs */
    double train_loss;     /* mean of the epoch's steps */
    double train_accuracy; /* 0 to 1, on augmented images */
    double val_loss;       /* mean over the validation set */
    double val_accuracy;   /* 0 to 1 */
    double val_top5;       /* 0 to 1 */
    double seconds;        /* training only, in epochs completed by this call */
    double images_per_s;   /* over these seconds and all ranks */
};

/* Train with the options of `starstep train`: {"--model", "mine", "--epochs", "3", NULL}. Prints
 * the same lines to stdout and stderr, and writes the same files. on_epoch may be NULL; user is
 * passed to it. result may be NULL; set on SS_OK.
 *
 * In a multi-rank run (mpiexec, srun, starstep launch) all ranks call it with the same options,
 * and either all or none with on_epoch. Trainings and evaluations may follow each other; the
 * first call initializes MPI, which is finalized when the process exits. A failure while ranks
 * wait for each other ends the process and all ranks, as in the program. SIGTERM and SIGUSR1, and
 * SIGINT and SIGHUP unless ignored, end the run after the current step. Their handlers, and
 * SIGPIPE's, are restored on return. Errors: every status; reported. SS_ERR_INVALID: also invalid
 * options. SS_ERR_INTERRUPTED: a signal was received; resume with --resume auto. */
enum ss_status ss_train(const char *const options[], ss_epoch_function on_epoch, void *user,
                        struct ss_train_result *result);

/* Results of an evaluation; size as above. */
struct ss_eval_result {
    size_t size;     /* sizeof(struct ss_eval_result), set by the caller */
    int64_t images;  /* in the test set */
    double loss;     /* mean over the images */
    double accuracy; /* 0 to 1 */
    double top5;     /* 0 to 1 */
};

/* Evaluate saved weights with the options of `starstep eval`: {"--init", "run", ..., NULL}.
 * Otherwise as ss_train. */
enum ss_status ss_eval(const char *const options[], struct ss_eval_result *result);

#ifdef __cplusplus
}
#endif

#endif
