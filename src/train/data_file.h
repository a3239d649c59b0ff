/* data.json, a file beside the weights that describes the image preprocessing and the classes of
 * a run, so that other images are preprocessed as the test images were and predictions have
 * class names.
 *
 *     {"format": "starstep-data", "version": 1, "name": "photos",
 *      "channels": 3, "height": 64, "width": 64, "least": [73, 73],
 *      "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225],
 *      "classes": ["n01443537", "n01629819"]}
 *
 * least: height and width that an image is resized to, preserving its aspect ratio, before the
 * center crop (data/crop.h). mean and std: per channel, of values scaled to 0 .. 1. */
#ifndef SS_TRAIN_DATA_FILE_H
#define SS_TRAIN_DATA_FILE_H

#include "data/dataset.h"

struct ss_data_file {
    char name[32];
    int channels;
    struct ss_size size, least;
    float mean[3], std[3];
    int classes;
    char **names; /* one per class; NULL: no names */
};

/* Write the description of a data set. Errors: SS_ERR_IO, SS_ERR_MEMORY. */
enum ss_status ss_data_file_write(const struct ss_dataset *d, const char *path);

/* Read a description. The caller clears *out. Errors: SS_ERR_IO, SS_ERR_FORMAT (the message names
 * file and field), SS_ERR_MEMORY. */
enum ss_status ss_data_file_read(const char *path, struct ss_data_file *out);
void ss_data_file_clear(struct ss_data_file *f);

#endif
