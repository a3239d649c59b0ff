/* test_jpeg.c: images decode to PIL's bytes; a decoded region equals that region of the whole
 * image; damaged and hostile files give a one-line error; no allocations in the steady state. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/rng.h"
#include "apps/data/jpeg_write.h"
#include "tests/data/data_images.h"

static const char *const files[] = {
    "c420.jpg", "c422.jpg",    "c444.jpg",  "grey.jpg",  "progressive.jpg",      "cmyk.jpg",
    "ycck.jpg", "rotated.jpg", "pixel.jpg", "large.jpg", "large-progressive.jpg"};
enum { FILES = sizeof files / sizeof *files };

static struct ss_jpeg *decoder;

static void setup(void)
{
    ss_log_set_quiet(1);
    ck_assert_int_eq(ss_jpeg_open(&decoder), SS_OK);
}

static void teardown(void)
{
    ss_jpeg_close(decoder);
}

static void decode_case(const char *arguments)
{
    char file[64], expected[64];
    ck_assert_int_eq(sscanf(arguments, "%63s %63s", file, expected), 2);
    struct image got = decode_reference(decoder, file), want = read_ppm(expected);
    ck_assert_int_eq(got.width, want.width);
    ck_assert_int_eq(got.height, want.height);
    /* No assertion per byte: Check takes microseconds for each. */
    for (int i = 0; i < 3 * want.width * want.height; i++)
        if (got.rgb[i] != want.rgb[i])
            ck_abort_msg("%s: byte %d is %d, PIL's is %d", file, i, got.rgb[i], want.rgb[i]);
    ck_assert_ptr_null(ss_jpeg_warning(decoder));
    free(got.rgb);
    free(want.rgb);
}

START_TEST(equals_pil)
{
    for_cases("decode", 9, decode_case);
}
END_TEST

static void expect_part(const struct image *whole, const struct ss_pixels *part, const char *file)
{
    const struct ss_area *a = &part->area;
    for (int y = 0; y < a->height; y++)
        for (int x = 0; x < 3 * a->width; x++)
            if (part->rgb[(size_t)y * part->stride + (size_t)x] !=
                whole->rgb[3 * ((a->y + y) * whole->width + a->x) + x])
                ck_abort_msg("%s: %d x %d at (%d, %d): byte %d of row %d", file, a->width,
                             a->height, a->x, a->y, x, y);
}

/* Decodes the whole image, reduced by `scale`; the caller frees .rgb. */
static struct image decode_whole(struct bytes b, const char *file, int scale)
{
    struct image p;
    struct ss_pixels pixels;
    ck_assert_int_eq(ss_jpeg_begin(decoder, file, b.at, b.size, &p.width, &p.height), SS_OK);
    ck_assert_int_eq(ss_jpeg_decode(decoder, NULL, scale, &pixels), SS_OK);
    p.width = pixels.area.width;
    p.height = pixels.area.height;
    size_t row = 3 * (size_t)p.width;
    p.rgb = malloc(row * (size_t)p.height);
    ck_assert_ptr_nonnull(p.rgb);
    for (int y = 0; y < p.height; y++)
        memcpy(p.rgb + row * (size_t)y, pixels.rgb + pixels.stride * (size_t)y, row);
    return p;
}

static void expect_parts(struct bytes b, const char *file, int scale, int parts, struct ss_rng *rng)
{
    struct image whole = decode_whole(b, file, scale);
    for (int k = 0; k < parts; k++) {
        struct ss_area need;
        struct ss_pixels part;
        int w, h;
        ck_assert_int_eq(ss_jpeg_begin(decoder, file, b.at, b.size, &w, &h), SS_OK);
        need.width = 1 + (int)ss_rng_below(rng, (uint32_t)w);
        need.height = 1 + (int)ss_rng_below(rng, (uint32_t)h);
        need.x = (int)ss_rng_below(rng, (uint32_t)(w - need.width) + 1);
        need.y = (int)ss_rng_below(rng, (uint32_t)(h - need.height) + 1);
        ck_assert_int_eq(ss_jpeg_decode(decoder, &need, scale, &part), SS_OK);
        if (scale == 1)
            ck_assert_mem_eq(&part.area, &need, sizeof need);
        expect_part(&whole, &part, file);
    }
    free(whole.rgb);
}

