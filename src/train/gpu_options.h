/* Compute options of a run's GPU. */
#ifndef SS_TRAIN_GPU_OPTIONS_H
#define SS_TRAIN_GPU_OPTIONS_H

#include "kernels/kernels.h"
#include "train/options.h"

struct ss_gpu_cache_path {
    char text[4096];
};

/* Returns the options of GPU `device` (CUDA's index). The cache file is --gpu-cache, or else
 * $XDG_CACHE_HOME/starstep/convolutions ($HOME/.cache without that variable). The default's
 * folder is created and its name is stored in `path`, which must live as long as the device. The
 * cache file is NULL (no cache) if neither variable is set or the folder cannot be created. */
struct ss_device_options ss_train_gpu_options(const struct ss_train_options *o, int device,
                                              enum ss_dtype dtype, struct ss_gpu_cache_path *path);

#endif
