#include "codelets/load.h"
#include "kernels/shapes.h"

#include <string.h>

/* Sample i of the slice: the image to where out points, and its label. */
static enum ss_status load_sample(const struct ss_load_args *args, int i, void *out, size_t bytes,
                                  struct ss_label *label)
{
    uint32_t sample = args->sample[i];
    int32_t own = -1;
    if (sample == UINT32_MAX)
        memset(out, 0, bytes);
    else
        SS_TRY(ss_dataset_load(args->dataset, sample, &args->how, out, &own));
    *label = ss_label_of(own);
    return SS_OK;
}

static void cpu_load(void *buffers[], void *cl_arg)
{
    (void)buffers;
    struct ss_task_data d = ss_task_unpack(cl_arg);
    const struct ss_load_args *args = cl_arg;
    const struct ss_dataset *set = args->dataset;
    char *images = ss_role(&d, SS_ROLE_X);
    struct ss_label *labels = ss_role(&d, SS_ROLE_LABELS);
    size_t bytes = (size_t)set->channels * (size_t)set->height * (size_t)set->width *
                   (args->how.bytes ? 1 : sizeof(float));
    for (int i = 0; i < args->count && ss_run_ok(d.task->run); i++)
        ss_run_fail(d.task->run,
                    load_sample(args, i, images + (size_t)i * bytes, bytes, &labels[i]));
}

static struct starpu_codelet codelet = SS_SERVICE_CODELET("load", cpu_load);

enum ss_status ss_load_submit(const struct ss_load_args *args)
{
    return ss_task_submit(&codelet, &args->head,
                          sizeof *args + (size_t)args->count * sizeof args->sample[0]);
}
