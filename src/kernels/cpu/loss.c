/* loss.c: softmax cross-entropy. Rows are computed in parallel, sums over rows in row order. */
#include "core/log.h"
#include "kernels/cpu/internal.h"

#include <math.h>
#include <string.h>

struct row {
    double loss;
    int correct, top;
};

/* The target of a row: the terms of t for all classes, the label and the other label (list.h).
 * For a plain label: 0, 1 and 0, so that the sums below are exact. */
struct target {
    int label, other, right;
    double base, of_label, of_other;
};

static struct target target_of(const struct ss_label *l, int k, double smoothing)
{
    return (struct target){.label = l->label,
                           .other = l->other,
                           .right = l->share >= 0.5f ? l->label : l->other,
                           .base = smoothing / k,
                           .of_label = (1 - smoothing) * (double)l->share,
                           .of_other = (1 - smoothing) * (1 - (double)l->share)};
}

/* Return - sum of t * (x - top). Terms of weight 0 are omitted, because x may be infinite. */
static double distance(const struct target *t, int k, const float *x, float top)
{
    double sum = 0, all = 0;
    if (t->of_label > 0)
        sum += t->of_label * (double)(x[t->label] - top);
    if (t->of_other > 0)
        sum += t->of_other * (double)(x[t->other] - top);
    for (int i = 0; t->base > 0 && i < k; i++)
        all += (double)(x[i] - top);
    return t->base > 0 ? -(sum + t->base * all) : -sum;
}

/* Return the number of logits that rank above the label's. */
static int place_of(int k, const float *x, int label)
{
    const float own = x[label];
    int before = 0;
    for (int i = 0; i < k; i++)
        before += x[i] > own || (x[i] == own && i < label);
    return before;
}

static struct row one_row(int k, const float *x, const struct target *t, float *dx, float inv_n)
{
    int best = 0;
    for (int i = 1; i < k; i++)
        if (x[i] > x[best])
            best = i;
    const float top = x[best];
    double sum = 0;
    for (int i = 0; i < k; i++)
        sum += (double)expf(x[i] - top);
    const double loss = log(sum) + distance(t, k, x, top);
    const struct row row = {loss, best == t->right,
                            !isnan(loss) && place_of(k, x, t->right) < SS_TOP};
    if (dx) {
        const float inv_sum = (float)(1 / sum), base = (float)t->base;
        const float of_label = (float)t->of_label, of_other = (float)t->of_other;
        for (int i = 0; i < k; i++) {
            const float want =
                base + (float)(i == t->label) * of_label + (float)(i == t->other) * of_other;
            dx[i] = (expf(x[i] - top) * inv_sum - want) * inv_n;
        }
    }
    return row;
}

enum ss_status ss_cpu_loss_reserve(struct ss_device *cpu, int n, int k)
{
    if (n < 1 || k < 1)
        return ss_fail(SS_ERR_SHAPE, "loss: logits (%d,%d); every size must be at least 1", n, k);
    return ss_cpu_reserve(cpu, (size_t)n * (sizeof(struct row) + (size_t)k * sizeof(float)));
}

static enum ss_status check_labels(int n, int k, const struct ss_label *labels)
{
    for (int i = 0; i < n; i++) {
        const int label = labels[i].label, other = labels[i].other;
        if (label < -1 || label >= k || other < -1 || other >= k || (label >= 0 && other < 0))
            return ss_fail(SS_ERR_INVALID,
                           "loss: row %d has labels %d and %d; labels are 0 to %d, or -1", i, label,
                           other, k - 1);
    }
    return SS_OK;
}

enum ss_status ss_cpu_loss(struct ss_device *cpu, int n, int k, const void *logits,
                           const struct ss_label *labels, float smoothing,
                           const struct ss_scaler *scaler, struct ss_metrics *metrics,
                           int accumulate, void *dlogits)
{
    (void)scaler; /* no loss scaling on a CPU */
    SS_TRY(ss_cpu_loss_reserve(cpu, n, k));
    SS_TRY(check_labels(n, k, labels));
    struct row *rows = ss_cpu_scratch(cpu);
    float *floats = (float *)(rows + n); /* logits, replaced by their gradient */
    const float inv_n = 1 / (float)n;

#pragma omp parallel for schedule(static) num_threads(cpu->threads) if ((size_t)n * k > 10000)
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t)i * (size_t)k;
        const struct target t = target_of(&labels[i], k, (double)smoothing);
        float *x = floats + at;
        cpu->rows->read(ss_at(cpu, logits, at), 0, x, 0, 1, (size_t)k);
        if (t.label >= 0)
            rows[i] = one_row(k, x, &t, dlogits ? x : NULL, inv_n);
        else
            memset(x, 0, (size_t)k * sizeof *x);
        if (dlogits)
            cpu->rows->write(x, 0, ss_at(cpu, dlogits, at), 0, 1, (size_t)k);
    }
    if (!accumulate)
        *metrics = (struct ss_metrics){0};
    metrics->scale = 1;
    for (int i = 0; i < n; i++) {
        if (labels[i].label < 0)
            continue;
        metrics->loss += rows[i].loss;
        metrics->correct += rows[i].correct;
        metrics->top5 += rows[i].top;
        metrics->count += 1;
        metrics->bad += !isfinite(rows[i].loss);
    }
    return SS_OK;
}
