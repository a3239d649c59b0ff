/* Compares a run with the recording of its recipe by record_recipes.py.
 *
 *   recipe_compare INIT.safetensors RECORDED.safetensors CASE.RANKS LOG.json WEIGHTS.safetensors
 *                  [EMA.safetensors]
 *
 * INIT defines the order of the tensors. Bounds, relative to the recorded fp64 values:
 *
 *   losses, tensor samples  max(LEAST, twice the error of PyTorch's fp32); of tensors, the relative
 *                           norm ||a-b||/||b||
 *   first loss              LEAST
 *   learning rates          LR_BOUND, if they are recorded
 *   updates of tensors      UPDATE_BOUND of the recorded change of each tensor: with small learning
 *                           rates, tensors change by less than LEAST. Without its gradient a tensor
 *                           has an error of 1
 *
 * LEAST allows for Winograd transforms, which round more than a direct sum: 1.3e-5 after 10 steps
 * of a small ResNet-18.
 *
 * Exit code: 0 within bounds, 1 not, 2 a file could not be read. */
#include "run_log.h"
#include "train/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST = 2e-5, LR_BOUND = 1e-9, UPDATE_BOUND = 0.7;
enum { SAMPLE = 32 }; /* maximum number of elements, as in record_recipes.py */

/* Returns the recorded tensor NAME.PART, or NULL. */
static const struct ss_st_tensor *part_of(const struct ss_safetensors *recorded, const char *name,
                                          const char *part)
{
    char full[256];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return ss_safetensors_find(recorded, full);
}

/* Returns element i of an fp32 or fp64 tensor; the data may be unaligned. */
static double element(const struct ss_st_tensor *t, size_t i)
{
    double d;
    float f;
    if (t->dtype == SS_ST_F64) {
        memcpy(&d, (const char *)t->data + i * sizeof d, sizeof d);
        return d;
    }
    memcpy(&f, (const char *)t->data + i * sizeof f, sizeof f);
    return (double)f;
}

static size_t elements(const struct ss_st_tensor *t)
{
    return t->bytes / ss_st_dtype_bytes(t->dtype);
}

static int compare_steps(const char *what, size_t n, const double *got,
                         const struct ss_st_tensor *want, double bound)
{
    struct worst worst = {0};
    for (size_t i = 0; i < n; i++) {
        double truth = element(want, i), error = fabs(got[i] - truth);
        char step[32];
        snprintf(step, sizeof step, "step %zu", i + 1);
        worst_update(&worst, error == 0 ? 0 : error / fabs(truth), step);
    }
    return worst_verdict(what, &worst, bound);
}

/* Returns the relative norm of the difference between a tensor's sample and the recorded one, which
 * begins at element *at; advances *at past it. *of_change: the difference relative to the recorded
 * change since the initial value. */
static double relative_norm(const struct ss_st_tensor *t, const struct ss_st_tensor *init,
                            const struct ss_st_tensor *want, size_t *at, double *of_change)
{
    size_t n = elements(t), stride = ((n + SAMPLE - 1) / SAMPLE) | 1;
    double difference = 0, norm = 0, change = 0;
    for (size_t i = 0; i < n; i += stride, ++*at) {
        double truth = *at < elements(want) ? element(want, *at) : NAN;
        difference += (element(t, i) - truth) * (element(t, i) - truth);
        norm += truth * truth;
        change += (element(init, i) - truth) * (element(init, i) - truth);
    }
    *of_change = difference == 0 ? 0 : sqrt(difference / change);
    return difference == 0 ? 0 : sqrt(difference / norm);
}

static int compare_weights(const char *what, const struct ss_safetensors *order, const char *path,
                           const struct ss_st_tensor *want, double bound)
{
    struct ss_safetensors *got = NULL;
    struct worst worst = {0}, updates = {0};
    size_t at = 0;
    if (ss_safetensors_open(path, &got) != SS_OK)
        return 2;
    for (size_t i = 0; i < ss_safetensors_count(order); i++) {
        const struct ss_st_tensor *o = ss_safetensors_get(order, i);
        const struct ss_st_tensor *t = ss_safetensors_find(got, o->name);
        if (o->dtype != SS_ST_F32)
            continue;
        double of_change = NAN;
        worst_update(&worst,
                     t && t->bytes == o->bytes ? relative_norm(t, o, want, &at, &of_change) : NAN,
                     o->name);
        worst_update(&updates, of_change, o->name);
    }
    ss_safetensors_close(got);
    if (at != elements(want))
        worst_update(&worst, NAN, "number of elements");
    return worst_verdict(what, &worst, bound) | worst_verdict("updates", &updates, UPDATE_BOUND);
}

static double bound_of(const struct ss_st_tensor *fp32, size_t i)
{
    return fmax(LEAST, 2 * element(fp32, i));
}

static int compare(const struct ss_safetensors *order, const struct ss_safetensors *recorded,
                   const char *name, const char *log_path, const char *weights, const char *ema)
{
    const struct ss_st_tensor *losses = part_of(recorded, name, "losses"),
                              *tensors = part_of(recorded, name, "weights"),
                              *averages = part_of(recorded, name, "ema"),
                              *fp32 = part_of(recorded, name, "fp32"), *lrs;
    char recipe[64];
    snprintf(recipe, sizeof recipe, "%.*s", (int)strcspn(name, "."), name);
    lrs = part_of(recorded, recipe, "lr");
    if (!losses || !tensors || !fp32 || !averages != !ema) {
        fprintf(stderr, "%s: not recorded, or without EMA weights\n", name);
        return 2;
    }
    struct run_log log;
    int rc = run_log_read(log_path, elements(losses), &log);
    if (rc == 0) {
        rc = compare_steps("first loss", 1, log.loss, losses, LEAST) | (log.stray_steps > 0);
        rc |= compare_steps("loss", elements(losses), log.loss, losses, bound_of(fp32, 0));
        if (lrs)
            rc |= compare_steps("learning rate", elements(lrs), log.lr, lrs, LR_BOUND);
        rc |= compare_weights("tensors", order, weights, tensors, bound_of(fp32, 1));
        if (ema)
            rc |= compare_weights("EMA", order, ema, averages, bound_of(fp32, 1));
    }
    free(log.loss);
    return rc;
}

int main(int argc, char **argv)
{
    struct ss_safetensors *order = NULL, *recorded = NULL;
    int rc = 2;
    if (argc != 6 && argc != 7)
        fprintf(stderr,
                "usage: %s INIT.safetensors RECORDED.safetensors CASE.RANKS LOG.json "
                "WEIGHTS.safetensors [EMA.safetensors]\n",
                argv[0]);
    else if (ss_safetensors_open(argv[1], &order) == SS_OK &&
             ss_safetensors_open(argv[2], &recorded) == SS_OK)
        rc = compare(order, recorded, argv[3], argv[4], argv[5], argv[6]);
    ss_safetensors_close(order);
    ss_safetensors_close(recorded);
    return rc;
}
