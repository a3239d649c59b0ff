/* update.c: optimizer updates, in pieces distributed over the threads, and sums of squares. */
#include "core/log.h"
#include "core/round.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/wire.h"

/* Scratch: two partial sums per chunk, then a ratio per span. */
enum ss_status ss_cpu_update_reserve(struct ss_device *cpu, size_t chunks)
{
    return ss_cpu_reserve(cpu, chunks * (2 * sizeof(double) + sizeof(float)));
}

static void update_piece(const struct ss_device *cpu, const struct ss_update *u,
                         const struct ss_rule_terms *terms, size_t at, size_t count)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    simd->update(u, terms, at, count);
    if (u->copy)
        ss_wire_pack(cpu->dtype, u->w + at, 1, (uint16_t *)u->copy + at, count);
    if (u->ema)
        simd->average(u->w + at, terms->average, u->ema + at, count);
}

/* Compute a ratio for each span, from sums that do not depend on the number of threads. */
static const float *span_ratios(struct ss_device *cpu, const struct ss_update *u)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    const struct ss_spans *s = &u->spans;
    double *sums = ss_cpu_scratch(cpu);
    float *ratio = (float *)(sums + 2 * s->nchunks);
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (uint32_t i = 0; i < s->nchunks; i++) {
        const struct ss_chunk *c = &s->chunk[i];
        const struct ss_rule_terms terms = ss_rule_begin(u, &s->span[c->span], u->step);
        float direction[SS_UPDATE_CHUNK];
        simd->direction(u, &terms, c->begin, c->count, direction);
        sums[2 * i] = simd->squares(u->w + c->begin, c->count);
        sums[2 * i + 1] = simd->squares(direction, c->count);
    }
    for (uint32_t k = 0; k < s->nspans; k++) {
        double w2 = 0, d2 = 0;
        for (uint32_t i = s->span[k].chunk; i < s->span[k].chunk + s->span[k].chunks; i++) {
            w2 += sums[2 * i];
            d2 += sums[2 * i + 1];
        }
        ratio[k] = ss_rule_ratio(u, &s->span[k], w2, d2);
    }
    return ratio;
}

static void update_spans(struct ss_device *cpu, const struct ss_update *u)
{
    const struct ss_spans *s = &u->spans;
    const float *ratio = ss_rule_has_norms(u->rule) ? span_ratios(cpu, u) : NULL;
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (s->nchunks > 1)
    for (uint32_t i = 0; i < s->nchunks; i++) {
        const struct ss_chunk *c = &s->chunk[i];
        struct ss_rule_terms terms = ss_rule_begin(u, &s->span[c->span], u->step);
        if (ratio)
            terms.lr *= ratio[c->span];
        update_piece(cpu, u, &terms, c->begin, c->count);
    }
}

static void update_whole(struct ss_device *cpu, const struct ss_update *u)
{
    const struct ss_rule_terms terms = ss_rule_begin(u, NULL, u->step);
    const size_t pieces = ss_divide_up(u->count, SS_SIMD_PIECE);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (pieces > 1)
    for (size_t i = 0; i < pieces; i++) {
        const size_t at = i * SS_SIMD_PIECE, left = u->count - at;
        update_piece(cpu, u, &terms, at, left < SS_SIMD_PIECE ? left : SS_SIMD_PIECE);
    }
}

enum ss_status ss_cpu_update(struct ss_device *cpu, const struct ss_update *given)
{
    struct ss_update u = *given;
    for (int k = 0; k < ss_rule_states(u.rule); k++)
        if (!u.state[k])
            return ss_fail(SS_ERR_INVALID, "update: state %d is missing", k);
    if (ss_rule_has_norms(u.rule) && !u.spans.nchunks && u.count)
        return ss_fail(SS_ERR_INVALID, "update: a rule with norms needs spans");
    if (u.scaler && u.scaler->found)
        return SS_OK;
    u.step = ss_update_made(given);
    u.scale = ss_update_scale(given);
    if (u.spans.nchunks)
        update_spans(cpu, &u);
    else
        update_whole(cpu, &u);
    return SS_OK;
}

enum ss_status ss_cpu_squares(struct ss_device *cpu, size_t count, const float *g, int first,
                              double *sum)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    const size_t chunks = ss_divide_up(count, SS_UPDATE_CHUNK);
    double *sums = ss_cpu_scratch(cpu);
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (chunks > 1)
    for (size_t i = 0; i < chunks; i++) {
        const size_t at = i * SS_UPDATE_CHUNK, left = count - at;
        sums[i] = simd->squares(g + at, left < SS_UPDATE_CHUNK ? left : SS_UPDATE_CHUNK);
    }
    double all = first ? 0 : *sum;
    for (size_t i = 0; i < chunks; i++)
        all += sums[i];
    *sum = all;
    return SS_OK;
}
