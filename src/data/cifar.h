/* Constants, file names and the binary record formats of CIFAR-10 and CIFAR-100.
 *
 * Source of the binary formats: the data sets' web page. A record of CIFAR-100's train.bin and
 * test.bin is <1 byte coarse label 0-19><1 byte fine label 0-99><3072 bytes: 1024 red, 1024 green,
 * 1024 blue, each row-major 32x32>, 3074 bytes in all; starstep trains on the fine label. A record
 * of CIFAR-10's data_batch_1.bin to data_batch_5.bin and test_batch.bin is <1 byte label 0-9><3072
 * bytes>, 3073 in all. */
#ifndef SS_DATA_CIFAR_H
#define SS_DATA_CIFAR_H

enum {
    SS_CIFAR100_CLASSES = 100,
    SS_CIFAR100_COARSE = 20,
    SS_CIFAR_SIDE = 32,
    SS_CIFAR_IMAGE = 3 * SS_CIFAR_SIDE * SS_CIFAR_SIDE,
    SS_CIFAR100_RECORD = 2 + SS_CIFAR_IMAGE,
    SS_CIFAR_MAX_RECORD = SS_CIFAR100_RECORD,
    SS_CIFAR_MAX_FILES = 5, /* of a split */
};

struct ss_cifar {
    const char *name, *title; /* "cifar10", "CIFAR-10" */
    int classes, coarse;      /* coarse: number of coarse labels; 0: records have no coarse label */
    /* Per split (train, test): NULL-terminated file names of the Python version, in order. Append
     * ".bin" for the binary version. */
    const char *files[2][SS_CIFAR_MAX_FILES + 1];
    const char *binary, *python; /* folder names inside the archives */
    const char *meta;            /* Python version: file of class names */
    const char *names;           /* binary version: file of class names */
    float mean[3], std[3];
};
extern const struct ss_cifar ss_cifar10, ss_cifar100;

static inline int ss_cifar_record(const struct ss_cifar *cifar)
{
    return (cifar->coarse ? 2 : 1) + SS_CIFAR_IMAGE;
}

#endif
