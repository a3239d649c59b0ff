/* tally.c: the device and its notes (contract in tally.h). */
#include "kernels/tally/internal.h"
#include "core/log.h"

#include <math.h>
#include <stdlib.h>

/* A row for each kernel. Blocks of a multiprocessor: what nvcc's registers for sm_90 leave room for
 * (fp16, whole vectors). Vectors of 16 bytes: those of one tensor that a thread has under way. Rows
 * without them have more threads and loads than the memory needs. */
const struct ss_tally_kernel ss_tally_rows[SS_TALLY_ROWS] = {
    [SS_TALLY_K_CONV_FORWARD] = {"convolution", SS_TALLY_CONV_FORWARD, SS_TALLY_MATRIX, 0, 0, 0},
    [SS_TALLY_K_CONV_DATA] = {"convolution dgrad", SS_TALLY_CONV_DATA, SS_TALLY_MATRIX, 0, 0, 0},
    [SS_TALLY_K_CONV_WEIGHTS] = {"convolution wgrad", SS_TALLY_CONV_WEIGHTS, SS_TALLY_WGRAD, 0, 0,
                                 0},
    [SS_TALLY_K_UNCAST] = {"cast_kernel", SS_TALLY_CAST, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_BIAS] = {"bias_kernel", SS_TALLY_BIAS, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_BIAS_SHARES] = {"bias_shares_kernel", SS_TALLY_BIAS, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_BIAS_MERGE] = {"bias_merge_kernel", SS_TALLY_BIAS, SS_TALLY_CHAIN, 0, 0, 0},
    [SS_TALLY_K_LINEAR] = {"linear", SS_TALLY_LINEAR, SS_TALLY_MATRIX, 0, 0, 0},
    [SS_TALLY_K_CAST] = {"cast_kernel", SS_TALLY_CAST, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_STATS] = {"stats_kernel", SS_TALLY_STATS, SS_TALLY_CHAIN, 4, 256, 4},
    [SS_TALLY_K_MERGE_STATS] = {"stats_of_sums_kernel", SS_TALLY_MERGE, SS_TALLY_CHAIN, 0, 0, 0},
    [SS_TALLY_K_FORWARD] = {"forward_kernel", SS_TALLY_APPLY, SS_TALLY_STREAM, 4, 256, 2},
    [SS_TALLY_K_GRADIENT_SUMS] = {"gradient_sums_kernel", SS_TALLY_GRADIENT_SUMS, SS_TALLY_CHAIN, 3,
                                  256, 2},
    [SS_TALLY_K_GRADIENT_SUMS_ONE] = {"gradient_sums_kernel", SS_TALLY_GRADIENT_SUMS,
                                      SS_TALLY_CHAIN, 4, 256, 1},
    [SS_TALLY_K_MERGE_GRADIENT] = {"merge_gradient_kernel", SS_TALLY_MERGE, SS_TALLY_CHAIN, 0, 0,
                                   0},
    [SS_TALLY_K_GRADIENT] = {"gradient_kernel", SS_TALLY_GRADIENT, SS_TALLY_STREAM, 3, 256, 2},
    [SS_TALLY_K_GRADIENT_ONE] = {"gradient_kernel", SS_TALLY_GRADIENT, SS_TALLY_STREAM, 3, 256, 1},
    [SS_TALLY_K_SHORTCUT_FORWARD] = {"shortcut_forward_kernel", SS_TALLY_APPLY, SS_TALLY_STREAM, 3,
                                     256, 2},
    [SS_TALLY_K_SHORTCUT_SUMS] = {"shortcut_gradient_sums_kernel", SS_TALLY_GRADIENT_SUMS,
                                  SS_TALLY_STREAM, 3, 256, 1},
    [SS_TALLY_K_SHORTCUT_GRADIENT] = {"shortcut_gradient_kernel", SS_TALLY_GRADIENT,
                                      SS_TALLY_STREAM, 3, 256, 1},
    [SS_TALLY_K_POOL_FORWARD] = {"pool_forward_kernel", SS_TALLY_APPLY, SS_TALLY_STREAM, 3, 256, 4},
    [SS_TALLY_K_POOL_SUMS] = {"pool_gradient_sums_kernel", SS_TALLY_GRADIENT_SUMS, SS_TALLY_CHAIN,
                              3, 256, 4},
    [SS_TALLY_K_POOL_GRADIENT] = {"pool_gradient_kernel", SS_TALLY_GRADIENT, SS_TALLY_STREAM, 3,
                                  256, 4},
    [SS_TALLY_K_GROUP_STATS] = {"stats_kernel", SS_TALLY_STATS, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_GROUP_FORWARD] = {"forward_kernel", SS_TALLY_APPLY, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_GROUP_SUMS] = {"gradient_kernel", SS_TALLY_GRADIENT_SUMS, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_GROUP_GRADIENT] = {"gradient_kernel", SS_TALLY_GRADIENT, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_LAYER_FORWARD] = {"forward_kernel", SS_TALLY_APPLY, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_LAYER_SUMS] = {"parameters_kernel", SS_TALLY_GRADIENT_SUMS, SS_TALLY_STREAM, 0, 0,
                               0},
    [SS_TALLY_K_LAYER_MERGE] = {"merge_kernel", SS_TALLY_MERGE, SS_TALLY_CHAIN, 0, 0, 0},
    [SS_TALLY_K_LAYER_GRADIENT] = {"gradient_kernel", SS_TALLY_GRADIENT, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_TOKENS] = {"tokens", SS_TALLY_REST, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_ATTENTION] = {"attention's product", SS_TALLY_ATTENTION, SS_TALLY_MATRIX, 0, 0, 0},
    [SS_TALLY_K_SOFTMAX] = {"softmax", SS_TALLY_ATTENTION, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_POOL] = {"pooling", SS_TALLY_POOL, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_SUM] = {"sum_kernel", SS_TALLY_POOL, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_ACCUMULATE] = {"accumulate_kernel", SS_TALLY_UPDATE, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_GATHER] = {"gather_kernel", SS_TALLY_JOIN, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_PRODUCT] = {"product_kernel", SS_TALLY_JOIN, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_PRODUCT_GRADIENTS] = {"product_gradients_kernel", SS_TALLY_JOIN, SS_TALLY_STREAM, 0,
                                      0, 0},
    [SS_TALLY_K_PRODUCT_MERGE] = {"merge_kernel", SS_TALLY_JOIN, SS_TALLY_CHAIN, 0, 0, 0},
    [SS_TALLY_K_COPY] = {"copy", SS_TALLY_REST, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_CONVERT] = {"convert_kernel", SS_TALLY_REST, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_NUMBERS] = {"numbers_kernel", SS_TALLY_REST, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_LOSS] = {"rows_kernel", SS_TALLY_REST, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_LOSS_SUMS] = {"finish_kernel", SS_TALLY_REST, SS_TALLY_CHAIN, 0, 0, 0},
    [SS_TALLY_K_UPDATE] = {"update_kernel", SS_TALLY_UPDATE, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_NORMS] = {"norms_kernel", SS_TALLY_UPDATE, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_RATIOS] = {"ratios_kernel", SS_TALLY_UPDATE, SS_TALLY_CHAIN, 0, 0, 0},
    [SS_TALLY_K_SQUARES] = {"squares_kernel", SS_TALLY_UPDATE, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_ADD_SQUARES] = {"add_squares_kernel", SS_TALLY_UPDATE, SS_TALLY_CHAIN, 0, 0, 0},
    [SS_TALLY_K_CHECK] = {"check_kernel", SS_TALLY_CHECK, SS_TALLY_STREAM, 0, 0, 0},
    [SS_TALLY_K_SCALE] = {"loss scale", SS_TALLY_UPDATE, SS_TALLY_CHAIN, 0, 0, 0},
};

