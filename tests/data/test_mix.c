/* test_mix.c: MixUp, CutMix and random erasing against their formulas, sample by sample, and the
 * distributions of their draws. */
#include "core/rng.h"
#include "data/erase.h"
#include "data/mix.h"
#include "tests/data_common.h"

#include <math.h>

enum { SIDE_X = 20, SIDE_Y = 12, PIXELS = SIDE_X * SIDE_Y, ALL = 3 * PIXELS, DRAWS = 20000 };

static struct ss_dataset set; /* image size and normalization only */

static void make_set(void)
{
    set = (struct ss_dataset){.channels = 3,
                              .height = SIDE_Y,
                              .width = SIDE_X,
                              .mean = {0.485f, 0.456f, 0.406f},
                              .std = {0.229f, 0.224f, 0.225f}};
}

/* Checks that the mean of x[n] is within four standard errors of `want`. */
static void check_mean(const char *what, const double *x, int n, double want)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    const double mean = sum / n;
    for (int i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    const double sigma = sqrt(squares / n / n);
    ck_assert_msg(fabs(mean - want) < 4 * sigma, "%s: %g, not %g; sigma is %g", what, mean, want,
                  sigma);
}

/* Moments of Beta(a, a) around 1/2: the second is 1 / (4 (2a + 1)), the fourth 3 / (16 (2a + 1)
 * (2a + 3)), the sixth 15 / (64 (2a + 1) (2a + 3) (2a + 5)); odd ones are 0. */
START_TEST(beta)
{
    static const double alphas[] = {0.05, 0.2, 0.8, 1, 1.7, 8};
    static double x[DRAWS], power[DRAWS];
    const double a = alphas[_i], b = 2 * a + 1;
    const double want[] = {
        0, 1 / (4 * b), 0, 3 / (16 * b * (b + 2)), 0, 15 / (64 * b * (b + 2) * (b + 4))};
    struct ss_rng rng;
    ss_rng_open(&rng, 3, SS_RNG_MIX, 1, (uint32_t)_i);
    for (int i = 0; i < DRAWS; i++) {
        x[i] = ss_rng_beta(&rng, a);
        ck_assert(x[i] >= 0 && x[i] <= 1);
    }
    for (int p = 1; p <= 6; p++) {
        for (int i = 0; i < DRAWS; i++)
            power[i] = pow(x[i] - 0.5, p);
        check_mean("moment", power, DRAWS, want[p - 1]);
    }
    for (int i = 0; i < 100; i++) { /* so small that the share is 0 or 1 */
        const double edge = ss_rng_beta(&rng, 1e-300);
        ck_assert(edge >= 0 && edge <= 1);
    }
}
END_TEST

/* Beta(1, 1) is uniform: each tenth has an equal number of draws. */
START_TEST(beta_uniform)
{
    int tenth[10] = {0};
    struct ss_rng rng;
    ss_rng_open(&rng, 4, SS_RNG_MIX, 0, 0);
    for (int i = 0; i < DRAWS; i++) {
        const double x = ss_rng_beta(&rng, 1);
        tenth[x < 1 ? (int)(10 * x) : 9]++;
    }
    for (int k = 0; k < 10; k++)
        ck_assert_int_le(abs(tenth[k] - DRAWS / 10), (int)(4 * sqrt(DRAWS * 0.09)));
}
END_TEST

static int same_mix(struct ss_mix a, struct ss_mix b)
{
    return a.share == b.share && a.cut == b.cut && !memcmp(&a.box, &b.box, sizeof a.box);
}

/* A draw is a function of seed, epoch and sample. With both kinds on, each applies to half of the
 * samples. */
START_TEST(draws)
{
    const struct ss_mix_how both = {.mixup = 0.4, .cutmix = 1}, up = {.mixup = 0.4},
                            cut = {.cutmix = 1};
    int cuts = 0, other[3] = {0};
    for (uint32_t i = 0; i < 2000; i++) {
        const struct ss_mix m = ss_mix_draw(&both, 5, 2, i, SIDE_Y, SIDE_X);
        ck_assert(same_mix(m, ss_mix_draw(&both, 5, 2, i, SIDE_Y, SIDE_X)));
        ck_assert(same_mix(m, ss_mix_draw(m.cut ? &cut : &up, 5, 2, i, SIDE_Y, SIDE_X)));
        ck_assert_int_eq(ss_mix_draw(&up, 5, 2, i, SIDE_Y, SIDE_X).cut, 0);
        ck_assert_int_eq(ss_mix_draw(&cut, 5, 2, i, SIDE_Y, SIDE_X).cut, 1);
        cuts += m.cut;
        other[0] += !same_mix(m, ss_mix_draw(&both, 6, 2, i, SIDE_Y, SIDE_X));
        other[1] += !same_mix(m, ss_mix_draw(&both, 5, 3, i, SIDE_Y, SIDE_X));
        other[2] += !same_mix(m, ss_mix_draw(&both, 5, 2, i + 1, SIDE_Y, SIDE_X));
    }
    ck_assert_int_le(abs(cuts - 1000), 90);
    for (int k = 0; k < 3; k++)
        ck_assert_int_gt(other[k], 1900);
}
END_TEST