START_TEST(part_equals_whole)
{
    struct ss_rng rng;
    ss_rng_open(&rng, 3, SS_RNG_SYNTHETIC, 0, 0);
    for (int i = 0; i < FILES; i++) {
        struct bytes b = read_reference(files[i]);
        expect_parts(b, files[i], 1, 150, &rng);
        free(b.at);
    }
}
END_TEST

/* Returns a copy of the file with its first `scans` scans only, or .at NULL if it has no more than
 * these; the caller frees .at. */
static struct bytes first_scans(struct bytes b, int scans)
{
    struct bytes cut = {NULL, 0};
    size_t i = 2;
    for (int seen = 0; i + 1 < b.size; i++)
        if (b.at[i] == 0xFF && b.at[i + 1] == 0xDA && seen++ == scans)
            break;
    if (i + 1 == b.size)
        return cut;
    cut.size = i + 2;
    cut.at = malloc(cut.size);
    ck_assert_ptr_nonnull(cut.at);
    memcpy(cut.at, b.at, i);
    memcpy(cut.at + i, "\xff\xd9", 2);
    return cut;
}

/* libjpeg estimates the data of missing scans from the neighboring blocks. The estimate depends on
 * its version, so there is no recorded image. */
START_TEST(part_equals_whole_without_scans)
{
    static const char *const progressive[] = {"progressive.jpg", "large-progressive.jpg"};
    struct ss_rng rng;
    int cuts = 0;
    ss_rng_open(&rng, 4, SS_RNG_SYNTHETIC, 0, 0);
    for (int i = 0; i < 2; i++) {
        struct bytes b = read_reference(progressive[i]), cut;
        for (int scans = 1; (cut = first_scans(b, scans)).at != NULL; scans++, cuts++) {
            for (int scale = 1; scale <= 8; scale *= 2)
                expect_parts(cut, progressive[i], scale, 40, &rng);
            free(cut.at);
        }
        free(b.at);
    }
    ck_assert_int_ge(cuts, 18);
}
END_TEST

/* Reduced images are close to the means of scale x scale squares and cover the requested area. */
START_TEST(reduced)
{
    static const struct ss_area needs[] = {{0, 0, 150, 203}, {13, 50, 100, 90}, {121, 190, 29, 13}};
    struct image whole = decode_reference(decoder, "large-progressive.jpg");
    struct bytes b = read_reference("large-progressive.jpg");
    for (int scale = 2; scale <= 8; scale *= 2)
        for (int k = 0; k < 3; k++) {
            const struct ss_area *n = &needs[k];
            struct ss_pixels part;
            int w, h;
            double error = 0;
            ck_assert_int_eq(ss_jpeg_begin(decoder, "large", b.at, b.size, &w, &h), SS_OK);
            ck_assert_int_eq(ss_jpeg_decode(decoder, n, scale, &part), SS_OK);
            ck_assert_int_eq(part.area.x, n->x / scale);
            ck_assert_int_eq(part.area.y, n->y / scale);
            ck_assert_int_eq(part.area.x + part.area.width, (n->x + n->width + scale - 1) / scale);
            ck_assert_int_eq(part.area.y + part.area.height,
                             (n->y + n->height + scale - 1) / scale);
            for (int y = 0; y < part.area.height; y++)
                for (int x = 0; x < part.area.width; x++) {
                    double sum = 0, count = 0;
                    for (int v = (part.area.y + y) * scale; v < (part.area.y + y + 1) * scale; v++)
                        for (int u = (part.area.x + x) * scale; u < (part.area.x + x + 1) * scale;
                             u++)
                            if (v < whole.height && u < whole.width) {
                                sum += whole.rgb[3 * (v * whole.width + u) + 1];
                                count++;
                            }
                    double d = part.rgb[(size_t)y * part.stride + (size_t)x * 3 + 1] - sum / count;
                    error += d < 0 ? -d : d;
                }
            error /= part.area.width * part.area.height;
            ck_assert_msg(error < 4, "scale %d, area %d: off by %g of 255", scale, k, error);
        }
    free(whole.rgb);
    free(b.at);
}
END_TEST

