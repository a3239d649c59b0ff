#include "codelets/load.h"
#include "kernels/cpu/wire.h"
#include "kernels/shapes.h"

#include <string.h>

int ss_load_spare(enum ss_dtype dtype, const struct ss_mix_how *mix)
{
    return dtype != SS_DTYPE_F32 ? 2 : ss_mixes(mix) ? 1 : 0;
}

/* A slice being loaded. */
struct slice {
    const struct ss_load_args *args;
    char *images;
    size_t pixels, bytes; /* of an image, as loaded */
    int rounds;           /* converts to another dtype, from spare to its slot */
};

/* Returns where sample i is loaded: its slot, or one of the spare images, alternating. -1: the
 * sample preceding the slice. */
static void *place_of(const struct slice *s, int i)
{
    if (s->rounds)
        return (char *)s->args->spare + (size_t)(i & 1) * s->bytes;
    return i < 0 ? s->args->spare : s->images + (size_t)i * s->bytes;
}

static enum ss_status load_sample(const struct slice *s, int i, struct ss_label *label)
{
    const struct ss_load_args *args = s->args;
    const uint32_t sample = args->sample[i < 0 ? args->count : i];
    int32_t own = -1;
    if (sample == UINT32_MAX)
        memset(place_of(s, i), 0, s->bytes);
    else
        SS_TRY(ss_dataset_load(args->dataset, sample, &args->how, place_of(s, i), &own));
    *label = ss_label_of(own);
    return SS_OK;
}

/* Mix sample i with the preceding one, which is not mixed yet. */
static void mix_sample(const struct slice *s, int i, struct ss_label *label, int32_t before)
{
    const struct ss_load_args *args = s->args;
    const struct ss_dataset *set = args->dataset;
    if (args->sample[i] == UINT32_MAX)
        return;
    const struct ss_mix mix = ss_mix_draw(&args->mix, args->how.seed, args->how.epoch,
                                          args->sample[i], set->height, set->width);
    ss_mix_apply(set, &mix, args->how.bytes, place_of(s, i), place_of(s, i - 1));
    label->other = before;
    label->share = mix.share;
}

/* From the last sample down, so that the preceding sample is not mixed yet. */
static void cpu_load(void *buffers[], void *cl_arg)
{
    struct ss_task_data d = ss_task_unpack(buffers, cl_arg);
    const struct ss_load_args *args = cl_arg;
    const struct ss_dataset *set = args->dataset;
    struct ss_label *labels = ss_role(&d, SS_ROLE_LABELS), before;
    struct slice s = {.args = args,
                      .images = ss_role(&d, SS_ROLE_X),
                      .pixels = (size_t)set->channels * (size_t)set->height * (size_t)set->width,
                      .rounds = args->dtype != SS_DTYPE_F32};
    s.bytes = s.pixels * (args->how.bytes ? 1 : sizeof(float));
    for (int i = args->count - 1; i >= 0 && ss_run_ok(d.task->run); i--) {
        struct ss_label *other = i ? labels + i - 1 : &before;
        if (i == args->count - 1)
            ss_run_fail(d.task->run, load_sample(&s, i, labels + i));
        if (i || ss_mixes(&args->mix))
            ss_run_fail(d.task->run, load_sample(&s, i - 1, other));
        if (ss_mixes(&args->mix) && ss_run_ok(d.task->run))
            mix_sample(&s, i, labels + i, other->label);
        if (s.rounds)
            ss_wire_pack(args->dtype, place_of(&s, i), 1,
                         (uint16_t *)(void *)s.images + (size_t)i * s.pixels, s.pixels);
    }
}

static struct ss_codelet codelet = SS_CODELET("load", STARPU_NL_REGRESSION_BASED,
                                              .cpu_funcs = {cpu_load}, .can_execute = ss_can_load);

enum ss_status ss_load_submit(const struct ss_load_args *args)
{
    return ss_task_submit(&codelet, &args->head,
                          sizeof *args + (size_t)(args->count + 1) * sizeof args->sample[0]);
}
