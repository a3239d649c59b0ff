/* Functions common to all data sets, and data sets of records in memory (dataset.h). */
#include "data/dataset.h"
#include "data/augment.h"
#include "data/erase.h"

#include <stdlib.h>
#include <sys/mman.h>

void ss_dataset_fill_table(struct ss_dataset *d)
{
    /* The same operations in the same order as torchvision's ToTensor and Normalize, for
     * bit-identical values. */
    for (int c = 0; c < 3; c++)
        for (int b = 0; b < 256; b++)
            d->normalised[c][b] = ((float)b / 255.0f - d->mean[c]) / d->std[c];
}

static enum ss_status load_record(const struct ss_dataset *d, size_t i,
                                  const struct ss_load_how *how, void *out, int32_t *label)
{
    *label = ss_dataset_label(d, i);
    ss_augment_load(d, ss_dataset_image(d, i), i, how, out);
    return SS_OK;
}

static void close_records(struct ss_dataset *d)
{
    if (d->mapping)
        munmap(d->mapping, d->mapping_bytes);
    free(d->class_names);
}

const struct ss_dataset_ops ss_record_ops = {load_record, close_records};

enum ss_status ss_dataset_load(const struct ss_dataset *d, size_t i, const struct ss_load_how *how,
                               void *out, int32_t *label)
{
    struct ss_area area;
    SS_TRY(d->ops->load(d, i, how, out, label));
    if (d->label_of && *label >= 0)
        *label = d->label_of[*label];
    if (ss_erase_draw(how->erase, how->seed, how->epoch, (uint32_t)i, d->height, d->width, &area))
        ss_erase_apply(d, &area, how->bytes, out);
    return SS_OK;
}

void ss_dataset_close(struct ss_dataset *dataset)
{
    if (!dataset)
        return;
    dataset->ops->close(dataset);
    free(dataset->label_of);
    free(dataset);
}
