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

/* From the last one on, so that each finds the one before it as it was loaded. */
static enum ss_status mix_samples(const struct ss_load_args *args, char *images, size_t bytes,
                                  struct ss_label *labels)
{
    const struct ss_dataset *set = args->dataset;
    const struct ss_load_how *how = &args->how;
    struct ss_label before;
    SS_TRY(load_sample(args, args->count, args->spare, bytes, &before));
    for (int i = args->count - 1; i >= 0; i--) {
        if (args->sample[i] == UINT32_MAX)
            continue;
        const struct ss_mix mix = ss_mix_draw(&args->mix, how->seed, how->epoch, args->sample[i],
                                              set->height, set->width);
        char *image = images + (size_t)i * bytes;
        ss_mix_apply(set, &mix, how->bytes, image, i ? image - bytes : args->spare);
        labels[i].other = i ? labels[i - 1].label : before.label;
        labels[i].share = mix.share;
    }
    return SS_OK;
}

static void cpu_load(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_unpack(buffers, cl_arg);
    const struct ss_load_args *args = cl_arg;
    const struct ss_dataset *set = args->dataset;
    char *images = ss_role(&d, SS_ROLE_X);
    struct ss_label *labels = ss_role(&d, SS_ROLE_LABELS);
    size_t bytes = (size_t)set->channels * (size_t)set->height * (size_t)set->width *
                   (args->how.bytes ? 1 : sizeof(float));
    for (int i = 0; i < args->count && ss_run_ok(d.task->run); i++)
        ss_run_fail(d.task->run,
                    load_sample(args, i, images + (size_t)i * bytes, bytes, &labels[i]));
    if (ss_mixes(&args->mix) && ss_run_ok(d.task->run))
        ss_run_fail(d.task->run, mix_samples(args, images, bytes, labels));
}

static struct ss_codelet codelet = SS_CODELET("load", STARPU_NL_REGRESSION_BASED,
                                              .cpu_funcs = {cpu_load}, .can_execute = ss_can_load);

enum ss_status ss_load_submit(const struct ss_load_args *args)
{
    return ss_task_submit(&codelet, &args->head,
                          sizeof *args + (size_t)(args->count + 1) * sizeof args->sample[0]);
}
