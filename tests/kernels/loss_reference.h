/* Softmax cross-entropy of one row in double precision, for CPU and GPU tests, and labels of the
 * results recorded from PyTorch (tests/reference/loss.h). */
#ifndef SS_TESTS_LOSS_REFERENCE_H
#define SS_TESTS_LOSS_REFERENCE_H

#include "kernels/shapes.h"
#include "tests/reference/loss.h"

#include <math.h>

/* Returns the number of logits that are larger than the label's, or equal and precede it. */
static inline int loss_place(int k, const double *x, int label)
{
    int before = 0;
    for (int i = 0; i < k; i++)
        before += x[i] > x[label] || (x[i] == x[label] && i < label);
    return before;
}

/* Computes the gradient (K) of the row's loss / rows, and adds the row to *m. Rows without label
 * have a gradient of 0 and are not added. */
static inline void loss_row(int k, const double *x, const struct ss_label *l, float smoothing,
                            int rows, double *gradient, struct ss_metrics *m)
{
    double top = -INFINITY, sum = 0, loss = 0;
    for (int i = 0; i < k; i++)
        top = fmax(top, x[i]);
    for (int i = 0; i < k; i++)
        sum += exp(x[i] - top);
    for (int i = 0; i < k; i++) {
        const double share = (double)l->share, e = (double)smoothing;
        const double hard = (i == l->label) * share + (i == l->other) * (1 - share);
        const double t = (1 - e) * hard + e / k;
        gradient[i] = l->label < 0 ? 0 : (exp(x[i] - top) / sum - t) / rows;
        loss -= t * (x[i] - top - log(sum));
    }
    if (l->label < 0)
        return;
    const int place = loss_place(k, x, l->share >= 0.5f ? l->label : l->other);
    m->loss += loss;
    m->correct += place == 0;
    m->top5 += place < 5;
    m->count++;
}

/* Sets the labels of n rows, some to none; mixed: two labels per row, as MixUp and CutMix do. */
static inline void loss_labels(int n, int k, int mixed, struct ss_label *labels)
{
    for (int i = 0; i < n; i++) {
        labels[i] = ss_label_of(i % 5 == 3 ? -1 : (i * 7) % k);
        if (mixed && labels[i].label >= 0) /* also with itself, and with shares 0 and 1 */
            labels[i] = (struct ss_label){labels[i].label, (i * 4) % k, (float)(i % 9) / 8};
    }
}

/* Combinations of mixed labels and label smoothing. */
enum { LOSS_KINDS = 4 };
static inline int loss_mixed(int kind)
{
    return kind / 2;
}
static inline float loss_smoothing(int kind)
{
    return kind % 2 ? 0.1f : 0;
}

static inline void loss_recorded_labels(int mixed, struct ss_label *labels)
{
    for (int n = 0; n < RECORDED_N; n++)
        labels[n] = mixed ? (struct ss_label){recorded_label[n], recorded_other[n],
                                              (float)recorded_share[n]}
                          : ss_label_of(recorded_label[n]);
}
enum { RECORDED = sizeof recorded_losses / sizeof *recorded_losses };

#endif
