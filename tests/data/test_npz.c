/* test_npz.c: conversion of NumPy archives (numpy.savez and savez_compressed) and IDX files to
 * folders with the same pixels; a one-line error and no files for every other archive. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/rng.h"
#include "apps/data/convert_npz.h"
#include "data/dataset.h"
#include "data/imagefolder.h"
#include "apps/data/npz.h"
#include "data/image_file.h"
#include "tests/data_common.h"

#include <zlib.h>

struct archive {
    uint8_t at[1 << 18];
    size_t size;
    uint8_t list[4096]; /* central directory, appended by finish() */
    size_t list_size;
    unsigned members;
    int deflate, zip64;
};

static void put(uint8_t *to, size_t *at, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        to[(*at)++] = i < 8 ? (uint8_t)(v >> (8 * i)) : 0;
}

static void put_bytes(uint8_t *to, size_t *at, const void *bytes, size_t n)
{
    memcpy(to + *at, bytes, n);
    *at += n;
}

static size_t deflate_raw(const uint8_t *in, size_t size, uint8_t *out, size_t capacity)
{
    z_stream s = {.next_in = (Bytef *)(uintptr_t)in,
                  .avail_in = (uInt)size,
                  .next_out = out,
                  .avail_out = (uInt)capacity};
    ck_assert_int_eq(deflateInit2(&s, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&s, Z_FINISH), Z_STREAM_END);
    const size_t n = s.total_out;
    deflateEnd(&s);
    return n;
}

/* Appends a member; with z->zip64 its sizes are in the zip64 fields, as Python writes them. */
static void put_member(struct archive *z, const char *name, const uint8_t *bytes, size_t size)
{
    static uint8_t packed[1 << 17];
    char file[64];
    const int length = snprintf(file, sizeof file, "%s.npy", name), extra = z->zip64 ? 20 : 0,
              method = z->deflate ? 8 : 0;
    const uint32_t crc = (uint32_t)crc32_z(0, bytes, size);
    const size_t at = z->size,
                 n = z->deflate ? deflate_raw(bytes, size, packed, sizeof packed) : size;
    const uint64_t n32 = z->zip64 ? UINT32_MAX : n, size32 = z->zip64 ? UINT32_MAX : size;
    for (int list = 0; list < 2; list++) {
        uint8_t *to = list ? z->list : z->at;
        size_t *to_at = list ? &z->list_size : &z->size;
        put_bytes(to, to_at, list ? "PK\1\2" : "PK\3\4", 4);
        put(to, to_at, 45, list ? 4 : 2); /* versions */
        put(to, to_at, 0, 2);             /* flags */
        put(to, to_at, (uint64_t)method, 2);
        put(to, to_at, 0, 4); /* date */
        put(to, to_at, crc, 4);
        put(to, to_at, n32, 4);
        put(to, to_at, size32, 4);
        put(to, to_at, (uint64_t)length, 2);
        put(to, to_at, (uint64_t)extra, 2);
        if (list) {
            put(to, to_at, 0, 10);
            put(to, to_at, at, 4);
        }
        put_bytes(to, to_at, file, (size_t)length);
        if (extra) {
            put(to, to_at, 1, 2);
            put(to, to_at, 16, 2);
            put(to, to_at, size, 8);
            put(to, to_at, n, 8);
        }
        if (!list)
            put_bytes(to, to_at, z->deflate ? packed : bytes, n);
    }
    z->members++;
}

static void put_array(struct archive *z, const char *name, const char *header, const void *bytes,
                      size_t size)
{
    static uint8_t npy[1 << 17];
    size_t at = 0;
    const int long_header = strlen(header) > 80; /* version 2 */
    put_bytes(npy, &at, long_header ? "\x93NUMPY\2\0" : "\x93NUMPY\1\0", 8);
    put(npy, &at, strlen(header), long_header ? 4 : 2);
    put_bytes(npy, &at, header, strlen(header));
    put_bytes(npy, &at, bytes, size);
    put_member(z, name, npy, at);
}

