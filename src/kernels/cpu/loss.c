/* loss.c: softmax cross-entropy. Rows in parallel, sums over rows in row order. */
#include "core/log.h"
#include "kernels/cpu/internal.h"

#include <math.h>

struct row {
    double loss;
    int correct;
};

static struct row one_row(int k, const float *x, int label, float *dx, float inv_n)
{
    int best = 0;
    for (int i = 1; i < k; i++)
        if (x[i] > x[best])
            best = i;
    const float top = x[best];
    double sum = 0;
    for (int i = 0; i < k; i++)
        sum += (double)expf(x[i] - top);
    const struct row row = {log(sum) - (double)(x[label] - top), best == label};
    if (dx) {
        const float inv_sum = (float)(1 / sum);
        for (int i = 0; i < k; i++)
            dx[i] = (expf(x[i] - top) * inv_sum - (float)(i == label)) * inv_n;
    }
    return row;
}

enum ss_status ss_cpu_loss_reserve(struct ss_device *cpu, int n, int k)
{
    if (n < 1 || k < 1)
        return ss_fail(SS_ERR_SHAPE, "loss: logits (%d,%d); every size must be at least 1", n, k);
    return ss_cpu_reserve(cpu, (size_t)n * sizeof(struct row));
}

enum ss_status ss_cpu_loss(struct ss_device *cpu, int n, int k, const void *input,
                           const int32_t *labels, const struct ss_scaler *scaler,
                           struct ss_metrics *metrics, int accumulate, void *gradient)
{
    const float *logits = input;
    float *dlogits = gradient;
    (void)scaler; /* none in fp32 */
    SS_TRY(ss_cpu_loss_reserve(cpu, n, k));
    for (int i = 0; i < n; i++)
        if (labels[i] < -1 || labels[i] >= k)
            return ss_fail(SS_ERR_INVALID, "loss: row %d has label %d; labels are 0 to %d, or -1",
                           i, (int)labels[i], k - 1);
    struct row *rows = ss_cpu_scratch(cpu);
    const float inv_n = 1 / (float)n;

#pragma omp parallel for schedule(static) num_threads(cpu->threads) if ((size_t)n * k > 10000)
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t)i * (size_t)k;
        float *dx = dlogits ? dlogits + at : NULL;
        if (labels[i] >= 0)
            rows[i] = one_row(k, logits + at, labels[i], dx, inv_n);
        else if (dx)
            for (int j = 0; j < k; j++)
                dx[j] = 0;
    }
    if (!accumulate)
        *metrics = (struct ss_metrics){0};
    metrics->scale = 1;
    for (int i = 0; i < n; i++) {
        if (labels[i] < 0)
            continue;
        metrics->loss += rows[i].loss;
        metrics->correct += rows[i].correct;
        metrics->count += 1;
        metrics->bad += !isfinite(rows[i].loss);
    }
    return SS_OK;
}