const char *ss_tally_line_name(enum ss_tally_line line)
{
    static const char *const names[SS_TALLY_LINES] = {
        [SS_TALLY_CONV_FORWARD] = "convolution forward",
        [SS_TALLY_CONV_DATA] = "convolution dgrad",
        [SS_TALLY_CONV_WEIGHTS] = "convolution wgrad",
        [SS_TALLY_STATS] = "normalisation statistics",
        [SS_TALLY_APPLY] = "normalisation apply",
        [SS_TALLY_GRADIENT_SUMS] = "normalisation backward sums",
        [SS_TALLY_GRADIENT] = "normalisation gradient",
        [SS_TALLY_MERGE] = "merges of sums",
        [SS_TALLY_POOL] = "pooling",
        [SS_TALLY_BIAS] = "biases",
        [SS_TALLY_UPDATE] = "update",
        [SS_TALLY_CHECK] = "check for infinities",
        [SS_TALLY_CAST] = "casts",
        [SS_TALLY_JOIN] = "channels and products",
        [SS_TALLY_LINEAR] = "linear",
        [SS_TALLY_ATTENTION] = "attention",
        [SS_TALLY_REST] = "rest",
    };
    return names[line];
}

enum ss_status ss_tally_open(const struct ss_device_options *options, struct ss_device **out)
{
    struct ss_device *d = calloc(1, sizeof *d);
    if (!d)
        return ss_fail_memory("predictions", sizeof *d);
    d->dtype = options->dtype;
    d->element = ss_dtype_bytes(options->dtype);
    *out = d;
    return SS_OK;
}