static void finish(struct archive *z)
{
    const size_t list = z->size;
    put_bytes(z->at, &z->size, z->list, z->list_size);
    if (z->zip64) {
        const size_t end = z->size;
        put_bytes(z->at, &z->size, "PK\6\6", 4);
        put(z->at, &z->size, 44, 8);
        put(z->at, &z->size, 0, 12);
        put(z->at, &z->size, z->members, 8);
        put(z->at, &z->size, z->members, 8);
        put(z->at, &z->size, z->list_size, 8);
        put(z->at, &z->size, list, 8);
        put_bytes(z->at, &z->size, "PK\6\7", 4);
        put(z->at, &z->size, 0, 4);
        put(z->at, &z->size, end, 8);
        put(z->at, &z->size, 1, 4);
    }
    put_bytes(z->at, &z->size, "PK\5\6", 4);
    put(z->at, &z->size, 0, 4);
    put(z->at, &z->size, z->zip64 ? UINT16_MAX : z->members, 2);
    put(z->at, &z->size, z->zip64 ? UINT16_MAX : z->members, 2);
    put(z->at, &z->size, z->list_size, 4);
    put(z->at, &z->size, z->zip64 ? UINT32_MAX : list, 4);
    put(z->at, &z->size, 7, 2);
    put_bytes(z->at, &z->size, "comment", 7);
}

enum { HEIGHT = 5, WIDTH = 4, TRAIN = 12, VAL = 6, PLANE = HEIGHT * WIDTH };

static struct archive zip;

static void begin(int deflate, int zip64)
{
    memset(&zip, 0, sizeof zip);
    zip.deflate = deflate;
    zip.zip64 = zip64;
}

/* Pixel (n, y, x, c) of an (N,H,W,C) array. */
static uint8_t pixel(size_t n, int y, int x, int c)
{
    return (uint8_t)(n * 41 + (size_t)(y * 17 + x * 5 + c * 83));
}

static void put_images(const char *name, size_t count, int channels, int planes)
{
    static uint8_t bytes[3 * PLANE * 64];
    char header[200];
    uint8_t *at = bytes;
    for (size_t n = 0; n < count; n++)
        for (int i = 0; i < PLANE * channels; i++) {
            const int c = planes ? i / PLANE : i % channels,
                      place = planes ? i % PLANE : i / channels;
            *at++ = pixel(n, place / WIDTH, place % WIDTH, c);
        }
    if (planes)
        snprintf(header, sizeof header,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%zu, %d, %d, %d), }%60s\n",
                 count, channels, HEIGHT, WIDTH, "");
    else if (channels == 1)
        snprintf(header, sizeof header,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%zu, %d, %d), }", count,
                 HEIGHT, WIDTH);
    else
        snprintf(header, sizeof header,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%zu, %d, %d, %d), }", count,
                 HEIGHT, WIDTH, channels);
    put_array(&zip, name, header, bytes, (size_t)(at - bytes));
}

/* Labels 2, 10, 200, 2, ...; `type` is NumPy's dtype string. */
static const int classes[] = {2, 10, 200};
static void put_labels(const char *name, size_t count, const char *type, int column)
{
    uint8_t bytes[8 * 64];
    char header[200];
    size_t at = 0;
    const int item = type[2] - '0';
    for (size_t n = 0; n < count; n++) {
        const uint64_t label = (uint64_t)classes[n % 3];
        for (int i = 0; i < item; i++)
            bytes[at++] = (uint8_t)(label >> 8 * (type[0] == '>' ? item - 1 - i : i));
    }
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%zu,%s), }",
             type, count, column ? " 1" : "");
    put_array(&zip, name, header, bytes, at);
}

static enum ss_status convert(const struct ss_npz_how *how, struct ss_npz_converted *got)
{
    static const struct ss_npz_how plain;
    write_file("x.npz", zip.at, zip.size);
    return ss_convert_npz(in_folder("x.npz"), in_folder("out"), how ? how : &plain, got);
}

