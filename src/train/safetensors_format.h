/* What the reader and the writer of safetensors files share; not for other files. */
#ifndef SS_TRAIN_SAFETENSORS_FORMAT_H
#define SS_TRAIN_SAFETENSORS_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "safetensors data is little-endian and is mapped as it is"
#endif

/* The reference implementation's own limit; it bounds the memory that a hostile header can cost. */
#define SS_ST_MAX_HEADER_BYTES ((uint64_t)100 * 1000 * 1000)
#define SS_ST_LENGTH_BYTES 8
#define SS_ST_METADATA_KEY "__metadata__"

enum { SS_ST_NDTYPES = 7 };

struct ss_st_dtype_info {
    const char *name;
    size_t bytes;
};
extern const struct ss_st_dtype_info ss_st_dtypes[SS_ST_NDTYPES];

/* Text from a file, cut and without control characters, for a one-line message. */
struct ss_st_shown {
    char text[128];
};
struct ss_st_shown ss_st_show(const char *s);

/* *elements = product of shape; 0 on success, -1 when it does not fit. */
int ss_st_shape_elements(const int64_t *shape, int ndim, size_t *elements);

#endif
