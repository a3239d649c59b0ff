/* JPEG decoder on libjpeg.
 *
 * libjpeg reports an error by calling error_exit, which must not return: it jumps back into
 * guard(), the only function with a setjmp. guard() has no variables that change after the
 * setjmp; all state of the steps is in struct ss_jpeg; and the frames that the jump unwinds,
 * those of libjpeg and of the steps, own no resources. */
#include "data/jpeg.h"
#include "core/log.h"
#include "data/jpeg_memory.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jerror.h>
#include <jpeglib.h>

enum {
    /* Extra columns decoded on both sides of a crop: fancy upsampling uses the neighbors of a
     * chroma sample, which covers up to 4 pixels. */
    MARGIN = 8,
};

struct ss_jpeg {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct ss_jpeg_memory memory;
    jmp_buf escape;
    char name[512];
    char text[JMSG_LENGTH_MAX], warning[JMSG_LENGTH_MAX];
    enum ss_status status; /* of the error that caused the jump */
    const uint8_t *bytes;
    size_t size;
    int begun;
    /* Current decoding: the area in pixels of the reduced image; the columns that libjpeg
     * returns. */
    struct ss_area area;
    int first_column, columns, scale;
    uint8_t *pixels;
    size_t capacity, stride;
};

static struct ss_jpeg *jpeg_of(j_common_ptr c)
{
    return (struct ss_jpeg *)(void *)((char *)c - offsetof(struct ss_jpeg, c));
}

_Noreturn static void on_error(j_common_ptr c)
{
    struct ss_jpeg *j = jpeg_of(c);
    j->status = c->err->msg_code == JERR_OUT_OF_MEMORY ? SS_ERR_MEMORY : SS_ERR_FORMAT;
    if (c->err->msg_code == JERR_INPUT_EOF)
        snprintf(j->text, sizeof j->text, "the file ends too early, after %zu bytes", j->size);
    else if (c->err->msg_code == JERR_OUT_OF_MEMORY)
        snprintf(j->text, sizeof j->text, "needs more than %zu MiB of memory, or out of memory",
                 j->memory.limit >> 20);
    else
        c->err->format_message(c, j->text);
    longjmp(j->escape, 1);
}

/* Warnings have level -1, traces 0 and above. */
static void on_message(j_common_ptr c, int level)
{
    struct ss_jpeg *j = jpeg_of(c);
    if (level < 0 && c->err->num_warnings++ == 0)
        c->err->format_message(c, j->warning);
}

static void on_progress(j_common_ptr c)
{
    if (((j_decompress_ptr)c)->input_scan_number <= SS_JPEG_MAX_SCANS)
        return;
    struct ss_jpeg *j = jpeg_of(c);
    j->status = SS_ERR_FORMAT;
    snprintf(j->text, sizeof j->text, "more than %d scans", SS_JPEG_MAX_SCANS);
    longjmp(j->escape, 1);
}

static void source_nothing(j_decompress_ptr c)
{
    (void)c;
}

/* The buffer contains the whole file, so a request for more data means that it is truncated. */
static boolean source_fill(j_decompress_ptr c)
{
    ERREXIT(c, JERR_INPUT_EOF);
    return FALSE;
}

static void source_skip(j_decompress_ptr c, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > c->src->bytes_in_buffer)
        ERREXIT(c, JERR_INPUT_EOF);
    c->src->next_input_byte += count;
    c->src->bytes_in_buffer -= (size_t)count;
}

static int guard(struct ss_jpeg *j, void (*step)(struct ss_jpeg *))
{
    if (setjmp(j->escape))
        return 0;
    step(j);
    return 1;
}

/* Run a step under guard(). Errors name the file. */
static enum ss_status run(struct ss_jpeg *j, void (*step)(struct ss_jpeg *))
{
    if (guard(j, step))
        return SS_OK;
    j->begun = 0;
    return ss_fail(j->status, "%s: not a usable JPEG file: %s", j->name, j->text);
}

static void step_create(struct ss_jpeg *j)
{
    jpeg_create_decompress(&j->c);
    j->c.client_data = &j->memory;
    j->c.src = &j->source;
    j->c.progress = &j->progress;
    ss_jpeg_memory_install((j_common_ptr)&j->c);
}

