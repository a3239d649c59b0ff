/* test_resize.c: resized and cropped images are bit-identical to PIL's and torchvision's; the crop
 * draw depends only on seed, epoch and sample and has torchvision's distribution. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/rng.h"
#include "data/crop.h"
#include "data/normalise.h"
#include "data/resize.h"
#include "data/resize_kernels.h"
#include "tests/data/data_images.h"

#include <math.h>

static struct ss_jpeg *decoder;
static struct ss_resizer *resizer;

static void setup(void)
{
    ss_log_set_quiet(1);
    ck_assert_int_eq(ss_jpeg_open(&decoder), SS_OK);
    ck_assert_int_eq(ss_resizer_open(&resizer), SS_OK);
}

/* Selects the plain kernels, as on baseline x86-64 or another architecture. */
static void setup_plain(void)
{
    setup();
    resize_plain_kernels = 1;
}

static void teardown(void)
{
    resize_plain_kernels = 0;
    ss_resizer_close(resizer);
    ss_jpeg_close(decoder);
}

/* Checks that `out` in `order` equals the recorded image. */
static void expect_image(const char *expected, const uint8_t *out, enum ss_pixel_order order,
                         int width, int height)
{
    struct image want = read_ppm(expected);
    ck_assert_int_eq(width, want.width);
    ck_assert_int_eq(height, want.height);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                int at =
                    order == SS_PIXELS_HWC ? 3 * (y * width + x) + c : (c * height + y) * width + x;
                int right = want.rgb[3 * (y * width + x) + c];
                if (out[at] != right)
                    ck_abort_msg("%s: (%d, %d) channel %d is %d, not %d", expected, x, y, c,
                                 out[at], right);
            }
    free(want.rgb);
}

/* Checks the crop in both pixel orders, decoding only the crop's area. */
static void expect_crop(const char *file, const struct ss_crop *crop, const char *expected)
{
    struct bytes b = read_reference(file);
    size_t size = 3 * (size_t)crop->window.width * (size_t)crop->window.height;
    for (int k = 0; k < 2; k++) {
        struct ss_pixels pixels;
        int w, h;
        uint8_t *out = malloc(size);
        ck_assert_int_eq(ss_jpeg_begin(decoder, file, b.at, b.size, &w, &h), SS_OK);
        ck_assert_int_eq(ss_jpeg_decode(decoder, &crop->area, 1, &pixels), SS_OK);
        enum ss_pixel_order order = k ? SS_PIXELS_HWC : SS_PIXELS_CHW;
        ck_assert_int_eq(ss_crop_apply(resizer, crop, &pixels, order, out), SS_OK);
        expect_image(expected, out, order, crop->window.width, crop->window.height);
        free(out);
    }
    free(b.at);
}

static void crop_case(const char *arguments)
{
    char file[64], expected[64];
    struct ss_crop crop;
    int side;
    ck_assert_int_eq(sscanf(arguments, "%63s %d %d %d %d %d %d %63s", file, &crop.area.x,
                            &crop.area.y, &crop.area.width, &crop.area.height, &side, &crop.flip,
                            expected),
                     8);
    crop.width = crop.height = side;
    crop.window = (struct ss_area){0, 0, side, side};
    expect_crop(file, &crop, expected);
}

START_TEST(crops_equal_torchvision)
{
    for_cases("crop", 7, crop_case);
}
END_TEST

static void centre_case(const char *arguments)
{
    char file[64], expected[64];
    int shorter, side;
    ck_assert_int_eq(sscanf(arguments, "%63s %d %d %63s", file, &shorter, &side, expected), 4);
    struct image p = decode_reference(decoder, file);
    struct ss_crop crop;
    ck_assert_int_eq(ss_crop_centre(p.width, p.height, ss_square(shorter), ss_square(side), &crop),
                     SS_OK);
    free(p.rgb);
    expect_crop(file, &crop, expected);
}

START_TEST(centres_equal_torchvision)
{
    for_cases("centre", 4, centre_case);
}
END_TEST

