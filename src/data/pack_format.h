/* File format of packs. Private to the reader and the writer.
 *
 * A pack is written sequentially; all numbers are little-endian:
 *   header    64 bytes, struct pack_header
 *   images    in the folder's order: (height, width, 3) bytes with contiguous rows, then zeros up
 *             to a multiple of 64. A corrupt file has no image.
 *   index     count x 24 bytes, struct pack_entry, then zeros up to a multiple of 64
 *   trailer   64 bytes, struct pack_trailer
 * Every byte is covered by one checksum of 64 bits, fast enough to be computed for each image.
 * The checksums detect damage, not tampering. An inconsistent index with a valid checksum is
 * rejected, so that no file causes reads outside of the mapping. */
#ifndef SS_DATA_PACK_FORMAT_H
#define SS_DATA_PACK_FORMAT_H

#include "data/pixels.h"

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "packs are little-endian and are mapped without conversion"
#endif

enum {
    PACK_ALIGN = 64,
    /* Increase with every change of the format or of the decoder's output. */
    PACK_VERSION = 2,
    PACK_MAX_SIDE = SS_IMAGE_MAX_PIXELS,
};
#define PACK_MAGIC "SSPACK\r\n" /* detects text-mode transfers */
#define PACK_END_MAGIC "SSPACKED"

struct pack_header {
    char magic[8];
    uint32_t version, entry_bytes;
    uint64_t count;
    uint64_t fingerprint, times; /* of the folder, see imagefolder.h */
    uint64_t zero[2];
    uint64_t checksum; /* of the preceding fields */
};

struct pack_entry {
    uint64_t offset;        /* of the image in the file */
    uint32_t width, height; /* a corrupt file: all fields are 0 */
    uint64_t checksum;      /* of the image including its padding */
};

struct pack_trailer {
    char magic[8];
    uint64_t index_offset, file_bytes;
    uint64_t corrupt;                         /* entries of corrupt files */
    uint64_t header_checksum, index_checksum; /* the index including its padding */
    uint64_t zero;
    uint64_t checksum; /* of the preceding fields */
};

_Static_assert(sizeof(struct pack_header) == PACK_ALIGN, "size in the file");
_Static_assert(sizeof(struct pack_entry) == 24, "size in the file");
_Static_assert(sizeof(struct pack_trailer) == PACK_ALIGN, "size in the file");

static inline uint64_t pack_padded(uint64_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

/* Compute the checksum of n bytes, a multiple of 8. Word i (8 bytes) updates lane i mod 8, which
 * starts as ss_mix64(i mod 8, 1) (core/rng.h) and becomes rotate((lane ^ word) *
 * 0x9E3779B97F4A7C15, 29). The result is n mixed with the lanes, one after the other, by ss_mix64.
 * Every step is invertible, so one damaged word always changes its lane; lanes are independent. */
uint64_t pack_checksum(const void *bytes, size_t n);

#endif
