/* Fake libnvidia-ml.so.1 for the tests, with four GPUs of known values. FAKE_NVML selects a fault:
 * init, count, none (no GPU), two (only the first two GPUs) or alone (one GPU with one of its links
 * down); or a fault of GPU 0: ecc, throttle, shared (by two processes), nvlink (one of its two is
 * down), or a bit mask of clock throttle reasons, such as 0x20.
 *
 * GPU 0 in sample k = 0, 1, ...: 1000 + 10 k of 81920 MiB used, utilization 50 + k %, memory
 * utilization 20 %, 300.5 W.
 *
 * GPU 1 supports only the older memory query and no power query; utilization is not permitted.
 *
 * GPU 2 is lost from the third sample on. GPU 3 cannot be opened.
 *
 * Declarations as in NVIDIA's nvml.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 4 };

struct nvmlDevice_st {
    unsigned index;
    unsigned long long sample; /* number of name queries */
};

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct pci {
    char legacy_id[16];
    unsigned domain, bus, device, ids, subsystem_ids;
    char bus_id[32];
};

struct utilization {
    unsigned gpu, memory;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvmlDevice_st **device);
int nvmlDeviceGetName(struct nvmlDevice_st *d, char *name, unsigned capacity);
int nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *d, struct memory *m);
int nvmlDeviceGetMemoryInfo_v2(struct nvmlDevice_st *d, struct memory_v2 *m);
int nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *d, struct utilization *u);
int nvmlDeviceGetPowerUsage(struct nvmlDevice_st *d, unsigned *milliwatt);
int nvmlDeviceGetPciInfo_v3(struct nvmlDevice_st *d, struct pci *pci);
int nvmlDeviceGetPersistenceMode(struct nvmlDevice_st *d, unsigned *on);
int nvmlDeviceGetComputeRunningProcesses_v3(struct nvmlDevice_st *d, unsigned *count, void *list);
int nvmlDeviceGetNvLinkState(struct nvmlDevice_st *d, unsigned link, unsigned *active);
int nvmlDeviceGetTotalEccErrors(struct nvmlDevice_st *d, int kind, int counter,
                                unsigned long long *errors);
int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvmlDevice_st *d, unsigned long long *reasons);
int nvmlSystemGetDriverVersion(char *version, unsigned capacity);

static struct nvmlDevice_st gpu[GPUS] = {{.index = 0}, {.index = 1}, {.index = 2}, {.index = 3}};
static int started;

static int wrong(const char *what)
{
    const char *wish = getenv("FAKE_NVML");
    return wish && !strcmp(wish, what);
}

int nvmlInit_v2(void)
{
    started = 1;
    return wrong("init") ? 9 : 0;
}

int nvmlShutdown(void)
{
    started = 0;
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == 3    ? "Not Supported"
           : code == 4  ? "Insufficient Permissions"
           : code == 9  ? "Driver Not Loaded"
           : code == 15 ? "GPU is lost"
                        : "Unknown Error, of the fake";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = wrong("none") ? 0 : wrong("two") ? 2 : wrong("alone") ? 1 : GPUS;
    return !started ? 1 : wrong("count") ? 999 : 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvmlDevice_st **device)
{
    if (index >= GPUS)
        return 2;
    if (index == 3)
        return 999;
    *device = &gpu[index];
    return 0;
}

static int lost(const struct nvmlDevice_st *d)
{
    return d->index == 2 && d->sample > 2;
}

int nvmlDeviceGetName(struct nvmlDevice_st *d, char *name, unsigned capacity)
{
    d->sample++;
    if (lost(d))
        return 15;
    snprintf(name, capacity, "Fake GPU, model %u", d->index);
    return 0;
}

static unsigned long long used(const struct nvmlDevice_st *d)
{
    return (1000 + 10 * (d->sample - 1)) << 20;
}

int nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *d, struct memory *m)
{
    if (lost(d))
        return 15;
    *m = (struct memory){.total = 81920ull << 20, .used = used(d)};
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(struct nvmlDevice_st *d, struct memory_v2 *m)
{
    if (m->version != (sizeof *m | 2u << 24))
        return 25;
    if (lost(d))
        return 15;
    if (d->index == 1)
        return 13;
    *m = (struct memory_v2){
        .version = m->version, .total = 81920ull << 20, .reserved = 600ull << 20, .used = used(d)};
    return 0;
}

int nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *d, struct utilization *u)
{
    if (lost(d))
        return 15;
    if (d->index == 1)
        return 4;
    *u = (struct utilization){(unsigned)(50 + d->sample - 1), 20};
    return 0;
}

int nvmlDeviceGetPowerUsage(struct nvmlDevice_st *d, unsigned *milliwatt)
{
    if (lost(d))
        return 15;
    if (d->index == 1)
        return 3;
    *milliwatt = 300500;
    return 0;
}

/* Same bus IDs as the emulated GPUs. */
int nvmlDeviceGetPciInfo_v3(struct nvmlDevice_st *d, struct pci *pci)
{
    *pci = (struct pci){.bus = d->index + 1};
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return 0;
}

int nvmlDeviceGetPersistenceMode(struct nvmlDevice_st *d, unsigned *on)
{
    *on = d->index == 0;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct nvmlDevice_st *d, unsigned *count, void *list)
{
    unsigned capacity = *count;
    (void)list;
    *count = d->index == 0 && wrong("shared") ? 2 : 0;
    return *count > capacity ? 7 : 0;
}

int nvmlDeviceGetNvLinkState(struct nvmlDevice_st *d, unsigned link, unsigned *active)
{
    if (link >= 2)
        return 2;
    *active = !(d->index == 0 && link == 1 && (wrong("nvlink") || wrong("alone")));
    return 0;
}

int nvmlDeviceGetTotalEccErrors(struct nvmlDevice_st *d, int kind, int counter,
                                unsigned long long *errors)
{
    /* Corrected errors (kind 0) are not a fault. */
    *errors = kind == 0 || (d->index == 0 && counter == 0 && wrong("ecc")) ? 3 : 0;
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvmlDevice_st *d, unsigned long long *reasons)
{
    /* Idle clocks and a power cap are not faults. */
    const char *wish = getenv("FAKE_NVML");
    *reasons = d->index == 0 && wrong("throttle") ? 0x41 : 0x5;
    if (d->index == 0 && wish && !strncmp(wish, "0x", 2))
        *reasons = strtoull(wish, NULL, 16);
    return 0;
}

int nvmlSystemGetDriverVersion(char *version, unsigned capacity)
{
    snprintf(version, capacity, "550.0-fake");
    return 0;
}
