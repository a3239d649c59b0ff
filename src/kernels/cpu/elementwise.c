/* elementwise.c: sums of tensors, in pieces over the threads. */
#include "core/log.h"
#include "core/round.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/simd.h"

enum ss_status ss_cpu_sum(struct ss_device *cpu, const void *const *src, int n, void *sum,
                          size_t count)
{
    float *dst = sum;
    if (n < 1)
        return ss_fail(SS_ERR_INVALID, "sum of %d tensors; at least 1 is needed", n);
    const struct ss_simd_rows *simd = ss_simd_table();
    const size_t pieces = ss_divide_up(count, SS_SIMD_PIECE);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (pieces > 1)
    for (size_t i = 0; i < pieces; i++) {
        const size_t at = i * SS_SIMD_PIECE,
                     len = count - at < SS_SIMD_PIECE ? count - at : SS_SIMD_PIECE;
        const float *part[SS_NORM_MAX_DY];
        int taken = n < SS_NORM_MAX_DY ? n : SS_NORM_MAX_DY;
        for (int k = 0; k < taken; k++)
            part[k] = (const float *)src[k] + at;
        simd->combine(part, taken, NULL, dst + at, len);
        while (taken < n) {
            int more = 1;
            part[0] = dst + at;
            for (; more < SS_NORM_MAX_DY && taken < n; more++, taken++)
                part[more] = (const float *)src[taken] + at;
            simd->combine(part, more, NULL, dst + at, len);
        }
    }
    return SS_OK;
}

enum ss_status ss_cpu_accumulate(struct ss_device *cpu, size_t count, const float *src, int add,
                                 float factor, float *dst)
{
#pragma omp parallel for simd schedule(static) num_threads(cpu->threads) if (count > SS_SIMD_PIECE)
    for (size_t i = 0; i < count; i++)
        dst[i] = add ? (dst[i] + src[i]) * factor : src[i];
    return SS_OK;
}
