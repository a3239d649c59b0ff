/* Output of the guides' scripts (docs/from-pytorch.md), word for word, for programs that parse
 * it. Printed on rank 0 with --epoch-line guide-... . */
#ifndef SS_TRAIN_GUIDE_LINES_H
#define SS_TRAIN_GUIDE_LINES_H

#include "train/epoch.h"
#include "train/loop.h"

/* Returns 1 if the form has lines at the start and at the end, too. */
int ss_guide_has_lines(enum ss_epoch_form form);

/* Print the early-stop line, for any form; SS_EPOCH_CIFAR and SS_EPOCH_IMAGENET use that of the
 * newer guides. */
void ss_guide_print_stop(enum ss_epoch_form form, long epoch);
/* Print the lines at the start and the end, for a form with ss_guide_has_lines. images: total
 * over all ranks; seconds: training time without validation; accuracy: of the last epoch. */
void ss_guide_print_start(enum ss_epoch_form form, const struct ss_loop *l);
void ss_guide_print_end(enum ss_epoch_form form, const struct ss_loop *l, double accuracy,
                        double images, double seconds);

/* Print the epoch line of a guide's form. seconds: cumulative training time. */
void ss_guide_print_epoch(enum ss_epoch_form form, const struct ss_epoch *e, double seconds);

#endif
