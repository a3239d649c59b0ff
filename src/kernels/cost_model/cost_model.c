/* cost_model.c: the device and its recorded launches (contract in cost_model.h). */
#include "kernels/cost_model/internal.h"
#include "core/log.h"

#include <math.h>
#include <stdlib.h>

/* One row per kernel. blocks: per multiprocessor, limited by the registers that nvcc uses for
 * sm_90 (fp16, whole vectors). vectors: 16-byte vectors of one tensor that a thread has in
 * flight. Kernels with zeros have more threads and loads in flight than the memory needs. */
const struct ss_cost_kernel ss_cost_rows[SS_COST_ROWS] = {
    [SS_COST_K_CONV_FORWARD] = {"convolution", SS_COST_CONV_FORWARD, SS_COST_MATRIX, 0, 0, 0},
    [SS_COST_K_CONV_DATA] = {"convolution dgrad", SS_COST_CONV_DATA, SS_COST_MATRIX, 0, 0, 0},
    [SS_COST_K_CONV_WEIGHTS] = {"convolution wgrad", SS_COST_CONV_WEIGHTS, SS_COST_WGRAD, 0, 0, 0},
    [SS_COST_K_UNCAST] = {"cast_kernel", SS_COST_CAST, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_BIAS] = {"bias_kernel", SS_COST_BIAS, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_BIAS_SHARES] = {"bias_shares_kernel", SS_COST_BIAS, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_BIAS_MERGE] = {"bias_merge_kernel", SS_COST_BIAS, SS_COST_CHAIN, 0, 0, 0},
    [SS_COST_K_LINEAR] = {"linear", SS_COST_LINEAR, SS_COST_MATRIX, 0, 0, 0},
    [SS_COST_K_CAST] = {"cast_kernel", SS_COST_CAST, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_STATS] = {"stats_kernel", SS_COST_STATS, SS_COST_CHAIN, 4, 256, 4},
    [SS_COST_K_MERGE_STATS] = {"stats_of_sums_kernel", SS_COST_MERGE, SS_COST_CHAIN, 0, 0, 0},
    [SS_COST_K_FORWARD] = {"forward_kernel", SS_COST_APPLY, SS_COST_STREAM, 4, 256, 2},
    [SS_COST_K_GRADIENT_SUMS] = {"gradient_sums_kernel", SS_COST_GRADIENT_SUMS, SS_COST_CHAIN, 3,
                                 256, 2},
    [SS_COST_K_GRADIENT_SUMS_ONE] = {"gradient_sums_kernel", SS_COST_GRADIENT_SUMS, SS_COST_CHAIN,
                                     4, 256, 1},
    [SS_COST_K_MERGE_GRADIENT] = {"merge_gradient_kernel", SS_COST_MERGE, SS_COST_CHAIN, 0, 0, 0},
    [SS_COST_K_GRADIENT] = {"gradient_kernel", SS_COST_GRADIENT, SS_COST_STREAM, 3, 256, 2},
    [SS_COST_K_GRADIENT_ONE] = {"gradient_kernel", SS_COST_GRADIENT, SS_COST_STREAM, 3, 256, 1},
    [SS_COST_K_SHORTCUT_FORWARD] = {"shortcut_forward_kernel", SS_COST_APPLY, SS_COST_STREAM, 3,
                                    256, 2},
    [SS_COST_K_SHORTCUT_SUMS] = {"shortcut_gradient_sums_kernel", SS_COST_GRADIENT_SUMS,
                                 SS_COST_STREAM, 3, 256, 1},
    [SS_COST_K_SHORTCUT_GRADIENT] = {"shortcut_gradient_kernel", SS_COST_GRADIENT, SS_COST_STREAM,
                                     3, 256, 1},
    [SS_COST_K_POOL_FORWARD] = {"pool_forward_kernel", SS_COST_APPLY, SS_COST_STREAM, 3, 256, 4},
    [SS_COST_K_POOL_SUMS] = {"pool_gradient_sums_kernel", SS_COST_GRADIENT_SUMS, SS_COST_CHAIN, 3,
                             256, 4},
    [SS_COST_K_POOL_GRADIENT] = {"pool_gradient_kernel", SS_COST_GRADIENT, SS_COST_STREAM, 3, 256,
                                 4},
    [SS_COST_K_GROUP_STATS] = {"stats_kernel", SS_COST_STATS, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_GROUP_FORWARD] = {"forward_kernel", SS_COST_APPLY, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_GROUP_SUMS] = {"gradient_kernel", SS_COST_GRADIENT_SUMS, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_GROUP_GRADIENT] = {"gradient_kernel", SS_COST_GRADIENT, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_LAYER_FORWARD] = {"forward_kernel", SS_COST_APPLY, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_LAYER_SUMS] = {"parameters_kernel", SS_COST_GRADIENT_SUMS, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_LAYER_MERGE] = {"merge_kernel", SS_COST_MERGE, SS_COST_CHAIN, 0, 0, 0},
    [SS_COST_K_LAYER_GRADIENT] = {"gradient_kernel", SS_COST_GRADIENT, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_TOKENS] = {"tokens", SS_COST_REST, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_ATTENTION] = {"attention's product", SS_COST_ATTENTION, SS_COST_MATRIX, 0, 0, 0},
    [SS_COST_K_SOFTMAX] = {"softmax", SS_COST_ATTENTION, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_POOL] = {"pooling", SS_COST_POOL, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_SUM] = {"sum_kernel", SS_COST_POOL, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_ACCUMULATE] = {"accumulate_kernel", SS_COST_UPDATE, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_GATHER] = {"gather_kernel", SS_COST_JOIN, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_PRODUCT] = {"product_kernel", SS_COST_JOIN, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_PRODUCT_GRADIENTS] = {"product_gradients_kernel", SS_COST_JOIN, SS_COST_STREAM, 0, 0,
                                     0},
    [SS_COST_K_PRODUCT_MERGE] = {"merge_kernel", SS_COST_JOIN, SS_COST_CHAIN, 0, 0, 0},
    [SS_COST_K_COPY] = {"copy", SS_COST_REST, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_CONVERT] = {"convert_kernel", SS_COST_REST, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_NUMBERS] = {"numbers_kernel", SS_COST_REST, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_LOSS] = {"rows_kernel", SS_COST_REST, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_LOSS_SUMS] = {"finish_kernel", SS_COST_REST, SS_COST_CHAIN, 0, 0, 0},
    [SS_COST_K_UPDATE] = {"update_kernel", SS_COST_UPDATE, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_NORMS] = {"norms_kernel", SS_COST_UPDATE, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_RATIOS] = {"ratios_kernel", SS_COST_UPDATE, SS_COST_CHAIN, 0, 0, 0},
    [SS_COST_K_SQUARES] = {"squares_kernel", SS_COST_UPDATE, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_ADD_SQUARES] = {"add_squares_kernel", SS_COST_UPDATE, SS_COST_CHAIN, 0, 0, 0},
    [SS_COST_K_CHECK] = {"check_kernel", SS_COST_CHECK, SS_COST_STREAM, 0, 0, 0},
    [SS_COST_K_SCALE] = {"loss scale", SS_COST_UPDATE, SS_COST_CHAIN, 0, 0, 0},
};

