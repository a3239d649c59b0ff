/* Internal definitions shared by safetensors.c and safetensors_write.c; training_notes.c uses
 * ss_st_show. */
#ifndef SS_TRAIN_SAFETENSORS_FORMAT_H
#define SS_TRAIN_SAFETENSORS_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "safetensors data is little-endian and is mapped as it is"
#endif

/* Limit of the reference implementation; it bounds the memory that a malicious header can
 * allocate. */
#define SS_ST_MAX_HEADER_BYTES ((uint64_t)100 * 1000 * 1000)
#define SS_ST_LENGTH_BYTES 8
#define SS_ST_METADATA_KEY "__metadata__"

enum { SS_ST_NDTYPES = 7 };

struct ss_st_dtype_info {
    const char *name;
    size_t bytes;
};
extern const struct ss_st_dtype_info ss_st_dtypes[SS_ST_NDTYPES];

/* Text from a file for a one-line message: truncated, without control characters. */
struct ss_st_shown {
    char text[128];
};
struct ss_st_shown ss_st_show(const char *s);

/* Set *elements to the product of the shape. Returns 0, or -1 on a negative dimension or
 * overflow. */
int ss_st_shape_elements(const int64_t *shape, int ndim, size_t *elements);

#endif
