/* codelets/load.c: read and augment one slice of a batch, mix its samples, and normalise them for
 * the CPU.
 *
 * images (n,C,H,W) written: normalised, in fp32 or rounded to bf16, or bytes for a GPU, which normalises them itself
 * labels (n) struct ss_label written
 * Which samples: the submitter's list, so that neither workers nor timing decide. Sample i of a batch
 * is mixed with sample i - 1, the first one with the last, as torchvision's MixUp and CutMix do; each
 * has its own crop, flip and erasing.
 *
 * Erasing comes before mixing. Samples of a slice are mixed from the last one down, with one image
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
    enum ss_dtype dtype; /* what images are rounded to when they are loaded; fp32: they are not */
    void *spare; /* room for as many images as ss_load_spare says, as they are loaded; else NULL */
    int count;
    /* Those of the slice, then the one before them in the batch. UINT32_MAX: no sample, and none behind
     * it; the label becomes -1 and the image 0. */
    uint32_t sample[];
};

/* Images, in bytes or fp32, that a task works on beside its slot. */
int ss_load_spare(enum ss_dtype dtype, const struct ss_mix_how *mix);

/* args was allocated with room for args->count + 1 samples; it is copied. */
enum ss_status ss_load_submit(const struct ss_load_args *args);

#endif
