/* starstep for programs of one's own: models beside the built-in ones, training and evaluation of them, and
 * the whole command line. This header brings all others that are installed with it; docs/library.md explains
 * them. Names begin with ss_ and SS_. C11 or C++17, with gcc's or clang's attributes.
 *
 * One call at a time in a process, from one thread, with no other thread that reads the environment
 * meanwhile: starstep changes some of StarPU's variables. */
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

/* The version of the library that runs, "0.2.0"; a constant string. */
const char *ss_version(void);

/* The command line of the program starstep, with the models of ss_model_add(): train, eval, plan, launch,
 * data and all others. argv as main() has it, argv[0] included. Returns the exit code for main():
 * 0 done, 1 failed (reported), 2 wrong usage, 3 ended by a signal with a checkpoint, 4 diverged.
 *
 * For the only call of a process that is started as several ranks: it ends MPI. Handlers of SIGTERM,
 * SIGUSR1, SIGINT and SIGHUP that a training has set stay. */
int ss_main(int argc, char **argv);

/* What an epoch came to, over all ranks. NAN: not computed, such as validation between --eval-every.
 * Later versions may add members at the end; `size` says how much of it this library has filled. */
struct ss_epoch_result {
    size_t size;
    int64_t epoch, epochs; /* from 1; of how many */
    int64_t steps;         /* of the optimizer, in all epochs so far */
    double learning_rate;  /* of the last step */
    double train_loss;     /* mean of the epoch's steps */
    double train_accuracy; /* 0 to 1, of images as they were trained on */
    double val_loss, val_accuracy, val_top5;
    double seconds; /* of training alone */
    double images_per_s;
};

/* After each epoch, before its checkpoint is written, on every rank with the same figures. Non-zero: the run
 * ends behind that checkpoint, as if it were the last epoch; so it does when any rank says so. It may read
 * files and the clock, but calls nothing of starstep but messages. */
typedef int (*ss_epoch_function)(const struct ss_epoch_result *epoch, void *user);

/* What a training came to. size: set by the caller to sizeof(struct ss_train_result), so that members can be
 * added at the end. The last epoch's figures; all NAN and 0 where none was left to train. */
struct ss_train_result {
    size_t size;
    int64_t epochs; /* in all, those before a --resume included */
    int64_t steps;
    double train_loss, train_accuracy;
    double val_loss, val_accuracy, val_top5;
    double seconds;      /* of training alone, in epochs that this call has ended */
    double images_per_s; /* over these seconds and all ranks */
};

/* Train as `starstep train` does with these options: {"--model", "mine", "--epochs", "3", NULL}. It prints
 * the same lines to stdout and stderr, and writes the same files. on_epoch may be NULL; user is handed
 * through. result may be NULL; set on SS_OK.
 *
 * Started as one of several ranks (mpiexec, srun, starstep launch), it trains as one, and all of them call
 * it with the same options and with an on_epoch or all without. Trainings and evaluations may follow each
 * other; MPI is started by the first and ended when the process exits. A failure while ranks wait for each
 * other ends the process, and all ranks, as the program's does. SIGTERM and SIGUSR1, and SIGINT and
 * SIGHUP unless they are ignored, end the run after a step; their handlers, and SIGPIPE's, are put back
 * at the end.
 * Errors: every status; reported. SS_ERR_INVALID: also wrong options. SS_ERR_INTERRUPTED: a signal came, and
 * --resume auto goes on. */
enum ss_status ss_train(const char *const options[], ss_epoch_function on_epoch, void *user,
                        struct ss_train_result *result);

/* What an evaluation came to; size as above. */
struct ss_eval_result {
    size_t size;
    int64_t images; /* of the test set */
    double loss, accuracy, top5;
};

/* Evaluate saved weights as `starstep eval` does with these options: {"--init", "run", ..., NULL}. The rest
 * as with ss_train. */
enum ss_status ss_eval(const char *const options[], struct ss_eval_result *result);

#ifdef __cplusplus
}
#endif

#endif
