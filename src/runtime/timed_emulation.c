#include "runtime/timed_emulation.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

struct ss_timed_emulation {
    struct ss_hooks hooks;
    const struct ss_kernels *kernels;
    double *seconds;
};

static enum ss_status enqueue_begins(void *arg, const struct ss_step_args *args, int lane,
                                     ss_stream stream)
{
    const struct ss_timed_emulation *p = arg;
    const double seconds = p->seconds[args->task->index];
    (void)lane;
    return seconds > 0 ? p->kernels->spend(stream, seconds) : SS_OK;
}

static enum ss_status enqueue_ends(void *arg, const struct ss_step_args *args, ss_stream stream)
{
    (void)arg;
    (void)args;
    (void)stream;
    return SS_OK;
}

enum ss_status ss_timed_emulation_open(const struct ss_kernels *kernels, const double *seconds,
                                       size_t tasks, struct ss_timed_emulation **out)
{
    struct ss_timed_emulation *p = calloc(1, sizeof *p);
    double *copy = calloc(tasks, sizeof *copy);
    if (!p || !copy) {
        free(p);
        free(copy);
        return ss_fail_memory("times of tasks", tasks * sizeof *copy);
    }
    memcpy(copy, seconds, tasks * sizeof *copy);
    *p = (struct ss_timed_emulation){.hooks = {.arg = p,
                                               .first = 1,
                                               .last = UINT64_MAX,
                                               .enqueued = SS_HOOKS_ALL,
                                               .replayed = 1,
                                               .enqueue_begins = enqueue_begins,
                                               .enqueue_ends = enqueue_ends},
                                     .kernels = kernels,
                                     .seconds = copy};
    *out = p;
    return kernels->emulate_time(); /* all-reduces of the start-up checks still compute */
}

struct ss_hooks *ss_timed_emulation_hooks(struct ss_timed_emulation *p)
{
    return &p->hooks;
}

void ss_timed_emulation_close(struct ss_timed_emulation *p)
{
    if (!p)
        return;
    free(p->seconds);
    free(p);
}