START_TEST(rule_of_scale)
{
    ck_assert_int_eq(ss_jpeg_choose_scale(500, 375, 224, 224), 1);
    ck_assert_int_eq(ss_jpeg_choose_scale(448, 448, 224, 224), 2);
    ck_assert_int_eq(ss_jpeg_choose_scale(447, 900, 224, 224), 1);
    ck_assert_int_eq(ss_jpeg_choose_scale(900, 447, 224, 224), 1);
    ck_assert_int_eq(ss_jpeg_choose_scale(1791, 4000, 224, 224), 4);
    ck_assert_int_eq(ss_jpeg_choose_scale(1792, 1792, 224, 224), 8);
    ck_assert_int_eq(ss_jpeg_choose_scale(30000, 30000, 224, 224), 8);
    ck_assert_int_eq(ss_jpeg_choose_scale(64, 64, 64, 64), 1);
    ck_assert_int_eq(ss_jpeg_choose_scale(10, 10, 64, 64), 1);
}
END_TEST

static volatile unsigned sink;

/* Decodes and reads all bytes, so that a sanitizer checks the accesses. */
static enum ss_status decode(const uint8_t *bytes, size_t size, const struct ss_area *need)
{
    struct ss_pixels pixels;
    int w, h;
    SS_TRY(ss_jpeg_begin(decoder, "a/b.jpg", bytes, size, &w, &h));
    struct ss_area all = {0, 0, w, h};
    enum ss_status status = ss_jpeg_decode(decoder, need ? need : &all, 1, &pixels);
    for (int y = 0; status == SS_OK && y < pixels.area.height; y++)
        for (int x = 0; x < pixels.area.width * 3; x++)
            sink += pixels.rgb[(size_t)y * pixels.stride + (size_t)x];
    return status;
}

/* Every truncation is reported, even after the decoded region, and the decoder stays usable. */
START_TEST(truncated)
{
    static const struct ss_area corner = {0, 0, 1, 1};
    for (int i = 0; i < FILES; i++) {
        struct bytes b = read_reference(files[i]);
        for (size_t n = 0; n < b.size; n += n + 98 < b.size ? 97 : 1) {
            uint8_t *cut = malloc(n ? n : 1);
            memcpy(cut, b.at, n);
            for (int k = 0; k < 2; k++) {
                expect_error(decode(cut, n, k ? &corner : NULL), SS_ERR_FORMAT, "a/b.jpg: ");
                ck_assert(strstr(ss_log_last_error(), "truncated") ||
                          strstr(ss_log_last_error(), "too early") ||
                          strstr(ss_log_last_error(), "not a JPEG file"));
            }
            free(cut);
        }
        ck_assert_int_eq(decode(b.at, b.size, NULL), SS_OK);
        free(b.at);
    }
}
END_TEST

START_TEST(bit_flips)
{
    int failed = 0, warned = 0, good = 0;
    for (int i = 0; i < FILES; i++) {
        struct bytes b = read_reference(files[i]);
        struct ss_rng rng;
        ss_rng_open(&rng, 5, SS_RNG_SYNTHETIC, (uint32_t)i, 0);
        for (int k = 0; k < 200; k++) {
            /* Half of the flips are in the first 700 bytes, which hold the tables. */
            uint32_t most = k % 2 || b.size < 700 ? (uint32_t)b.size : 700;
            uint32_t at = ss_rng_below(&rng, most), bit = ss_rng_below(&rng, 8);
            b.at[at] ^= (uint8_t)(1u << bit);
            enum ss_status status = decode(b.at, b.size, NULL);
            ck_assert(status == SS_OK || status == SS_ERR_FORMAT || status == SS_ERR_MEMORY);
            failed += status != SS_OK;
            good += status == SS_OK;
            warned += status == SS_OK && ss_jpeg_warning(decoder) != NULL;
            b.at[at] ^= (uint8_t)(1u << bit);
        }
        ck_assert_int_eq(decode(b.at, b.size, NULL), SS_OK);
        free(b.at);
    }
    ck_assert_int_gt(failed, 100);
    ck_assert_int_gt(warned, 10);
    ck_assert_int_gt(good, 100);
}
END_TEST

