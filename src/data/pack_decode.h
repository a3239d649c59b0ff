/* Decoding all files of a folder in threads, for one who takes the images in the folder's order;
 * not for files other than the pack's. */
#ifndef SS_DATA_PACK_DECODE_H
#define SS_DATA_PACK_DECODE_H

#include "core/status.h"
#include "data/imagefolder.h"

#include <stddef.h>
#include <stdint.h>

struct pack_decoders;

struct pack_image {
    int width, height;
    uint8_t *bytes; /* rows without gaps, zeros up to a multiple of PACK_ALIGN; malloc */
    size_t size;    /* with the zeros */
    uint64_t checksum;
    enum ss_status status; /* of reading and decoding; the rest is valid with SS_OK */
    char text[2048];       /* what was to be said with another */
};

/* Start so many threads (>= 1; fewer for fewer files, or if the system has no more) on the files of
 * `folder`, which must outlive them. They run where the caller may run, and stop ahead of the
 * caller when they hold enough. Errors: SS_ERR_MEMORY, SS_ERR_LIBRARY (not one thread). The caller
 * stops them. */
enum ss_status pack_decoders_start(const struct ss_imagefolder *folder, int threads,
                                   struct pack_decoders **out);
/* Wait for the next file, from 0 to count - 1. It is the caller's to read until the release, which
 * comes before the next call. */
const struct pack_image *pack_decoders_next(struct pack_decoders *d);
void pack_decoders_release(struct pack_decoders *d);
void pack_decoders_stop(struct pack_decoders *d); /* NULL is fine */

#endif
