/* A memory manager for libjpeg that uses the same memory for every image.
 *
 * libjpeg's own asks malloc for each image and frees all at its end. This one hands out pieces of
 * blocks that stay; ss_jpeg_memory_reset takes all pieces back at once, also those that libjpeg
 * calls permanent (tables), except what it took when the decoder was created. */
#ifndef SS_DATA_JPEG_MEMORY_H
#define SS_DATA_JPEG_MEMORY_H

#include <stddef.h>
#include <stdio.h>
#include <jpeglib.h>

struct ss_jpeg_memory {
    struct ss_jpeg_block *blocks; /* the newest first, pieces come from it */
    size_t used;                  /* bytes of the newest block */
    size_t total;                 /* bytes of all blocks */
    size_t limit, keep;           /* bytes: for one image; from image to image */
};

/* Replace the methods of cinfo->mem, right after jpeg_create_decompress. cinfo->client_data must
 * point to the ss_jpeg_memory. A request over the limit, or that malloc refuses, ends the libjpeg
 * call with JERR_OUT_OF_MEMORY. */
void ss_jpeg_memory_install(j_common_ptr cinfo);

/* Take back all pieces. Blocks become one of their size, or none if they are over `keep`. */
void ss_jpeg_memory_reset(struct ss_jpeg_memory *memory);
void ss_jpeg_memory_close(struct ss_jpeg_memory *memory);

#endif
