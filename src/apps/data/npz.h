/* Reader of arrays in a NumPy archive (.npz). Source of the format: numpy.lib.format, versions 1.0
 * to 3.0. */
#ifndef SS_APPS_DATA_NPZ_H
#define SS_APPS_DATA_NPZ_H

#include "core/status.h"
#include "apps/data/zip.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_NPZ_MAX_DIMS = 4 };

struct ss_npz_array {
    char name[64], type[16]; /* type in NumPy's notation: "|u1", "<i8" */
    int dims;
    size_t shape[SS_NPZ_MAX_DIMS];
    size_t item;          /* bytes of an element */
    const uint8_t *bytes; /* in C order */
    uint8_t *owned;       /* private */
};

/* Return 1 if the archive has an array of that name. */
int ss_npz_has(const struct ss_zip *zip, const char *name);
/* List the names of all arrays, as in "x_train, y_train", truncated to `capacity` bytes. */
void ss_npz_names(const struct ss_zip *zip, char *names, size_t capacity);
/* Read an array; path names the archive in messages. Errors: those of ss_zip_read; SS_ERR_FORMAT
 * (no such array, with a list of the arrays; not .npy, truncated); SS_ERR_UNSUPPORTED (Fortran
 * order, objects, more than SS_NPZ_MAX_DIMS). The caller frees the array before closing the
 * archive. */
enum ss_status ss_npz_read(const struct ss_zip *zip, const char *path, const char *name,
                           struct ss_npz_array *out);
void ss_npz_free(struct ss_npz_array *array);

/* Return 1 for signed and unsigned integers and booleans of up to 64 bits. */
int ss_npz_is_integer(const struct ss_npz_array *array);
/* Return element i of such an array; unsigned values above INT64_MAX become negative. */
int64_t ss_npz_integer(const struct ss_npz_array *array, size_t i);

#endif
