/* test_kernels_amx.c: the panel product with AMX or its emulation against double precision. */
#include "tests/kernels/amx_emulator.h"
#include "tests/kernels/test_kernels.h"

#include "core/round.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/wire.h"

#if defined(__x86_64__) && defined(__linux__)
enum { W = 16, MOST = 140 /* rows and pairs */, NSIZES = 9, MARGIN = 32 };

static const int sizes[NSIZES] = {1, 7, 15, 16, 17, 32, 33, 48, MOST};

/* Returns random bf16 numbers and stores their values in `wide`. Free with free(). */
static uint16_t *halves(size_t count, uint32_t stream, double *wide)
{
    double *x = random_doubles(count, stream);
    float *narrow = to_floats(x, count);
    uint16_t *half = ss_aligned_alloc(count * sizeof *half);
    ss_wire_pack(SS_DTYPE_BF16, narrow, 1, half, count);
    ss_wire_unpack(SS_DTYPE_BF16, half, 1, narrow, count);
    for (size_t i = 0; i < count; i++)
        wide[i] = (double)narrow[i];
    free(x);
    free(narrow);
    return half;
}

/* Returns the left operand (rows, 2 pairs) in blocks. NaNs follow the last pair of a row and must
 * not be read. Free with free(). */
static float *left_of(const uint16_t *x, int rows, int pairs)
{
    const size_t blocks = ss_divide_up((size_t)pairs, W);
    uint16_t *left = ss_aligned_alloc(blocks * (size_t)rows * 2 * W * sizeof *left);
    memset(left, 0xff, blocks * (size_t)rows * 2 * W * sizeof *left);
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < 2 * pairs; k++)
            left[((size_t)(k / (2 * W)) * (size_t)rows + (size_t)r) * 2 * W +
                 (size_t)(k % (2 * W))] = x[(size_t)r * 2 * MOST + (size_t)k];
    return (float *)(void *)left;
}

/* All numbers of rows and pairs, one and two vectors, overwriting and adding. */
START_TEST(panels)
{
    const int rows = sizes[_i % NSIZES], pairs = sizes[_i / NSIZES];
    static double x[MOST * 2 * MOST], y[MOST * 2 * W * 2];
    static float m[2 * (MOST * W + MARGIN)];
    uint16_t *of_x = halves(sizeof x / sizeof *x, 1, x), *of_y = halves(sizeof y / sizeof *y, 2, y);
    float *left = left_of(of_x, rows, pairs);
    amx_emulate();
    for (int vectors = 1; vectors <= 2; vectors++)
        for (int adds = 0; adds <= 1; adds++) {
            const size_t step = (size_t)rows * W + MARGIN, count = (size_t)vectors * step;
            for (size_t i = 0; i < count; i++)
                m[i] = i % step < (size_t)rows * W && !adds ? NAN : 0.25f;
            ss_pairs_amx.panel_product(&(struct ss_panel_product){.v = left,
                                                                  .u = (const float *)(void *)of_y,
                                                                  .m = m,
                                                                  .v_step = (size_t)rows * W,
                                                                  .m_step = step,
                                                                  .m_row = W,
                                                                  .tiles = rows,
                                                                  .channels = pairs,
                                                                  .vectors = vectors,
                                                                  .adds = adds});
            for (size_t i = 0; i < count; i++) {
                const int v = (int)(i / step), r = (int)(i % step / W), c = (int)(i % W);
                double want = adds || r >= rows ? 0.25 : 0;
                for (int k = 0; k < 2 * pairs && r < rows; k++)
                    want += x[r * 2 * MOST + k] * y[((k / 2 * vectors + v) * W + c) * 2 + k % 2];
                ck_assert_msg(fabs((double)m[i] - want) < 1e-5 * (1 + fabs(want)),
                              "%d rows, %d pairs, vector %d of %d, adds %d: (%d,%d) is %g, not %g",
                              rows, pairs, v, vectors, adds, r, c, (double)m[i], want);
            }
        }
    free(of_x);
    free(of_y);
    free(left);
}
END_TEST

/* A row's result does not depend on the number of rows. */
START_TEST(cut_into_rows)
{
    enum { ALL = 45, PAIRS = 37 };
    static double x[MOST * 2 * MOST], y[PAIRS * 2 * W];
    static float whole[ALL * W], part[ALL * W];
    uint16_t *of_x = halves(sizeof x / sizeof *x, 1, x), *of_y = halves(sizeof y / sizeof *y, 2, y);
    float *left = left_of(of_x, ALL, PAIRS);
    struct ss_panel_product f = {.v = left,
                                 .u = (const float *)(void *)of_y,
                                 .m = whole,
                                 .v_step = ALL * W,
                                 .m_row = W,
                                 .tiles = ALL,
                                 .channels = PAIRS,
                                 .vectors = 1};
    amx_emulate();
    ss_pairs_amx.panel_product(&f);
    for (int first = 0; first < ALL; first += _i) {
        f.v = left + (size_t)first * W;
        f.m = part + (size_t)first * W;
        f.tiles = ALL - first < _i ? ALL - first : _i;
        ss_pairs_amx.panel_product(&f);
    }
    ck_assert_mem_eq(whole, part, sizeof whole);
    free(of_x);
    free(of_y);
    free(left);
}
END_TEST
#endif

Suite *amx_suite(void)
{
    Suite *suite = suite_create("amx");
    TCase *t = tcase_create("amx");
    suite_add_tcase(suite, t);
    tcase_set_timeout(t, 240);
#if defined(__x86_64__) && defined(__linux__)
    tcase_add_loop_test(t, panels, 0, NSIZES * NSIZES);
    tcase_add_loop_test(t, cut_into_rows, 1, 34);
#endif
    return suite;
}
