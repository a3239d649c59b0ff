/* elementwise.c: sums and conversions of tensors, in pieces distributed over the threads. */
#include "core/log.h"
#include "core/round.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/wire.h"

enum ss_status ss_cpu_sum(struct ss_device *cpu, const void *const *src, int n, void *sum,
                          size_t count)
{
    if (n < 1)
        return ss_fail(SS_ERR_INVALID, "sum of %d tensors; at least 1 is needed", n);
    const size_t pieces = ss_divide_up(count, SS_SIMD_PIECE);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (pieces > 1)
    for (size_t i = 0; i < pieces; i++) {
        const size_t at = i * SS_SIMD_PIECE,
                     len = count - at < SS_SIMD_PIECE ? count - at : SS_SIMD_PIECE;
        const void *part[SS_NORM_MAX_DY];
        void *dst = ss_at(cpu, sum, at);
        int taken = n < SS_NORM_MAX_DY ? n : SS_NORM_MAX_DY;
        for (int k = 0; k < taken; k++)
            part[k] = ss_at(cpu, src[k], at);
        cpu->rows->combine(part, taken, NULL, dst, len);
        while (taken < n) {
            int more = 1;
            part[0] = dst;
            for (; more < SS_NORM_MAX_DY && taken < n; more++, taken++)
                part[more] = ss_at(cpu, src[taken], at);
            cpu->rows->combine(part, more, NULL, dst, len);
        }
    }
    return SS_OK;
}

enum ss_status ss_cpu_cast(struct ss_device *cpu, const float *src, void *dst, size_t count)
{
    uint16_t *to = dst;
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (count > SS_SIMD_PIECE)
    for (size_t at = 0; at < count; at += SS_SIMD_PIECE)
        ss_wire_pack(cpu->dtype, src + at, 1, to + at, ss_min(SS_SIMD_PIECE, count - at));
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
