/* What the reader and the writer of packs share; not for other files.
 *
 * A pack is written from front to back, all numbers little-endian:
 *   header    64 bytes, struct pack_header
 *   images  of the files in the folder's order: (height, width, 3) bytes without gaps between
 *             rows, then zeros up to a multiple of 64. A corrupt file has none.
 *   index     count x 24 bytes, struct pack_entry, then zeros up to a multiple of 64
 *   trailer   64 bytes, struct pack_trailer
 * Every byte is covered by one checksum. These find damage, not deceit: they are 64 bits, and fast
 * enough to be computed for each image. An index that passes and still makes no sense is refused,
 * so that no file leads to reads outside of the mapping. */
#ifndef SS_DATA_PACK_FORMAT_H
#define SS_DATA_PACK_FORMAT_H

#include "data/pixels.h"

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "a pack is little-endian and is mapped as it is"
#endif

enum {
    PACK_ALIGN = 64,
    /* Goes up with every change of the format, and of what the decoder gives for a file. */
    PACK_VERSION = 2,
    PACK_MAX_SIDE = SS_PICTURE_MAX_PIXELS,
};
#define PACK_MAGIC "SSPACK\r\n" /* a transfer as text breaks it */
#define PACK_END_MAGIC "SSPACKED"

struct pack_header {
    char magic[8];
    uint32_t version, entry_bytes;
    uint64_t count;
    uint64_t fingerprint, times; /* of the folder, see imagefolder.h */
    uint64_t zero[2];
    uint64_t checksum; /* of what is before it */
};

struct pack_entry {
    uint64_t offset;        /* of the image in the file */
    uint32_t width, height; /* a corrupt file: all fields are 0 */
    uint64_t checksum;      /* of the image with the zeros behind it */
};

struct pack_trailer {
    char magic[8];
    uint64_t index_offset, file_bytes;
    uint64_t corrupt;                         /* entries of corrupt files */
    uint64_t header_checksum, index_checksum; /* the index with the zeros behind it */
    uint64_t zero;
    uint64_t checksum; /* of what is before it */
};

_Static_assert(sizeof(struct pack_header) == PACK_ALIGN, "as it is in the file");
_Static_assert(sizeof(struct pack_entry) == 24, "as it is in the file");
_Static_assert(sizeof(struct pack_trailer) == PACK_ALIGN, "as it is in the file");

static inline uint64_t pack_padded(uint64_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

/* A checksum of n bytes, a multiple of 8. Word i (8 bytes) goes to lane i mod 8, which begins as
 * mix(i mod 8, 1) and becomes rotate((lane ^ word) * 0x9E3779B97F4A7C15, 29); the result is n mixed
 * with the lanes one after the other by ss_mix64 (core/rng.h). Every step can be undone, so that
 * one damaged word always changes its lane; lanes do not wait for each other. */
uint64_t pack_checksum(const void *bytes, size_t n);

#endif
