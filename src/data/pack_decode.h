/* Decodes all files of a folder in parallel threads and delivers the images in the folder's order.
 * Private to the pack's files. */
#ifndef SS_DATA_PACK_DECODE_H
#define SS_DATA_PACK_DECODE_H

#include "core/status.h"
#include "data/imagefolder.h"

#include <stddef.h>
#include <stdint.h>

struct pack_decoders;

struct pack_image {
    int width, height;
    uint8_t *bytes; /* contiguous rows, zero-padded to a multiple of PACK_ALIGN; malloc */
    size_t size;    /* including the padding */
    uint64_t checksum;
    enum ss_status status; /* of reading and decoding; the other fields are valid with SS_OK */
    char text[2048];       /* the error message otherwise */
};

/* Start `threads` threads (>= 1; fewer if there are fewer files or thread creation fails) on the
 * files of `folder`, which must outlive them. They inherit the caller's affinity, and block when
 * enough images are decoded ahead of the caller. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY (no thread
 * can be started). The caller stops them. */
enum ss_status pack_decoders_start(const struct ss_imagefolder *folder, int threads,
                                   struct pack_decoders **out);
/* Wait for the next file, from 0 to count - 1, and return its image. The image is valid until
 * pack_decoders_release, which must be called before the next call. */
const struct pack_image *pack_decoders_next(struct pack_decoders *d);
void pack_decoders_release(struct pack_decoders *d);
void pack_decoders_stop(struct pack_decoders *d); /* NULL is fine */

#endif
