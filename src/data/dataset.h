/* Image classification data sets held in memory: 8-bit images and labels.
 *
 * Source of the CIFAR-100 binary format: the data set's own page. A record of train.bin or test.bin
 * is <1 byte coarse label 0-19><1 byte fine label 0-99><3072 bytes: 1024 red, 1024 green, 1024
 * blue, each row-major 32x32>, 3074 bytes in all. starstep trains on the fine label. */
#ifndef SS_DATA_DATASET_H
#define SS_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>
#include "core/status.h"

enum ss_split { SS_SPLIT_TRAIN, SS_SPLIT_TEST };

struct ss_dataset {
    char name[32];   /* "cifar100" */
    char path[4096]; /* the file read, for messages */
    size_t count;    /* samples */
    int channels, height, width;
    int classes;           /* labels are 0 .. classes-1 */
    float mean[3], std[3]; /* normalisation, of values scaled to 0..1 */
    uint64_t fingerprint; /* hash of the whole content: equal on two ranks iff the data are equal */
    /* private */
    const uint8_t *records;
    size_t record_bytes, image_offset, label_offset;
    void *mapping;
    size_t mapping_bytes;
    float normalised[3][256]; /* (byte / 255 - mean) / std per channel, see ss_dataset_fill_table */
};

/* Open DIR/train.bin or DIR/test.bin; a folder "cifar-100-binary" inside DIR is found too. Every
 * record is checked (size of the file, fine label < 100, coarse label < 20). When the folder holds
 * the Python version instead, the error says which command converts it.
 * Errors: SS_ERR_IO (missing, unreadable), SS_ERR_FORMAT (truncated, oversized, empty, bad label).
 * The caller closes the data set. */
enum ss_status ss_dataset_open_cifar100(const char *dir, enum ss_split split,
                                        struct ss_dataset **out);
void ss_dataset_close(struct ss_dataset *dataset); /* NULL is fine */

/* Fill the table of normalised values from mean and std. Opening a data set does it; needed again
 * only after changing them. */
void ss_dataset_fill_table(struct ss_dataset *dataset);

/* Image i as (C,H,W) bytes, and its label. i < count. The pointer lives as long as the data set. */
static inline const uint8_t *ss_dataset_image(const struct ss_dataset *d, size_t i)
{
    return d->records + i * d->record_bytes + d->image_offset;
}
static inline int ss_dataset_label(const struct ss_dataset *d, size_t i)
{
    return d->records[i * d->record_bytes + d->label_offset];
}

#endif
