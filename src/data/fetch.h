/* Download CIFAR-10 or CIFAR-100. */
#ifndef SS_DATA_FETCH_H
#define SS_DATA_FETCH_H

#include "core/status.h"
#include "data/cifar.h"

struct ss_fetch {
    const char *url;    /* http, https or file; NULL: cifar->url */
    const char *md5;    /* of the archive, hexadecimal. With neither sum given: cifar->md5, */
    const char *sha256; /* because a mirror should hold the same archive */
};

/* Download the archive with curl, or wget where there is no curl, check its sum, unpack the records
 * and the file of names with tar, check the records, and move the files to DIR, which is created if
 * missing. Until then everything is in DIR/fetch.tmp.PID, which is removed at the end. Errors:
 * SS_ERR_INVALID (url, sums), SS_ERR_UNSUPPORTED (a program is missing), SS_ERR_IO (download),
 * SS_ERR_MISMATCH (sum), SS_ERR_FORMAT. */
enum ss_status ss_fetch_cifar(const struct ss_cifar *cifar, const char *dir,
                              const struct ss_fetch *what);

#endif
