/* CIFAR-100's Python version (pickles "train" and "test", as torchvision leaves them on disk) to
 * the binary version. */
#ifndef SS_DATA_CONVERT_H
#define SS_DATA_CONVERT_H

#include "core/status.h"

/* Read FROM/train and FROM/test (a folder "cifar-100-python" inside FROM is found too), write
 * TO/train.bin and TO/test.bin. TO is created if missing. Neither file appears unless both inputs
 * were read completely. Errors: those of ss_pickle_open; SS_ERR_FORMAT for a missing or wrong
 * "data", "fine_labels" or "coarse_labels"; SS_ERR_IO. */
enum ss_status ss_convert_cifar100(const char *from, const char *to);

#endif
