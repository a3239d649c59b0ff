#include "data/picture.h"

#include <stdlib.h>

#include "core/log.h"

struct ss_picture_loader {
    struct ss_image_file file;
    struct ss_jpeg *jpeg;
    struct ss_resizer *resizer;
};

enum ss_status ss_picture_open(struct ss_picture_loader **out)
{
    struct ss_picture_loader *l = calloc(1, sizeof *l);
    if (!l)
        return ss_fail_memory("a loader of pictures", sizeof *l);
    enum ss_status status = ss_jpeg_open(&l->jpeg);
    if (status == SS_OK)
        status = ss_resizer_open(&l->resizer);
    if (status != SS_OK) {
        ss_picture_close(l);
        return status;
    }
    *out = l;
    return SS_OK;
}

void ss_picture_close(struct ss_picture_loader *l)
{
    if (!l)
        return;
    ss_jpeg_close(l->jpeg);
    ss_resizer_close(l->resizer);
    free(l->file.bytes);
    free(l);
}

enum ss_status ss_picture_load(struct ss_picture_loader *l, const struct ss_imagefolder *folder,
                               size_t i, const struct ss_picture_how *how, uint8_t *out)
{
    int width, height;
    struct ss_crop crop;
    struct ss_jpeg_pixels pixels;
    if (how->side < 1)
        return ss_fail(SS_ERR_INVALID, "a sample of %d x %d pixels", how->side, how->side);
    SS_TRY(ss_imagefolder_read(folder, i, &l->file));
    SS_TRY(ss_jpeg_begin(l->jpeg, l->file.path, l->file.bytes, l->file.size, &width, &height));
    if (how->shorter)
        SS_TRY(ss_crop_centre(width, height, how->shorter, how->side, &crop));
    else
        crop =
            ss_crop_draw(how->seed, how->epoch, (uint32_t)i, width, height, &how->range, how->side);
    int scale = 1;
    if (how->reduced)
        scale = ss_jpeg_choose_scale(crop.area.width, crop.area.height, crop.width, crop.height);
    SS_TRY(ss_jpeg_decode(l->jpeg, &crop.area, scale, &pixels));
    return ss_crop_apply(l->resizer, &crop, &pixels, how->order, out);
}

const char *ss_picture_warning(const struct ss_picture_loader *l)
{
    return ss_jpeg_warning(l->jpeg);
}
