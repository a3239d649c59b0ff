/* For tests of the real cuDNN without a GPU: since 9.8 the library makes execution plans for a GPU
 * that it only gets described. So calls that name a handle are turned into calls that name the
 * description (described_gpu.c), between the code under test and the library; and nothing is
 * executed. */
#ifndef SS_TESTS_DESCRIBED_GPU_H
#define SS_TESTS_DESCRIBED_GPU_H

#include "hostgpu/devices.h"
#include "kernels/cuda/conv_graph.h"

/* From now on plans are for this one of hostgpu/devices.h. 0: the library is older, or wants the
 * description in another form, which was said. */
int describe_gpu(const char *key);

extern int described_executions; /* counted */

/* Counted: plans that were about to be finalized, and those of them whose engine compiles its kernels then;
 * such engines that were asked for their notes, in all and (a bit each) which. */
extern struct described_plans {
    int all, compiled, proposed;
    uint64_t engines;
} described_plans;

/* Loads NVRTC, and libcuda: a driver's, or else the toolkit's stub, none of whose functions work. cuDNN
 * proposes engines that compile kernels at run time only where it finds both. 0: they are not there. */
int describe_driver(void);

#endif
