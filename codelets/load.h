/* codelets/load.c: reads and augments one slice of a batch, mixes its samples, and normalizes
 * them for the CPU.
 *
 * images (n,C,H,W) written: normalized, in fp32 or rounded to bf16; for a GPU, bytes, which the GPU
 *                  normalizes
 * labels (n) struct ss_label written
 *
 * The submitter lists the samples, so that they do not depend on workers or timing. Sample i of a
 * batch is mixed with sample i - 1, the first one with the last, as torchvision's MixUp and
 * CutMix do. Each has its own crop, flip and erasing.
 *
 * Erasing precedes mixing. Samples of a slice are mixed from the last one down, with one image
 * more than the slice has. */
#ifndef SS_CODELETS_LOAD_H
#define SS_CODELETS_LOAD_H

#include "codelets/task.h"
#include "core/dtype.h"
#include "data/dataset.h"
#include "data/mix.h"

struct ss_load_args {
    struct ss_step_args head;
    const struct ss_dataset *dataset;
    struct ss_load_how how;
    struct ss_mix_how mix;
    enum ss_dtype dtype; /* type that images are rounded to when loaded; fp32: not rounded */
    void *spare;         /* capacity: ss_load_spare() images, as loaded; else NULL */
    int count;
    /* The samples of the slice, then the one that precedes them in the batch. UINT32_MAX: no
     * sample, and none after it; the label becomes -1 and the image 0. */
    uint32_t sample[];
};

/* Returns the number of images, in bytes or fp32, that a task needs in addition to its slot. */
int ss_load_spare(enum ss_dtype dtype, const struct ss_mix_how *mix);

/* args must have capacity for args->count + 1 samples; it is copied. */
enum ss_status ss_load_submit(const struct ss_load_args *args);

#endif
