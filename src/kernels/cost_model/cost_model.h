/* A device that computes nothing. Each kernel records what the kernel of the same name in cuda/
 * launches, the memory that each launch reads and writes, and its amount of computation.
 * Operations run on it as on any device; src/sim converts the records to times.
 *
 * Addresses only identify tensors and are never dereferenced. A change of a kernel in cuda/
 * requires the same change here; tests/gpu/test_gpu_roofline compares the numbers of launches. */
#ifndef SS_KERNELS_COST_MODEL_COST_MODEL_H
#define SS_KERNELS_COST_MODEL_COST_MODEL_H

#include "kernels/kernels.h"

/* The line of the report to which the time of a launch is added. */
enum ss_cost_line {
    SS_COST_CONV_FORWARD,
    SS_COST_CONV_DATA,
    SS_COST_CONV_WEIGHTS,
    SS_COST_STATS,
    SS_COST_APPLY,
    SS_COST_GRADIENT_SUMS,
    SS_COST_GRADIENT,
    SS_COST_MERGE,
    SS_COST_POOL,
    SS_COST_BIAS,
    SS_COST_UPDATE,
    SS_COST_CHECK,
    SS_COST_CAST,
    SS_COST_JOIN,
    SS_COST_LINEAR,
    SS_COST_ATTENTION,
    SS_COST_REST,
    SS_COST_LINES
};

/* The class of a launch, which determines its assumed efficiency. */
enum ss_cost_class {
    SS_COST_STREAM, /* passes over tensors: memory-bound */
    SS_COST_MATRIX, /* matrix products, on tensor cores where the format has them */
    SS_COST_WGRAD,  /* the same for the weight gradient of a convolution */
    /* A chain of dependent reads and additions, with little data or at the end of a pass. */
    SS_COST_CHAIN,
};

/* Properties of a kernel: a row of the table in cost_model.c. */
struct ss_cost_kernel {
    const char *name;
    enum ss_cost_line line;
    enum ss_cost_class cls;
    /* For kernels with few threads per multiprocessor: each multiprocessor has blocks x threads x
     * vectors x 16 bytes of each tensor in flight. 0: as many as the memory needs. */
    int blocks, threads, vectors;
};

enum { SS_COST_READ = 1, SS_COST_WRITE = 2, SS_COST_ACCESSES = 16 };
struct ss_cost_access {
    const void *data; /* start of the tensor or the parameter */
    size_t bytes;
    int mode;
};

struct ss_cost_launch {
    const struct ss_cost_kernel *kernel;
    int naccess;
    struct ss_cost_access access[SS_COST_ACCESSES];
    double flop;  /* by the formula */
    double tiled; /* of the code: whole tiles of a GPU, or ss_cpu_conv_work.cost */
    int pairs;    /* on a CPU: products of pairs of bf16, not of floats */
};

extern const struct ss_kernels ss_cost_kernels;

/* Model the convolutions of this CPU from now on, by ss_cpu_conv_work. */
void ss_cost_as_cpu(struct ss_device *device);

/* Return the launches recorded since the last call. *count: their number. They are valid until
 * the next kernel. */
const struct ss_cost_launch *ss_cost_take(struct ss_device *device, int *count);

/* Return the address that identifies the scratch of kernel functions. */
void *ss_cost_scratch(const struct ss_device *device);

/* Return the name of a line in reports. */
const char *ss_cost_line_name(enum ss_cost_line line);

#endif
