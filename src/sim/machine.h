/* Machines that a step's time is predicted for: GPUs, with datasheet values, and this CPU, with
 * measured values; and the assumptions about their use. The values are in machine.c. */
#ifndef SS_SIM_MACHINE_H
#define SS_SIM_MACHINE_H

#include "core/dtype.h"
#include "core/status.h"

/* Assumed efficiency of kernels. */
struct ss_machine_use {
    /* Fractions of the peak: convolutions and their data gradients, weight gradients, and the
     * best that matrix products reach. */
    double matrix, wgrad, best;
    double latency;  /* seconds from a load to its data, memory busy */
    double launch;   /* launch overhead in seconds */
    double chain;    /* seconds of dependent reads and sums, in kernels with little data */
    double found_l2; /* fraction of L2 in which recently accessed data are found again */
};

struct ss_machine {
    const char *name;  /* --roofline's */
    const char *gpu;   /* CUDA's device name; other models of the family have other values */
    const char *title; /* display name */
    const char *source;
    double bandwidth;          /* of memory, bytes/s, from the datasheet */
    double achieved;           /* the fraction of it that a pass over large tensors reaches */
    double half, tf32, single; /* FLOP/s without sparsity: fp16 and bf16, TF32, fp32 without TF32 */
    int sms;                   /* multiprocessors; 0: a CPU */
    double l2;                 /* bytes */
    const struct ss_machine_use *use;
    int threads; /* of a CPU */
};

extern const struct ss_machine ss_machines[]; /* terminated by a NULL name */

/* Find a machine by name, "h200", or by CUDA's device name (ss_machine_of_gpu). Errors:
 * SS_ERR_INVALID, which lists the known ones. */
enum ss_status ss_machine_find(const char *name, const struct ss_machine **out);
/* Measure this CPU, "host", with the given number of threads. Errors: those of ss_cpu_measure. */
enum ss_status ss_machine_measure(int threads, struct ss_machine *out);
/* Find a machine by CUDA's device name, "NVIDIA H200"; a suffix in parentheses is ignored.
 * Returns NULL if there is none. */
const struct ss_machine *ss_machine_of_gpu(const char *gpu);

/* Return the achievable memory bandwidth in bytes/s, and the peak of products in this format. */
static inline double ss_machine_bandwidth(const struct ss_machine *m)
{
    return m->bandwidth * m->achieved;
}
double ss_machine_peak(const struct ss_machine *m, enum ss_dtype dtype, int tf32);

#endif
