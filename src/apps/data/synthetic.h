/* Generator of a small, learnable data set in CIFAR's binary formats, for trying the program, for
 * tests, and for machines that cannot download the real data set. */
#ifndef SS_APPS_DATA_SYNTHETIC_H
#define SS_APPS_DATA_SYNTHETIC_H

#include "core/status.h"
#include "data/cifar.h"

#include <stdint.h>

struct ss_synthetic {
    uint32_t train, test; /* samples, 1 .. SS_SYNTHETIC_MAX */
    uint32_t classes; /* 1 .. 100 or 10: labels are 0 .. classes-1, the coarse label is label / 5 */
    uint64_t seed;
};

enum { SS_SYNTHETIC_MAX = 1000000 };

/* Write the files of cifar->files to DIR, which is created if missing. CIFAR-10 needs at least 5
 * training samples. A class is a smooth color pattern. A sample is its class's pattern, shifted and
 * with random contrast and brightness, plus a weaker pattern and noise of its own. Labels are
 * balanced (counts differ by at most one) and shuffled. All arithmetic is in integers, so equal
 * arguments give identical bytes on every machine. Errors: SS_ERR_INVALID, SS_ERR_IO,
 * SS_ERR_MEMORY. */
enum ss_status ss_synthetic_cifar(const struct ss_cifar *cifar, const char *dir,
                                  const struct ss_synthetic *what);

enum { SS_SYNTHETIC_SIDE = 32 };

/* Generate one such sample of any class as (3, SS_SYNTHETIC_SIDE, SS_SYNTHETIC_SIDE) bytes. The
 * result depends only on the arguments. */
void ss_synthetic_image(uint64_t seed, uint32_t class_index, int test, uint32_t sample,
                        uint8_t *image);

#endif