static void box_case(const char *arguments)
{
    char file[64], expected[64];
    double left, top, right, bottom;
    int w, h;
    ck_assert_int_eq(sscanf(arguments, "%63s %lf %lf %lf %lf %d %d %63s", file, &left, &top, &right,
                            &bottom, &w, &h, expected),
                     8);
    struct image p = decode_reference(decoder, file);
    struct ss_resize how = ss_resize_whole(p.rgb, 3 * (size_t)p.width, p.width, p.height, w, h);
    how.left = left;
    how.top = top;
    how.right = right;
    how.bottom = bottom;
    how.order = SS_PIXELS_HWC;
    uint8_t *out = malloc(3 * (size_t)w * (size_t)h);
    ck_assert_int_eq(ss_resize_run(resizer, &how, out), SS_OK);
    expect_image(expected, out, SS_PIXELS_HWC, w, h);
    free(out);
    free(p.rgb);
}

START_TEST(boxes_equal_pil)
{
    for_cases("box", 2, box_case);
}
END_TEST

static void size_case(const char *arguments)
{
    int w, h, shorter, side, width, height, top, left;
    ck_assert_int_eq(sscanf(arguments, "%d %d %d %d %d %d %d %d", &w, &h, &shorter, &side, &width,
                            &height, &top, &left),
                     8);
    struct ss_crop crop;
    ck_assert_int_eq(ss_crop_centre(w, h, ss_square(shorter), ss_square(side), &crop), SS_OK);
    ck_assert_msg(crop.width == width && crop.height == height && crop.window.x == left &&
                      crop.window.y == top,
                  "%s gives %d %d %d %d", arguments, crop.width, crop.height, crop.window.y,
                  crop.window.x);
    ck_assert_int_eq(crop.window.width, side);
    ck_assert_int_eq(crop.window.height, side);
    ck_assert_int_eq(crop.flip, 0);
}

START_TEST(sizes_equal_torchvision)
{
    struct ss_crop crop;
    for_cases("size", 45, size_case);
    expect_error(ss_crop_centre(50, 60, ss_square(32), ss_square(33), &crop), SS_ERR_INVALID,
                 "33x33 pixels from at least 32x32");
    ck_assert_int_eq(ss_crop_centre(1, 60, ss_square(32), ss_square(32), &crop), SS_OK);
    ck_assert_int_eq(crop.height, 1920);
}
END_TEST

/* Unequal sides: one side has the requested length, the other is proportional and not shorter; the
 * crop is centered. */
START_TEST(covers)
{
    const struct ss_size least = {54, 73}, size = {48, 64};
    struct ss_crop crop;
    for (int w = 1; w < 200; w += 7)
        for (int h = 1; h < 200; h += 5) {
            ck_assert_int_eq(ss_crop_centre(w, h, least, size, &crop), SS_OK);
            const int by_width = w * least.height <= h * least.width;
            if (crop.width < least.width || crop.height < least.height ||
                (by_width ? crop.width != least.width || crop.height != least.width * h / w
                          : crop.height != least.height || crop.width != least.height * w / h) ||
                abs(2 * crop.window.x + size.width - crop.width) > 1 ||
                abs(2 * crop.window.y + size.height - crop.height) > 1 ||
                crop.window.width != size.width || crop.window.height != size.height)
                ck_abort_msg("%dx%d becomes %dx%d, cut at %d, %d", h, w, crop.height, crop.width,
                             crop.window.y, crop.window.x);
        }
    expect_error(ss_crop_centre(50, 60, least, (struct ss_size){48, 74}, &crop), SS_ERR_INVALID,
                 "48x74 pixels from at least 54x73");
    expect_error(ss_crop_centre(50, 60, least, (struct ss_size){55, 64}, &crop), SS_ERR_INVALID,
                 "55x64 pixels from at least 54x73");
}
END_TEST

/* Compares various sizes with the definition in double precision. A sanitizer detects writes out
 * of bounds. */
