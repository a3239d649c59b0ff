/* How a run's GPU computes. */
#ifndef SS_TRAIN_GPU_OPTIONS_H
#define SS_TRAIN_GPU_OPTIONS_H

#include "kernels/kernels.h"
#include "train/options.h"

struct ss_gpu_cache_path {
    char text[4096];
};

/* Of `device`, CUDA's index. Its cache file is --gpu-cache, or else
 * $XDG_CACHE_HOME/starstep/convolutions (without that variable below $HOME/.cache), whose folder is
 * made and whose name is written into path: keep it as long as the device. NULL, no cache, where
 * neither variable is set or the folder cannot be made. */
struct ss_device_options ss_train_gpu_options(const struct ss_train_options *o, int device,
                                              enum ss_dtype dtype, struct ss_gpu_cache_path *path);

#endif
