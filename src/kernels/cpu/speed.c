/* speed.c: measures the throughput of threads on this processor, with the loops that dominate the
 * time of a step. */
#include "core/alloc.h"
#include "core/clock.h"
#include "core/log.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/simd.h"

#include <omp.h>
#include <stdlib.h>

/* A product whose operands stay in the L1 cache. Rows are a multiple of those that each
 * instruction set has in registers. */
enum { ROWS = 42, MATRIX_UNIT_ROWS = 32, CHANNELS = 64, PANEL = 2, ROUNDS = 8 };
/* Bytes of each of three arrays: more than all caches have together. */
static const size_t ARRAY = (size_t)32 << 20, ARRAY_OF_THREAD = (size_t)4 << 20;
static const double round_seconds = 8e-3;

struct operands {
    float *v, *u, *m;
    int lanes, rows;
    void (*product)(const struct ss_panel_product *f);
};

static void multiply(const struct operands *o, long times)
{
    const struct ss_panel_product product = {.v = o->v,
                                             .u = o->u,
                                             .m = o->m,
                                             .v_step = (size_t)o->rows * (size_t)o->lanes,
                                             .m_step = (size_t)o->lanes,
                                             .m_row = (size_t)PANEL * (size_t)o->lanes,
                                             .tiles = o->rows,
                                             .channels = CHANNELS,
                                             .vectors = PANEL,
                                             .next = o->u};
    for (long i = 0; i < times; i++)
        o->product(&product);
}

/* Return the seconds in which each thread multiplies `times` times. */
static double time_products(const struct operands *of, int threads, long times)
{
    const double begin = ss_seconds();
#pragma omp parallel num_threads(threads)
    multiply(&of[omp_get_thread_num()], times);
    return ss_seconds() - begin;
}

static size_t floats_of(int lanes)
{
    return (size_t)(ROWS * CHANNELS + (CHANNELS + ROWS) * PANEL * lanes);
}

/* Return the best of some rounds: other processes can only make a round slower. */
static double measure_flops(struct operands *of, int threads)
{
    double best = 0;
    long times = 1;
    while (time_products(of, threads, times) < round_seconds)
        times *= 2;
    for (int i = 0; i < ROUNDS; i++) {
        const double rate = (double)times / time_products(of, threads, times);
        best = rate > best ? rate : best;
    }
    return best * threads * 2.0 * of->rows * CHANNELS * PANEL * of->lanes;
}

/* pairs NULL: products of floats. */
static enum ss_status flops(int threads, const struct ss_pair_products *pairs, double *out)
{
    const struct ss_simd_rows *simd = ss_simd_table();
    const int lanes = simd->lanes;
    const size_t each = floats_of(lanes) * sizeof(float);
    const size_t step = ss_align_up(each), all = step * (size_t)threads;
    char *memory = ss_aligned_alloc(all);
    struct operands *of = calloc((size_t)threads, sizeof *of);
    if (memory && of) {
        for (int t = 0; t < threads; t++) {
            float *v = (float *)(void *)(memory + step * (size_t)t), *u = v + ROWS * CHANNELS;
            of[t] = (struct operands){v,
                                      u,
                                      u + (size_t)(CHANNELS * PANEL * lanes),
                                      lanes,
                                      pairs && !pairs->outer_product ? MATRIX_UNIT_ROWS : ROWS,
                                      pairs ? pairs->panel_product : simd->panel_product};
            for (size_t i = 0; i < each / sizeof *v; i++)
                v[i] = 0.5f;
        }
        *out = measure_flops(of, threads) * (pairs ? 2 : 1);
    }
    free(of);
    free(memory);
    return memory && of ? SS_OK : ss_fail_memory("measuring the processor", all);
}

/* Time y = a b with all threads. */
static double time_pass(const float *a, const float *b, float *y, int threads, size_t count)
{
    const struct ss_act_rows *rows = ss_act_table(SS_DTYPE_F32);
    const int pieces = (int)(count / SS_SIMD_PIECE);
    const double begin = ss_seconds();
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int i = 0; i < pieces; i++) {
        const size_t at = (size_t)i * SS_SIMD_PIECE;
        rows->product(a + at, b + at, y + at, SS_SIMD_PIECE);
    }
    return ss_seconds() - begin;
}

static enum ss_status bandwidth(int threads, double *out)
{
    const size_t bytes = ARRAY + ARRAY_OF_THREAD * (size_t)threads, count = bytes / sizeof(float);
    float *a = ss_aligned_alloc(3 * bytes);
    if (!a)
        return ss_fail_memory("measuring the memory", 3 * bytes);
    float *b = a + count, *y = b + count;
    const int pieces = (int)(3 * count / SS_SIMD_PIECE);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int i = 0; i < pieces; i++)
        for (int k = 0; k < SS_SIMD_PIECE; k++)
            a[(size_t)i * SS_SIMD_PIECE + (size_t)k] = 0.5f;
    double best = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const double rate = 3 * (double)bytes / time_pass(a, b, y, threads, count);
        best = rate > best ? rate : best;
    }
    *out = best;
    free(a);
    return SS_OK;
}

static enum ss_status check_threads(int threads)
{
    if (threads < 1)
        return ss_fail(SS_ERR_INVALID, "measuring the processor: %d threads; at least 1 is needed",
                       threads);
    return SS_OK;
}

enum ss_status ss_cpu_measure(int threads, struct ss_cpu_speed *out)
{
    SS_TRY(check_threads(threads));
    SS_TRY(flops(threads, NULL, &out->flops));
    return bandwidth(threads, &out->bandwidth);
}

enum ss_status ss_cpu_measure_bf16(int threads, double *out)
{
    SS_TRY(check_threads(threads));
    return flops(threads, ss_simd_pairs(), out);
}

int ss_cpu_has_pairs(enum ss_dtype dtype)
{
    return dtype == SS_DTYPE_BF16 && ss_simd_pairs();
}
