/* test_png.c: PNG files of every color type and bit depth decode to PIL's bytes, computed here by
 * formulas (test_png_pillow.sh compares with Pillow itself); damaged and hostile files give a
 * one-line error. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/rng.h"
#include "data/image_file.h"
#include "data/png.h"
#include "tests/data_common.h"

#include <png.h>
#include <zlib.h>

static struct ss_decoder *decoder;

static void setup(void)
{
    ss_log_set_quiet(1);
    ck_assert_int_eq(ss_decoder_open(&decoder), SS_OK);
}

static void teardown(void)
{
    ss_decoder_close(decoder);
}

struct file {
    uint8_t at[1 << 16];
    size_t size;
};

static void append(png_structp png, png_bytep bytes, size_t n)
{
    struct file *f = png_get_io_ptr(png);
    ck_assert_uint_le(f->size + n, sizeof f->at);
    memcpy(f->at + f->size, bytes, n);
    f->size += n;
}

static void flush(png_structp png)
{
    (void)png;
}

struct kind {
    int type, depth, interlaced;
    int clear;   /* with a transparent color, gamma and other chunks without effect */
    int colours; /* in the palette */
};

enum { WIDTH = 37, HEIGHT = 11 };

/* Channel c of the pixel, in `depth` bits. */
static unsigned sample(const struct kind *k, int x, int y, int c)
{
    unsigned v = (unsigned)(x * 3011 + y * 257 * y + c * 16411 + x * y);
    if (k->type == PNG_COLOR_TYPE_GRAY && k->depth == 16 && x % 2)
        v &= 0x1FF; /* keep some values unclipped */
    v &= (1u << k->depth) - 1;
    return k->type == PNG_COLOR_TYPE_PALETTE ? v % (unsigned)k->colours : v;
}

static uint8_t colour(unsigned index, int c)
{
    return (uint8_t)(index * 37 + (unsigned)c * 91 + 5);
}

static uint8_t expected(const struct kind *k, int x, int y, int c)
{
    const unsigned grey = sample(k, x, y, 0);
    switch (k->type) {
    case PNG_COLOR_TYPE_PALETTE:
        return colour(grey, c);
    case PNG_COLOR_TYPE_GRAY:
        return k->depth == 16 ? (uint8_t)(grey > 255 ? 255 : grey)
                              : (uint8_t)(grey * 255 / ((1u << k->depth) - 1));
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        return (uint8_t)(grey >> (k->depth - 8));
    default:
        return (uint8_t)(sample(k, x, y, c) >> (k->depth - 8));
    }
}

static int channels_of(int type)
{
    return type == PNG_COLOR_TYPE_RGB_ALPHA    ? 4
           : type == PNG_COLOR_TYPE_RGB        ? 3
           : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                               : 1;
}

/* Packs one row of samples without gaps, the first in the highest bits. */
static void fill_row(const struct kind *k, int y, uint8_t *row)
{
    const int n = channels_of(k->type);
    memset(row, 0, WIDTH * 8);
    for (int i = 0; i < WIDTH * n; i++) {
        const unsigned v = sample(k, i / n, y, i % n);
        const int bit = i * k->depth;
        if (k->depth == 16) {
            row[2 * i] = (uint8_t)(v >> 8);
            row[2 * i + 1] = (uint8_t)v;
        } else {
            row[bit / 8] |= (uint8_t)(v << (8 - k->depth - bit % 8));
        }
    }
}

static void add_chunks(const struct kind *k, png_structp png, png_infop info)
{
    png_byte alpha[16];
    for (int i = 0; i < 16; i++)
        alpha[i] = (png_byte)(i * 16);
    const png_color_16 one = {.index = 1, .red = 1, .green = 1, .blue = 1, .gray = 1};
    if (!(k->type & PNG_COLOR_MASK_ALPHA))
        png_set_tRNS(png, info, alpha, k->colours < 16 ? k->colours : 16, &one);
    png_set_gAMA(png, info, 0.2);
    png_set_bKGD(png, info, &one);
    png_set_pHYs(png, info, 3, 1, 0);
}

