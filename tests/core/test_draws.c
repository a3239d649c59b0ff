/* test_draws.c: golden values of every random draw. The draws of a seed must not change, because
 * runs are reproduced and resumed with it. */
#include "codelets/dropout.h"
#include "core/rng.h"
#include "data/augment.h"
#include "data/crop.h"
#include "data/erase.h"
#include "data/mix.h"
#include "data/sampler.h"
#include "kernels/dropout.h"
#include "tests/run_suite.h"

enum { SEED = 42 };
/* Draws that use the C library's log, exp or cos may differ in the last digits. */
static const double near = 1e-6;

static void check_area(struct ss_area got, struct ss_area want)
{
    ck_assert_int_eq(got.x, want.x);
    ck_assert_int_eq(got.y, want.y);
    ck_assert_int_eq(got.width, want.width);
    ck_assert_int_eq(got.height, want.height);
}

START_TEST(numbers)
{
    struct ss_rng rng;
    ss_rng_open(&rng, SEED, SS_RNG_SYNTHETIC, 3, 7);
    ck_assert_uint_eq(ss_rng_u32(&rng), 2096104735);
    ck_assert_float_eq(ss_rng_uniform(&rng), 0.739104033f);
    ck_assert_double_eq(ss_rng_between(&rng, -1, 3), 1.6421146701442568);
    ck_assert_double_eq_tol((double)ss_rng_normal(&rng), -1.33178258, near);
    ck_assert_double_eq_tol(ss_rng_beta(&rng, 0.2), 0.99915156556303764, near);
    ck_assert_double_eq_tol(ss_rng_beta(&rng, 2), 0.52858897367226465, near);
    ck_assert_uint_eq(ss_rng_below(&rng, 1000), 207);
}
END_TEST

START_TEST(order)
{
    static const uint32_t want[2][12] = {{11, 8, 3, 1, 7, 5, 6, 0, 9, 2, 4, 10},
                                         {7, 5, 8, 10, 4, 3, 9, 1, 0, 2, 11, 6}};
    struct ss_sampler s;
    ck_assert_int_eq(ss_sampler_open(&s, 12, 0, 1, 3, 1, 1, SEED), SS_OK);
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        ss_sampler_set_epoch(&s, epoch);
        ck_assert_mem_eq(s.order, want[epoch], sizeof want[epoch]);
    }
    ss_sampler_close(&s);
}
END_TEST

START_TEST(crop_and_flip)
{
    static const struct ss_crop_flip want[] = {{3, 4, 1}, {3, 3, 0}, {4, 8, 1}, {8, 8, 0}};
    const struct ss_crop_flip got = ss_augment_draw(SEED, 1, (uint32_t)_i, 4);
    ck_assert_int_eq(got.dy, want[_i].dy);
    ck_assert_int_eq(got.dx, want[_i].dx);
    ck_assert_int_eq(got.flip, want[_i].flip);
}
END_TEST

START_TEST(resized_crop)
{
    static const struct {
        struct ss_area area;
        int flip;
    } want[] = {{{309, 209, 160, 154}, 1},
                {{83, 2, 253, 323}, 1},
                {{137, 56, 291, 249}, 0},
                {{198, 165, 266, 208}, 0}};
    const struct ss_crop got =
        ss_crop_draw(SEED, 1, (uint32_t)_i, 500, 375, &SS_CROP_RANGE, ss_square(224));
    check_area(got.area, want[_i].area);
    ck_assert_int_eq(got.flip, want[_i].flip);
}
END_TEST

START_TEST(erased)
{
    static const struct {
        int erased;
        struct ss_area area;
    } want[] = {{1, {26, 1, 11, 9}}, {1, {24, 11, 21, 15}}, {0, {0, 0, 0, 0}}};
    struct ss_area got = {0};
    ck_assert_int_eq(ss_erase_draw(0.5, SEED, 1, 8 + (uint32_t)_i, 32, 48, &got), want[_i].erased);
    check_area(got, want[_i].area);
}
END_TEST

START_TEST(mixed)
{
    static const struct ss_mix want[] = {{0.8359375f, 1, {30, 18, 18, 14}},
                                         {0.541666687f, 1, {4, 10, 32, 22}},
                                         {0.999836862f, 0, {0, 0, 0, 0}},
                                         {0.84375f, 1, {6, 2, 20, 12}}};
    const struct ss_mix_how how = {.mixup = 0.4, .cutmix = 1};
    const struct ss_mix got = ss_mix_draw(&how, SEED, 1, (uint32_t)_i, 32, 48);
    ck_assert_int_eq(got.cut, want[_i].cut);
    ck_assert_double_eq_tol((double)got.share, (double)want[_i].share, near);
    check_area(got.box, want[_i].box);
}
END_TEST

/* Keys by rank, micro-batch and layer, and a bit mask of the 32 elements that a key retains. */
START_TEST(dropped)
{
    static const struct {
        uint64_t key;
        uint32_t kept;
    } want[2][2][2] = {{{{0x0cb11f54c973239d, 0xdeca10e3}, {0x1e7f425d30544939, 0xde3cdbed}},
                        {{0x3346c9bb3a1b35b4, 0x9fa6c7ec}, {0xe6f6bf3f0b9baf6c, 0x7f6baf4f}}},
                       {{{0xe7917e7c1d081252, 0xb7cdf58c}, {0x11a94e2330a0e42c, 0x747777fd}},
                        {{0x68e7c06af8f6e061, 0xdcfad9a4}, {0x5aa164b834ad953b, 0xf766ffe3}}}};
    struct ss_block blocks[2] = {{.first_layer = 3}, {.first_layer = 9}};
    const struct ss_plan plan = {.nblocks = 2, .block = blocks};
    for (int block = 0; block < 2; block++)
        for (int micro = 0; micro < 2; micro++)
            for (int rank = 0; rank < 2; rank++) {
                const struct ss_dropout d = {.plan = &plan, .seed = SEED, .rank = rank};
                const uint64_t key = ss_dropout_key(&d, 7, micro, block);
                uint32_t kept = 0;
                for (uint32_t i = 0; i < 32; i++)
                    kept |= (uint32_t)ss_dropout_keep(key, i, 0.3f) << i;
                ck_assert_uint_eq(key, want[block][micro][rank].key);
                ck_assert_uint_eq(kept, want[block][micro][rank].kept);
            }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("draws");
    TCase *t = tcase_create("golden");
    tcase_add_test(t, numbers);
    tcase_add_test(t, order);
    tcase_add_loop_test(t, crop_and_flip, 0, 4);
    tcase_add_loop_test(t, resized_crop, 0, 4);
    tcase_add_loop_test(t, erased, 0, 3);
    tcase_add_loop_test(t, mixed, 0, 4);
    tcase_add_test(t, dropped);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
