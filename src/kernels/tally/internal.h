/* Inside of the tally: how its kernels note launches. */
#ifndef SS_KERNELS_TALLY_INTERNAL_H
#define SS_KERNELS_TALLY_INTERNAL_H

#include "kernels/tally/tally.h"

#define KERNEL_OF(type, name, ...) type ss_tally_##name(__VA_ARGS__);
#include "kernels/list.h"

struct ss_device {
    enum ss_dtype dtype;
    int cpu;        /* ss_tally_as_cpu */
    size_t element; /* bytes of one in activations */
    struct ss_scaler *scaler; /* watch_gradients */
    int count, capacity, taken;
    struct ss_tally_launch *launch;
    enum ss_status status; /* of notes that found no memory */
};

extern const struct ss_tally_kernel ss_tally_rows[];
enum ss_tally_row {
    SS_TALLY_K_CONV_FORWARD,
    SS_TALLY_K_CONV_DATA,
    SS_TALLY_K_CONV_WEIGHTS,
    SS_TALLY_K_UNCAST,
    SS_TALLY_K_BIAS,
    SS_TALLY_K_BIAS_SHARES,
    SS_TALLY_K_BIAS_MERGE,
    SS_TALLY_K_LINEAR,
    SS_TALLY_K_CAST,
    SS_TALLY_K_STATS,
    SS_TALLY_K_MERGE_STATS,
    SS_TALLY_K_FORWARD,
    SS_TALLY_K_GRADIENT_SUMS,
    SS_TALLY_K_GRADIENT_SUMS_ONE, /* one vector a tensor */
    SS_TALLY_K_MERGE_GRADIENT,
    SS_TALLY_K_GRADIENT,
    SS_TALLY_K_GRADIENT_ONE,
    SS_TALLY_K_SHORTCUT_FORWARD,
    SS_TALLY_K_SHORTCUT_SUMS,
    SS_TALLY_K_SHORTCUT_GRADIENT,
    SS_TALLY_K_POOL_FORWARD,
    SS_TALLY_K_POOL_SUMS,
    SS_TALLY_K_POOL_GRADIENT,
    SS_TALLY_K_GROUP_STATS,
    SS_TALLY_K_GROUP_FORWARD,
    SS_TALLY_K_GROUP_SUMS,
    SS_TALLY_K_GROUP_GRADIENT,
    SS_TALLY_K_LAYER_FORWARD,
    SS_TALLY_K_LAYER_SUMS,
    SS_TALLY_K_LAYER_MERGE,
    SS_TALLY_K_LAYER_GRADIENT,
    SS_TALLY_K_TOKENS,
    SS_TALLY_K_ATTENTION,
    SS_TALLY_K_SOFTMAX,
    SS_TALLY_K_POOL,
    SS_TALLY_K_SUM,
    SS_TALLY_K_ACCUMULATE,
    SS_TALLY_K_GATHER,
    SS_TALLY_K_PRODUCT,
    SS_TALLY_K_PRODUCT_GRADIENTS,
    SS_TALLY_K_PRODUCT_MERGE,
    SS_TALLY_K_COPY,
    SS_TALLY_K_CONVERT,
    SS_TALLY_K_NUMBERS,
    SS_TALLY_K_LOSS,
    SS_TALLY_K_LOSS_SUMS,
    SS_TALLY_K_UPDATE,
    SS_TALLY_K_NORMS,
    SS_TALLY_K_RATIOS,
    SS_TALLY_K_SQUARES,
    SS_TALLY_K_ADD_SQUARES,
    SS_TALLY_K_CHECK,
    SS_TALLY_K_SCALE,
    SS_TALLY_ROWS
};

/* A launch of few operations: accesses without data or bytes are left out. */
void ss_tally_note(struct ss_device *d, enum ss_tally_row row, int n,
                   const struct ss_tally_access *access);
#define SS_TALLY_NOTE(d, row, ...)                                                                 \
    ss_tally_note(                                                                                 \
        d, row,                                                                                    \
        (int)(sizeof(struct ss_tally_access[]){__VA_ARGS__} / sizeof(struct ss_tally_access)),     \
        (const struct ss_tally_access[]){__VA_ARGS__})
#define SS_TALLY_R(data, bytes)                                                                    \
    {                                                                                              \
        data, bytes, SS_TALLY_READ                                                                 \
    }
#define SS_TALLY_W(data, bytes)                                                                    \
    {                                                                                              \
        data, bytes, SS_TALLY_WRITE                                                                \
    }
#define SS_TALLY_RW(data, bytes)                                                                   \
    {                                                                                              \
        data, bytes, SS_TALLY_READ | SS_TALLY_WRITE                                                \
    }
/* The last one computes: launch.flop, launch.tiled and launch.pairs. */
void ss_tally_flop(struct ss_device *d, double flop, double tiled, int pairs);
/* The last one was a product (rows, k) x (k, cols) of the formula's `flop`. pairs: on a CPU, launch.pairs. */
void ss_tally_product(struct ss_device *d, double flop, double rows, double cols, double k,
                      int pairs);

/* Kernels that others are made of. */
void ss_tally_bias_forward(struct ss_device *d, const struct ss_act *y, void *data,
                           const float *bias);
void ss_tally_bias_backward(struct ss_device *d, const struct ss_act *y, const void *dy,
                            float *dbias);
static inline size_t ss_tally_bytes(const struct ss_device *d, const struct ss_act *a)
{
    return ss_act_elements(a) * d->element;
}

#endif
