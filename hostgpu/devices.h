/* GPUs that can be described to cuDNN, which then makes plans for them without one (9.8 or
 * later). Used by the emulated GPU and by the tests of the real library. C and C++. */
#ifndef HOSTGPU_DEVICES_H
#define HOSTGPU_DEVICES_H

#include <stddef.h>

struct described_gpu {
    const char *key; /* value of SS_HOSTGPU_DEVICE */
    int capability;  /* 90 for compute capability 9.0 */
    int sms, shared_optin, l2_bytes;
    const char *json; /* value of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION */
};

/* shared: maximum bytes per block. Memory in bytes, clocks in kHz. Values from NVIDIA's data
 * sheets and cudaGetDeviceProperties. */
#define DESCRIBED_GPU(key, name, sm, sms, shared, l2, memory, clock, memory_clock)                 \
    {                                                                                              \
        key, sm, sms, shared, l2,                                                                  \
            "{\"deviceName\":\"" name "\",\"deviceVer\":" #sm "0,\"smVersion\":" #sm               \
            "0,\"cudaDeviceId\":0,\"pciDeviceId\":0,\"driverVer\":13000,"                          \
            "\"totalGlobalMem\":" #memory ",\"multiProcessorCount\":" #sms                         \
            ",\"warpSize\":32,\"maxThreadsPerBlock\":1024,"                                        \
            "\"maxThreadsPerSM\":2048,\"maxCtasPerSM\":32,\"regsPerBlock\":65536,"                 \
            "\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"                       \
            "\"maxSharedMemoryPerBlockOptin\":" #shared                                            \
            ",\"reservedSharedMemoryPerBlock\":1024,\"maxGridSize\":[2147483647,65535,65535],"     \
            "\"maxBlockSize\":[1024,1024,64],\"isTccDriver\":0,\"supportCoopLaunch\":1,"           \
            "\"smClockRateKHz\":" #clock ",\"memClockRateKHz\":" #memory_clock                     \
            ",\"l2CacheSize\":" #l2 "}"                                                            \
    }

static const struct described_gpu described_gpus[] = {
    DESCRIBED_GPU("h200", "NVIDIA H200", 90, 132, 232448, 62914560, 150754820096, 1980000, 3201000),
    DESCRIBED_GPU("h100", "NVIDIA H100 80GB HBM3", 90, 132, 232448, 52428800, 85017755648, 1980000,
                  2619000),
    DESCRIBED_GPU("a100", "NVIDIA A100-SXM4-80GB", 80, 108, 166912, 41943040, 84974239744, 1410000,
                  1593000),
};
enum { DESCRIBED_GPUS = sizeof described_gpus / sizeof described_gpus[0] };

#endif
