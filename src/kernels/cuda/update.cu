/* update.cu: an optimizer's update of a whole bucket in one kernel. */
#include "kernels/cuda/grid.cuh"

extern "C" {
#include "kernels/update.h"
}

namespace
{

constexpr unsigned THREADS = 256;
constexpr int V = ss::format<float>::vector;

/* T: the format of the weights' copy. Gradients are divided by the loss scale, a power of two:
 * exact but for gradients near the smallest numbers. */
template <typename T, enum ss_rule RULE>
__global__ void update_kernel(struct ss_update u, struct ss_rule_terms terms)
{
    const int states = ss_rule_states(RULE);
    float scale = u.scale;
    if (u.scaler) {
        if (u.scaler->found)
            return;
        scale /= u.scaler->scale;
        if (u.scaler->skipped)
            terms = ss_rule_begin(&u, u.step - (uint64_t)u.scaler->skipped);
    }
    T *copy = static_cast<T *>(u.copy);
    for (size_t i = ss::flat_begin() * V; i < u.count; i += ss::flat_step() * V) {
        float w[V], g[V], s[SS_UPDATE_STATES][V];
        ss::load(u.w + i, w);
        ss::load(u.g + i, g);
#pragma unroll
        for (int k = 0; k < states; k++)
            ss::load(u.state[k] + i, s[k]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            float state[SS_UPDATE_STATES];
#pragma unroll
            for (int k = 0; k < states; k++)
                state[k] = s[k][j];
            w[j] = ss_rule_element(RULE, &terms, w[j], scale * g[j], state);
#pragma unroll
            for (int k = 0; k < states; k++)
                s[k][j] = state[k];
        }
        ss::store(u.w + i, w);
#pragma unroll
        for (int k = 0; k < states; k++)
            ss::store(u.state[k] + i, s[k]);
        if (copy)
            ss::store(copy + i, w);
    }
}

template <typename T, enum ss_rule RULE>
void launch(const struct ss_device *gpu, const struct ss_update &u)
{
    const unsigned grid = ss::grid_for(gpu, u.count / V, THREADS, THREADS);
    const auto kernel = update_kernel<T, RULE>;
    SS_LAUNCH(kernel, grid, THREADS, gpu->stream, u, ss_rule_begin(&u, u.step));
}

template <typename T> void dispatch(const struct ss_device *gpu, const struct ss_update &u)
{
    SS_RULE_DISPATCH(u.rule, launch<T, RULE>(gpu, u));
}

} // namespace

enum ss_status ss_cuda_update(struct ss_device *gpu, const struct ss_update *u)
{
    if (u->count % 16 != 0)
        return ss_fail(SS_ERR_SHAPE, "update: a bucket of %zu elements; a multiple of 16 is needed",
                       u->count);
    for (int k = 0; k < ss_rule_states(u->rule); k++)
        if (!u->state[k])
            return ss_fail(SS_ERR_INVALID, "update: state %d is missing", k);
    if (u->count == 0)
        return SS_OK;
    SS_DISPATCH(ss_cuda_dtype(gpu), dispatch<T>(gpu, *u));
    SS_LAUNCHED("an optimizer's update");
    return SS_OK;
}
