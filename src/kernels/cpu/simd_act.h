/* The row functions of activations, included once for each type of element (simd_loops.h). */
#include "kernels/cpu/simd_move.h"
#include "kernels/cpu/simd_norm.h"
#include "kernels/cpu/simd_join.h"
#include "kernels/cpu/simd_layer.h"
#include "kernels/cpu/simd_pool.h"
#include "kernels/cpu/simd_winograd_map.h"

/* clang-format off */
const struct ss_act_rows SS_OF(ss_act_rows) = {
    SS_OF(read), SS_OF(write),
    SS_OF(stats), SS_OF(forward), SS_OF(backward_sums), SS_OF(backward_apply), SS_OF(combine),
    SS_OF(layer_forward), SS_OF(layer_backward),
    SS_OF(gather), SS_OF(product), SS_OF(product_gradients), SS_OF(scale), SS_OF(scale_gradients),
    SS_OF(winograd_input), SS_OF(winograd_gradient), SS_OF(winograd_output),
    SS_OF(winograd_weights),
    SS_OF(pool_max), SS_OF(pool_average), SS_OF(pool_average_gradient),
};
/* clang-format on */
