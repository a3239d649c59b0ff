/* Tests of the real cuDNN without a GPU. Since 9.8 the library makes execution plans for a GPU
 * given by a description. described_gpu.c interposes between the code under test and the library,
 * and replaces the handle in calls by the description. Plans are not executed. */
#ifndef SS_TESTS_DESCRIBED_GPU_H
#define SS_TESTS_DESCRIBED_GPU_H

#include "hostgpu/devices.h"
#include "kernels/cuda/conv_graph.h"

/* Makes all following plans for this GPU of hostgpu/devices.h. Returns 1, or 0 with a printed
 * message if the library is older than 9.8 or does not accept the description. */
int describe_gpu(const char *key);

extern int described_executions; /* number of calls of cudnnBackendExecute */

/* all: plans about to be finalized. compiled: those whose engine compiles its kernels at that
 * point. proposed: queries of the behavior notes of such engines. engines: one bit per engine
 * queried. */
extern struct described_plans {
    int all, compiled, proposed;
    uint64_t engines;
} described_plans;

/* Loads NVRTC and libcuda: the driver's, or else the toolkit's stub, whose functions all fail.
 * cuDNN proposes engines that compile kernels at run time only if it finds both. Returns 0 if
 * they are missing. */
int describe_driver(void);

#endif
