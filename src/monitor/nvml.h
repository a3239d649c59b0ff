/* What a node's GPUs do, from NVML, the library of NVIDIA's driver, which is loaded when it is
 * wanted: the build needs neither the library nor its header. */
#ifndef SS_MONITOR_NVML_H
#define SS_MONITOR_NVML_H

#include <stddef.h>

enum { SS_NVML_NAME = 96, SS_NVML_ERROR = 64 };

struct ss_gpu_sample {
    char name[SS_NVML_NAME];
    /* NAN: this GPU or driver does not tell. MiB, percent of the last sample period, W. */
    double memory_total, memory_used, busy, memory_busy, power;
    char failed[SS_NVML_ERROR]; /* "", or why it told nothing: "GPU is lost" */
};

struct ss_nvml;

/* Load the library (STARSTEP_NVML, else libnvidia-ml.so.1) and look for GPUs. NULL where there is
 * none; `why` (room bytes) then says what is missing. */
struct ss_nvml *ss_nvml_open(char *why, size_t room);
void ss_nvml_close(struct ss_nvml *nvml); /* NULL is fine */

/* How many GPUs; their indices are 0 .. count-1. */
int ss_nvml_count(const struct ss_nvml *nvml);

struct ss_gpu_health {
    char bus_id[32];         /* "00000000:1B:00.0"; "": not told */
    int persistence;         /* 1, 0; -1: not told */
    int processes;           /* that compute on it, of any user; -1: not told */
    int links, links_active; /* NVLinks */
    long long ecc_errors; /* of memory, not corrected, since the driver was loaded; -1: not told */
    const char *slowed;   /* "too hot": its clocks are kept down; NULL: no, or not told */
};
/* What may be wrong with a GPU before anything computes on it. What this GPU or driver does not tell is
 * left out. */
void ss_nvml_health(struct ss_nvml *nvml, int index, struct ss_gpu_health *out);
/* The driver's version, "550.54.15"; "?". */
const char *ss_nvml_driver(struct ss_nvml *nvml);

/* A GPU that fails shows in out->failed, and is asked again next time. */
void ss_nvml_sample(struct ss_nvml *nvml, int index, struct ss_gpu_sample *out);

#endif