static void make_file(const struct kind *k, struct file *out)
{
    static uint8_t rows[HEIGHT][WIDTH * 8];
    uint8_t *pointers[HEIGHT];
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    out->size = 0;
    png_set_write_fn(png, out, append, flush);
    png_set_compression_buffer_size(png, 256); /* several IDAT chunks */
    png_set_IHDR(png, info, WIDTH, HEIGHT, k->depth, k->type, k->interlaced,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_color palette[256];
    for (unsigned i = 0; i < 256; i++)
        palette[i] = (png_color){colour(i, 0), colour(i, 1), colour(i, 2)};
    if (k->type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, k->colours);
    if (k->clear)
        add_chunks(k, png, info);
    for (int y = 0; y < HEIGHT; y++) {
        fill_row(k, y, rows[y]);
        pointers[y] = rows[y];
    }
    png_write_info(png, info);
    png_write_image(png, pointers);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
}

/* Decodes from a block of exactly this size, so that a sanitizer detects reads past the end. */
static enum ss_status decode(const void *bytes, size_t size, const struct ss_area *need,
                             struct ss_pixels *out)
{
    int width, height;
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    enum ss_status status = ss_decoder_begin(decoder, "a/b.png", copy, size, &width, &height);
    if (status == SS_OK)
        status = ss_decoder_decode(decoder, need, 8, out);
    free(copy);
    return status;
}

static void expect_pixels(const struct kind *k, const struct ss_pixels *p)
{
    ck_assert_int_eq(p->scale, 1);
    for (int y = 0; y < p->area.height; y++)
        for (int i = 0; i < 3 * p->area.width; i++) {
            const int x = p->area.x + i / 3, want = expected(k, x, p->area.y + y, i % 3),
                      got = p->rgb[(size_t)y * p->stride + (size_t)i];
            if (got != want)
                ck_abort_msg("type %d, %d bits, interlaced %d, clear %d: (%d, %d, %d) is %d, not "
                             "%d",
                             k->type, k->depth, k->interlaced, k->clear, x, p->area.y + y, i % 3,
                             got, want);
        }
}

static void expect_kind(const struct kind *k)
{
    static struct file file;
    static const struct ss_area all = {0, 0, WIDTH, HEIGHT}, part = {5, 3, 20, 7};
    struct ss_pixels pixels;
    make_file(k, &file);
    ck_assert_int_eq(decode(file.at, file.size, NULL, &pixels), SS_OK);
    ck_assert_mem_eq(&pixels.area, &all, sizeof all);
    expect_pixels(k, &pixels);
    const int clipped = k->type == PNG_COLOR_TYPE_GRAY && k->depth == 16;
    ck_assert_int_eq(ss_decoder_warning(decoder) != NULL, clipped);
    ck_assert_int_eq(decode(file.at, file.size, &part, &pixels), SS_OK);
    ck_assert_mem_eq(&pixels.area, &part, sizeof part);
    expect_pixels(k, &pixels);
}

static const struct {
    int type, depth;
} types[] = {
    {PNG_COLOR_TYPE_GRAY, 1},        {PNG_COLOR_TYPE_GRAY, 2},      {PNG_COLOR_TYPE_GRAY, 4},
    {PNG_COLOR_TYPE_GRAY, 8},        {PNG_COLOR_TYPE_GRAY, 16},     {PNG_COLOR_TYPE_RGB, 8},
    {PNG_COLOR_TYPE_RGB, 16},        {PNG_COLOR_TYPE_PALETTE, 1},   {PNG_COLOR_TYPE_PALETTE, 2},
    {PNG_COLOR_TYPE_PALETTE, 4},     {PNG_COLOR_TYPE_PALETTE, 8},   {PNG_COLOR_TYPE_GRAY_ALPHA, 8},
    {PNG_COLOR_TYPE_GRAY_ALPHA, 16}, {PNG_COLOR_TYPE_RGB_ALPHA, 8}, {PNG_COLOR_TYPE_RGB_ALPHA, 16},
};

START_TEST(every_kind)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int j = 0; j < 4; j++) {
            struct kind k = {types[i].type, types[i].depth, j & 1, j >> 1, 0};
            if (k.type == PNG_COLOR_TYPE_PALETTE)
                k.colours = 1 << k.depth;
            expect_kind(&k);
        }
}
END_TEST

