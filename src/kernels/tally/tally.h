/* A device that computes nothing: its kernels note what those of cuda/ with the same name launch,
 * which memory each launch reads and writes and how much it computes. Operations run on it as on
 * any device, so what is noted is what they do; src/sim makes times of it.
 *
 * Addresses only tell tensors apart: nothing is at them. A kernel that changes in cuda/ changes its
 * lines here; tests/gpu/test_gpu_roofline compares the numbers of launches. */
#ifndef SS_KERNELS_TALLY_TALLY_H
#define SS_KERNELS_TALLY_TALLY_H

#include "kernels/kernels.h"

/* Where the time of a launch is counted. */
enum ss_tally_line {
    SS_TALLY_CONV_FORWARD,
    SS_TALLY_CONV_DATA,
    SS_TALLY_CONV_WEIGHTS,
    SS_TALLY_STATS,
    SS_TALLY_APPLY,
    SS_TALLY_GRADIENT_SUMS,
    SS_TALLY_GRADIENT,
    SS_TALLY_MERGE,
    SS_TALLY_POOL,
    SS_TALLY_BIAS,
    SS_TALLY_UPDATE,
    SS_TALLY_CHECK,
    SS_TALLY_CAST,
    SS_TALLY_JOIN,
    SS_TALLY_LINEAR,
    SS_TALLY_ATTENTION,
    SS_TALLY_REST,
    SS_TALLY_LINES
};

/* What a launch is, for the efficiency that is assumed of it. */
enum ss_tally_class {
    SS_TALLY_STREAM, /* passes over tensors: memory */
    SS_TALLY_MATRIX, /* products of matrices, on tensor cores where the format has them */
    SS_TALLY_WGRAD,  /* likewise, a convolution's weight gradient */
    /* A chain of reads and additions that wait for each other, of little data or behind a pass. */
    SS_TALLY_CHAIN,
};

/* How a kernel works: a row of the table in tally.c. */
struct ss_tally_kernel {
    const char *name;
    enum ss_tally_line line;
    enum ss_tally_class cls;
    /* Of kernels with few threads a multiprocessor: bytes of each tensor that a multiprocessor has
     * under way, which are blocks x threads x vectors x 16; 0: as many as the memory needs. */
    int blocks, threads, vectors;
};

enum { SS_TALLY_READ = 1, SS_TALLY_WRITE = 2, SS_TALLY_ACCESSES = 16 };
struct ss_tally_access {
    const void *data; /* where the tensor or the parameter begins */
    size_t bytes;
    int mode;
};

struct ss_tally_launch {
    const struct ss_tally_kernel *kernel;
    int naccess;
    struct ss_tally_access access[SS_TALLY_ACCESSES];
    double flop;  /* of the formula */
    double tiled; /* of the code: a GPU's whole tiles, or what a CPU's takes (ss_cpu_conv_work.cost) */
    int pairs;    /* on a CPU these are products of pairs of bf16, not of floats */
};

extern const struct ss_kernels ss_tally_kernels;

/* From now on convolutions are this CPU's: ss_cpu_conv_work. */
void ss_tally_as_cpu(struct ss_device *device);

/* What has been noted since the last time: count launches, which last until the next kernel. */
const struct ss_tally_launch *ss_tally_take(struct ss_device *device, int *count);

/* What kernel functions use as scratch. */
void *ss_tally_scratch(const struct ss_device *device);

/* Names of the sums, for people. */
const char *ss_tally_line_name(enum ss_tally_line line);

#endif
