#include "train/task_times.h"
#include "codelets/task.h"
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
    return !strcmp(from, "measured");
}

static int is_host(const char *from)
{
    return !strcmp(from, "host");
}

enum ss_status ss_times_check(const char *from)
{
    const struct ss_machine *machine;
    return ss_times_are_measured(from) || is_host(from) ? SS_OK : ss_machine_find(from, &machine);
}

struct measuring {
    int threads;
    struct ss_machine *out;
};

static enum ss_status measure(void *arg)
{
    const struct measuring *m = arg;
    return ss_machine_measure(m->threads, m->out);
}

enum ss_status ss_times_machine(const char *from, const struct ss_plan *plan, int threads,
                                struct ss_machine *host, const struct ss_machine **out)
{
    if (!is_host(from))
        return ss_machine_find(from, out);
    *out = host;
    *host = (struct ss_machine){.name = from};
    /* The prediction rejects a GPU's plan, so nothing is measured for it. */
    return plan->options.device ? SS_OK
                                : ss_on_compute(measure, &(struct measuring){threads, host});
}

enum ss_status ss_times_take(const char *from, const struct ss_plan *plan, uint64_t key,
                             int threads, int tf32, double **out)
{
    struct ss_machine host;
    const struct ss_machine *machine;
    if (ss_times_are_measured(from))
        return ss_measured_seconds(plan, key, out);
    SS_TRY(ss_times_machine(from, plan, threads, &host, &machine));
    return ss_roofline_seconds(plan, machine, tf32, out);
}