/* Sets the correct CRC of the chunk at offset `at`. */
static void sign(uint8_t *file, size_t at)
{
    const uint32_t length = (uint32_t)file[at + 2] << 8 | file[at + 3];
    const uint32_t crc = (uint32_t)crc32(0, file + at + 4, 4 + length);
    for (int i = 0; i < 4; i++)
        file[at + 8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
}

enum { IHDR = 8, BEHIND_IHDR = 33 };

static void insert(struct file *f, size_t at, const char *name, const void *data, size_t n)
{
    memmove(f->at + at + n + 12, f->at + at, f->size - at);
    memset(f->at + at, 0, 4);
    f->at[at + 2] = (uint8_t)(n >> 8);
    f->at[at + 3] = (uint8_t)n;
    memcpy(f->at + at + 4, name, 4);
    memcpy(f->at + at + 8, data, n);
    sign(f->at, at);
    f->size += n + 12;
}

static const struct kind plain = {PNG_COLOR_TYPE_RGB, 8, 0, 0, 0};
static const struct kind grey_16 = {PNG_COLOR_TYPE_GRAY, 16, 1, 0, 0};

START_TEST(hostile)
{
    static struct file f;
    static struct ss_pixels p;
    static const uint8_t zeros[26];
    make_file(&plain, &f);
    expect_error(decode(f.at, 0, NULL, &p), SS_ERR_FORMAT, "a/b.png: not a JPEG or PNG file (0 ");
    expect_error(decode("GIF89a", 6, NULL, &p), SS_ERR_FORMAT, "not a JPEG or PNG file (6 bytes");
    static const uint8_t wide[] = {0, 0, 0xFF, 0xFF};
    memcpy(f.at + IHDR + 8, wide, 4);
    memcpy(f.at + IHDR + 12, wide, 4);
    sign(f.at, IHDR);
    expect_error(decode(f.at, f.size, NULL, &p), SS_ERR_FORMAT,
                 "a/b.png: 65535 x 65535 pixels; image exceeds the 89478485-pixel limit");
    memset(f.at + IHDR + 8, 0, 4);
    sign(f.at, IHDR);
    expect_error(decode(f.at, f.size, NULL, &p), SS_ERR_FORMAT, "not a usable PNG file: ");

    make_file(&plain, &f);
    f.at[6] = '\r';
    expect_error(decode(f.at, f.size, NULL, &p), SS_ERR_FORMAT, "line ends were changed");
    make_file(&plain, &f);
    f.at[BEHIND_IHDR + 8 + 256] ^= 1; /* CRC of the first IDAT chunk */
    expect_error(decode(f.at, f.size, NULL, &p), SS_ERR_FORMAT, "IDAT: CRC error");

    /* Damage in chunks that do not affect the pixels causes only a warning. */
    make_file(&plain, &f);
    insert(&f, BEHIND_IHDR, "teXt", "abc", 3);
    ck_assert_int_eq(decode(f.at, f.size, NULL, &p), SS_OK);
    ck_assert_ptr_null(ss_decoder_warning(decoder));
    f.at[BEHIND_IHDR + 9] ^= 1;
    ck_assert_int_eq(decode(f.at, f.size, NULL, &p), SS_OK);
    ck_assert_ptr_nonnull(strstr(ss_decoder_warning(decoder), "CRC error"));
    expect_pixels(&plain, &p);
    insert(&f, BEHIND_IHDR, "teXt", "abc", 3);
    insert(&f, BEHIND_IHDR, "tIME", "abcdefg", 7);
    f.at[BEHIND_IHDR + 9] ^= 1;
    ck_assert_int_eq(decode(f.at, f.size, NULL, &p), SS_OK);
    ck_assert_ptr_nonnull(strstr(ss_decoder_warning(decoder), "tIME: CRC error")); /* the first */

    /* The last chunk's CRC: some versions of libpng do not read it. */
    make_file(&plain, &f);
    f.at[f.size - 1] ^= 1;
    if (decode(f.at, f.size, NULL, &p) == SS_OK)
        expect_pixels(&plain, &p);
    else
        expect_error(decode(f.at, f.size, NULL, &p), SS_ERR_FORMAT, "IEND: CRC error");

    /* An ICC profile that libpng would warn about is ignored. */
    make_file(&plain, &f);
    insert(&f, BEHIND_IHDR, "iCCP", "abc", 3);
    ck_assert_int_eq(decode(f.at, f.size, NULL, &p), SS_OK);
    ck_assert_ptr_null(ss_decoder_warning(decoder));

    /* The frames of an animation are ignored. */
    make_file(&plain, &f);
    insert(&f, f.size - 12, "fdAT", zeros, sizeof zeros);
    insert(&f, BEHIND_IHDR, "acTL", zeros, 8);
    ck_assert_int_eq(decode(f.at, f.size, NULL, &p), SS_OK);
    ck_assert_ptr_null(ss_decoder_warning(decoder));
    expect_pixels(&plain, &p);
}
END_TEST

/* A palette index out of range is black, as in PIL. */
START_TEST(short_palette)
{
    static struct file f;
    const struct kind k = {PNG_COLOR_TYPE_PALETTE, 4, 0, 0, 16};
    struct ss_pixels p;
    make_file(&k, &f);
    enum { COLOURS = 3, CUT = 3 * (16 - COLOURS) };
    const size_t at = BEHIND_IHDR;
    memmove(f.at + at + 8 + 3 * COLOURS, f.at + at + 8 + 48, f.size - at - 8 - 48);
    f.size -= CUT;
    f.at[at + 3] = 3 * COLOURS;
    sign(f.at, at);
    ck_assert_int_eq(decode(f.at, f.size, NULL, &p), SS_OK);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < 3 * WIDTH; x++) {
            const unsigned index = sample(&k, x / 3, y, 0);
            ck_assert_uint_eq(p.rgb[(size_t)y * p.stride + (size_t)x],
                              index < COLOURS ? colour(index, x % 3) : 0);
        }
}
END_TEST

