/* test_wire.c: 2-byte formats for gradient communication. Conversions against the formats'
 * definitions, for every number and around every rounding boundary; values of the start-up
 * check. */
#include "comm/comm_base.h"
#include "core/rng.h"
#include "kernels/cpu/wire.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum ss_dtype formats[] = {SS_DTYPE_F16, SS_DTYPE_BF16};
/* Limits of oneDNN, and thus of the loops' instruction set. Read once per process; Check runs
 * each test in its own. */
static const char *const isas[] = {"ALL", "AVX2", "SSE41"};
enum { CASES = 6 };

static enum ss_dtype format_of(int test_case)
{
    setenv("DNNL_MAX_CPU_ISA", isas[test_case / 2], 1);
    return formats[test_case % 2];
}

/* Returns the magnitude of a finite number by the format's definition (fraction bits, bias). */
static double value_of(enum ss_dtype t, unsigned h)
{
    const int bits = t == SS_DTYPE_F16 ? 10 : 7, bias = t == SS_DTYPE_F16 ? 15 : 127;
    const int exponent = (int)(h >> bits), fraction = (int)(h & ((1u << bits) - 1));
    return exponent ? ldexp(fraction + (1 << bits), exponent - bias - bits)
                    : ldexp(fraction, 1 - bias - bits);
}

static unsigned infinity_of(enum ss_dtype t)
{
    return t == SS_DTYPE_F16 ? 0x7c00 : 0x7f80;
}

static unsigned pack_one(enum ss_dtype t, float x)
{
    /* Surrounded by others, so that vector loops convert it. */
    float many[32];
    uint16_t out[32];
    for (int i = 0; i < 32; i++)
        many[i] = i == 21 ? x : (float)i;
    ss_wire_pack(t, many, 1, out, 32);
    return out[21];
}

static void check_pack(enum ss_dtype t, float x, unsigned want)
{
    const unsigned got = pack_one(t, x), negative = pack_one(t, -x);
    if (got != want || negative != (want | 0x8000))
        ck_abort_msg("%a as %s is %#x and negative %#x, want %#x", (double)x, ss_dtype_name(t), got,
                     negative, want);
}

START_TEST(every_number)
{
    const enum ss_dtype t = format_of(_i);
    uint16_t *all = malloc(65536 * sizeof *all), *back = malloc(65536 * sizeof *back);
    float *wide = malloc(65536 * sizeof *wide);
    ck_assert(all && back && wide);
    for (unsigned h = 0; h < 65536; h++)
        all[h] = (uint16_t)h;
    ss_wire_unpack(t, all, 1, wide, 65536);
    ss_wire_pack(t, wide, 1, back, 65536);
    for (unsigned h = 0; h < 65536; h++) {
        const unsigned size = h & 0x7fff;
        if (size > infinity_of(t)) {
            if (!isnan(wide[h]) || back[h] != 0x7fff)
                ck_abort_msg("NaN %#x became %a, then %#x", h, (double)wide[h], back[h]);
            continue;
        }
        const double want = size == infinity_of(t) ? (double)INFINITY : value_of(t, size);
        if ((double)fabsf(wide[h]) != want || !!signbit(wide[h]) != h >> 15 || back[h] != h)
            ck_abort_msg("%#x became %a, want %a, then %#x", h, (double)wide[h], want, back[h]);
    }
    free(all);
    free(back);
    free(wide);
}
END_TEST

/* Midpoints between neighbors, and the floats next to them. All floats in between are rounded
 * like these, so that this covers the whole range. */
START_TEST(every_boundary)
{
    const enum ss_dtype t = format_of(_i);
    const unsigned infinity = infinity_of(t);
    for (unsigned h = 0; h < infinity; h++) {
        const double here = value_of(t, h);
        /* Infinity has the encoding that would follow the largest number. */
        const double half = (here + value_of(t, h + 1)) / 2;
        const float middle = (float)half;
        if ((double)middle != half)
            ck_abort_msg("%a is not a float", half);
        check_pack(t, middle, h % 2 ? h + 1 : h);
        check_pack(t, nextafterf(middle, 0), h);
        check_pack(t, nextafterf(middle, INFINITY), h + 1);
    }
    check_pack(t, INFINITY, infinity);
    check_pack(t, 3.4028235e38f, infinity);
    check_pack(t, 0x1p-149f, 0);
    ck_assert_uint_eq(pack_one(t, NAN), 0x7fff);
    ck_assert_uint_eq(pack_one(t, -NAN), 0x7fff);
}
END_TEST

