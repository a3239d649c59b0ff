/* machine.c: the machines of predictions (contract in machine.h). */
#include "sim/machine.h"
#include "core/log.h"
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Assumptions, not measurements, except `best`: 790 TFLOP/s of bf16 were measured on an H200.
 * Convolutions: 600 and 480 TFLOP/s there. Latency: 37 KB must be in flight in each of an H200's
 * multiprocessors (Little's law). found_l2: both halves of L2 may hold a copy, and half of each
 * holds a kernel's output. */
static const struct ss_machine_use gpu_use = {.matrix = 600 / 989.5,
                                              .wgrad = 480 / 989.5,
                                              .best = 790 / 989.5,
                                              .latency = 1.2e-6,
                                              .launch = 2e-6,
                                              .chain = 2.5e-6,
                                              .found_l2 = 0.25};

/* Fitted to traced steps (docs/speed.md). */
static const struct ss_machine_use cpu_use = {
    .matrix = 0.8, .wgrad = 0.7, .best = 1, .launch = 5e-6, .found_l2 = 0.5};

/* Bandwidth and FLOP/s: NVIDIA's datasheets "H200 Tensor Core GPU" (SXM, 2024), "GH200 Grace
 * Hopper Superchip" (2024, with 96 GB of HBM3), "H100 Tensor Core GPU" (SXM5, 2023), "A100 80GB"
 * (SXM, 2021), all on nvidia.com/en-us/data-center. Hopper's are given there with sparsity, which
 * doubles them. Multiprocessors and L2: the whitepapers "NVIDIA H100 Tensor Core GPU
 * Architecture" (2022) and "NVIDIA A100 Tensor Core GPU Architecture" (2020).
 *
 * 85 % of the bandwidth: 4.08 TB/s of an H200's 4.8; copies were measured at up to 4.3. The same
 * fraction is assumed for the others. */
const struct ss_machine ss_machines[] = {
    {"h200", "NVIDIA H200", "H200 SXM", "datasheet 2024", 4.8e12, 0.85, 989.5e12, 494.5e12, 67e12,
     132, 50e6, &gpu_use, 0},
    {"gh200", "NVIDIA GH200 480GB", "GH200 with 96 GB", "datasheet 2024", 4.0e12, 0.85, 989.5e12,
     494.5e12, 67e12, 132, 50e6, &gpu_use, 0},
    {"h100", "NVIDIA H100 80GB HBM3", "H100 SXM5", "datasheet 2023", 3.35e12, 0.85, 989.5e12,
     494.5e12, 67e12, 132, 50e6, &gpu_use, 0},
    {"a100", "NVIDIA A100-SXM4-80GB", "A100 SXM with 80 GB", "datasheet 2021", 2.039e12, 0.85,
     312e12, 156e12, 19.5e12, 108, 40e6, &gpu_use, 0},
    {0}};

enum ss_status ss_machine_find(const char *name, const struct ss_machine **out)
{
    char known[128] = "";
    const struct ss_machine *of_gpu = ss_machine_of_gpu(name);
    for (const struct ss_machine *m = ss_machines; m->name; m++) {
        if (m == of_gpu || !strcmp(m->name, name)) {
            *out = m;
            return SS_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", m->name);
    }
    return ss_fail(SS_ERR_INVALID, "unknown GPU %s; known: %s", name, known);
}

enum ss_status ss_machine_measure(int threads, struct ss_machine *out)
{
    struct ss_cpu_speed speed;
    const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    SS_TRY(ss_cpu_measure(threads, &speed));
    double pairs = speed.flops;
    if (ss_cpu_has_pairs(SS_DTYPE_BF16))
        SS_TRY(ss_cpu_measure_bf16(threads, &pairs));
    *out = (struct ss_machine){.name = "host",
                               .title = "this CPU",
                               .source = "measured",
                               .bandwidth = speed.bandwidth,
                               .achieved = 1,
                               .half = pairs,
                               .tf32 = speed.flops,
                               .single = speed.flops,
                               .l2 = cache > 0 ? (double)cache * threads : 0,
                               .use = &cpu_use,
                               .threads = threads};
    return SS_OK;
}

const struct ss_machine *ss_machine_of_gpu(const char *gpu)
{
    const char *rest = strstr(gpu, " (");
    const size_t length = rest ? (size_t)(rest - gpu) : strlen(gpu);
    for (const struct ss_machine *m = ss_machines; m->name; m++)
        if (strlen(m->gpu) == length && !strncmp(m->gpu, gpu, length))
            return m;
    return NULL;
}

double ss_machine_peak(const struct ss_machine *m, enum ss_dtype dtype, int tf32)
{
    return dtype != SS_DTYPE_F32 ? m->half : tf32 ? m->tf32 : m->single;
}
