#include "data/image.h"
#include "core/log.h"
#include "data/grey.h"
#include "data/jpeg.h"
#include "data/image_file.h"

#include <stdlib.h>

struct ss_image_loader {
    struct ss_image_file file;
    struct ss_decoder *decoder;
    struct ss_resizer *resizer;
    uint8_t *colour; /* RGB sample before grayscale conversion */
    size_t capacity;
};

enum ss_status ss_image_open(struct ss_image_loader **out)
{
    struct ss_image_loader *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("a loader of images", sizeof *l);
    enum ss_status status = ss_decoder_open(&l->decoder);
    if (status == SS_OK)
        status = ss_resizer_open(&l->resizer);
    if (status != SS_OK) {
        ss_image_close(l);
        return status;
    }
    *out = l;
    return SS_OK;
}

void ss_image_close(struct ss_image_loader *l)
{
    if (!l)
        return;
    ss_decoder_close(l->decoder);
    ss_resizer_close(l->resizer);
    free(l->file.bytes);
    free(l->colour);
    free(l);
}

static enum ss_status choose_crop(const struct ss_image_how *how, size_t i, int width, int height,
                                  struct ss_crop *crop)
{
    if (how->least.height)
        return ss_crop_centre(width, height, how->least, how->size, crop);
    uint32_t sample = how->draw_as ? *how->draw_as : (uint32_t)i;
    *crop = ss_crop_draw(how->seed, how->epoch, sample, width, height, &how->range, how->size);
    return SS_OK;
}

/* Decode the pixels that the crop needs from the file. */
static enum ss_status decode(struct ss_image_loader *l, const struct ss_imagefolder *folder,
                             size_t i, const struct ss_image_how *how, struct ss_crop *crop,
                             struct ss_pixels *pixels)
{
    int width, height, scale = 1;
    SS_TRY(ss_imagefolder_read(folder, i, &l->file));
    SS_TRY(
        ss_decoder_begin(l->decoder, l->file.path, l->file.bytes, l->file.size, &width, &height));
    SS_TRY(choose_crop(how, i, width, height, crop));
    if (how->reduced)
        scale =
            ss_jpeg_choose_scale(crop->area.width, crop->area.height, crop->width, crop->height);
    return ss_decoder_decode(l->decoder, &crop->area, scale, pixels);
}

/* Take the pixels of the crop from the pack. They exclude the surroundings, as after decode():
 * resizing must not use pixels outside of the crop. */
static enum ss_status cut(const struct ss_image_how *how, size_t i, struct ss_crop *crop,
                          struct ss_pixels *pixels)
{
    SS_TRY(ss_pack_pixels(how->pack, i, pixels));
    SS_TRY(choose_crop(how, i, pixels->area.width, pixels->area.height, crop));
    const struct ss_area *area = &crop->area;
    pixels->rgb += (size_t)area->y * pixels->stride + 3 * (size_t)area->x;
    pixels->area = *area;
    return SS_OK;
}

/* Compute the sample in RGB and convert it to grayscale: Grayscale follows crop and flip. */
static enum ss_status apply_grey(struct ss_image_loader *l, const struct ss_crop *crop,
                                 const struct ss_pixels *pixels, uint8_t *out)
{
    const size_t n = (size_t)crop->window.width * (size_t)crop->window.height;
    if (l->capacity < 3 * n) {
        uint8_t *colour = realloc(l->colour, 3 * n);
        if (!colour)
            return ss_fail_memory("an image", 3 * n);
        l->colour = colour;
        l->capacity = 3 * n;
    }
    SS_TRY(ss_crop_apply(l->resizer, crop, pixels, SS_PIXELS_CHW, l->colour));
    ss_pixels_grey(l->colour, n, out);
    return SS_OK;
}

enum ss_status ss_image_load(struct ss_image_loader *l, const struct ss_imagefolder *folder,
                             size_t i, const struct ss_image_how *how, uint8_t *out)
{
    struct ss_crop crop;
    struct ss_pixels pixels;
    if (how->size.height < 1 || how->size.width < 1)
        return ss_fail(SS_ERR_INVALID, "a sample of %d x %d pixels; give at least 1 x 1",
                       how->size.height, how->size.width);
    if (how->pack)
        SS_TRY(cut(how, i, &crop, &pixels));
    else
        SS_TRY(decode(l, folder, i, how, &crop, &pixels));
    return how->channels == 1 ? apply_grey(l, &crop, &pixels, out)
                              : ss_crop_apply(l->resizer, &crop, &pixels, how->order, out);
}

const char *ss_image_warning(const struct ss_image_loader *l)
{
    return ss_decoder_warning(l->decoder);
}