enum ss_status ss_jpeg_open(struct ss_jpeg **out)
{
    struct ss_jpeg *j = calloc(1, sizeof *j);
    if (!j)
        return ss_fail_memory("a JPEG decoder", sizeof *j);
    j->memory.limit = SS_JPEG_MAX_MEMORY;
    j->memory.keep = SS_IMAGE_RETAIN;
    j->c.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->source.init_source = source_nothing;
    j->source.fill_input_buffer = source_fill;
    j->source.skip_input_data = source_skip;
    j->source.resync_to_restart = jpeg_resync_to_restart;
    j->source.term_source = source_nothing;
    j->progress.progress_monitor = on_progress;
    if (!guard(j, step_create)) {
        enum ss_status status = ss_fail(j->status == SS_ERR_MEMORY ? SS_ERR_MEMORY : SS_ERR_LIBRARY,
                                        "libjpeg: cannot create a decoder: %s", j->text);
        ss_jpeg_close(j);
        return status;
    }
    *out = j;
    return SS_OK;
}

void ss_jpeg_close(struct ss_jpeg *j)
{
    if (!j)
        return;
    jpeg_destroy_decompress(&j->c);
    ss_jpeg_memory_close(&j->memory);
    free(j->pixels);
    free(j);
}

/* Discard the last image and its tables: a file without tables must not use those of another. */
static void reset(struct ss_jpeg *j)
{
    jpeg_abort_decompress(&j->c);
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        j->c.quant_tbl_ptrs[i] = NULL;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        j->c.dc_huff_tbl_ptrs[i] = j->c.ac_huff_tbl_ptrs[i] = NULL;
    ss_jpeg_memory_reset(&j->memory);
    if (j->capacity > SS_IMAGE_RETAIN) {
        free(j->pixels);
        j->pixels = NULL;
        j->capacity = 0;
    }
    j->errors.num_warnings = 0;
    j->begun = 0;
}

static void step_header(struct ss_jpeg *j)
{
    jpeg_read_header(&j->c, TRUE);
}

/* Search for the end-of-image marker, backward from the end of the file, where it normally is.
 * Decoding an area may never reach the marker. PIL also rejects files without it. */
static int has_end(const struct ss_jpeg *j)
{
    const uint8_t *begin = j->source.next_input_byte;
    for (const uint8_t *p = j->bytes + j->size; p - begin >= 2; p--)
        if (p[-2] == 0xFF && p[-1] == 0xD9)
            return 1;
    return 0;
}

static enum ss_status check_header(const struct ss_jpeg *j)
{
    const struct jpeg_decompress_struct *c = &j->c;
    SS_TRY(ss_pixels_check_size(j->name, c->image_width, c->image_height));
    if (c->data_precision != 8)
        return ss_fail(SS_ERR_FORMAT, "%s: %d bits a sample; only 8 can be read", j->name,
                       c->data_precision);
    if (c->num_components != 1 && c->num_components != 3 && c->num_components != 4)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: %d components; supported are grayscale (1), color (3) and CMYK (4)",
                       j->name, c->num_components);
    if (!has_end(j))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: the file is truncated: the end marker is missing after %zu bytes; copy "
                       "it again",
                       j->name, j->size);
    return SS_OK;
}

int ss_jpeg_is(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

enum ss_status ss_jpeg_begin(struct ss_jpeg *j, const char *name, const uint8_t *bytes, size_t size,
                             int *width, int *height)
{
    reset(j);
    snprintf(j->name, sizeof j->name, "%s", name);
    if (!ss_jpeg_is(bytes, size))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: not a JPEG file (%zu bytes; it must begin with FF D8 FF)", name, size);
    j->bytes = bytes;
    j->size = size;
    j->source.next_input_byte = bytes;
    j->source.bytes_in_buffer = size;
    SS_TRY(run(j, step_header));
    SS_TRY(check_header(j));
    j->begun = 1;
    *width = (int)j->c.image_width;
    *height = (int)j->c.image_height;
    return SS_OK;
}

/* Return 1 if scans of a progressive file are missing. libjpeg then estimates coefficients from
 * neighboring blocks, so all columns must be decoded. All rows are available, because libjpeg reads
 * all scans before it starts. */
static int is_smoothed(const struct jpeg_decompress_struct *c)
{
    for (int k = 0; c->coef_bits && k < c->num_components; k++)
        for (int i = 0; i < DCTSIZE2; i++)
            if (c->coef_bits[k][i] != 0)
                return 1;
    return 0;
}

static void step_start(struct ss_jpeg *j)
{
    j->c.scale_num = 1;
    j->c.scale_denom = (unsigned)j->scale;
    j->c.out_color_space = j->c.num_components == 4 ? JCS_CMYK : JCS_RGB;
    j->c.dct_method = JDCT_ISLOW;
    j->c.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&j->c);
    int left = j->area.x > MARGIN ? j->area.x - MARGIN : 0;
    int right = j->area.x + j->area.width + MARGIN;
    if (right > (int)j->c.output_width)
        right = (int)j->c.output_width;
    JDIMENSION first = (JDIMENSION)left, columns = (JDIMENSION)(right - left);
    if (is_smoothed(&j->c)) {
        first = 0;
        columns = j->c.output_width;
    }
    if (columns < j->c.output_width)
        jpeg_crop_scanline(&j->c, &first, &columns);
    j->first_column = (int)first;
    j->columns = (int)columns;
}

