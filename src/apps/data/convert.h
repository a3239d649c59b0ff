/* Convert the Python versions of CIFAR-10 and CIFAR-100 (pickles, as stored by torchvision) to the
 * binary versions. */
#ifndef SS_APPS_DATA_CONVERT_H
#define SS_APPS_DATA_CONVERT_H

#include "core/status.h"
#include "data/cifar.h"

/* Read the pickles of cifar->files in FROM, or in the archive's folder inside FROM, and write
 * TO/FILE.bin for each. TO is created if missing. No file appears unless all inputs were read
 * completely. Errors: those of ss_pickle_open; SS_ERR_FORMAT for missing or wrong "data" or labels;
 * SS_ERR_IO. */
enum ss_status ss_convert_cifar(const struct ss_cifar *cifar, const char *from, const char *to);

#endif
