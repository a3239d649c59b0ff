/* What the guides' scripts print (docs/from-pytorch.md), word for word, for programs that read it: on rank 0, in a run
 * with --epoch-line guide-... . */
#ifndef SS_TRAIN_GUIDE_LINES_H
#define SS_TRAIN_GUIDE_LINES_H

#include "train/epoch.h"
#include "train/loop.h"

/* 1 if lines at the start, at an early stop and at the end belong to the form. */
int ss_guide_has_lines(enum ss_epoch_form form);

/* Of any form: our own line is that of the newer guides. */
void ss_guide_print_stop(enum ss_epoch_form form, long epoch);
/* Of a form that has lines. images: over all ranks; seconds: of training alone, so far; accuracy: of the last
 * epoch. */
void ss_guide_print_start(enum ss_epoch_form form, const struct ss_loop *l);
void ss_guide_print_end(enum ss_epoch_form form, const struct ss_loop *l, double accuracy,
                        double images, double seconds);

/* Of every guide's form. */
void ss_guide_print_epoch(enum ss_epoch_form form, const struct ss_epoch *e, double seconds);

#endif
