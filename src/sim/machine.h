/* Machines that a step's time is predicted for: GPUs, with figures of datasheets, and this CPU, whose
 * figures are measured; and what is assumed of their use. All is in machine.c. */
#ifndef SS_SIM_MACHINE_H
#define SS_SIM_MACHINE_H

#include "core/dtype.h"
#include "core/status.h"

/* What is assumed of how well kernels use it. */
struct ss_machine_use {
    /* Parts of the peak: convolutions and their data gradients, weight gradients, and the best that
     * products of matrices reach. */
    double matrix, wgrad, best;
    double latency; /* seconds from a load to its data, memory busy */
    double launch;  /* seconds that a launch takes beside its work */
    double
        chain; /* seconds of reads and sums that wait for each other, in kernels of little data */
    double found_l2; /* the part of L2 that what was touched last is found in again */
};

struct ss_machine {
    const char *name;  /* --roofline's */
    const char *gpu;   /* the name that CUDA gives it: others of its family have other figures */
    const char *title; /* for people */
    const char *source;
    double bandwidth;          /* of memory, bytes/s, as the datasheet has it */
    double achieved;           /* the part of it that a pass over large tensors reaches */
    double half, tf32, single; /* FLOP/s without sparsity: fp16 and bf16, TF32, fp32 without TF32 */
    int sms;                   /* multiprocessors; 0: a CPU */
    double l2;                 /* bytes */
    const struct ss_machine_use *use;
    int threads; /* of a CPU */
};

extern const struct ss_machine ss_machines[]; /* a name NULL ends it */

/* By name, "h200", or by what CUDA calls a GPU (ss_machine_of_gpu). Errors: SS_ERR_INVALID, which
 * names those that there are. */
enum ss_status ss_machine_find(const char *name, const struct ss_machine **out);
/* This CPU, "host", with so many threads: its speed is measured. Errors: those of ss_cpu_measure. */
enum ss_status ss_machine_measure(int threads, struct ss_machine *out);
/* By what CUDA calls a GPU, "NVIDIA H200"; what stands behind that in brackets is left out. NULL:
 * none of them. */
const struct ss_machine *ss_machine_of_gpu(const char *gpu);

/* Bytes/s of memory that can be had, and the peak of products in this format. */
static inline double ss_machine_bandwidth(const struct ss_machine *m)
{
    return m->bandwidth * m->achieved;
}
double ss_machine_peak(const struct ss_machine *m, enum ss_dtype dtype, int tf32);

#endif