#define expect_refusal(how, status, text)                                                          \
    do {                                                                                           \
        struct ss_npz_converted none;                                                              \
        expect_error(convert((how), &none), (status), (text));                                     \
        ck_assert_int_eq(count_files("out"), 0);                                                   \
    } while (0)

/* Checks that the split holds `count` distinct images with their labels and pixels; counts each in
 * seen. */
static void expect_part(enum ss_split split, size_t count, int channels, char *seen)
{
    struct ss_imagefolder *f;
    struct ss_decoder *decoder;
    struct ss_image_file file = {.bytes = NULL};
    ck_assert_int_eq(ss_imagefolder_open(in_folder("out"), split, NULL, &f), SS_OK);
    ck_assert_int_eq(ss_decoder_open(&decoder), SS_OK);
    ck_assert_uint_eq(f->count, count);
    ck_assert_int_eq(f->classes, 3);
    for (size_t i = 0; i < count; i++) {
        const char *name = ss_imagefolder_name(f, i);
        int label, width, height;
        size_t n;
        struct ss_pixels p;
        ck_assert_int_eq(sscanf(name, "%d/%zu.png", &label, &n), 2);
        ck_assert_uint_lt(n, TRAIN);
        ck_assert_int_eq(label, classes[n % 3]);
        ck_assert_int_eq(ss_imagefolder_label(f, i), (int)(n % 3)); /* classes in numeric order */
        ck_assert_int_eq(seen[n]++, 0);
        ck_assert_int_eq(ss_imagefolder_read(f, i, &file), SS_OK);
        ck_assert_int_eq(ss_decoder_begin(decoder, name, file.bytes, file.size, &width, &height),
                         SS_OK);
        ck_assert_int_eq(ss_decoder_decode(decoder, NULL, 1, &p), SS_OK);
        ck_assert_int_eq(width, WIDTH);
        ck_assert_int_eq(height, HEIGHT);
        for (int k = 0; k < 3 * PLANE; k++) {
            const int y = k / 3 / WIDTH, x = k / 3 % WIDTH, c = channels == 1 ? 0 : k % 3;
            ck_assert_uint_eq(p.rgb[(size_t)y * p.stride + (size_t)(3 * x + k % 3)],
                              pixel(n, y, x, c));
        }
    }
    free(file.bytes);
    ss_decoder_close(decoder);
    ss_imagefolder_close(f);
}

static const struct {
    const char *train, *train_labels, *val, *val_labels, *type;
    int channels, planes, column, deflate, zip64;
} good[] = {
    {"x_train", "y_train", "x_test", "y_test", "<i8", 1, 0, 0, 0, 0},
    {"x_train", "y_train", "x_test", "y_test", "<u2", 3, 0, 0, 1, 1},
    {"train_images", "train_labels", "val_images", "val_labels", ">i4", 3, 1, 1, 1, 0},
    {"train_images", "train_labels", "test_images", "test_labels", "<i4", 1, 1, 1, 0, 1},
};

START_TEST(both_parts)
{
    char train[TRAIN] = {0}, val[TRAIN] = {0};
    struct ss_npz_converted got;
    begin(good[_i].deflate, good[_i].zip64);
    put_images(good[_i].train, TRAIN, good[_i].channels, good[_i].planes);
    put_labels(good[_i].train_labels, TRAIN, good[_i].type, good[_i].column);
    put_images(good[_i].val, VAL, good[_i].channels, good[_i].planes);
    put_labels(good[_i].val_labels, VAL, good[_i].type, good[_i].column);
    finish(&zip);
    ck_assert_msg(convert(NULL, &got) == SS_OK, "%s", ss_log_last_error());
    ck_assert_uint_eq(got.train, TRAIN);
    ck_assert_uint_eq(got.val, VAL);
    ck_assert_int_eq(got.classes, 3);
    ck_assert_str_eq(got.val_images, good[_i].val);
    ck_assert_int_eq(count_files("out"), 2);
    expect_part(SS_SPLIT_TRAIN, TRAIN, good[_i].channels, train);
    expect_part(SS_SPLIT_TEST, VAL, good[_i].channels, val);
    struct ss_npz_converted none;
    expect_error(convert(NULL, &none), SS_ERR_INVALID, "already has a folder train or val");
    const struct ss_npz_how how = {.val_fraction = 0.5};
    expect_error(convert(&how, &none), SS_ERR_INVALID, "is for validation; leave --val-fraction");
}
END_TEST

