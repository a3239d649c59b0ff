/* PNG decoder on libpng.
 *
 * libpng reports an error by calling on_error, which must not return: it jumps back into guard(),
 * the only function with a setjmp. guard() has no variables that change after the setjmp; all
 * state of the steps is in struct ss_png; and the frames that the jump unwinds, those of libpng
 * and of the steps, own no resources. */
#include "data/png.h"
#include "core/log.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <png.h>

enum {
    SIGNATURE = 8,
    /* Bytes of a chunk's length and name, and of its checksum. */
    CHUNK_HEAD = 8,
    CHUNK_END = 4,
    HEADER = SIGNATURE + CHUNK_HEAD + 13 + CHUNK_END,
};
static const uint8_t signature[SIGNATURE] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
static const char clipped[] = "16-bit grayscale: values above 255 of 65535 become white, as in PIL";

struct ss_png {
    png_structp png; /* NULL: no current image */
    png_infop info;
    jmp_buf escape;
    char name[512];
    char text[256], warning[256];
    const uint8_t *bytes;
    size_t size, read; /* read: bytes consumed by libpng */
    int width, height;
    int grey_16; /* 16-bit grayscale without alpha: two bytes per pixel */
    uint8_t *pixels;
    size_t capacity, stride;
};

_Noreturn static void on_error(png_structp png, png_const_charp text)
{
    struct ss_png *p = png_get_error_ptr(png);
    snprintf(p->text, sizeof p->text, "%s", text);
    longjmp(p->escape, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    struct ss_png *p = png_get_error_ptr(png);
    if (!*p->warning)
        snprintf(p->warning, sizeof p->warning, "%s", text);
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    struct ss_png *p = png_get_io_ptr(png);
    if (n > p->size - p->read)
        png_error(png, "the file ends too early");
    memcpy(out, p->bytes + p->read, n);
    p->read += n;
}

static int guard(struct ss_png *p, void (*step)(struct ss_png *))
{
    if (setjmp(p->escape))
        return 0;
    step(p);
    return 1;
}

static void reset(struct ss_png *p)
{
    png_destroy_read_struct(&p->png, &p->info, NULL); /* sets both to NULL */
    *p->warning = '\0';
}

/* Run a step under guard(). Errors name the file. */
static enum ss_status run(struct ss_png *p, void (*step)(struct ss_png *))
{
    if (guard(p, step))
        return SS_OK;
    reset(p);
    return ss_fail(SS_ERR_FORMAT, "%s: not a usable PNG file: %s", p->name, p->text);
}

enum ss_status ss_png_open(struct ss_png **out)
{
    struct ss_png *p = calloc(1, sizeof *p);
    if (!p)
        return ss_fail_memory("a PNG decoder", sizeof *p);
    *out = p;
    return SS_OK;
}

void ss_png_close(struct ss_png *p)
{
    if (!p)
        return;
    reset(p);
    free(p->pixels);
    free(p);
}

int ss_png_is(const uint8_t *bytes, size_t size)
{
    return size >= 4 && memcmp(bytes, signature, 4) == 0;
}

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Follow the chunks up to the last one, IEND. PIL accepts files without it, but they are
 * truncated. */
static int has_end(const uint8_t *bytes, size_t size)
{
    size_t at = SIGNATURE;
    while (size - at >= CHUNK_HEAD + CHUNK_END) {
        if (memcmp(bytes + at + 4, "IEND", 4) == 0)
            return 1;
        const uint32_t length = number_at(bytes + at);
        if (length > size - at - CHUNK_HEAD - CHUNK_END)
            return 0;
        at += CHUNK_HEAD + length + CHUNK_END;
    }
    return 0;
}

/* Check the file before libpng parses it, because libpng's messages for these errors are less
 * clear. */
static enum ss_status check_file(const char *name, const uint8_t *bytes, size_t size)
{
    if (!ss_png_is(bytes, size))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: not a PNG file (%zu bytes; it must begin with 89 50 4E 47)", name,
                       size);
    if (size < HEADER)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: the file is truncated: it ends after %zu bytes; copy it again", name,
                       size);
    if (memcmp(bytes, signature, SIGNATURE) != 0)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: not a usable PNG file: its line ends were changed by a text-mode copy; "
                       "copy it again",
                       name);
    const uint8_t *head = bytes + SIGNATURE;
    if (memcmp(head + 4, "IHDR", 4) == 0)
        SS_TRY(ss_pixels_check_size(name, number_at(head + CHUNK_HEAD),
                                    number_at(head + CHUNK_HEAD + 4)));
    if (!has_end(bytes, size))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: the file is truncated: the end chunk is missing after %zu bytes; copy "
                       "it again",
                       name, size);
    return SS_OK;
}

