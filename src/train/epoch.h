/* Results of an epoch: gathered from all ranks, then printed as a line and written to the JSON
 * log and TensorBoard. */
#ifndef SS_TRAIN_EPOCH_H
#define SS_TRAIN_EPOCH_H

#include "train/journal.h"
#include "train/session.h"
#include "train/tensorboard.h"

struct ss_epoch {
    long epoch, epochs; /* from 1 */
    uint64_t step;      /* optimizer steps so far */
    double lr;
    double images; /* trained on in this epoch, over all ranks */
    double train_s, validation_s;
    double train_loss;              /* mean over the steps */
    struct ss_metrics train;        /* sums over its steps and all ranks */
    struct ss_metrics validation;   /* sums over all ranks; count 0: not evaluated (--eval-every) */
    struct ss_metrics ema;          /* validation with the EMA; count 0: none */
    struct ss_input_totals feed[2]; /* of this rank, before and after the epoch */
    /* From all ranks, on rank 0 (ss_epoch_gather). */
    /* Throughput of the load workers without idle time: images / busy time x workers, summed over
     * ranks. */
    double loader_images_per_s;
    double wait_s;             /* time steps waited for input, maximum over ranks */
    double host_mb, device_mb; /* peak so far, maximum over ranks; device: allocated by the run */
};

/* Gather the fields that depend on all ranks. Collective. */
enum ss_status ss_epoch_gather(struct ss_session *s, struct ss_epoch *e);

/* Images per second of training, and of training plus validation as in the ImageNet guide. */
double ss_epoch_train_rate(const struct ss_epoch *e);
double ss_epoch_rate(const struct ss_epoch *e);

/* Mean loss and accuracy from summed metrics; NAN for an epoch that was not evaluated. */
double ss_epoch_loss(const struct ss_metrics *m);
double ss_epoch_accuracy(const struct ss_metrics *m);

/* Format of the epoch line. CIFAR and IMAGENET extend the guides' lines with further values. The
 * GUIDE forms are the exact lines of the guides for one GPU, the older one, several GPUs (DDP)
 * and ImageNet; guide_lines.h prints them. */
enum ss_epoch_form {
    SS_EPOCH_CIFAR,
    SS_EPOCH_IMAGENET,
    SS_EPOCH_GUIDE_GPU,
    SS_EPOCH_GUIDE_OLDER,
    SS_EPOCH_GUIDE_DDP,
    SS_EPOCH_GUIDE_IMAGENET,
};
/* Print the line of form SS_EPOCH_CIFAR or SS_EPOCH_IMAGENET. Rank 0 only. */
void ss_epoch_print(const struct ss_epoch *e, enum ss_epoch_form form, FILE *out);
void ss_epoch_log(const struct ss_epoch *e, struct ss_journal *journal);
/* Write TensorBoard scalars with the tags of the ImageNet guide; their step is the epoch, from 1.
 * ss_tensorboard_close reports failures. */
void ss_epoch_write_scalars(const struct ss_epoch *e, struct ss_tensorboard *t);

#endif