/* A share of each class is split off, depending on the seed only. */
START_TEST(split)
{
    char val[3][TRAIN] = {{0}};
    for (int round = 0; round < 3; round++) {
        char train[TRAIN] = {0};
        const struct ss_npz_how how = {
            .images = "a", .labels = "b", .val_fraction = 0.5, .seed = round == 2 ? 8 : 7};
        struct ss_npz_converted got;
        remove_folder();
        mkdir(folder, 0777);
        begin(0, 0);
        put_images("a", TRAIN, 3, 0);
        put_labels("b", TRAIN, "<i2", 0);
        finish(&zip);
        ck_assert_msg(convert(&how, &got) == SS_OK, "%s", ss_log_last_error());
        ck_assert_uint_eq(got.train, TRAIN / 2);
        ck_assert_uint_eq(got.val, TRAIN / 2);
        ck_assert_str_eq(got.val_images, "");
        expect_part(SS_SPLIT_TRAIN, TRAIN / 2, 3, train);
        expect_part(SS_SPLIT_TEST, TRAIN / 2, 3, val[round]);
        size_t per_class[3] = {0};
        for (size_t n = 0; n < TRAIN; n++) {
            ck_assert_int_eq(train[n] + val[round][n], 1);
            per_class[n % 3] += (size_t)val[round][n];
        }
        for (int k = 0; k < 3; k++)
            ck_assert_uint_eq(per_class[k], TRAIN / 6);
    }
    ck_assert_mem_eq(val[0], val[1], TRAIN);
    ck_assert_mem_ne(val[0], val[2], TRAIN);
}
END_TEST

static int stop_at_7(void)
{
    static int asked;
    return ++asked == 7;
}

static void put_plain(void)
{
    begin(1, 0);
    put_images("images", TRAIN, 1, 0);
    put_labels("labels", TRAIN, "<i8", 0);
    finish(&zip);
}

START_TEST(interrupted)
{
    const struct ss_npz_how how = {.val_fraction = 0.3, .stopped = stop_at_7};
    struct ss_npz_converted got;
    put_plain();
    expect_refusal(&how, SS_ERR_INTERRUPTED, "stopped by a signal after 6 images");
    ck_assert_int_eq(convert(&how, &got), SS_OK);
    ck_assert_uint_eq(got.val, 3);
}
END_TEST

#define HEADER(type, order, shape)                                                                 \
    "{'descr': " type ", 'fortran_order': " order ", 'shape': " shape ", }"
