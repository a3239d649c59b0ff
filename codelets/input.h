/* codelets/input.c: transfer of a batch to a GPU. Upload: from pinned host memory to the device,
 * several steps ahead. Convert: bytes to normalized activations, the first task of a step. Fetch:
 * the step's metrics, from device to host.
 *
 * A slot is one block of memory, with the same layout on both sides: images (N,C,H,W) uint8,
 * then, starting at `labels`, labels (N) struct ss_label. The upload is a single copy of it.
 *
 * upload   images, labels (host) read    staged (device) written
 * convert  staged read                   y (N,H,W,B), z (N,H,W,C) of the gpu's dtype written, each
 *                                        only if a task reads it; in training with dropout, keys
 *                                        written
 * fetch    metrics (device) read         fetched (host) written */
#ifndef SS_CODELETS_INPUT_H
#define SS_CODELETS_INPUT_H

#include "codelets/dropout.h"
#include "codelets/task.h"
#include "kernels/kernels.h"

/* Offsets and size of a slot in bytes. With a CPU plan it is in host memory, with images of the
 * plan's dtype. */
struct ss_input_layout {
    size_t loaded;       /* bytes of an image as loaded: uint8 for a GPU, else fp32 */
    size_t image;        /* bytes of an image in the slot */
    enum ss_dtype dtype; /* type that images are rounded to in the slot; fp32: not rounded */
    size_t labels;       /* their offset */
    size_t bytes;        /* of the whole slot */
};
struct ss_input_layout ss_input_layout_of(const struct ss_plan *plan);

/* Context of the convert task: the dataset's normalization, and the outputs for later tasks. */
struct ss_normalise {
    struct ss_act x, plain; /* outputs: with padded channels, and without */
    float mean[SS_INPUT_CHANNELS], std[SS_INPUT_CHANNELS];
    const struct ss_dropout *dropout;
};

enum ss_status ss_upload_submit(const struct ss_step_args *args);
enum ss_status ss_convert_submit(const struct ss_step_args *args);
/* Run the task on any device. */
enum ss_status ss_convert_run(const struct ss_kernels *k, struct ss_device *gpu,
                              const struct ss_normalise *n, const struct ss_task_data *d);
enum ss_status ss_fetch_submit(const struct ss_step_args *args);

#endif