START_TEST(near_the_definition)
{
    static const int sides[][2] = {{1, 1}, {1, 7}, {7, 1}, {64, 64}, {50, 64}, {65, 13}, {300, 5}};
    enum { SIDES = sizeof sides / sizeof *sides };
    struct ss_rng rng;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, 0, 0);
    for (int i = 0; i < SIDES * SIDES; i++) {
        int w = sides[i / SIDES][0], h = sides[i % SIDES][0], ow = sides[i / SIDES][1],
            oh = sides[i % SIDES][1];
        size_t size = 3 * (size_t)w * (size_t)h, out_size = 3 * (size_t)ow * (size_t)oh;
        uint8_t *in = malloc(size), *out = malloc(out_size);
        for (size_t k = 0; k < size; k++)
            in[k] = (uint8_t)ss_rng_u32(&rng);
        struct ss_resize how = ss_resize_whole(in, 3 * (size_t)w, w, h, ow, oh);
        how.order = SS_PIXELS_HWC;
        ck_assert_int_eq(ss_resize_run(resizer, &how, out), SS_OK);
        double sx = (double)w / ow, sy = (double)h / oh, fx = fmax(sx, 1), fy = fmax(sy, 1);
        for (int k = 0; k < 20; k++) {
            int x = (int)ss_rng_below(&rng, (uint32_t)ow),
                y = (int)ss_rng_below(&rng, (uint32_t)oh);
            double sum = 0, weights = 0;
            for (int v = 0; v < h; v++)
                for (int u = 0; u < w; u++) {
                    double a = 1 - fabs(u + 0.5 - (x + 0.5) * sx) / fx;
                    double b = 1 - fabs(v + 0.5 - (y + 0.5) * sy) / fy;
                    if (a > 0 && b > 0) {
                        sum += a * b * in[3 * (v * w + u) + 2];
                        weights += a * b;
                    }
                }
            double d = out[3 * (y * ow + x) + 2] - sum / weights;
            ck_assert_msg(fabs(d) <= 1.001, "%d x %d to %d x %d: off by %g", w, h, ow, oh, d);
        }
        free(in);
        free(out);
    }
}
END_TEST

/* The kernels for this processor equal the plain ones for random sizes, boxes, orders and flips. */
START_TEST(kernels_are_equal)
{
    struct ss_rng rng;
    ss_rng_open(&rng, 3, SS_RNG_SYNTHETIC, 0, 0);
    enum { MOST = 150 };
    uint8_t *in = malloc(3 * MOST * MOST), *out[2];
    for (size_t k = 0; k < 3 * MOST * MOST; k++)
        in[k] = (uint8_t)ss_rng_u32(&rng);
    for (int i = 0; i < 200; i++) {
        int side[4];
        for (int k = 0; k < 4; k++)
            side[k] = 1 + (int)ss_rng_below(&rng, MOST);
        struct ss_resize how = ss_resize_whole(in, 3 * MOST, side[0], side[1], side[2], side[3]);
        how.left = ss_rng_uniform(&rng) * (float)side[0] / 2;
        how.top = ss_rng_uniform(&rng) * (float)side[1] / 2;
        how.x = (int)ss_rng_below(&rng, (uint32_t)side[2]);
        how.out_width = side[2] - how.x;
        how.flip = i & 1;
        how.order = i & 2 ? SS_PIXELS_HWC : SS_PIXELS_CHW;
        size_t size = 3 * (size_t)how.out_width * (size_t)how.out_height;
        for (int k = 0; k < 2; k++) {
            resize_plain_kernels = k;
            out[k] = malloc(size);
            ck_assert_int_eq(ss_resize_run(resizer, &how, out[k]), SS_OK);
        }
        ck_assert_msg(!memcmp(out[0], out[1], size), "%d x %d to %d x %d", side[0], side[1],
                      side[2], side[3]);
        free(out[0]);
        free(out[1]);
    }
    free(in);
}
END_TEST

/* All byte values and every count below 300; no write past the end. */
START_TEST(normalised_as_torchvision)
{
    static const float mean[] = {0.485f, 0.456f, 0.406f, 0.5071f, 0},
                       std[] = {0.229f, 0.224f, 0.225f, 0.2673f, 1};
    enum { MOST = 300 };
    uint8_t in[MOST];
    for (int i = 0; i < MOST; i++)
        in[i] = (uint8_t)i;
    for (size_t c = 0; c < sizeof mean / sizeof *mean; c++)
        for (size_t n = 0; n < MOST; n++) {
            float out[MOST];
            out[n] = -7;
            ss_pixels_normalise(in, n, mean[c], std[c], out);
            for (size_t i = 0; i < n; i++) {
                volatile float scaled = (float)in[i] / 255.0f, centred = scaled - mean[c];
                float right = centred / std[c];
                ck_assert_msg(!memcmp(&out[i], &right, sizeof right), "%d of %zu: %a, not %a",
                              in[i], n, (double)out[i], (double)right);
            }
            ck_assert(out[n] == -7);
        }
}
END_TEST

