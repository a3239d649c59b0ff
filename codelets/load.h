/* codelets/load.c: read and augment one slice of a batch, and normalise it for the CPU.
 *
 * images (n,C,H,W) written: normalised fp32, or bytes for a GPU, which normalises them itself
 * labels (n) struct ss_label written
 * Which samples: the submitter's list, so that neither workers nor timing decide. */
#ifndef SS_CODELETS_LOAD_H
#define SS_CODELETS_LOAD_H

#include "codelets/task.h"
#include "data/dataset.h"

struct ss_load_args {
    struct ss_step_args head;
    const struct ss_dataset *dataset;
    struct ss_load_how how;
    int count;
    uint32_t sample[]; /* UINT32_MAX: no sample; the label becomes -1 and the image 0 */
};

/* args was allocated with room for args->count samples; it is copied. */
enum ss_status ss_load_submit(const struct ss_load_args *args);

#endif