#define FLAT HEADER("'|u1'", "False", "(2,)")
#define SMALL HEADER("'|u1'", "False", "(2, 2, 2)")
static const struct {
    const char *images, *labels; /* headers */
    size_t images_size, labels_size;
    enum ss_status status;
    const char *text;
} bad[] = {
    {HEADER("'<f4'", "False", "(2, 1, 1)"), FLAT, 8, 2, SS_ERR_UNSUPPORTED,
     "images: its type is <f4; images must be uint8"},
    {HEADER("'|i1'", "False", "(2, 2, 2)"), FLAT, 8, 2, SS_ERR_UNSUPPORTED, "its type is |i1"},
    {HEADER("'|u1'", "True", "(2, 2, 2)"), FLAT, 8, 2, SS_ERR_UNSUPPORTED, "Fortran order"},
    {HEADER("'|u1'", "False", "(2, 4)"), FLAT, 8, 2, SS_ERR_UNSUPPORTED, "the shape must be"},
    {HEADER("'|u1'", "False", "(1, 2, 2, 2)"), FLAT, 8, 2, SS_ERR_UNSUPPORTED, "the shape must be"},
    {HEADER("'|u1'", "False", "(1, 1, 1, 1, 8)"), FLAT, 8, 2, SS_ERR_UNSUPPORTED,
     "more than 4 dimensions"},
    {HEADER("'|u1'", "False", "(0, 2, 2)"), FLAT, 0, 2, SS_ERR_UNSUPPORTED, "0 images"},
    {HEADER("'|u1'", "False", "(2, 2, 3)"), FLAT, 8, 2, SS_ERR_FORMAT,
     "has 8 bytes, which do not match its shape"},
    {HEADER("'|u1'", "False", "(4294967296, 4294967296, 8)"), FLAT, 8, 2, SS_ERR_FORMAT,
     "do not match its shape"},
    {HEADER("[('a', '|u1')]", "False", "(2, 2, 2)"), FLAT, 8, 2, SS_ERR_UNSUPPORTED,
     "is not an array of plain numbers"},
    {HEADER("'|u1'", "False", "(2, 2, 2"), FLAT, 8, 2, SS_ERR_FORMAT, "header is not NumPy's"},
    {HEADER("'|u1'", "False", "(-2, 2, 2)"), FLAT, 8, 2, SS_ERR_FORMAT, "header is not NumPy's"},
    {"", FLAT, 8, 2, SS_ERR_FORMAT, "header is not NumPy's"},
    {SMALL, HEADER("'|u1'", "False", "(3,)"), 8, 3, SS_ERR_FORMAT, "labels: 3 labels for 2 images"},
    {SMALL, HEADER("'|u1'", "False", "(1, 2)"), 8, 2, SS_ERR_UNSUPPORTED, "the shape must be (N)"},
    {SMALL, HEADER("'<f8'", "False", "(2,)"), 8, 16, SS_ERR_UNSUPPORTED, "labels must be integers"},
    {SMALL, HEADER("'<u8'", "False", "(2,)"), 8, 16, SS_ERR_FORMAT, "it must be 0 to 65535"},
    {SMALL, HEADER("'|i1'", "False", "(2,)"), 8, 2, SS_ERR_FORMAT, "label -1 of image 0"},
    {SMALL, HEADER("'<u2'", "False", "(1,)"), 8, 2, SS_ERR_FORMAT, "1 labels for 2 images"},
};

START_TEST(refused)
{
    uint8_t ones[64];
    const struct ss_npz_how how = {.val_fraction = 0.5};
    memset(ones, 0xFF, sizeof ones);
    begin(0, 0);
    put_array(&zip, "images", bad[_i].images, ones, bad[_i].images_size);
    put_array(&zip, "labels", bad[_i].labels, ones, bad[_i].labels_size);
    finish(&zip);
    expect_refusal(&how, bad[_i].status, bad[_i].text);
}
END_TEST

START_TEST(wrong_names)
{
    const struct ss_npz_how how = {.val_fraction = 0.5}, one = {.images = "images"},
                            other = {.images = "images", .labels = "l", .val_fraction = 0.5};
    put_plain();
    expect_refusal(NULL, SS_ERR_INVALID, "no arrays for validation");
    expect_refusal(&one, SS_ERR_INVALID, "give both");
    expect_refusal(&other, SS_ERR_FORMAT, "has no array \"l\"; it has: images, labels");
    begin(0, 0);
    put_images("images", TRAIN, 1, 0);
    put_labels("y_train", TRAIN, "<i8", 0);
    finish(&zip);
    expect_refusal(&how, SS_ERR_FORMAT, "choose with --images and --labels from: images, y_train");
    begin(0, 0);
    put_images("x_train", 2, 1, 0);
    put_labels("y_train", 2, "<i8", 0);
    put_images("x_test", VAL, 1, 0);
    put_labels("y_test", VAL, "<i8", 0);
    finish(&zip);
    expect_refusal(NULL, SS_ERR_FORMAT, "label 200 is in y_test and not in y_train");
    begin(0, 0);
    put_images("x_train", 4, 1, 0);
    put_labels("y_train", 4, "<i8", 0);
    finish(&zip);
    expect_refusal(&how, SS_ERR_FORMAT, "label 10 has one image");
}
END_TEST