/* Returns the address of the first marker (FF and `code`), or the last one if `last` is set. */
static uint8_t *find_marker(struct bytes b, uint8_t code, int last)
{
    uint8_t *found = NULL;
    for (size_t i = 2; i + 1 < b.size && (last || !found); i++)
        if (b.at[i] == 0xFF && b.at[i + 1] == code)
            found = b.at + i;
    ck_assert_ptr_nonnull(found);
    return found;
}

/* An end marker inside the data is only a warning for libjpeg and PIL: the rest is gray. */
START_TEST(warning)
{
    struct bytes b = read_reference("c420.jpg");
    b.at[b.size / 2] = 0xFF;
    b.at[b.size / 2 + 1] = 0xD9;
    ck_assert_int_eq(decode(b.at, b.size, NULL), SS_OK);
    ck_assert_ptr_nonnull(ss_jpeg_warning(decoder));
    ck_assert_ptr_nonnull(strstr(ss_jpeg_warning(decoder), "premature end"));
    ck_assert_int_eq(decode(b.at, 1, NULL), SS_ERR_FORMAT);
    ck_assert_ptr_null(ss_jpeg_warning(decoder));
    free(b.at);
    b = read_reference("c420.jpg");
    ck_assert_int_eq(decode(b.at, b.size, NULL), SS_OK);
    ck_assert_ptr_null(ss_jpeg_warning(decoder));
    free(b.at);
}
END_TEST

START_TEST(hostile)
{
    /* Sides of 65,021 pixels. */
    struct bytes b = read_reference("c420.jpg");
    uint8_t *frame = find_marker(b, 0xC0, 0), size[4];
    memcpy(size, frame + 5, 4);
    memset(frame + 5, 0xFD, 4);
    expect_error(decode(b.at, b.size, NULL), SS_ERR_FORMAT, "65021 x 65021 pixels");
    memcpy(frame + 5, size, 4);
    frame[4] = 12;
    expect_error(decode(b.at, b.size, NULL), SS_ERR_FORMAT, "a/b.jpg: ");
    frame[4] = 8;
    ck_assert_int_eq(decode(b.at, b.size, NULL), SS_OK);
    free(b.at);

    /* A progressive file with its last scan repeated 600 times. */
    b = read_reference("progressive.jpg");
    const uint8_t *scan = find_marker(b, 0xDA, 1);
    size_t head = (size_t)(scan - b.at), one = b.size - 2 - head;
    uint8_t *bomb = malloc(b.size + 600 * one);
    memcpy(bomb, b.at, head);
    for (size_t i = 0; i < 601; i++)
        memcpy(bomb + head + i * one, scan, one);
    memcpy(bomb + head + 601 * one, b.at + b.size - 2, 2);
    expect_error(decode(bomb, b.size + 600 * one, NULL), SS_ERR_FORMAT, "more than 500 scans");
    free(bomb);
    free(b.at);

    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n'};
    expect_error(decode(png, sizeof png, NULL), SS_ERR_FORMAT, "a/b.jpg: not a JPEG file");
    expect_error(decode(png, 0, NULL), SS_ERR_FORMAT, "not a JPEG file (0 bytes");
}
END_TEST

/* A file without tables is not decoded with the tables of the previous file. */
START_TEST(tables_are_forgotten)
{
    struct bytes b = read_reference("c444.jpg");
    ck_assert_int_eq(decode(b.at, b.size, NULL), SS_OK);
    for (uint8_t *t; (t = memmem(b.at, b.size, "\xff\xdb", 2)) != NULL;)
        t[1] = 0xFE; /* a comment */
    expect_error(decode(b.at, b.size, NULL), SS_ERR_FORMAT, "uantization table");
    free(b.at);
}
END_TEST

