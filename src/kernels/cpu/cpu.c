/* cpu.c: threads and scratch of a compute worker. oneDNN, if present, is opened in dnnl.c. */
#include "core/alloc.h"
#include "core/log.h"
#include "kernels/cpu/internal.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ss_cpu_enter(const struct ss_device *cpu)
{
    if (omp_get_max_threads() != cpu->threads)
        omp_set_num_threads(cpu->threads);
}

enum ss_status ss_cpu_open(const struct ss_device_options *options, struct ss_device **out)
{
    if (options->threads < 1)
        return ss_fail(SS_ERR_INVALID, "CPU kernels: %d threads; at least 1 is needed",
                       options->threads);
    struct ss_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return ss_fail_memory("CPU kernels", sizeof *cpu);
    const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    cpu->threads = options->threads;
    cpu->cache_bytes = cache > 0 ? (size_t)cache : (size_t)1 << 20;
    cpu->dtype = options->dtype;
    cpu->rows = options->dtype == SS_DTYPE_F16 ? NULL : ss_act_table(options->dtype);
    cpu->element = ss_dtype_bytes(options->dtype);
    ss_cpu_enter(cpu);
    enum ss_status status = ss_cpu_library_open(cpu);
    if (status != SS_OK) {
        ss_cpu_close(cpu);
        return status;
    }
    *out = cpu;
    return SS_OK;
}

void ss_cpu_close(struct ss_device *cpu)
{
    if (!cpu)
        return;
    ss_cpu_library_close(cpu);
    free(cpu->scratch);
    free(cpu);
}

ss_stream ss_cpu_stream(const struct ss_device *cpu)
{
    (void)cpu;
    return NULL;
}

enum ss_status ss_cpu_synchronize(struct ss_device *cpu)
{
    (void)cpu;
    return SS_OK;
}

enum ss_status ss_cpu_alloc(struct ss_device *cpu, size_t bytes, const char *what, void **out)
{
    (void)cpu;
    *out = ss_aligned_alloc(bytes);
    return *out ? SS_OK : ss_fail_memory(what, bytes);
}

void ss_cpu_free(void *data)
{
    free(data);
}

enum ss_status ss_cpu_alloc_host(struct ss_device *cpu, size_t bytes, const char *what, void **out)
{
    return ss_cpu_alloc(cpu, bytes, what, out);
}

void ss_cpu_free_host(void *data)
{
    free(data);
}

void ss_cpu_memory(const struct ss_device *cpu, size_t *used, size_t *whole)
{
    (void)cpu;
    *used = *whole = 0;
}

enum ss_status ss_cpu_copy(struct ss_device *cpu, void *dst, const void *src, size_t bytes)
{
    (void)cpu;
    memcpy(dst, src, bytes);
    return SS_OK;
}

enum ss_status ss_cpu_copy_async(void *dst, const void *src, size_t bytes, ss_stream stream)
{
    (void)stream;
    memcpy(dst, src, bytes);
    return SS_OK;
}

enum ss_status ss_cpu_zero_async(void *dst, size_t bytes, ss_stream stream)
{
    (void)stream;
    memset(dst, 0, bytes);
    return SS_OK;
}

enum ss_status ss_cpu_reserve(struct ss_device *cpu, size_t bytes)
{
    if (bytes <= cpu->scratch_bytes)
        return SS_OK;
    void *scratch = ss_aligned_alloc(bytes);
    if (!scratch)
        return ss_fail_memory("scratch of CPU kernels", bytes);
    free(cpu->scratch);
    cpu->scratch = scratch;
    cpu->scratch_bytes = bytes;
    return SS_OK;
}

void *ss_cpu_scratch(const struct ss_device *cpu)
{
    return cpu->scratch;
}

enum ss_status ss_act_check(const struct ss_act *a, const char *what)
{
    if (a->n < 1 || a->c < 1 || a->h < 1 || a->w < 1)
        return ss_fail(SS_ERR_SHAPE, "%s: shape (%d,%d,%d,%d); every size must be at least 1", what,
                       a->n, a->c, a->h, a->w);
    if (a->block != 1 && a->block != 8 && a->block != 16 && a->block != a->c)
        return ss_fail(SS_ERR_SHAPE, "%s: channel block %d; known are 1, 8, 16 and C = %d", what,
                       a->block, a->c);
    return SS_OK;
}

enum ss_status ss_act_check_view(const struct ss_act *a, int pitch, const char *what)
{
    if (pitch && (pitch < a->c || (a->block != 1 && a->block != 8 && a->block != 16)))
        return ss_fail(SS_ERR_SHAPE,
                       "%s: %d channels in blocks of %d as a view of %d; a view has at most as "
                       "many channels, in blocks of 1, 8 or 16",
                       what, a->c, a->block, pitch);
    return ss_act_check(a, what);
}