/* a * b / 255, rounded. */
static int multiply_255(int a, int b)
{
    int t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* Convert a row of Adobe CMYK (inverted: 255 is no ink) to RGB in place, rounded as in PIL. */
static void convert_cmyk(uint8_t *row, int columns)
{
    const uint8_t *in = row;
    for (int x = 0; x < columns; x++, in += 4, row += 3) {
        int light = in[3];
        for (int k = 0; k < 3; k++)
            row[k] = (uint8_t)(light - multiply_255(255 - in[k], light));
    }
}

static void step_rows(struct ss_jpeg *j)
{
    if (j->area.y > 0 && jpeg_skip_scanlines(&j->c, (JDIMENSION)j->area.y) != (JDIMENSION)j->area.y)
        ERREXIT(&j->c, JERR_INPUT_EOF);
    for (int y = 0; y < j->area.height; y++) {
        JSAMPROW row = j->pixels + (size_t)y * j->stride;
        if (jpeg_read_scanlines(&j->c, &row, 1) != 1)
            ERREXIT(&j->c, JERR_INPUT_EOF);
        if (j->c.output_components == 4)
            convert_cmyk(row, j->columns);
    }
}

/* Map the pixels first .. first+count-1 to those that cover them in the image reduced by
 * `scale`. */
static void reduce(int scale, int *first, int *count)
{
    int end = (*first + *count + scale - 1) / scale;
    *first /= scale;
    *count = end - *first;
}

enum ss_status ss_jpeg_decode(struct ss_jpeg *j, const struct ss_area *need, int scale,
                              struct ss_pixels *out)
{
    if (!j->begun)
        return ss_fail(SS_ERR_INVALID, "JPEG decoder: no image was begun, or it was decoded");
    int width = (int)j->c.image_width, height = (int)j->c.image_height;
    const struct ss_area all = {0, 0, width, height};
    if (!need)
        need = &all;
    if (scale != 1 && scale != 2 && scale != 4 && scale != 8)
        return ss_fail(SS_ERR_INVALID, "%s: decoding at 1/%d; give 1, 2, 4 or 8", j->name, scale);
    SS_TRY(ss_pixels_check_area(j->name, need, width, height));
    j->begun = 0;
    j->scale = scale;
    j->area = *need;
    reduce(scale, &j->area.x, &j->area.width);
    reduce(scale, &j->area.y, &j->area.height);
    SS_TRY(run(j, step_start));
    SS_TRY(ss_pixels_reserve((size_t)j->columns * (size_t)j->c.output_components,
                             (size_t)j->area.height, &j->pixels, &j->capacity, &j->stride));
    SS_TRY(run(j, step_rows));
    out->rgb = j->pixels + 3 * (size_t)(j->area.x - j->first_column);
    out->stride = j->stride;
    out->area = j->area;
    out->scale = scale;
    return SS_OK;
}

const char *ss_jpeg_warning(const struct ss_jpeg *j)
{
    return j->errors.num_warnings ? j->warning : NULL;
}

int ss_jpeg_choose_scale(int crop_width, int crop_height, int out_width, int out_height)
{
    int scale = 8;
    while (scale > 1 && (crop_width / scale < out_width || crop_height / scale < out_height))
        scale /= 2;
    return scale;
}
