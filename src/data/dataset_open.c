/* Detects the kind of data set in a folder and opens it (dataset.h). */
#include "core/log.h"
#include "data/cifar.h"
#include "data/dataset.h"
#include "data/imagefolder.h"

enum ss_status ss_dataset_open(const char *dir, enum ss_split split,
                               const struct ss_dataset_options *options, struct ss_dataset **out)
{
    int has_val;
    if (ss_imagefolder_is(dir, &has_val))
        return ss_dataset_open_images(dir, split, options, out);
    const struct ss_cifar *cifar;
    char size[SS_SIZE_CAPACITY];
    SS_TRY(ss_cifar_find(dir, &cifar));
    if (options->val_fraction > 0)
        return ss_fail(SS_ERR_INVALID,
                       "--val-fraction: %s holds no folders of images; leave the option out", dir);
    if (options->size.height && !ss_size_is(options->size, ss_square(SS_CIFAR_SIDE)))
        return ss_fail(SS_ERR_INVALID,
                       "--image-size %s: %s's images are %dx%d; leave the option out, or "
                       "give a --data-dir with folders of images",
                       ss_size_text(options->size, size), cifar->title, SS_CIFAR_SIDE,
                       SS_CIFAR_SIDE);
    return ss_dataset_open_cifar(cifar, dir, split, out);
}
