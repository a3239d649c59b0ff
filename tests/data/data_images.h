/* Access to tests/reference/images: JPEG files, PIL's decoded images, and the list of cases (see
 * record_images.py). */
#ifndef SS_TESTS_DATA_IMAGES_H
#define SS_TESTS_DATA_IMAGES_H

#include "data/jpeg.h"
#include "tests/data_common.h"

struct bytes {
    uint8_t *at;
    size_t size;
};

static inline FILE *open_reference(const char *name)
{
    const char *top = getenv("top_srcdir");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/reference/images/%s", top ? top : ".", name);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s is missing", path);
    return f;
}

/* The caller frees .at. Its allocation has exactly .size bytes, so that a sanitizer detects reads
 * past the end. */
static inline struct bytes read_reference(const char *name)
{
    FILE *f = open_reference(name);
    struct bytes b;
    fseek(f, 0, SEEK_END);
    b.size = (size_t)ftell(f);
    rewind(f);
    b.at = malloc(b.size);
    ck_assert_ptr_nonnull(b.at);
    ck_assert_uint_eq(fread(b.at, 1, b.size, f), b.size);
    fclose(f);
    return b;
}

struct image {
    int width, height;
    uint8_t *rgb; /* (height, width, 3); the caller frees it */
};

static inline struct image read_ppm(const char *name)
{
    struct image p;
    FILE *f = open_reference(name);
    ck_assert_int_eq(fscanf(f, "P6 %d %d 255", &p.width, &p.height), 2);
    fgetc(f);
    size_t size = 3 * (size_t)p.width * (size_t)p.height;
    p.rgb = malloc(size);
    ck_assert_ptr_nonnull(p.rgb);
    ck_assert_uint_eq(fread(p.rgb, 1, size, f), size);
    fclose(f);
    return p;
}

/* Calls `take` with each line of cases.txt that begins with `kind`; fails if there are fewer than
 * `least` such lines. */
static inline void for_cases(const char *kind, int least, void (*take)(const char *arguments))
{
    char line[512];
    int count = 0;
    FILE *f = open_reference("cases.txt");
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, kind, strlen(kind)) && line[strlen(kind)] == ' ') {
            take(line + strlen(kind) + 1);
            count++;
        }
    fclose(f);
    ck_assert_int_ge(count, least);
}

/* Decodes the whole image; the caller frees .rgb. */
static inline struct image decode_reference(struct ss_jpeg *j, const char *name)
{
    struct bytes b = read_reference(name);
    struct image p;
    struct ss_pixels pixels;
    ck_assert_int_eq(ss_jpeg_begin(j, name, b.at, b.size, &p.width, &p.height), SS_OK);
    ck_assert_int_eq(ss_jpeg_decode(j, NULL, 1, &pixels), SS_OK);
    free(b.at);
    size_t row = 3 * (size_t)p.width;
    p.rgb = malloc(row * (size_t)p.height);
    ck_assert_ptr_nonnull(p.rgb);
    for (int y = 0; y < p.height; y++)
        memcpy(p.rgb + row * (size_t)y, pixels.rgb + pixels.stride * (size_t)y, row);
    return p;
}

#endif