START_TEST(refuses)
{
    uint8_t in[12] = {0}, out[3];
    struct ss_resize good = ss_resize_whole(in, 6, 2, 2, 1, 1), bad = good;
    ck_assert_int_eq(ss_resize_run(resizer, &good, out), SS_OK);
    bad.right = 2.5;
    expect_error(ss_resize_run(resizer, &bad, out), SS_ERR_INVALID, "not inside 2 x 2");
    bad = good;
    bad.left = NAN;
    expect_error(ss_resize_run(resizer, &bad, out), SS_ERR_INVALID, "the box");
    bad = good;
    bad.x = 1;
    expect_error(ss_resize_run(resizer, &bad, out), SS_ERR_INVALID, "the window");
    bad = good;
    bad.full_height = 0;
    expect_error(ss_resize_run(resizer, &bad, out), SS_ERR_INVALID, "to 1 x 0");

    struct ss_pixels pixels = {.rgb = in, .stride = 6, .area = {1, 1, 2, 2}, .scale = 1};
    struct ss_crop crop = {.area = {0, 1, 2, 2}, .width = 1, .height = 1, .window = {0, 0, 1, 1}};
    expect_error(ss_crop_apply(resizer, &crop, &pixels, SS_PIXELS_CHW, out), SS_ERR_INVALID,
                 "do not cover");
    crop.area.x = 2;
    expect_error(ss_crop_apply(resizer, &crop, &pixels, SS_PIXELS_CHW, out), SS_ERR_INVALID,
                 "do not cover");
    crop.area.x = 1;
    ck_assert_int_eq(ss_crop_apply(resizer, &crop, &pixels, SS_PIXELS_CHW, out), SS_OK);
}
END_TEST

/* A crop of a reduced image is close to the crop of the whole one: same place, same flip. */
START_TEST(reduced_crop)
{
    struct bytes b = read_reference("large.jpg");
    enum { SIDE = 24, BYTES = 3 * SIDE * SIDE };
    for (uint32_t sample = 0; sample < 40; sample++) {
        struct ss_crop crop = ss_crop_draw(1, 0, sample, 211, 150, &SS_CROP_RANGE, ss_square(SIDE));
        int scale = ss_jpeg_choose_scale(crop.area.width, crop.area.height, SIDE, SIDE);
        uint8_t out[2][BYTES];
        for (int k = 0; k < 2; k++) {
            struct ss_pixels pixels;
            int w, h;
            ck_assert_int_eq(ss_jpeg_begin(decoder, "large", b.at, b.size, &w, &h), SS_OK);
            ck_assert_int_eq(ss_jpeg_decode(decoder, &crop.area, k ? scale : 1, &pixels), SS_OK);
            ck_assert_int_eq(ss_crop_apply(resizer, &crop, &pixels, SS_PIXELS_CHW, out[k]), SS_OK);
        }
        double error = 0;
        for (int i = 0; i < BYTES; i++)
            error += abs(out[0][i] - out[1][i]);
        ck_assert_msg(error / BYTES < 8, "sample %u, scale %d: off by %g", sample, scale,
                      error / BYTES);
    }
    free(b.at);
}
END_TEST

