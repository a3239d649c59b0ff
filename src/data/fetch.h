/* Download CIFAR-100. */
#ifndef SS_DATA_FETCH_H
#define SS_DATA_FETCH_H

#include "core/status.h"

#define SS_CIFAR100_URL "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
/* As published on the data set's page. */
#define SS_CIFAR100_MD5 "03b5dce01913d631647c71ecec9e9cb8"

struct ss_fetch {
    const char *url;    /* http, https or file; NULL: SS_CIFAR100_URL */
    const char *md5;    /* of the archive, hexadecimal. With neither sum given: SS_CIFAR100_MD5, */
    const char *sha256; /* because a mirror should hold the same archive */
};

/* Download the archive with curl, or wget where there is no curl, check its sum, unpack train.bin,
 * test.bin and fine_label_names.txt with tar, check the records, and move the files to DIR, which
 * is created if missing. Until then everything is in DIR/fetch.tmp.PID, which is removed at the
 * end. Errors: SS_ERR_INVALID (url, sums), SS_ERR_UNSUPPORTED (a program is missing), SS_ERR_IO
 * (download), SS_ERR_MISMATCH (sum), SS_ERR_FORMAT. */
enum ss_status ss_fetch_cifar100(const char *dir, const struct ss_fetch *what);

#endif
