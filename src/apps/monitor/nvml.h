/* State of a node's GPUs from NVML, the library of NVIDIA's driver. It is loaded at run time: the
 * build needs neither the library nor its header. */
#ifndef SS_APPS_MONITOR_NVML_H
#define SS_APPS_MONITOR_NVML_H

#include <stddef.h>

enum { SS_NVML_NAME = 96, SS_NVML_ERROR = 64 };

struct ss_gpu_sample {
    char name[SS_NVML_NAME];
    /* NAN: not reported by this GPU or driver. MiB, percent of the last sample period, W. */
    double memory_total, memory_used, busy, memory_busy, power;
    char failed[SS_NVML_ERROR]; /* "", or why the query failed: "GPU is lost" */
};

struct ss_nvml;

/* Load the library (STARSTEP_NVML, else libnvidia-ml.so.1) and find the GPUs. Returns NULL if
 * there is none; `why` (capacity bytes) then names what is missing. */
struct ss_nvml *ss_nvml_open(char *why, size_t capacity);
void ss_nvml_close(struct ss_nvml *nvml); /* NULL is fine */

/* The number of GPUs; indices are 0 .. count-1. */
int ss_nvml_count(const struct ss_nvml *nvml);

struct ss_gpu_health {
    char bus_id[32];         /* "00000000:1B:00.0"; "": not reported */
    int persistence;         /* 1, 0; -1: not reported */
    int processes;           /* compute processes of all users; -1: not reported */
    int links, links_active; /* NVLinks */
    /* uncorrected memory errors since the driver was loaded; -1: not reported */
    long long ecc_errors;
    const char *slowed; /* reason for reduced clocks, "too hot"; NULL: none or unknown */
};
/* Query the health of a GPU before it is used. Values that this GPU or driver does not report
 * stay unset. */
void ss_nvml_health(struct ss_nvml *nvml, int index, struct ss_gpu_health *out);
/* The driver's version, "550.54.15"; "?". */
const char *ss_nvml_driver(struct ss_nvml *nvml);

/* Sample a GPU. A failure is stored in out->failed; the next call queries the GPU again. */
void ss_nvml_sample(struct ss_nvml *nvml, int index, struct ss_gpu_sample *out);

#endif