START_TEST(draw)
{
    enum { W = 500, H = 375, N = 20000 };
    double area = 0, log_ratio = 0, flips = 0, squares = 0;
    int corners = 0;
    for (uint32_t i = 0; i < N; i++) {
        struct ss_crop c = ss_crop_draw(7, 3, i, W, H, &SS_CROP_RANGE, ss_square(64));
        struct ss_crop again = ss_crop_draw(7, 3, i, W, H, &SS_CROP_RANGE, ss_square(64));
        if (memcmp(&c, &again, sizeof c) != 0 || c.area.x < 0 || c.area.y < 0 ||
            c.area.x + c.area.width > W || c.area.y + c.area.height > H || c.window.width != 64)
            ck_abort_msg("sample %u: %d x %d at (%d, %d)", i, c.area.width, c.area.height, c.area.x,
                         c.area.y);
        double part = (double)c.area.width * c.area.height / (W * H);
        double ratio = log((double)c.area.width / c.area.height);
        if (part < 0.079 || ratio > 0.3 || ratio < -0.3)
            ck_abort_msg("sample %u: %d x %d", i, c.area.width, c.area.height);
        area += part / N;
        squares += part * part / N;
        log_ratio += ratio / N;
        flips += (double)c.flip / N;
        corners += c.area.x == W - c.area.width || c.area.y == H - c.area.height;
    }
    /* As drawn by torchvision's get_params for this size, 400,000 times: mean area 0.4330, its
     * standard deviation 0.2163, mean logarithm of the ratio 0.0307; sigma of the means here is
     * below 0.002. */
    ck_assert_double_eq_tol(area, 0.4330, 0.007);
    ck_assert_double_eq_tol(sqrt(squares - area * area), 0.2163, 0.005);
    ck_assert_double_eq_tol(log_ratio, 0.0307, 0.006);
    ck_assert_double_eq_tol(flips, 0.5, 0.015);
    ck_assert_int_gt(corners, 10);

    struct ss_crop a = ss_crop_draw(7, 3, 5, W, H, &SS_CROP_RANGE, ss_square(64));
    struct ss_crop other[3] = {ss_crop_draw(8, 3, 5, W, H, &SS_CROP_RANGE, ss_square(64)),
                               ss_crop_draw(7, 4, 5, W, H, &SS_CROP_RANGE, ss_square(64)),
                               ss_crop_draw(7, 3, 6, W, H, &SS_CROP_RANGE, ss_square(64))};
    for (int i = 0; i < 3; i++)
        ck_assert_int_ne(memcmp(&a.area, &other[i].area, sizeof a.area), 0);
}
END_TEST

/* Images in which no try finds a valid crop: the largest center crop that the ratio allows. */
START_TEST(draw_falls_back)
{
    const struct ss_crop_range *range = &SS_CROP_RANGE;
    struct ss_crop c = ss_crop_draw(0, 0, 0, 2000, 30, range, ss_square(64));
    ck_assert_int_eq(c.area.width, 40);
    ck_assert_int_eq(c.area.height, 30);
    ck_assert_int_eq(c.area.x, 980);
    ck_assert_int_eq(c.area.y, 0);
    c = ss_crop_draw(0, 0, 0, 31, 3000, range, ss_square(64));
    ck_assert_int_eq(c.area.width, 31);
    ck_assert_int_eq(c.area.height, 41); /* 31 / (3/4) = 41.33 */
    ck_assert_int_eq(c.area.y, 1479);
    const struct ss_crop_range large = {4, 4, 3. / 4, 4. / 3};
    c = ss_crop_draw(0, 0, 0, 100, 90, &large, ss_square(64));
    ck_assert_int_eq(c.area.width, 100);
    ck_assert_int_eq(c.area.height, 90);
    c = ss_crop_draw(0, 0, 0, 1, 1, range, ss_square(64));
    ck_assert_int_eq(c.area.width, 1);
}
END_TEST

static void add_images(Suite *suite, const char *name, void (*set_up)(void))
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, set_up, teardown);
    tcase_add_test(tc, crops_equal_torchvision);
    tcase_add_test(tc, centres_equal_torchvision);
    tcase_add_test(tc, boxes_equal_pil);
    tcase_add_test(tc, near_the_definition);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("resize");
    add_images(suite, "images", setup);
    add_images(suite, "images, plain kernels", setup_plain);
    TCase *tc = tcase_create("resize");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, kernels_are_equal);
    tcase_add_test(tc, normalised_as_torchvision);
    tcase_add_test(tc, sizes_equal_torchvision);
    tcase_add_test(tc, covers);
    tcase_add_test(tc, refuses);
    tcase_add_test(tc, reduced_crop);
    tcase_add_test(tc, draw);
    tcase_add_test(tc, draw_falls_back);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