void ss_tally_as_cpu(struct ss_device *d)
{
    d->cpu = 1;
}

void ss_tally_close(struct ss_device *d)
{
    if (d)
        free(d->launch);
    free(d);
}

/* copy_async knows no device but by its stream. */
ss_stream ss_tally_stream(const struct ss_device *d)
{
    return (ss_stream)(uintptr_t)d;
}

enum ss_status ss_tally_synchronize(struct ss_device *d)
{
    return d->status;
}

void *ss_tally_scratch(const struct ss_device *d)
{
    return (void *)(uintptr_t)d; /* an address of ours is nobody else's */
}

void ss_tally_note(struct ss_device *d, enum ss_tally_row row, int n,
                   const struct ss_tally_access *access)
{
    if (d->taken)
        d->count = d->taken = 0;
    if (d->count == d->capacity) {
        const int capacity = 2 * d->capacity + 16;
        struct ss_tally_launch *p = realloc(d->launch, (size_t)capacity * sizeof *p);
        if (!p) {
            d->status = ss_fail_memory("predictions", (size_t)capacity * sizeof *p);
            return;
        }
        d->launch = p;
        d->capacity = capacity;
    }
    struct ss_tally_launch *l = &d->launch[d->count++];
    *l = (struct ss_tally_launch){.kernel = &ss_tally_rows[row]};
    for (int i = 0; i < n && l->naccess < SS_TALLY_ACCESSES; i++)
        if (access[i].data && access[i].bytes)
            l->access[l->naccess++] = access[i];
}

const struct ss_tally_launch *ss_tally_take(struct ss_device *d, int *count)
{
    *count = d->taken ? 0 : d->count;
    d->taken = 1;
    return d->launch;
}

static double up(double n, double tile)
{
    return ceil(n / tile) * tile;
}

void ss_tally_flop(struct ss_device *d, double flop, double tiled, int pairs)
{
    if (d->status != SS_OK)
        return;
    d->launch[d->count - 1].flop = flop;
    d->launch[d->count - 1].tiled = tiled;
    d->launch[d->count - 1].pairs = pairs;
}

/* Of a GPU, tiles of 128 by 128: narrower ones feed the tensor cores no better. */
void ss_tally_product(struct ss_device *d, double flop, double rows, double cols, double k,
                      int pairs)
{
    ss_tally_flop(d, flop, d->cpu ? flop : 2 * up(rows, 128) * up(cols, 128) * k, d->cpu && pairs);
}
