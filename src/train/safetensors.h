/* Read and write safetensors files: the model's tensors under their PyTorch names.
 *
 * Format: 8 bytes little-endian header length N, N bytes of JSON (a map name -> {"dtype",
 * "shape", "data_offsets": [begin, end]} and an optional "__metadata__" map of strings), then the
 * data; offsets count from the first byte after the header; tensors lie without gaps or overlaps.
 * Source: format description of the safetensors reference implementation. */
#ifndef SS_TRAIN_SAFETENSORS_H
#define SS_TRAIN_SAFETENSORS_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum { SS_ST_MAX_DIMS = 8 };

enum ss_st_dtype { SS_ST_F32, SS_ST_F16, SS_ST_BF16, SS_ST_F64, SS_ST_I64, SS_ST_I32, SS_ST_U8 };

struct ss_st_tensor {
    const char *name;
    enum ss_st_dtype dtype;
    int ndim; /* 0 for a scalar */
    int64_t shape[SS_ST_MAX_DIMS];
    const void *data; /* row-major, little-endian; may be unaligned inside an opened file */
    size_t bytes;
};

struct ss_safetensors; /* an opened file, mapped read-only */

/* Open a file and check all of it: header length against the file's size, JSON (duplicate keys
 * are refused), dtypes, shapes (overflow), offsets inside the file, lengths equal to shape x
 * dtype, no overlap, no gaps. Errors: SS_ERR_IO, SS_ERR_FORMAT, SS_ERR_MEMORY; the message names
 * file, tensor, field and value. The caller closes the file. */
enum ss_status ss_safetensors_open(const char *path, struct ss_safetensors **out);
/* Parse a file in memory (tests, fuzzing). `bytes` must outlive *out; `name` is the path in
 * messages. */
enum ss_status ss_safetensors_parse(const char *name, const void *bytes, size_t size,
                                    struct ss_safetensors **out);
void ss_safetensors_close(struct ss_safetensors *st); /* st may be NULL */

size_t ss_safetensors_count(const struct ss_safetensors *st);
/* Tensor i in order of offset; valid while the file is open. */
const struct ss_st_tensor *ss_safetensors_get(const struct ss_safetensors *st, size_t i);
/* Find a tensor by name; NULL if absent. */
const struct ss_st_tensor *ss_safetensors_find(const struct ss_safetensors *st, const char *name);
/* Get a value of "__metadata__"; NULL if absent. */
const char *ss_safetensors_metadata(const struct ss_safetensors *st, const char *key);
/* Get the i-th pair of "__metadata__" in file order. Returns 0 past the last one. */
int ss_safetensors_metadata_at(const struct ss_safetensors *st, size_t i, const char **key,
                               const char **value);

/* Write a file atomically: to a temporary name in the same folder, flushed to disk, renamed to
 * `path`, folder flushed. On any failure (disk full, ...) the temporary file is removed and an
 * old file at `path` is unchanged. metadata: key, value, key, value, ..., NULL; may be NULL.
 * Tensors are ordered by decreasing element size, then as given, so that each is aligned in the
 * file. Errors: SS_ERR_IO, SS_ERR_MEMORY, SS_ERR_INVALID (a name twice, not UTF-8 or reserved;
 * bytes that do not fit the shape). */
enum ss_status ss_safetensors_write(const char *path, const struct ss_st_tensor *tensors,
                                    size_t count, const char *const *metadata);

/* Bytes of one element. */
size_t ss_st_dtype_bytes(enum ss_st_dtype dtype);

#endif
