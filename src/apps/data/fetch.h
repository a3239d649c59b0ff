/* Download CIFAR-10 or CIFAR-100. */
#ifndef SS_APPS_DATA_FETCH_H
#define SS_APPS_DATA_FETCH_H

#include "core/status.h"
#include "data/cifar.h"

struct ss_fetch {
    const char *url; /* http, https or file; NULL: cifar->url */
    /* Checksums of the archive, hexadecimal. If both are NULL, cifar->md5 is used, because a mirror
     * should have the same archive. */
    const char *md5;
    const char *sha256;
};

/* Download the archive with curl, or with wget if curl is not installed, verify its checksum,
 * unpack the records and the file of class names with tar, check the records, and move the files to
 * DIR, which is created if missing. Temporary files are in DIR/fetch.tmp.PID, which is removed at
 * the end. Errors: SS_ERR_INVALID (URL, checksums), SS_ERR_UNSUPPORTED (a program is missing),
 * SS_ERR_IO (download), SS_ERR_MISMATCH (checksum), SS_ERR_FORMAT. */
enum ss_status ss_fetch_cifar(const struct ss_cifar *cifar, const char *dir,
                              const struct ss_fetch *what);

#endif
