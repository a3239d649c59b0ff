/* Dynamic loss scaling wholly on the device, as PyTorch's GradScaler (init_scale 65536,
 * growth_factor 2, backoff_factor 0.5, growth_interval 2000; torch.amp documentation and
 * _amp_update_scale_):
 *   found = any gradient is infinite or NaN
 *   found: the step's updates are left out, scale *= backoff, tracker = 0
 *   else:  tracker += 1; when it reaches interval:
 *          scale *= growth unless that is infinite, tracker = 0 */
#ifndef SS_KERNELS_CUDA_SCALER_H
#define SS_KERNELS_CUDA_SCALER_H

#include "kernels/cuda/gpu.h"

/* Lives in device memory. */
struct ss_scaler {
    float scale;
    int found;   /* in this step so far */
    int tracker; /* steps since the last change */
    int skipped; /* steps left out since the start */
    float growth, backoff;
    int interval, unused;
};

/* GradScaler's defaults, for the host to copy to the device. */
static inline struct ss_scaler ss_scaler_defaults(void)
{
    struct ss_scaler s = {65536, 0, 0, 0, 2, 0.5f, 2000, 0};
    return s;
}

/* scaler->found |= a non-finite value in grads (count, fp32). */
enum ss_status ss_scaler_cuda_check(struct ss_gpu *gpu, size_t count, const float *grads,
                                    struct ss_scaler *scaler);
/* End of a step, after the updates: new scale, found = 0. */
enum ss_status ss_scaler_cuda_update(struct ss_gpu *gpu, struct ss_scaler *scaler);

#endif
