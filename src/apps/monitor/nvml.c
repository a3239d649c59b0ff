/* Types, values and functions of NVIDIA's nvml.h (NVML API reference, 12.2); only those used are
 * declared here. */
#include "apps/monitor/nvml.h"
#include "core/log.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NVLINKS = 18,         /* maximum number */
    ECC_UNCORRECTED = 1,  /* nvmlMemoryErrorType_t */
    ECC_SINCE_DRIVER = 0, /* nvmlEccCounterType_t: volatile */
    HARDWARE_SLOWDOWN = 0x08,
    SOFTWARE_THERMAL = 0x20,
    HARDWARE_THERMAL = 0x40,
    POWER_BRAKE = 0x80, /* nvmlClocksThrottleReason */
};

enum nvml_return {
    NVML_SUCCESS = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_VERSION_MISMATCH = 25,
};

typedef struct nvml_device *nvml_device;

struct nvml_utilization {
    unsigned gpu, memory; /* percent */
};

struct nvml_memory { /* bytes; used includes the memory reserved by the driver */
    unsigned long long total, free, used;
};

struct nvml_pci {
    char legacy_id[16];
    unsigned domain, bus, device, ids, subsystem_ids;
    char bus_id[32];
};

struct nvml_memory_v2 { /* used excludes it, as nvidia-smi shows it */
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct ss_nvml {
    void *library;
    int count;
    nvml_device *device; /* NULL: not opened yet */
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int code);
    int (*get_count)(unsigned *count);
    int (*get_device)(unsigned index, nvml_device *device);
    int (*get_name)(nvml_device device, char *name, unsigned capacity);
    int (*get_memory)(nvml_device device, struct nvml_memory *memory);
    int (*get_memory_v2)(nvml_device device, struct nvml_memory_v2 *memory); /* may be NULL */
    int (*get_utilization)(nvml_device device, struct nvml_utilization *use);
    int (*get_power)(nvml_device device, unsigned *milliwatt);
    /* Device state queries; NULL with older drivers. */
    int (*get_pci)(nvml_device device, struct nvml_pci *pci);
    int (*get_persistence)(nvml_device device, unsigned *on);
    int (*get_processes)(nvml_device device, unsigned *count, void *list);
    int (*get_link)(nvml_device device, unsigned link, unsigned *active);
    int (*get_ecc)(nvml_device device, int kind, int counter, unsigned long long *errors);
    int (*get_slowed)(nvml_device device, unsigned long long *reasons);
    int (*get_driver)(char *version, unsigned capacity);
    char driver[80];
};

/* Load all functions. Returns the name of the first missing one that every driver has, or NULL. */
static const char *find_functions(struct ss_nvml *n)
{
    const struct {
        const char *name;
        void *to; /* function and data pointers are interchangeable wherever dlsym exists */
        int needed;
    } functions[] = {
        {"nvmlInit_v2", &n->init, 1},
        {"nvmlShutdown", &n->shutdown, 1},
        {"nvmlErrorString", &n->error_string, 1},
        {"nvmlDeviceGetCount_v2", &n->get_count, 1},
        {"nvmlDeviceGetHandleByIndex_v2", &n->get_device, 1},
        {"nvmlDeviceGetName", &n->get_name, 1},
        {"nvmlDeviceGetMemoryInfo", &n->get_memory, 1},
        {"nvmlDeviceGetUtilizationRates", &n->get_utilization, 1},
        {"nvmlDeviceGetPowerUsage", &n->get_power, 1},
        {"nvmlDeviceGetMemoryInfo_v2", &n->get_memory_v2, 0}, /* drivers >= 510 */
        {"nvmlDeviceGetPciInfo_v3", &n->get_pci, 0},
        {"nvmlDeviceGetPersistenceMode", &n->get_persistence, 0},
        {"nvmlDeviceGetComputeRunningProcesses_v3", &n->get_processes, 0},
        {"nvmlDeviceGetNvLinkState", &n->get_link, 0},
        {"nvmlDeviceGetTotalEccErrors", &n->get_ecc, 0},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &n->get_slowed, 0},
        {"nvmlSystemGetDriverVersion", &n->get_driver, 0},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(n->library, functions[i].name);
        if (!found && functions[i].needed)
            return functions[i].name;
        memcpy(functions[i].to, &found, sizeof found);
    }
    return NULL;
}

/* Load the library. Returns 1, or 0 after filling `why`. */
static int load(struct ss_nvml *n, char *why, size_t capacity)
{
    const char *file = getenv("STARSTEP_NVML"), *lacks;
    unsigned count;
    if (!file || !*file)
        file = "libnvidia-ml.so.1";
    n->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!n->library) {
        snprintf(why, capacity, "%s", dlerror());
        return 0;
    }
    if ((lacks = find_functions(n))) {
        snprintf(why, capacity, "%s has no %s", file, lacks);
        return 0;
    }
    int code = n->init();
    if (code != NVML_SUCCESS) {
        n->shutdown = NULL;
        snprintf(why, capacity, "nvmlInit: %s", n->error_string(code));
        return 0;
    }
    code = n->get_count(&count);
    if (code != NVML_SUCCESS || !count) {
        snprintf(why, capacity, "%s", code ? n->error_string(code) : "NVML found none");
        return 0;
    }
    n->device = calloc(count, sizeof *n->device);
    if (!n->device)
        snprintf(why, capacity, "out of memory");
    n->count = n->device ? (int)count : 0;
    return n->count > 0;
}

