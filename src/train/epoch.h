/* What an epoch came to: gathered from all ranks, then told as a line, as an event of the JSON log
 * and as TensorBoard's scalars. */
#ifndef SS_TRAIN_EPOCH_H
#define SS_TRAIN_EPOCH_H

#include "train/journal.h"
#include "train/session.h"
#include "train/tensorboard.h"

struct ss_epoch {
    long epoch, epochs; /* from 1 */
    uint64_t step;      /* so far */
    double lr;
    double images; /* trained on in this epoch, over all ranks */
    double train_s, validation_s;
    double train_loss;             /* mean over the steps */
    struct ss_metrics train;       /* sums over its steps and all ranks */
    struct ss_metrics validation;  /* sums over all ranks; count 0: not evaluated (--eval-every) */
    struct ss_metrics ema;         /* the same of the weights' average; count 0: there is none */
    struct ss_input_totals feed[2]; /* this rank's before and after it */
    /* From all ranks, on rank 0 (ss_epoch_gather) */
    double loader_images_per_s; /* what all load workers could give if they did nothing but wait for
                                   no one: images / busy time x workers, summed over ranks */
    double wait_s; /* in which steps waited for input; of the rank that waited longest */
    double host_mb, device_mb; /* peak so far, of the rank with most; device: what the run holds */
};

/* Fill the figures of all ranks. Collective. */
enum ss_status ss_epoch_gather(struct ss_session *s, struct ss_epoch *e);

/* Images a second of training; and, as the ImageNet guide counts, of training and validation. */
double ss_epoch_train_rate(const struct ss_epoch *e);
double ss_epoch_rate(const struct ss_epoch *e);

/* Means of such sums; NAN of an epoch that was not evaluated. */
double ss_epoch_loss(const struct ss_metrics *m);
double ss_epoch_accuracy(const struct ss_metrics *m);

/* Rank 0. form: the CIFAR guides' line, or the ImageNet guide's, each with figures of our own; or, which
 * guide_lines.h prints, a guide's without: those of one GPU, of the older one, of several GPUs, of ImageNet. */
enum ss_epoch_form {
    SS_EPOCH_CIFAR,
    SS_EPOCH_IMAGENET,
    SS_EPOCH_GUIDE_GPU,
    SS_EPOCH_GUIDE_OLDER,
    SS_EPOCH_GUIDE_DDP,
    SS_EPOCH_GUIDE_IMAGENET,
};
void ss_epoch_print(const struct ss_epoch *e, enum ss_epoch_form form, FILE *out);
void ss_epoch_log(const struct ss_epoch *e, struct ss_journal *journal);
/* The tags are the ImageNet guide's; steps are epochs, from 1. Failures are kept for
 * ss_tensorboard_close. */
void ss_epoch_write_scalars(const struct ss_epoch *e, struct ss_tensorboard *t);

#endif
