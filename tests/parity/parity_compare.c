/* Compares a run with a recorded reference, or two checkpoints with each other.
 *
 *   parity_compare REFERENCE.json REFERENCE.safetensors LOG.json CHECKPOINT.safetensors
 *       the loss of each step within the relative error LOSS_BOUND, each tensor within the relative
 *       norm ||a-b||/||b|| TENSOR_BOUND, integers equal, the same names and shapes; validation loss
 *       and accuracy if the last epoch of the log has them
 *   parity_compare --losses REFERENCE.json LOG.json STEPS
 *       only the losses of the first STEPS
 *   parity_compare --close A.safetensors B.safetensors
 *       every tensor as above, with B as the reference
 *   parity_compare --bit-equal A.safetensors B.safetensors
 *       the same names, types and shapes, and all tensors bit-identical
 *
 * Prints the worst figures. Exit code: 0 within bounds, 1 not, 2 a file could not be read. */
#include "run_log.h"
#include "train/safetensors.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOSS_BOUND = 1e-4;
static const double TENSOR_BOUND = 1e-3;
/* Evaluation follows all updates, so it includes the differences of the tensors. */
static const double EVAL_BOUND = 1e-3;

static int compare_losses(const json_t *expected, const struct run_log *log)
{
    struct worst worst = {0};
    for (size_t i = 0; i < log->steps; i++) {
        double want = json_number_value(json_array_get(expected, i));
        char what[32];
        snprintf(what, sizeof what, "step %zu", i + 1);
        worst_update(&worst, fabs(log->loss[i] - want) / fabs(want), what);
    }
    return worst_verdict("loss", &worst, LOSS_BOUND) | (log->stray_steps > 0);
}

static int compare_eval(const json_t *expected, const struct run_log *log)
{
    if (!log->has_eval) {
        printf("  validation         not in the log, not compared\n");
        return 0;
    }
    double samples = json_number_value(json_object_get(expected, "samples"));
    double want = json_number_value(json_object_get(expected, "loss"));
    double correct = json_number_value(json_object_get(expected, "correct"));
    struct worst loss = {.value = fabs(log->val_loss - want) / fabs(want)};
    /* Rounding may decide a near tie: one sample may differ. */
    struct worst accuracy = {.value = fabs(log->val_accuracy * samples - correct)};
    int bad = worst_verdict("validation loss", &loss, EVAL_BOUND);
    return worst_verdict("validation correct", &accuracy, 1.001) | bad;
}