const char *ss_cost_line_name(enum ss_cost_line line)
{
    static const char *const names[SS_COST_LINES] = {
        [SS_COST_CONV_FORWARD] = "convolution forward",
        [SS_COST_CONV_DATA] = "convolution dgrad",
        [SS_COST_CONV_WEIGHTS] = "convolution wgrad",
        [SS_COST_STATS] = "normalisation statistics",
        [SS_COST_APPLY] = "normalisation apply",
        [SS_COST_GRADIENT_SUMS] = "normalisation backward sums",
        [SS_COST_GRADIENT] = "normalisation gradient",
        [SS_COST_MERGE] = "merges of sums",
        [SS_COST_POOL] = "pooling",
        [SS_COST_BIAS] = "biases",
        [SS_COST_UPDATE] = "update",
        [SS_COST_CHECK] = "check for infinities",
        [SS_COST_CAST] = "casts",
        [SS_COST_JOIN] = "channels and products",
        [SS_COST_LINEAR] = "linear",
        [SS_COST_ATTENTION] = "attention",
        [SS_COST_REST] = "rest",
    };
    return names[line];
}

enum ss_status ss_cost_open(const struct ss_device_options *options, struct ss_device **out)
{
    struct ss_device *d = calloc(1, sizeof *d);
    if (!d)
        return ss_fail_memory("predictions", sizeof *d);
    d->dtype = options->dtype;
    d->element = ss_dtype_bytes(options->dtype);
    *out = d;
    return SS_OK;
}

void ss_cost_as_cpu(struct ss_device *d)
{
    d->cpu = 1;
}

void ss_cost_close(struct ss_device *d)
{
    if (d)
        free(d->launch);
    free(d);
}

/* copy_async receives no device: the stream is the device's address. */
ss_stream ss_cost_stream(const struct ss_device *d)
{
    return (ss_stream)(uintptr_t)d;
}

enum ss_status ss_cost_synchronize(struct ss_device *d)
{
    return d->status;
}

void *ss_cost_scratch(const struct ss_device *d)
{
    return (void *)(uintptr_t)d; /* unique, never dereferenced */
}

void ss_cost_note(struct ss_device *d, enum ss_cost_row row, int n,
                  const struct ss_cost_access *access)
{
    if (d->taken)
        d->count = d->taken = 0;
    if (d->count == d->capacity) {
        const int capacity = 2 * d->capacity + 16;
        struct ss_cost_launch *p = realloc(d->launch, (size_t)capacity * sizeof *p);
        if (!p) {
            d->status = ss_fail_memory("predictions", (size_t)capacity * sizeof *p);
            return;
        }
        d->launch = p;
        d->capacity = capacity;
    }
    struct ss_cost_launch *l = &d->launch[d->count++];
    *l = (struct ss_cost_launch){.kernel = &ss_cost_rows[row]};
    for (int i = 0; i < n && l->naccess < SS_COST_ACCESSES; i++)
        if (access[i].data && access[i].bytes)
            l->access[l->naccess++] = access[i];
}

const struct ss_cost_launch *ss_cost_take(struct ss_device *d, int *count)
{
    *count = d->taken ? 0 : d->count;
    d->taken = 1;
    return d->launch;
}

static double up(double n, double tile)
{
    return ceil(n / tile) * tile;
}

void ss_cost_flop(struct ss_device *d, double flop, double tiled, int pairs)
{
    if (d->status != SS_OK)
        return;
    d->launch[d->count - 1].flop = flop;
    d->launch[d->count - 1].tiled = tiled;
    d->launch[d->count - 1].pairs = pairs;
}

/* Round up to tiles of 128x128 on a GPU: narrower tiles do not feed the tensor cores any better. */
void ss_cost_product(struct ss_device *d, double flop, double rows, double cols, double k,
                     int pairs)
{
    ss_cost_flop(d, flop, d->cpu ? flop : 2 * up(rows, 128) * up(cols, 128) * k, d->cpu && pairs);
}
