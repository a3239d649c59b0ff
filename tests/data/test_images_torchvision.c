/* test_images_torchvision.c: samples of a JPEG folder are bit-identical to torchvision's in
 * training (with our draws passed to torchvision) and evaluation. The draws equal an independent
 * implementation and are distributed as torchvision's. See record_samples.py. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/sha256.h"
#include "data/crop.h"
#include "data/dataset.h"
#include "tests/data_common.h"

#include <inttypes.h>
#include <math.h>

/* Calls `take` with each line of samples.txt that begins with `kind`; fails unless there are
 * `count` such lines. */
static void for_lines(const char *kind, int count, void (*take)(const char *arguments))
{
    char line[512];
    const char *top = getenv("top_srcdir");
    snprintf(line, sizeof line, "%s/tests/reference/samples.txt", top ? top : ".");
    FILE *f = fopen(line, "r");
    ck_assert_msg(f != NULL, "%s is missing", line);
    size_t length = strlen(kind);
    for (int found = 0;;) {
        if (!fgets(line, sizeof line, f)) {
            fclose(f);
            ck_assert_int_eq(found, count);
            return;
        }
        if (!strncmp(line, kind, length) && line[length] == ' ') {
            take(line + length + 1);
            found++;
        }
    }
}

static void expect_digest(const char *line, const void *data, size_t bytes, const char *expected)
{
    struct ss_sha256 hash;
    unsigned char digest[SS_SHA256_BYTES];
    char text[2 * SS_SHA256_BYTES + 1];
    ss_sha256_begin(&hash);
    ss_sha256_add(&hash, data, bytes);
    ss_sha256_end(&hash, digest);
    for (int i = 0; i < SS_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    ck_assert_msg(!strcmp(text, expected), "%zu bytes differ from torchvision: %s", bytes, line);
}

static void sample_line(const char *line)
{
    char split[8], bytes[65], values[65], dir[4096];
    size_t index;
    int label;
    int32_t got;
    struct ss_dataset_options options = {0};
    struct ss_size *const s = &options.size;
    struct ss_load_how how = {.bytes = 1};
    struct ss_dataset *d;
    ck_assert_int_eq(sscanf(line, "%7s %zu %d %d %d %" SCNu64 " %" SCNu32 " %d %d %64s %64s", split,
                            &index, &s->height, &s->width, &options.channels, &how.seed, &how.epoch,
                            &how.augment, &label, bytes, values),
                     11);
    const char *top = getenv("top_srcdir");
    snprintf(dir, sizeof dir, "%s/tests/reference/image-folder", top ? top : ".");
    enum ss_split part = strcmp(split, "val") ? SS_SPLIT_TRAIN : SS_SPLIT_TEST;
    ck_assert_int_eq(ss_dataset_open_images(dir, part, &options, &d), SS_OK);
    size_t size = (size_t)options.channels * (size_t)s->height * (size_t)s->width;
    float *out = malloc(size * sizeof *out);
    ck_assert_int_eq(ss_dataset_load(d, index, &how, out, &got), SS_OK);
    ck_assert_int_eq(got, label);
    expect_digest(line, out, size, bytes);
    how.bytes = 0;
    ck_assert_int_eq(ss_dataset_load(d, index, &how, out, &got), SS_OK);
    ck_assert_int_eq(got, label);
    expect_digest(line, out, size * sizeof *out, values);
    free(out);
    ss_dataset_close(d);
}

START_TEST(samples)
{
    for_lines("sample", 165, sample_line);
}
END_TEST

static void draw_line(const char *line)
{
    uint64_t seed;
    uint32_t epoch, sample;
    int width, height, flip;
    struct ss_area a;
    ck_assert_int_eq(sscanf(line, "%" SCNu64 " %" SCNu32 " %" SCNu32 " %d %d %d %d %d %d %d", &seed,
                            &epoch, &sample, &width, &height, &a.x, &a.y, &a.width, &a.height,
                            &flip),
                     10);
    struct ss_crop c =
        ss_crop_draw(seed, epoch, sample, width, height, &SS_CROP_RANGE, ss_square(64));
    ck_assert_msg(!memcmp(&c.area, &a, sizeof a) && c.flip == flip,
                  "%d x %d at (%d, %d), flip %d instead of %s", c.area.width, c.area.height,
                  c.area.x, c.area.y, c.flip, line);
}

START_TEST(draws)
{
    for_lines("draw", 53, draw_line);
}
END_TEST

enum { DRAWS = 40000 };

static double value_of(const struct ss_area *a, const char *what)
{
    if (!strcmp(what, "area"))
        return (double)a->width * a->height;
    if (!strcmp(what, "ratio"))
        return (double)a->width / a->height;
    return *what == 'x' ? a->x : a->y;
}

static void share_line(const char *line)
{
    int width, height, below = 0;
    char what[8];
    double value, part;
    ck_assert_int_eq(sscanf(line, "%d %d %7s %lf %lf", &width, &height, what, &value, &part), 5);
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct ss_crop c = ss_crop_draw(5, 1, i, width, height, &SS_CROP_RANGE, ss_square(64));
        below += value_of(&c.area, what) <= value;
    }
    /* The recorded share has a sampling error too, of five times as many draws. */
    double sigma = sqrt(part * (1 - part) * (1 + 1 / 5.) / DRAWS);
    double off = fabs((double)below / DRAWS - part) / sigma;
    ck_assert_msg(off < 4, "%g of the draws, off by %.1f sigma: %s", (double)below / DRAWS, off,
                  line);
}

START_TEST(shares)
{
    int flips = 0;
    for_lines("share", 110, share_line);
    for (uint32_t i = 0; i < DRAWS; i++)
        flips += ss_crop_draw(5, 1, i, 64, 64, &SS_CROP_RANGE, ss_square(64)).flip;
    /* sigma is 100 */
    ck_assert_int_gt(flips, DRAWS / 2 - 400);
    ck_assert_int_lt(flips, DRAWS / 2 + 400);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("images_torchvision");
    TCase *tc = tcase_create("images_torchvision");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, samples);
    tcase_add_test(tc, draws);
    tcase_add_test(tc, shares);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
