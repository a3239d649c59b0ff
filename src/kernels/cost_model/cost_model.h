/* A device that computes nothing: its kernels note what those of cuda/ with the same name launch,
 * which memory each launch reads and writes and how much it computes. Operations run on it as on
 * any device, so what is noted is what they do; src/sim makes times of it.
 *
 * Addresses only tell tensors apart: nothing is at them. A kernel that changes in cuda/ changes its
 * lines here; tests/gpu/test_gpu_roofline compares the numbers of launches. */
#ifndef SS_KERNELS_COST_MODEL_COST_MODEL_H
#define SS_KERNELS_COST_MODEL_COST_MODEL_H

#include "kernels/kernels.h"

/* Where the time of a launch is counted. */
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

/* What a launch is, for the efficiency that is assumed of it. */
enum ss_cost_class {
    SS_COST_STREAM, /* passes over tensors: memory */
    SS_COST_MATRIX, /* products of matrices, on tensor cores where the format has them */
    SS_COST_WGRAD,  /* likewise, a convolution's weight gradient */
    /* A chain of reads and additions that wait for each other, of little data or behind a pass. */
    SS_COST_CHAIN,
};

/* How a kernel works: a row of the table in cost_model.c. */
struct ss_cost_kernel {
    const char *name;
    enum ss_cost_line line;
    enum ss_cost_class cls;
    /* Of kernels with few threads a multiprocessor: bytes of each tensor that a multiprocessor has
     * under way, which are blocks x threads x vectors x 16; 0: as many as the memory needs. */
    int blocks, threads, vectors;
};

enum { SS_COST_READ = 1, SS_COST_WRITE = 2, SS_COST_ACCESSES = 16 };
struct ss_cost_access {
    const void *data; /* where the tensor or the parameter begins */
    size_t bytes;
    int mode;
};

struct ss_cost_launch {
    const struct ss_cost_kernel *kernel;
    int naccess;
    struct ss_cost_access access[SS_COST_ACCESSES];
    double flop;  /* of the formula */
    double tiled; /* of the code: a GPU's whole tiles, or what a CPU's takes (ss_cpu_conv_work.cost) */
    int pairs;    /* on a CPU these are products of pairs of bf16, not of floats */
};

extern const struct ss_kernels ss_cost_kernels;

/* From now on convolutions are this CPU's: ss_cpu_conv_work. */
void ss_cost_as_cpu(struct ss_device *device);

/* What has been noted since the last time: count launches, which last until the next kernel. */
const struct ss_cost_launch *ss_cost_take(struct ss_device *device, int *count);

/* What kernel functions use as scratch. */
void *ss_cost_scratch(const struct ss_device *device);

/* Names of the sums, for people. */
const char *ss_cost_line_name(enum ss_cost_line line);

#endif
