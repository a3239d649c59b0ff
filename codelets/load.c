#include "codelets/load.h"
#include "codelets/op.h"
#include "data/augment.h"

#include <string.h>

static void cpu_load(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_data(buffers, cl_arg);
    const struct ss_load_args *args = cl_arg;
    const struct ss_dataset *set = args->dataset;
    float *images = ss_role(&d, SS_ROLE_X);
    int32_t *labels = ss_role(&d, SS_ROLE_LABELS);
    size_t pixels = (size_t)set->channels * (size_t)set->height * (size_t)set->width;
    if (!ss_run_ok(d.task->run))
        return;
    for (int i = 0; i < args->count; i++) {
        uint32_t sample = args->sample[i];
        float *out = images + (size_t)i * pixels;
        if (sample == UINT32_MAX) {
            labels[i] = -1;
            memset(out, 0, pixels * sizeof *out);
            continue;
        }
        struct ss_crop_flip how = {SS_CROP_PADDING, SS_CROP_PADDING, 0};
        if (args->augment)
            how = ss_augment_draw(args->seed, args->epoch, sample, SS_CROP_PADDING);
        labels[i] = ss_dataset_label(set, sample);
        ss_augment_apply(set, ss_dataset_image(set, sample), how, SS_CROP_PADDING, out);
    }
}

static struct starpu_codelet codelet = SS_SERVICE_CODELET("load", cpu_load);

enum ss_status ss_load_submit(const starpu_data_handle_t *handles, const struct ss_load_args *args)
{
    return ss_task_submit(&codelet, handles, &args->head,
                          sizeof *args + (size_t)args->count * sizeof args->sample[0]);
}
