/* cpu.c: threads and scratch of one compute worker. The library behind it is in cpu_dnnl.c. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/internal.h"
#include "core/log.h"

void ss_cpu_enter(const struct ss_cpu *cpu)
{
    if (omp_get_max_threads() != cpu->threads)
        omp_set_num_threads(cpu->threads);
}

enum ss_status ss_cpu_open(int threads, struct ss_cpu **out)
{
    if (threads < 1)
        return ss_fail(SS_ERR_INVALID, "CPU kernels: %d threads; at least 1 is needed", threads);
    struct ss_cpu *cpu = calloc(1, sizeof(*cpu));
    if (!cpu)
        return ss_fail_memory("CPU kernels", sizeof(*cpu));
    cpu->threads = threads;
    ss_cpu_enter(cpu);
    enum ss_status status = ss_cpu_library_open(cpu);
    if (status != SS_OK) {
        ss_cpu_close(cpu);
        return status;
    }
    *out = cpu;
    return SS_OK;
}

void ss_cpu_close(struct ss_cpu *cpu)
{
    if (!cpu)
        return;
    ss_cpu_library_close(cpu);
    free(cpu->scratch);
    free(cpu);
}

int ss_cpu_threads(const struct ss_cpu *cpu)
{
    return cpu->threads;
}

enum ss_status ss_cpu_reserve(struct ss_cpu *cpu, size_t bytes)
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

void *ss_cpu_scratch(struct ss_cpu *cpu)
{
    return cpu->scratch;
}

size_t ss_cpu_scratch_bytes(const struct ss_cpu *cpu)
{
    return cpu->scratch_bytes;
}

void *ss_aligned_alloc(size_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    void *p;
    /* Tensors and Winograd's scratch are read with strides of many pages: 4 KiB pages thrash the
     * TLB there. */
    if (posix_memalign(&p, bytes >= 2 * huge ? huge : 64, bytes ? bytes : 64))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= 2 * huge)
        (void)madvise(p, bytes / huge * huge, MADV_HUGEPAGE);
#endif
    memset(p, 0, bytes);
    return p;
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
