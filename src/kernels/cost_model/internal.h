/* Internals of the cost model: how its kernels record launches. */
#ifndef SS_KERNELS_COST_MODEL_INTERNAL_H
#define SS_KERNELS_COST_MODEL_INTERNAL_H

#include "kernels/cost_model/cost_model.h"

#define KERNEL_OF(type, name, ...) type ss_cost_##name(__VA_ARGS__);
#include "kernels/list.h"

struct ss_device {
    enum ss_dtype dtype;
    int cpu;                  /* ss_cost_as_cpu */
    size_t element;           /* bytes of an element of activations */
    struct ss_scaler *scaler; /* watch_gradients */
    int count, capacity, taken;
    struct ss_cost_launch *launch;
    enum ss_status status; /* SS_OK, or an allocation failure while recording */
};

extern const struct ss_cost_kernel ss_cost_rows[];
enum ss_cost_row {
    SS_COST_K_CONV_FORWARD,
    SS_COST_K_CONV_DATA,
    SS_COST_K_CONV_WEIGHTS,
    SS_COST_K_UNCAST,
    SS_COST_K_BIAS,
    SS_COST_K_BIAS_SHARES,
    SS_COST_K_BIAS_MERGE,
    SS_COST_K_LINEAR,
    SS_COST_K_CAST,
    SS_COST_K_STATS,
    SS_COST_K_MERGE_STATS,
    SS_COST_K_FORWARD,
    SS_COST_K_GRADIENT_SUMS,
    SS_COST_K_GRADIENT_SUMS_ONE, /* one vector per tensor */
    SS_COST_K_MERGE_GRADIENT,
    SS_COST_K_GRADIENT,
    SS_COST_K_GRADIENT_ONE,
    SS_COST_K_SHORTCUT_FORWARD,
    SS_COST_K_SHORTCUT_SUMS,
    SS_COST_K_SHORTCUT_GRADIENT,
    SS_COST_K_POOL_FORWARD,
    SS_COST_K_POOL_SUMS,
    SS_COST_K_POOL_GRADIENT,
    SS_COST_K_GROUP_STATS,
    SS_COST_K_GROUP_FORWARD,
    SS_COST_K_GROUP_SUMS,
    SS_COST_K_GROUP_GRADIENT,
    SS_COST_K_LAYER_FORWARD,
    SS_COST_K_LAYER_SUMS,
    SS_COST_K_LAYER_MERGE,
    SS_COST_K_LAYER_GRADIENT,
    SS_COST_K_TOKENS,
    SS_COST_K_ATTENTION,
    SS_COST_K_SOFTMAX,
    SS_COST_K_POOL,
    SS_COST_K_SUM,
    SS_COST_K_ACCUMULATE,
    SS_COST_K_GATHER,
    SS_COST_K_PRODUCT,
    SS_COST_K_PRODUCT_GRADIENTS,
    SS_COST_K_PRODUCT_MERGE,
    SS_COST_K_COPY,
    SS_COST_K_CONVERT,
    SS_COST_K_NUMBERS,
    SS_COST_K_LOSS,
    SS_COST_K_LOSS_SUMS,
    SS_COST_K_UPDATE,
    SS_COST_K_NORMS,
    SS_COST_K_RATIOS,
    SS_COST_K_SQUARES,
    SS_COST_K_ADD_SQUARES,
    SS_COST_K_CHECK,
    SS_COST_K_SCALE,
    SS_COST_ROWS
};

/* Record a launch with n accesses. Accesses without data or bytes are omitted. */
void ss_cost_note(struct ss_device *d, enum ss_cost_row row, int n,
                  const struct ss_cost_access *access);
#define SS_COST_NOTE(d, row, ...)                                                                  \
    ss_cost_note(                                                                                  \
        d, row,                                                                                    \
        (int)(sizeof(struct ss_cost_access[]){__VA_ARGS__} / sizeof(struct ss_cost_access)),       \
        (const struct ss_cost_access[]){__VA_ARGS__})
#define SS_COST_R(data, bytes)                                                                     \
    {                                                                                              \
        data, bytes, SS_COST_READ                                                                  \
    }
#define SS_COST_W(data, bytes)                                                                     \
    {                                                                                              \
        data, bytes, SS_COST_WRITE                                                                 \
    }
#define SS_COST_RW(data, bytes)                                                                    \
    {                                                                                              \
        data, bytes, SS_COST_READ | SS_COST_WRITE                                                  \
    }
/* Set flop, tiled and pairs of the last recorded launch. */
void ss_cost_flop(struct ss_device *d, double flop, double tiled, int pairs);
/* Set them for a matrix product (rows, k) x (k, cols) with `flop` operations by the formula.
 * pairs: launch.pairs on a CPU. */
void ss_cost_product(struct ss_device *d, double flop, double rows, double cols, double k,
                     int pairs);

/* Kernels that other kernels use. */
void ss_cost_bias_forward(struct ss_device *d, const struct ss_act *y, void *data,
                          const float *bias);
void ss_cost_bias_backward(struct ss_device *d, const struct ss_act *y, const void *dy,
                           float *dbias);
static inline size_t ss_cost_bytes(const struct ss_device *d, const struct ss_act *a)
{
    return ss_act_elements(a) * d->element;
}

#endif
