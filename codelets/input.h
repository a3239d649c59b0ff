/* codelets/input.c: a batch's way to a GPU. Upload: from pinned host memory to the device, several
 * steps ahead. Convert: bytes to normalised activations, the first task of a step. Fetch, the way
 * back: the step's metrics.
 *
 * A slot is one piece of memory, the same on both sides: images (N,C,H,W) uint8, then, from
 * `labels` on, labels (N) struct ss_label. The upload is one copy of it.
 *
 * upload   images, labels (host) read    staged (device) written
 * convert  staged read                   y (N,H,W,B), z (N,H,W,C) of the gpu's dtype written, each
 *                                        where somebody reads it
 *                                        in training keys written, where something drops
 * fetch    metrics (device) read         fetched (host) written */
#ifndef SS_CODELETS_INPUT_H
#define SS_CODELETS_INPUT_H

#include "codelets/dropout.h"
#include "codelets/task.h"
#include "kernels/kernels.h"

/* Offsets and size of a slot in bytes; with a CPU plan in host memory, whose images are of the plan's dtype. */
struct ss_input_layout {
    size_t loaded;       /* bytes of an image as it is loaded: bytes for a GPU, else fp32 */
    size_t image;        /* of one in the slot */
    enum ss_dtype dtype; /* what it is rounded to on its way there; fp32: it is not */
    size_t labels; /* where they begin */
    size_t bytes;  /* of the whole slot */
};
struct ss_input_layout ss_input_layout_of(const struct ss_plan *plan);

/* Context of the convert task: the data set's normalisation, and what it puts down for those behind. */
struct ss_normalise {
    struct ss_act x, plain; /* what is written: with padded channels, and without */
    float mean[SS_INPUT_CHANNELS], std[SS_INPUT_CHANNELS];
    const struct ss_dropout *dropout;
};

enum ss_status ss_upload_submit(const struct ss_step_args *args);
enum ss_status ss_convert_submit(const struct ss_step_args *args);
/* What the task does, on any device. */
enum ss_status ss_convert_run(const struct ss_kernels *k, struct ss_device *gpu,
                              const struct ss_normalise *n, const struct ss_task_data *d);
enum ss_status ss_fetch_submit(const struct ss_step_args *args);

#endif
