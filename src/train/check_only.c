/* check_only.c: train --check (interface in train.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "kernels/kernels.h"
#include "train/model_file.h"
#include "train/resume.h"
#include "train/train.h"

#include <stdio.h>
#include <string.h>

/* Describe the device. The machine of this check may have other devices than the job. */
static const char *device_note(const struct ss_session *s)
{
    int here = ss_cuda_kernels.count();
    if (s->device.gpu)
        return here ? "GPUs (at least one is present here)" : "GPUs (not checked: no GPU here)";
    return s->options->device == SS_DEVICE_AUTO ? "CPUs (--device auto: no GPU here)" : "CPUs";
}

static void report(const struct ss_session *s, int ranks)
{
    const struct ss_train_options *o = s->options;
    printf(
        "Checked: %s on %zu images with a global batch size of %lld, %zu steps an epoch, %d rank%s "
        "on %s\n",
        o->model, s->train->count, (long long)s->step_batch * ranks,
        ss_sampler_steps(s->train->count, ranks, (size_t)s->step_batch, ss_train_end(o)), ranks,
        ranks == 1 ? "" : "s", device_note(s));
}

enum ss_status ss_train_check_only(struct ss_train_options *options)
{
    struct ss_session s;
    int ranks = options->ranks ? (int)options->ranks : 1;
    enum ss_status status = ss_session_open_check(&s, options, ranks);
    if (status == SS_OK && options->init)
        status = ss_model_file_check(s.plan, options->init);
    if (status == SS_OK)
        status = ss_resume_check(&s, ranks);
    if (status == SS_OK)
        report(&s, ranks);
    ss_session_close(&s);
    return status;
}
