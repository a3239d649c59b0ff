/* gpu_options.c: compute options of a run's GPU and the cache file of tuned convolutions. */
#include "train/gpu_options.h"
#include "core/folder.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns the default path, or NULL if there is none. */
static const char *default_cache(struct ss_gpu_cache_path *path)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const size_t bytes = sizeof path->text;
    int n = base && *base   ? snprintf(path->text, bytes, "%s/starstep", base)
            : home && *home ? snprintf(path->text, bytes, "%s/.cache/starstep", home)
                            : -1;
    if (n < 0 || (size_t)n + 16 > bytes || ss_folder_make(path->text) != SS_OK)
        return NULL;
    snprintf(path->text + n, bytes - (size_t)n, "/convolutions");
    return path->text;
}

struct ss_device_options ss_train_gpu_options(const struct ss_train_options *o, int device,
                                              enum ss_dtype dtype, struct ss_gpu_cache_path *path)
{
    return (struct ss_device_options){.device = device,
                                      .dtype = dtype,
                                      .tf32 = o->tf32,
                                      .nondeterministic = o->nondeterministic,
                                      .autotune = !o->no_autotune,
                                      .runtime_compilation = o->cudnn_runtime_compilation,
                                      .cache_file =
                                          o->gpu_cache ? o->gpu_cache : default_cache(path)};
}
