/* update.c: an optimizer's update, in pieces over the threads. */
#include "core/log.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/simd.h"

enum ss_status ss_cpu_update(struct ss_device *cpu, const struct ss_update *u)
{
    for (int k = 0; k < ss_rule_states(u->rule); k++)
        if (!u->state[k])
            return ss_fail(SS_ERR_INVALID, "update: state %d is missing", k);
    const struct ss_simd_rows *simd = ss_simd_table();
    const struct ss_rule_terms terms = ss_rule_begin(u, u->step);
    const size_t pieces = (u->count + SS_SIMD_PIECE - 1) / SS_SIMD_PIECE;
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (pieces > 1)
    for (size_t i = 0; i < pieces; i++) {
        const size_t at = i * SS_SIMD_PIECE, left = u->count - at;
        simd->update(u, &terms, at, left < SS_SIMD_PIECE ? left : SS_SIMD_PIECE);
    }
    return SS_OK;
}
