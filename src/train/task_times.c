#include "train/task_times.h"
#include "core/rng.h"
#include "kernels/kernels.h"
#include "runtime/measured.h"
#include "sim/roofline.h"

#include <string.h>

uint64_t ss_train_model_key(const struct ss_train_options *o, const struct ss_train_device *device,
                            int threads)
{
    uint64_t h = ss_mix_text(0, o->optimizer);
    if (device->gpu)
        return ss_mix64(h, (uint64_t)(o->tf32 | o->no_autotune << 1 | o->gpu_mode << 2 |
                                      o->cudnn_runtime_compilation << 3));
    if (!ss_cpu_kernels.missing)
        h = ss_mix64(h, ss_cpu_kernels.fingerprint(NULL));
    return ss_mix64(ss_mix64(h, (uint64_t)threads), (uint64_t)o->conv_algo);
}

int ss_times_are_measured(const char *from)
{
    return !strcmp(from, "host");
}

enum ss_status ss_times_check(const char *from)
{
    const struct ss_machine *machine;
    return ss_times_are_measured(from) ? SS_OK : ss_machine_find(from, &machine);
}

enum ss_status ss_times_take(const char *from, const struct ss_plan *plan, uint64_t key, int tf32,
                             double **out)
{
    const struct ss_machine *machine;
    if (ss_times_are_measured(from))
        return ss_measured_seconds(plan, key, out);
    SS_TRY(ss_machine_find(from, &machine));
    return ss_roofline_seconds(plan, machine, tf32, out);
}