static int same_kind(const struct ss_st_tensor *a, const struct ss_st_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && a->bytes == b->bytes &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

/* ||a-b|| / ||b|| of two fp32 tensors of the same shape; the data may be unaligned. */
static double relative_norm(const struct ss_st_tensor *a, const struct ss_st_tensor *b)
{
    double difference = 0, norm = 0;
    for (size_t at = 0; at < b->bytes; at += sizeof(float)) {
        float x, y;
        memcpy(&x, (const char *)a->data + at, sizeof x);
        memcpy(&y, (const char *)b->data + at, sizeof y);
        difference += ((double)x - y) * ((double)x - y);
        norm += (double)y * y;
    }
    return difference == 0 ? 0 : sqrt(difference / norm);
}

/* Calls compare(a, b) for each pair of tensors of the same name, type and shape. Prints names that
 * only one file has, and different types or shapes, and counts them as differences. Returns 0 if
 * all are equal, else 1. */
static int for_each_pair(const struct ss_safetensors *fa, const struct ss_safetensors *fb,
                         int (*compare)(const struct ss_st_tensor *, const struct ss_st_tensor *,
                                        void *),
                         void *arg)
{
    int bad = 0;
    for (size_t i = 0; i < ss_safetensors_count(fb); i++) {
        const struct ss_st_tensor *b = ss_safetensors_get(fb, i);
        const struct ss_st_tensor *a = ss_safetensors_find(fa, b->name);
        if (!a || !same_kind(a, b)) {
            printf("  %s: %s\n", b->name, a ? "different type or shape" : "missing");
            bad = 1;
        } else {
            bad |= compare(a, b, arg);
        }
    }
    for (size_t i = 0; i < ss_safetensors_count(fa); i++) {
        const char *name = ss_safetensors_get(fa, i)->name;
        if (!ss_safetensors_find(fb, name)) {
            printf("  %s: not in the reference\n", name);
            bad = 1;
        }
    }
    return bad;
}

static int compare_close(const struct ss_st_tensor *a, const struct ss_st_tensor *b, void *arg)
{
    if (b->dtype == SS_ST_F32) {
        worst_update(arg, relative_norm(a, b), b->name);
        return 0;
    }
    int equal = memcmp(a->data, b->data, b->bytes) == 0;
    if (!equal)
        printf("  %s: differs\n", b->name);
    return !equal;
}

static int compare_bits(const struct ss_st_tensor *a, const struct ss_st_tensor *b, void *arg)
{
    (void)arg;
    const unsigned char *x = a->data, *y = b->data;
    for (size_t i = 0; i < b->bytes; i++) {
        if (x[i] != y[i]) {
            printf("  %s: first differs in byte %zu of %zu (relative norm %.2e)\n", b->name, i,
                   b->bytes, b->dtype == SS_ST_F32 ? relative_norm(a, b) : NAN);
            return 1;
        }
    }
    return 0;
}

static int compare_files(const char *path_a, const char *path_b, int bits)
{
    struct ss_safetensors *a = NULL, *b = NULL;
    int rc = 2;
    if (ss_safetensors_open(path_a, &a) != SS_OK || ss_safetensors_open(path_b, &b) != SS_OK)
        goto out;
    struct worst worst = {0};
    rc = for_each_pair(a, b, bits ? compare_bits : compare_close, &worst);
    if (bits)
        printf("  %zu tensors %s\n", ss_safetensors_count(b), rc ? "DIFFER" : "bit-equal");
    else
        rc |= worst_verdict("tensors", &worst, TENSOR_BOUND);
out:
    ss_safetensors_close(a);
    ss_safetensors_close(b);
    return rc;
}

/* Compares the losses and the evaluation of a run's log; if steps is not 0, only the losses of the
 * first steps. */
static int compare_log(const char *reference, const char *log_path, size_t steps)
{
    json_error_t error;
    json_t *expected = json_load_file(reference, 0, &error);
    const json_t *losses = json_object_get(expected, "losses");
    struct run_log log = {0};
    int rc = 2;
    if (json_array_size(losses) < (steps ? steps : 1)) {
        fprintf(stderr, "%s: %zu losses: %s\n", reference, json_array_size(losses),
                expected ? "wrong file?" : error.text);
        goto out;
    }
    rc = run_log_read(log_path, steps ? steps : json_array_size(losses), &log);
    if (rc == 0)
        rc = compare_losses(losses, &log);
    if (rc != 2 && !steps)
        rc |= compare_eval(json_object_get(expected, "eval"), &log);
out:
    free(log.loss);
    json_decref(expected);
    return rc;
}

static int compare_run(const char *reference, const char *tensors, const char *log,
                       const char *checkpoint)
{
    int rc = compare_log(reference, log, 0),
        files = rc == 2 ? 2 : compare_files(checkpoint, tensors, 0);
    return files == 2 ? 2 : rc | files;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--bit-equal") == 0)
        return compare_files(argv[2], argv[3], 1);
    if (argc == 4 && strcmp(argv[1], "--close") == 0)
        return compare_files(argv[2], argv[3], 0);
    if (argc == 5 && strcmp(argv[1], "--losses") == 0 && atoi(argv[4]) > 0)
        return compare_log(argv[2], argv[3], (size_t)atoi(argv[4]));
    if (argc == 5)
        return compare_run(argv[1], argv[2], argv[3], argv[4]);
    fprintf(stderr,
            "usage: %s REFERENCE.json REFERENCE.safetensors LOG.json CHECKPOINT.safetensors\n"
            "       %s --losses REFERENCE.json LOG.json STEPS\n"
            "       %s --close|--bit-equal A.safetensors B.safetensors\n",
            argv[0], argv[0], argv[0]);
    return 2;
}