static int between(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

/* The box equals that of torchvision's v2.CutMix.make_params for the same lambda and center, which
 * are drawn again here. */
START_TEST(cutmix_box)
{
    const struct ss_mix_how how = {.cutmix = 0.7};
    double x[2000], y[2000];
    for (uint32_t i = 0; i < 2000; i++) {
        struct ss_rng rng;
        ss_rng_open(&rng, 9, SS_RNG_MIX, 1, i);
        (void)ss_rng_u32(&rng);
        const double lambda = ss_rng_beta(&rng, how.cutmix), r = 0.5 * sqrt(1 - lambda);
        const int cx = (int)ss_rng_below(&rng, SIDE_X), cy = (int)ss_rng_below(&rng, SIDE_Y);
        const int x1 = between(cx - (int)(r * SIDE_X), 0, SIDE_X),
                  x2 = between(cx + (int)(r * SIDE_X), 0, SIDE_X),
                  y1 = between(cy - (int)(r * SIDE_Y), 0, SIDE_Y),
                  y2 = between(cy + (int)(r * SIDE_Y), 0, SIDE_Y);
        const struct ss_mix m = ss_mix_draw(&how, 9, 1, i, SIDE_Y, SIDE_X);
        ck_assert_int_eq(m.box.x, x1);
        ck_assert_int_eq(m.box.y, y1);
        ck_assert_int_eq(m.box.width, x2 - x1);
        ck_assert_int_eq(m.box.height, y2 - y1);
        ck_assert_double_eq_tol((double)m.share, 1 - (double)((x2 - x1) * (y2 - y1)) / PIXELS,
                                1e-7);
        x[i] = cx;
        y[i] = cy;
    }
    check_mean("x of centres", x, 2000, (SIDE_X - 1) / 2.0);
    check_mean("y of centres", y, 2000, (SIDE_Y - 1) / 2.0);
}
END_TEST

START_TEST(mixup_share)
{
    const struct ss_mix_how how = {.mixup = 0.3};
    for (uint32_t i = 0; i < 200; i++) {
        struct ss_rng rng;
        ss_rng_open(&rng, 9, SS_RNG_MIX, 1, i);
        (void)ss_rng_u32(&rng);
        ck_assert_float_eq(ss_mix_draw(&how, 9, 1, i, SIDE_Y, SIDE_X).share,
                           (float)ss_rng_beta(&rng, how.mixup));
    }
}
END_TEST

static void random_images(uint32_t stream, uint8_t *bytes, float *floats)
{
    struct ss_rng rng;
    ss_rng_open(&rng, stream, SS_RNG_SYNTHETIC, 0, 0);
    for (int i = 0; i < ALL; i++) {
        bytes[i] = (uint8_t)ss_rng_u32(&rng);
        floats[i] = 4 * ss_rng_uniform(&rng) - 2;
    }
}

START_TEST(mixing)
{
    uint8_t a[ALL], b[ALL], got[ALL];
    float fa[ALL], fb[ALL], fgot[ALL];
    const struct ss_mix_how both = {.mixup = 0.5, .cutmix = 1};
    random_images(1, a, fa);
    random_images(2, b, fb);
    for (uint32_t n = 0; n < 200; n++) {
        struct ss_mix m = ss_mix_draw(&both, 1, 0, n, SIDE_Y, SIDE_X);
        if (n < 2) /* only the other image, only this one */
            m = (struct ss_mix){.share = (float)n};
        memcpy(got, a, sizeof got);
        memcpy(fgot, fa, sizeof fgot);
        ss_mix_apply(&set, &m, 1, got, b);
        ss_mix_apply(&set, &m, 0, fgot, fb);
        for (int i = 0; i < ALL; i++) {
            const int x = i % SIDE_X - m.box.x, y = i / SIDE_X % SIDE_Y - m.box.y;
            const int inside = x >= 0 && x < m.box.width && y >= 0 && y < m.box.height;
            const double share = !m.cut ? (double)m.share : !inside;
            const double want = share * a[i] + (1 - share) * b[i];
            ck_assert_double_le(fabs(got[i] - want), m.cut || n < 2 ? 0 : 0.50001);
            const double exact = share * (double)fa[i] + (1 - share) * (double)fb[i];
            ck_assert_double_le(fabs((double)fgot[i] - exact), m.cut || n < 2 ? 0 : 5e-7);
        }
    }
}
END_TEST

/* The box equals that of torchvision's RandomErasing.get_params for the same draws, which are
 * repeated here. */
START_TEST(erase_box)
{
    const int side = _i ? 224 : 32;
    double area[DRAWS], ratio[DRAWS];
    int n = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct ss_rng rng;
        struct ss_area a;
        ss_rng_open(&rng, 9, SS_RNG_ERASE, 1, i);
        if (!ss_erase_draw(0.25, 9, 1, i, side, side, &a)) {
            ck_assert(ss_rng_between(&rng, 0, 1) >= 0.25);
            continue;
        }
        ck_assert(ss_rng_between(&rng, 0, 1) < 0.25);
        const double want = side * side * ss_rng_between(&rng, 0.02, 0.33),
                     r = exp(ss_rng_between(&rng, log(0.3), log(3.3)));
        /* Other draws exceed the image (sqrt(0.33 * 3.3) is 1.04) and are repeated. */
        if (rint(sqrt(want * r)) < side && rint(sqrt(want / r)) < side) {
            ck_assert_int_eq(a.height, (int)rint(sqrt(want * r)));
            ck_assert_int_eq(a.width, (int)rint(sqrt(want / r)));
            ck_assert_int_eq(a.y, (int)ss_rng_below(&rng, (uint32_t)(side - a.height) + 1));
            ck_assert_int_eq(a.x, (int)ss_rng_below(&rng, (uint32_t)(side - a.width) + 1));
        }
        ck_assert(a.x >= 0 && a.y >= 0 && a.x + a.width <= side && a.y + a.height <= side);
        area[n] = (double)a.width * a.height / (side * side);
        ratio[n++] = log((double)a.height / a.width);
    }
    ck_assert_int_le(abs(n - DRAWS / 4), (int)(4 * sqrt(DRAWS * 0.1875)));
    /* Rejected draws remove very few of the largest boxes: an effect below the tolerance here. */
    check_mean("area", area, n, 0.175);
    check_mean("ratio", ratio, n, (log(0.3) + log(3.3)) / 2);
    struct ss_area none;
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert(!ss_erase_draw(0, 9, 1, i, side, side, &none) &&
                  ss_erase_draw(1, 9, 1, i, side, side, &none));
}
END_TEST

