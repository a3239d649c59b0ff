#include "codelets/load.h"
#include "data/augment.h"

#include <string.h>

/* Sample i of the slice: the image to where out points, the label's value returned. */
static int32_t load_sample(const struct ss_load_args *args, int i, void *out, size_t bytes)
{
    const struct ss_dataset *set = args->dataset;
    uint32_t sample = args->sample[i];
    if (sample == UINT32_MAX) {
        memset(out, 0, bytes);
        return -1;
    }
    struct ss_crop_flip how = {SS_CROP_PADDING, SS_CROP_PADDING, 0};
    if (args->augment)
        how = ss_augment_draw(args->seed, args->epoch, sample, SS_CROP_PADDING);
    const uint8_t *image = ss_dataset_image(set, sample);
    if (args->bytes)
        ss_augment_apply_bytes(set, image, how, SS_CROP_PADDING, out);
    else
        ss_augment_apply(set, image, how, SS_CROP_PADDING, out);
    return ss_dataset_label(set, sample);
}

static void cpu_load(void *buffers[], void *cl_arg)
{
    (void)buffers;
    struct ss_task_data d = ss_task_data(cl_arg);
    const struct ss_load_args *args = cl_arg;
    const struct ss_dataset *set = args->dataset;
    char *images = ss_role(&d, SS_ROLE_X);
    int32_t *labels = ss_role(&d, SS_ROLE_LABELS);
    size_t bytes = (size_t)set->channels * (size_t)set->height * (size_t)set->width *
                   (args->bytes ? 1 : sizeof(float));
    if (!ss_run_ok(d.task->run))
        return;
    for (int i = 0; i < args->count; i++)
        labels[i] = load_sample(args, i, images + (size_t)i * bytes, bytes);
}

static struct starpu_codelet codelet = SS_SERVICE_CODELET("load", cpu_load);

enum ss_status ss_load_submit(const struct ss_load_args *args)
{
    return ss_task_submit(&codelet, &args->head,
                          sizeof *args + (size_t)args->count * sizeof args->sample[0]);
}
