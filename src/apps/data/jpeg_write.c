#include "apps/data/jpeg_write.h"
#include "core/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>

/* As in jpeg.c, all state that must survive a longjmp out of libjpeg is in this struct. */
struct writer {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    char text[JMSG_LENGTH_MAX];
    const uint8_t *rgb;
    int width, height;
    const struct ss_jpeg_how *how;
    unsigned char *bytes;
    unsigned long size;
};

_Noreturn static void on_error(j_common_ptr c)
{
    struct writer *w = (struct writer *)(void *)((char *)c - offsetof(struct writer, c));
    c->err->format_message(c, w->text);
    longjmp(w->escape, 1);
}

static void compress(struct writer *w)
{
    struct jpeg_compress_struct *c = &w->c;
    jpeg_create_compress(c);
    jpeg_mem_dest(c, &w->bytes, &w->size);
    c->image_width = (JDIMENSION)w->width;
    c->image_height = (JDIMENSION)w->height;
    c->input_components = 3;
    c->in_color_space = JCS_RGB;
    jpeg_set_defaults(c);
    if (w->how->grey)
        jpeg_set_colorspace(c, JCS_GRAYSCALE);
    else if (w->how->full_colour)
        c->comp_info[0].h_samp_factor = c->comp_info[0].v_samp_factor = 1;
    jpeg_set_quality(c, w->how->quality, TRUE);
    if (w->how->progressive)
        jpeg_simple_progression(c);
    jpeg_start_compress(c, TRUE);
    while (c->next_scanline < c->image_height) {
        /* libjpeg does not write to the row. */
        JSAMPROW row = (JSAMPROW)(uintptr_t)(w->rgb + 3 * (size_t)w->width * c->next_scanline);
        jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
}

static int guard(struct writer *w)
{
    if (setjmp(w->escape))
        return 0;
    compress(w);
    return 1;
}

static enum ss_status write_bytes(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return ss_fail(SS_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    size_t n = fwrite(bytes, 1, size, f);
    if (fclose(f) == 0 && n == size)
        return SS_OK;
    enum ss_status status = ss_fail(SS_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    remove(path); /* incomplete */
    return status;
}

enum ss_status ss_jpeg_write(const char *path, const uint8_t *rgb, int width, int height,
                             const struct ss_jpeg_how *how)
{
    if (width < 1 || height < 1 || width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION ||
        how->quality < 1 || how->quality > 100)
        return ss_fail(SS_ERR_INVALID, "%s: %d x %d pixels, quality %d; not supported by JPEG",
                       path, width, height, how->quality);
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return ss_fail_memory("a JPEG writer", sizeof *w);
    w->c.err = jpeg_std_error(&w->errors);
    w->errors.error_exit = on_error;
    w->rgb = rgb;
    w->width = width;
    w->height = height;
    w->how = how;
    enum ss_status status = guard(w) ? write_bytes(path, w->bytes, w->size)
                                     : ss_fail(SS_ERR_LIBRARY, "%s: libjpeg: %s", path, w->text);
    jpeg_destroy_compress(&w->c);
    free(w->bytes);
    free(w);
    return status;
}