/* Loads samples with and without erasing: equal outside of the box, the mean color inside. */
static void check_erased(const struct ss_dataset *d, int bytes)
{
    const size_t plane = (size_t)d->height * (size_t)d->width, n = 3 * plane;
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    int erased = 0;
    for (uint32_t i = 0; i < 8; i++) {
        struct ss_load_how how = {.seed = 1, .epoch = 3, .augment = 1, .bytes = bytes};
        struct ss_area a = {0};
        int32_t label[2];
        ck_assert_int_eq(ss_dataset_load(d, i, &how, x, &label[0]), SS_OK);
        how.erase = 0.6;
        ck_assert_int_eq(ss_dataset_load(d, i, &how, y, &label[1]), SS_OK);
        ck_assert_int_eq(label[0], label[1]);
        erased += ss_erase_draw(0.6, 1, 3, i, d->height, d->width, &a);
        for (size_t k = 0; k < n; k++) {
            const int px = (int)(k % (size_t)d->width) - a.x,
                      py = (int)(k / (size_t)d->width % (size_t)d->height) - a.y;
            const int in = px >= 0 && px < a.width && py >= 0 && py < a.height;
            if (bytes)
                ck_assert_int_eq(((uint8_t *)y)[k], in ? (int)rint(255 * (double)d->mean[k / plane])
                                                       : ((uint8_t *)x)[k]);
            else
                ck_assert_float_eq(y[k], in ? 0 : x[k]);
        }
    }
    ck_assert(erased > 0 && erased < 8);
    free(x);
    free(y);
}

START_TEST(erasing)
{
    char path[1024];
    const char *srcdir = getenv("srcdir");
    struct ss_dataset *d = NULL;
    const struct ss_dataset_options options = {.size = ss_square(_i / 2 ? 64 : 0)};
    snprintf(path, sizeof path, "%s/tests/reference/%s", srcdir ? srcdir : ".",
             _i / 2 ? "image-folder" : "data");
    ck_assert_msg(ss_dataset_open(path, SS_SPLIT_TRAIN, &options, &d) == SS_OK, "%s",
                  ss_log_last_error());
    check_erased(d, _i % 2);
    ss_dataset_close(d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mix");
    TCase *t = tcase_create("mix");
    tcase_add_checked_fixture(t, make_set, NULL);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, beta, 0, 6);
    tcase_add_test(t, beta_uniform);
    tcase_add_test(t, draws);
    tcase_add_test(t, cutmix_box);
    tcase_add_test(t, mixup_share);
    tcase_add_test(t, mixing);
    tcase_add_loop_test(t, erase_box, 0, 2);
    tcase_add_loop_test(t, erasing, 0, 4);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