struct ss_nvml *ss_nvml_open(char *why, size_t capacity)
{
    struct ss_nvml *n = calloc(1, sizeof *n);
    if (!n) {
        snprintf(why, capacity, "out of memory");
        return NULL;
    }
    if (load(n, why, capacity))
        return n;
    ss_nvml_close(n);
    return NULL;
}

void ss_nvml_close(struct ss_nvml *n)
{
    if (!n)
        return;
    if (n->shutdown)
        n->shutdown();
    if (n->library)
        dlclose(n->library);
    free(n->device);
    free(n);
}

int ss_nvml_count(const struct ss_nvml *n)
{
    return n->count;
}

/* Returns 1 if a value was read. Returns 0 otherwise; a failure of the GPU is noted in out. */
static int worked(const struct ss_nvml *n, int code, struct ss_gpu_sample *out)
{
    if (code == NVML_SUCCESS)
        return 1;
    if (code != NVML_NOT_SUPPORTED && code != NVML_NO_PERMISSION && code != NVML_FUNCTION_NOT_FOUND)
        snprintf(out->failed, sizeof out->failed, "%s", n->error_string(code));
    return 0;
}

static void sample_memory(struct ss_nvml *n, nvml_device device, struct ss_gpu_sample *out)
{
    const double mib = 1048576;
    struct nvml_memory_v2 newer = {.version = sizeof newer | 2u << 24};
    struct nvml_memory older;
    if (n->get_memory_v2) {
        int code = n->get_memory_v2(device, &newer);
        if (code != NVML_FUNCTION_NOT_FOUND && code != NVML_VERSION_MISMATCH) {
            if (worked(n, code, out)) {
                out->memory_total = (double)newer.total / mib;
                out->memory_used = (double)newer.used / mib;
            }
            return;
        }
        n->get_memory_v2 = NULL;
    }
    if (worked(n, n->get_memory(device, &older), out)) {
        out->memory_total = (double)older.total / mib;
        out->memory_used = (double)older.used / mib;
    }
}

/* The device handle. NULL: currently unavailable, which is noted in out. */
static nvml_device *find_device(struct ss_nvml *n, int index, struct ss_gpu_sample *out)
{
    nvml_device *device = &n->device[index];
    if (*device || worked(n, n->get_device((unsigned)index, device), out))
        return device;
    *device = NULL;
    return NULL;
}

void ss_nvml_sample(struct ss_nvml *n, int index, struct ss_gpu_sample *out)
{
    struct nvml_utilization use;
    unsigned milliwatt;
    *out = (struct ss_gpu_sample){
        .memory_total = NAN, .memory_used = NAN, .busy = NAN, .memory_busy = NAN, .power = NAN};
    nvml_device *device = find_device(n, index, out);
    if (!device)
        return;
    if (!worked(n, n->get_name(*device, out->name, sizeof out->name), out))
        out->name[0] = '\0';
    sample_memory(n, *device, out);
    if (worked(n, n->get_utilization(*device, &use), out)) {
        out->busy = use.gpu;
        out->memory_busy = use.memory;
    }
    if (worked(n, n->get_power(*device, &milliwatt), out))
        out->power = milliwatt / 1e3;
}

static const char *why_slowed(unsigned long long reasons)
{
    if (reasons & (SOFTWARE_THERMAL | HARDWARE_THERMAL))
        return "too hot";
    if (reasons & POWER_BRAKE)
        return "power brake of the node's power supply";
    return reasons & HARDWARE_SLOWDOWN ? "hardware slowdown" : NULL;
}

static void probe_links(const struct ss_nvml *n, nvml_device device, struct ss_gpu_health *out)
{
    for (unsigned link = 0; n->get_link && link < NVLINKS; link++) {
        unsigned active;
        if (n->get_link(device, link, &active) != NVML_SUCCESS)
            return;
        out->links++;
        out->links_active += active != 0;
    }
}

void ss_nvml_health(struct ss_nvml *n, int index, struct ss_gpu_health *out)
{
    struct ss_gpu_sample failed = {.failed = ""};
    struct nvml_pci pci;
    unsigned number = 0;
    unsigned long long large;
    *out = (struct ss_gpu_health){.persistence = -1, .processes = -1, .ecc_errors = -1};
    nvml_device *device = find_device(n, index, &failed);
    if (!device)
        return;
    if (n->get_pci && n->get_pci(*device, &pci) == NVML_SUCCESS)
        snprintf(out->bus_id, sizeof out->bus_id, "%.31s", pci.bus_id);
    if (n->get_persistence && n->get_persistence(*device, &number) == NVML_SUCCESS)
        out->persistence = number != 0;
    number = 0; /* capacity of the list; the number is returned even so */
    int code = n->get_processes ? n->get_processes(*device, &number, NULL) : NVML_NOT_SUPPORTED;
    if (code == NVML_SUCCESS || code == NVML_INSUFFICIENT_SIZE)
        out->processes = (int)number;
    if (n->get_ecc &&
        n->get_ecc(*device, ECC_UNCORRECTED, ECC_SINCE_DRIVER, &large) == NVML_SUCCESS)
        out->ecc_errors = (long long)large;
    if (n->get_slowed && n->get_slowed(*device, &large) == NVML_SUCCESS)
        out->slowed = why_slowed(large);
    probe_links(n, *device, out);
}

const char *ss_nvml_driver(struct ss_nvml *n)
{
    if (!n->get_driver || n->get_driver(n->driver, sizeof n->driver) != NVML_SUCCESS)
        snprintf(n->driver, sizeof n->driver, "?");
    return n->driver;
}