/* Truncations and bit flips cause no crash and no incomplete folders. */
START_TEST(damage)
{
    const struct ss_npz_how how = {.val_fraction = 0.5};
    struct ss_npz_converted got;
    struct ss_rng rng;
    int failed = 0;
    ss_rng_open(&rng, 3, SS_RNG_SYNTHETIC, 0, 0);
    begin(_i & 1, _i >> 1);
    put_images("images", TRAIN, 1, 0);
    put_labels("labels", TRAIN, "<i8", 0);
    finish(&zip);
    const size_t size = zip.size;
    for (size_t n = 0; n + 7 < size; n++) { /* the comment may be truncated */
        zip.size = n;
        struct ss_npz_converted none;
        ck_assert_int_eq(convert(&how, &none), SS_ERR_FORMAT);
    }
    zip.size = size;
    ck_assert_int_eq(count_files("out"), 0);
    for (int n = 0; n < 500; n++) {
        const uint32_t at = ss_rng_below(&rng, (uint32_t)size), bit = ss_rng_below(&rng, 8);
        zip.at[at] ^= (uint8_t)(1u << bit);
        enum ss_status status = convert(&how, &got);
        ck_assert(status == SS_OK || status == SS_ERR_FORMAT || status == SS_ERR_UNSUPPORTED ||
                  status == SS_ERR_INVALID);
        failed += status != SS_OK;
        ck_assert_int_eq(count_files("out"), status == SS_OK ? 2 : 0);
        zip.at[at] ^= (uint8_t)(1u << bit);
        if (status == SS_OK)
            nftw(in_folder("out"), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    ck_assert_int_gt(failed, 100);
    ck_assert_int_eq(convert(&how, &got), SS_OK);
}
END_TEST

/* Writes an IDX file without its last `keep` bytes. */
static void put_idx(const char *name, int packed, size_t count, int images, int keep)
{
    uint8_t bytes[16 + PLANE * TRAIN];
    size_t at = 0, end;
    put_bytes(bytes, &at, images ? "\0\0\x08\3" : "\0\0\x08\1", 4);
    const size_t sizes[] = {count, HEIGHT, WIDTH};
    for (int i = 0; i < (images ? 3 : 1); i++)
        put_bytes(bytes, &at, (const uint8_t[]){0, 0, 0, (uint8_t)sizes[i]}, 4);
    end = at + count * (images ? PLANE : 1);
    for (size_t n = 0; n < count; n++)
        for (int i = 0; i < (images ? PLANE : 1); i++)
            bytes[at++] = images ? pixel(n, i / WIDTH, i % WIDTH, 0) : (uint8_t)classes[n % 3];
    ck_assert_uint_eq(at, end);
    gzFile f = gzopen(in_folder(name), packed ? "wb" : "wbT");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(gzwrite(f, bytes, (unsigned)(end - (size_t)keep)), (int)end - keep);
    ck_assert_int_eq(gzclose(f), Z_OK);
}

static void put_all_idx(const char *form, int packed)
{
    static const char *const stems[] = {"train-images", "train-labels", "t10k-images",
                                        "t10k-labels"};
    for (int i = 0; i < 4; i++) {
        char name[64], end[32];
        snprintf(end, sizeof end, form, i % 2 ? 1 : 3);
        snprintf(name, sizeof name, "%s%s%s", stems[i], end, packed ? ".gz" : "");
        put_idx(name, packed, i < 2 ? TRAIN : VAL, i % 2 == 0, 0);
    }
}

#define expect_no_idx(status, text)                                                                \
    do {                                                                                           \
        const struct ss_npz_how plain = {.seed = 0};                                               \
        struct ss_npz_converted none;                                                              \
        expect_error(ss_convert_idx(folder, in_folder("out"), &plain, &none), (status), (text));   \
        ck_assert_int_eq(count_files("out"), 0);                                                   \
    } while (0)

START_TEST(idx)
{
    static const char *const forms[] = {"-idx%d-ubyte", "-idx%d-ubyte", ".idx%d-ubyte"};
    const struct ss_npz_how plain = {.seed = 0};
    char train[TRAIN] = {0}, val[TRAIN] = {0};
    struct ss_npz_converted got;
    put_all_idx(forms[_i], _i == 1);
    ck_assert_msg(ss_convert_idx(folder, in_folder("out"), &plain, &got) == SS_OK, "%s",
                  ss_log_last_error());
    ck_assert_uint_eq(got.train, TRAIN);
    ck_assert_uint_eq(got.val, VAL);
    expect_part(SS_SPLIT_TRAIN, TRAIN, 1, train);
    expect_part(SS_SPLIT_TEST, VAL, 1, val);
}
END_TEST

START_TEST(wrong_idx)
{
    struct ss_npz_converted got;
    const struct ss_npz_how half = {.val_fraction = 0.5};
    expect_no_idx(SS_ERR_FORMAT, ": train-images-idx3-ubyte is missing (also with .gz)");
    put_all_idx("-idx%d-ubyte", 0);
    expect_error(ss_convert_idx(folder, in_folder("out"), &half, &got), SS_ERR_INVALID,
                 "t10k-images-idx3-ubyte is for validation; leave --val-fraction out");
    unlink(in_folder("t10k-labels-idx1-ubyte"));
    expect_no_idx(SS_ERR_FORMAT, ": t10k-labels-idx1-ubyte is missing");
    put_idx("t10k-labels-idx1-ubyte", 0, VAL, 0, 2);
    expect_no_idx(SS_ERR_FORMAT, "/t10k-labels-idx1-ubyte: truncated: 2 bytes are missing");
    put_idx("t10k-labels-idx1-ubyte", 0, VAL - 1, 0, 0);
    expect_no_idx(SS_ERR_FORMAT, "5 labels for 6 images");
    put_idx("t10k-labels-idx1-ubyte", 1, VAL, 0, 0); /* gzip data without .gz, truncated next */
    ck_assert_int_eq(truncate(in_folder("t10k-labels-idx1-ubyte"), 20), 0);
    expect_no_idx(SS_ERR_FORMAT, "/t10k-labels-idx1-ubyte: ");
    write_file("t10k-labels-idx1-ubyte", "\x89PNG 1234", 9);
    expect_no_idx(SS_ERR_FORMAT, "not an IDX file: it begins with 89 50 4e 47");
    write_file("t10k-labels-idx1-ubyte", "\0\0\x0b\1\0\0\0\1\0\1", 10);
    expect_no_idx(SS_ERR_UNSUPPORTED, "its values are of type 0x0b; only bytes");
    write_file("t10k-labels-idx1-ubyte", "\0\0\x08\1\xff\xff\xff\xff\1", 9);
    expect_no_idx(SS_ERR_FORMAT, "dimension 1 is 4294967295: more than the file can hold");
    write_file("t10k-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\1\1\1", 10);
    expect_no_idx(SS_ERR_FORMAT, "extra data after its 1 values");
    unlink(in_folder("t10k-labels-idx1-ubyte"));
    unlink(in_folder("t10k-images-idx3-ubyte"));
    expect_no_idx(SS_ERR_INVALID, "has no arrays for validation");
    ck_assert_msg(ss_convert_idx(folder, in_folder("out"), &half, &got) == SS_OK, "%s",
                  ss_log_last_error());
    ck_assert_uint_eq(got.val, TRAIN / 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("npz");
    TCase *tc = tcase_create("npz");
    tcase_set_timeout(tc, 240);
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_loop_test(tc, both_parts, 0, sizeof good / sizeof *good);
    tcase_add_test(tc, split);
    tcase_add_loop_test(tc, idx, 0, 3);
    tcase_add_test(tc, wrong_idx);
    tcase_add_test(tc, interrupted);
    tcase_add_loop_test(tc, refused, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tc, wrong_names);
    tcase_add_loop_test(tc, damage, 0, 4);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
