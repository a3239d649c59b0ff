/* The CIFAR-100 binary format in numbers (its description: dataset.h). */
#ifndef SS_DATA_CIFAR100_H
#define SS_DATA_CIFAR100_H

enum {
    SS_CIFAR100_CLASSES = 100,
    SS_CIFAR100_COARSE = 20,
    SS_CIFAR100_SIDE = 32,
    SS_CIFAR100_IMAGE = 3 * SS_CIFAR100_SIDE * SS_CIFAR100_SIDE,
    SS_CIFAR100_RECORD = 2 + SS_CIFAR100_IMAGE,
};

#endif
