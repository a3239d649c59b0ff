/* Reader of byte arrays in IDX files, the format of MNIST, FashionMNIST, KMNIST and QMNIST.
 *
 * The header is 0, 0, 8 for bytes, the number of dimensions, and each dimension as a big-endian
 * 32-bit integer; the values follow in C order. Source: "The IDX file format", Y. LeCun, C. Cortes,
 * C. Burges, The MNIST database of handwritten digits. */
#ifndef SS_APPS_DATA_IDX_H
#define SS_APPS_DATA_IDX_H

#include "apps/data/npz.h"

/* Read DIR/NAME, optionally gzip-compressed. Errors: SS_ERR_IO, SS_ERR_FORMAT (not an IDX file,
 * truncated, too long), SS_ERR_UNSUPPORTED (values are not bytes), SS_ERR_MEMORY. The caller frees
 * the array with ss_npz_free, also after an error. */
enum ss_status ss_idx_read(const char *dir, const char *name, struct ss_npz_array *out);

#endif
