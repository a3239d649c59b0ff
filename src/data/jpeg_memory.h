/* Memory manager for libjpeg that reuses its memory for every image.
 *
 * libjpeg's own manager calls malloc for each image and frees everything at its end. This one
 * allocates pieces from blocks that are retained. ss_jpeg_memory_reset releases all pieces
 * together, also those of libjpeg's permanent pool (tables), except those allocated when the
 * decoder was created. */
#ifndef SS_DATA_JPEG_MEMORY_H
#define SS_DATA_JPEG_MEMORY_H

#include <stddef.h>
#include <stdio.h>
#include <jpeglib.h>

struct ss_jpeg_memory {
    struct ss_jpeg_block *blocks; /* newest first; pieces are allocated from the newest */
    size_t used;                  /* bytes in the newest block */
    size_t total;                 /* bytes of all blocks */
    size_t limit, keep;           /* maximum bytes for one image; retained between images */
};

/* Replace the methods of cinfo->mem. Call directly after jpeg_create_decompress, with
 * cinfo->client_data pointing to the ss_jpeg_memory. A request above the limit or a malloc failure
 * ends the libjpeg call with JERR_OUT_OF_MEMORY. */
void ss_jpeg_memory_install(j_common_ptr cinfo);

/* Release all pieces. Several blocks are merged into one of their total size, or all blocks are
 * freed if they exceed `keep`. */
void ss_jpeg_memory_reset(struct ss_jpeg_memory *memory);
void ss_jpeg_memory_close(struct ss_jpeg_memory *memory);

#endif