START_TEST(wrong_calls)
{
    struct bytes b = read_reference("c420.jpg");
    struct ss_pixels out;
    int w, h;
    expect_error(ss_jpeg_decode(decoder, NULL, 1, &out), SS_ERR_INVALID, "no image was begun");
    ck_assert_int_eq(ss_jpeg_begin(decoder, "x", b.at, b.size, &w, &h), SS_OK);
    expect_error(ss_jpeg_decode(decoder, NULL, 3, &out), SS_ERR_INVALID, "1/3");
    static const struct ss_area bad[] = {{-1, 0, 5, 5}, {0, -1, 5, 5}, {0, 0, 62, 5},
                                         {0, 0, 5, 48}, {57, 0, 5, 5}, {0, 0, 0, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_error(ss_jpeg_decode(decoder, &bad[i], 1, &out), SS_ERR_INVALID, "not inside");
    ck_assert_int_eq(ss_jpeg_decode(decoder, NULL, 1, &out), SS_OK);
    expect_error(ss_jpeg_decode(decoder, NULL, 1, &out), SS_ERR_INVALID, "no image was begun");
    free(b.at);
}
END_TEST

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Replace the C library's allocators, also for libjpeg. */
#    define COUNT_ALLOCATIONS
static volatile size_t allocations;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size)
{
    allocations++;
    return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size)
{
    allocations++;
    return __libc_realloc(old, size);
}
void *aligned_alloc(size_t align, size_t size)
{
    allocations++;
    return __libc_memalign(align, size);
}

START_TEST(steady_state)
{
    struct bytes b[FILES];
    for (int i = 0; i < FILES; i++)
        b[i] = read_reference(files[i]);
    size_t counts[3]; /* no assertions in between: Check allocates */
    int good = 0;
    for (int round = 0; round < 3; round++) {
        size_t before = allocations;
        for (int i = 0; i < FILES; i++)
            good += decode(b[i].at, b[i].size, NULL) == SS_OK;
        counts[round] = allocations - before;
    }
    ck_assert_int_eq(good, 3 * FILES);
    ck_assert_uint_gt(counts[0], 0);
    ck_assert_uint_eq(counts[2], 0);
    for (int i = 0; i < FILES; i++)
        free(b[i].at);
}
END_TEST
#endif

/* A file size limit simulates a full disk: no partial image is left. */
START_TEST(writing_fails)
{
    static uint8_t pixels[3 * 256 * 256];
    make_folder();
    const struct ss_jpeg_how how = {.quality = 100}, none = {.quality = 0}, more = {.quality = 101},
                             least = {.quality = 1};
    for (int k = 0; k < 4; k++) {
        const int bad[4][2] = {{0, 4}, {4, 0}, {65501, 4}, {4, 65501}};
        char expected[64];
        snprintf(expected, sizeof expected, ": %d x %d pixels, quality 100; not supported by JPEG",
                 bad[k][0], bad[k][1]);
        expect_error(ss_jpeg_write(in_folder("x.jpg"), pixels, bad[k][0], bad[k][1], &how),
                     SS_ERR_INVALID, expected);
    }
    expect_error(ss_jpeg_write(in_folder("x.jpg"), pixels, 4, 4, &none), SS_ERR_INVALID,
                 "quality 0;");
    expect_error(ss_jpeg_write(in_folder("x.jpg"), pixels, 4, 4, &more), SS_ERR_INVALID,
                 "quality 101;");
    ck_assert_int_eq(ss_jpeg_write(in_folder("one.jpg"), pixels, 1, 1, &least), SS_OK);
    expect_error(ss_jpeg_write(in_folder("no/x.jpg"), pixels, 4, 4, &how), SS_ERR_IO,
                 "/no/x.jpg: cannot write: No such file or directory");
    fill_disk(16384);
    struct ss_rng rng;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, 1, 0);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)ss_rng_below(&rng, 256); /* incompressible */
    expect_error(ss_jpeg_write(in_folder("full.jpg"), pixels, 256, 256, &how), SS_ERR_IO,
                 "/full.jpg: cannot write: File too large");
    ck_assert(!has_file("full.jpg"));
    remove_folder();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jpeg");
    TCase *tc = tcase_create("jpeg");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, equals_pil);
    tcase_add_test(tc, part_equals_whole);
    tcase_add_test(tc, part_equals_whole_without_scans);
    tcase_add_test(tc, reduced);
    tcase_add_test(tc, rule_of_scale);
    tcase_add_test(tc, truncated);
    tcase_add_test(tc, bit_flips);
    tcase_add_test(tc, warning);
    tcase_add_test(tc, hostile);
    tcase_add_test(tc, tables_are_forgotten);
    tcase_add_test(tc, wrong_calls);
    tcase_add_test(tc, writing_fails);
#ifdef COUNT_ALLOCATIONS
    tcase_add_test(tc, steady_state);
#endif
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