static void fill(float *x, size_t count, uint32_t stream)
{
    struct ss_rng rng;
    ss_rng_open(&rng, 3, SS_RNG_SYNTHETIC, stream, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = (ss_rng_uniform(&rng) - 0.5f) * exp2f((float)ss_rng_below(&rng, 12));
}

/* Vector loops and their tails; no writes past the end. */
START_TEST(every_count)
{
    enum { MOST = 150 };
    const enum ss_dtype t = format_of(_i);
    const float u = t == SS_DTYPE_F16 ? 0x1p-11f : 0x1p-8f;
    float x[MOST], wide[MOST + 1];
    uint16_t packed[MOST + 1];
    fill(x, MOST, 0);
    for (size_t n = 0; n <= MOST; n++) {
        packed[n] = 0xabcd;
        wide[n] = 1e30f;
        ss_wire_pack(t, x, 0.25f, packed, n);
        ss_wire_unpack(t, packed, 4, wide, n);
        ck_assert_uint_eq(packed[n], 0xabcd);
        ck_assert(wide[n] == 1e30f);
        for (size_t i = 0; i < n; i++)
            if (packed[i] != pack_one(t, x[i] * 0.25f) || fabsf(wide[i] - x[i]) > u * fabsf(x[i]))
                ck_abort_msg("element %zu of %zu: %a became %#x and %a", i, n, (double)x[i],
                             packed[i], (double)wide[i]);
    }
}
END_TEST

/* Sums are computed in fp32 in the order of the sources and rounded once. The result may
 * overwrite a source. */
START_TEST(sums)
{
    enum { COUNT = 2500, MOST = 16 };
    static float wide[MOST][COUNT], x[COUNT];
    static uint16_t packed[MOST][COUNT], out[COUNT], want[COUNT];
    const enum ss_dtype t = format_of(_i);
    const uint16_t *from[MOST];
    for (int k = 0; k < MOST; k++) {
        fill(x, COUNT, (uint32_t)k);
        x[7] = k == 2 ? INFINITY : 1;
        x[8] = k == 2 ? INFINITY : k == 3 ? -INFINITY : 1;
        x[9] = k == 0 ? NAN : 1;
        ss_wire_pack(t, x, 1, packed[k], COUNT);
        ss_wire_unpack(t, packed[k], 1, wide[k], COUNT);
        from[k] = packed[k];
    }
    for (int n = 1; n <= MOST; n++) {
        ss_wire_sum(t, from, n, out, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            float sum = wide[0][i];
            for (int k = 1; k < n; k++)
                sum += wide[k][i];
            x[i] = sum;
        }
        ss_wire_pack(t, x, 1, want, COUNT);
        ck_assert_mem_eq(out, want, sizeof out);
        ck_assert(n < 3 || out[7] == infinity_of(t));
        ck_assert(n < 4 || out[8] == 0x7fff);
        ck_assert_uint_eq(out[9], 0x7fff);
    }
    ss_wire_sum(t, from, 3, out, COUNT);
    ss_wire_sum(t, from, 3, packed[1], COUNT);
    ck_assert_mem_eq(out, packed[1], sizeof out);
}
END_TEST

/* For any number of ranks: partial sums are integers that the format represents exactly, and
 * every rank contributes. */
START_TEST(check_values)
{
    static const int worlds[] = {1, 2, 3, 4, 7, 8, 9, 16, 17, 61, 62, 100, 1000, 4095, 4096};
    const enum ss_dtype t = (enum ss_dtype)_i;
    for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
        const int size = worlds[w];
        double present = 0;
        for (size_t i = 0; i < 1100; i++) {
            double sum = 0;
            for (int r = 0; r < size; r++) {
                const float value = ss_comm_check_value(t, size, r, i);
                if (value < 0 || value != truncf(value))
                    ck_abort_msg("rank %d of %d, element %zu: %a", r, size, i, (double)value);
                present += i < (size_t)(size + 7) / 8 && value > 0;
                sum += (double)value;
            }
            const double stated = (double)ss_comm_check_sum(t, size, i);
            if (sum != stated || sum <= 0 || sum > (t == SS_DTYPE_F32 ? 0x1p24 : 0x1p8))
                ck_abort_msg("%d ranks, element %zu: %g, expected %g", size, i, sum, stated);
        }
        ck_assert(present >= size);
    }
}
END_TEST

/* Division by the number of ranks and multiplication by it must restore a value. */
START_TEST(check_values_arrive)
{
    const enum ss_dtype t = formats[_i];
    for (int size = 1; size <= 4096; size++) {
        float x[256];
        uint16_t packed[256];
        for (int v = 0; v < 256; v++)
            x[v] = (float)size * (float)v;
        ss_wire_pack(t, x, 1.0f / (float)size, packed, 256);
        ss_wire_unpack(t, packed, (float)size, x, 256);
        for (int v = 0; v < 256; v++)
            if (x[v] != (float)size * (float)v)
                ck_abort_msg("%d ranks: %d became %a", size, v, (double)(x[v] / (float)size));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, every_number, 0, CASES);
    tcase_add_loop_test(t, every_boundary, 0, CASES);
    tcase_add_loop_test(t, every_count, 0, CASES);
    tcase_add_loop_test(t, sums, 0, CASES);
    tcase_add_loop_test(t, check_values, SS_DTYPE_F32, SS_DTYPE_BF16 + 1);
    tcase_add_loop_test(t, check_values_arrive, 0, 2);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