static void step_header(struct ss_png *p)
{
    png_set_read_fn(p->png, p, on_read);
    png_set_user_limits(p->png, SS_IMAGE_MAX_PIXELS, SS_IMAGE_MAX_PIXELS);
    /* Skip chunks on which the pixels do not depend: color profiles that cause libpng warnings,
     * texts that decompress to any size. */
    png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(p->png, p->info);
}

enum ss_status ss_png_begin(struct ss_png *p, const char *name, const uint8_t *bytes, size_t size,
                            int *width, int *height)
{
    reset(p);
    if (p->capacity > SS_IMAGE_RETAIN) {
        free(p->pixels);
        p->pixels = NULL;
        p->capacity = 0;
    }
    snprintf(p->name, sizeof p->name, "%s", name);
    SS_TRY(check_file(p->name, bytes, size));
    p->bytes = bytes;
    p->size = size;
    p->read = 0;
    p->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, p, on_error, on_warning);
    if (p->png)
        p->info = png_create_info_struct(p->png);
    if (!p->info)
        return ss_fail(SS_ERR_LIBRARY, "libpng: cannot create a decoder: %s",
                       *p->warning ? p->warning : "no memory");
    SS_TRY(run(p, step_header));
    *width = p->width = (int)png_get_image_width(p->png, p->info);
    *height = p->height = (int)png_get_image_height(p->png, p->info);
    return SS_OK;
}

static void step_start(struct ss_png *p)
{
    const int type = png_get_color_type(p->png, p->info),
              depth = png_get_bit_depth(p->png, p->info);
    p->grey_16 = type == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (p->grey_16 && !*p->warning)
        memcpy(p->warning, clipped, sizeof clipped);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(p->png);
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(p->png);
    if (depth == 16 && !p->grey_16)
        png_set_strip_16(p->png);
    png_set_strip_alpha(p->png); /* also the alpha channel from a palette's transparency */
    if (!p->grey_16 && !(type & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(p->png);
    png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    const size_t row = png_get_rowbytes(p->png, p->info), want = (p->grey_16 ? 2 : 3);
    if (row != want * (size_t)p->width)
        png_error(p->png, "rows have an unexpected size");
}

/* Convert a row of big-endian 16-bit pixels to RGB in place, from its end. */
static void clip_row(uint8_t *row, int width)
{
    for (size_t x = (size_t)width; x-- > 0;) {
        const uint8_t value = row[2 * x] ? 255 : row[2 * x + 1];
        memset(row + 3 * x, value, 3);
    }
}

static void step_rows(struct ss_png *p)
{
    const int passes = png_set_interlace_handling(p->png);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < p->height; y++)
            png_read_row(p->png, p->pixels + (size_t)y * p->stride, NULL);
    png_read_end(p->png, NULL);
    for (int y = 0; p->grey_16 && y < p->height; y++)
        clip_row(p->pixels + (size_t)y * p->stride, p->width);
}

enum ss_status ss_png_decode(struct ss_png *p, const struct ss_area *need, struct ss_pixels *out)
{
    if (!p->png)
        return ss_fail(SS_ERR_INVALID, "PNG decoder: no image was begun, or it was decoded");
    const struct ss_area all = {0, 0, p->width, p->height};
    if (!need)
        need = &all;
    SS_TRY(ss_pixels_check_area(p->name, need, p->width, p->height));
    SS_TRY(ss_pixels_reserve(3 * (size_t)p->width, (size_t)p->height, &p->pixels, &p->capacity,
                             &p->stride));
    SS_TRY(run(p, step_start));
    SS_TRY(run(p, step_rows));
    png_destroy_read_struct(&p->png, &p->info, NULL);
    *out = (struct ss_pixels){.rgb = p->pixels + (size_t)need->y * p->stride + 3 * (size_t)need->x,
                              .stride = p->stride,
                              .area = *need,
                              .scale = 1};
    return SS_OK;
}

const char *ss_png_warning(const struct ss_png *p)
{
    return *p->warning ? p->warning : NULL;
}