/* Every truncation is reported, even after the decoded region, and the decoder stays usable. */
START_TEST(truncated)
{
    static struct file f;
    static const struct ss_area corner = {0, 0, 1, 1};
    const struct kind kinds[] = {plain, grey_16};
    struct ss_pixels p;
    for (size_t i = 0; i < 2; i++) {
        make_file(&kinds[i], &f);
        for (size_t n = 0; n < f.size; n++) {
            expect_error(decode(f.at, n, n % 2 ? &corner : NULL, &p), SS_ERR_FORMAT, "a/b.png: ");
            ck_assert(strstr(ss_log_last_error(), "truncated") ||
                      strstr(ss_log_last_error(), "not a JPEG or PNG file"));
        }
        ck_assert_int_eq(decode(f.at, f.size, NULL, &p), SS_OK);
        expect_pixels(&kinds[i], &p);
    }
}
END_TEST

/* Half of the flips get a new CRC, so that they pass the checksum test. */
START_TEST(bit_flips)
{
    static struct file f;
    int failed = 0, good = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct kind k = {types[i].type, types[i].depth, (int)i % 2, 1,
                               1 << (types[i].depth & 15)};
        struct ss_rng rng;
        ss_rng_open(&rng, 6, SS_RNG_SYNTHETIC, (uint32_t)i, 0);
        make_file(&k, &f);
        for (int n = 0; n < 300; n++) {
            struct ss_pixels p;
            const size_t chunk = n % 4 == 1 ? IHDR : BEHIND_IHDR;
            size_t at = ss_rng_below(&rng, (uint32_t)f.size);
            if (n % 2)
                at = chunk + 4 + ss_rng_below(&rng, 17);
            const uint8_t old = f.at[at];
            struct file damaged = f;
            damaged.at[at] ^= (uint8_t)(1u << ss_rng_below(&rng, 8));
            ck_assert_uint_ne(damaged.at[at], old);
            if (n % 2)
                sign(damaged.at, chunk);
            enum ss_status status = decode(damaged.at, damaged.size, NULL, &p);
            ck_assert(status == SS_OK || status == SS_ERR_FORMAT);
            failed += status != SS_OK;
            good += status == SS_OK;
        }
        struct ss_pixels p;
        ck_assert_int_eq(decode(f.at, f.size, NULL, &p), SS_OK);
    }
    ck_assert_int_gt(failed, 500);
    ck_assert_int_gt(good, 100);
}
END_TEST

START_TEST(wrong_calls)
{
    static struct file f;
    static const struct ss_area outside[] = {{30, 0, 8, 1}, {-1, 0, 5, 5}, {0, 0, 1, 0}};
    struct ss_png *png;
    struct ss_pixels p;
    int w, h;
    make_file(&plain, &f);
    ck_assert_int_eq(ss_png_open(&png), SS_OK);
    expect_error(ss_png_decode(png, NULL, &p), SS_ERR_INVALID, "no image was begun");
    expect_error(ss_png_begin(png, "x", (const uint8_t *)"GIF", 3, &w, &h), SS_ERR_FORMAT,
                 "x: not a PNG file");
    ck_assert_int_eq(ss_png_begin(png, "x", f.at, f.size, &w, &h), SS_OK);
    ck_assert_int_eq(ss_png_begin(png, "x", f.at, f.size, &w, &h), SS_OK); /* no leak */
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        expect_error(ss_png_decode(png, &outside[i], &p), SS_ERR_INVALID, "not inside 37 x 11");
    ck_assert_int_eq(ss_png_decode(png, NULL, &p), SS_OK);
    expect_error(ss_png_decode(png, NULL, &p), SS_ERR_INVALID, "no image was begun");
    ck_assert_int_eq(ss_png_begin(png, "x", f.at, f.size, &w, &h), SS_OK);
    ss_png_close(png);
}
END_TEST

START_TEST(names)
{
    static const char *const good[] = {"a.png", "b.PNG", "c.d.Jpg", "x.jpeg", "y.JPEG"},
                             *const bad[] = {"png", "a.png.txt", "b.gif", "", "c.tif", "a.png/b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(ss_is_image_name(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!ss_is_image_name(bad[i]), "%s", bad[i]);
    ck_assert_int_eq(ss_is_foreign_image_name("c.TIF"), 1);
    ck_assert_int_eq(ss_is_foreign_image_name("c.png"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("png");
    TCase *tc = tcase_create("png");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_kind);
    tcase_add_test(tc, hostile);
    tcase_add_test(tc, short_palette);
    tcase_add_test(tc, truncated);
    tcase_add_test(tc, bit_flips);
    tcase_add_test(tc, wrong_calls);
    tcase_add_test(tc, names);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
