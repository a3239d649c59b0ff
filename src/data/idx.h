/* Arrays of bytes in IDX files, as MNIST and its successors come (FashionMNIST, KMNIST, QMNIST's): a zero, a zero, 8 for
 * bytes, the number of dimensions, each of them in 4 bytes, the largest first, and the values in C order. Source: "The
 * IDX file format", Y. LeCun, C. Cortes, C. Burges, The MNIST database of handwritten digits. */
#ifndef SS_DATA_IDX_H
#define SS_DATA_IDX_H

#include "data/npz.h"

/* Read DIR/NAME, which gzip may have packed. Errors: SS_ERR_IO, SS_ERR_FORMAT (no IDX file, truncated, too long),
 * SS_ERR_UNSUPPORTED (other values than bytes), SS_ERR_MEMORY. The caller frees it by ss_npz_free. */
enum ss_status ss_idx_read(const char *dir, const char *name, struct ss_npz_array *out);

#endif
