/* Reader of zip archives with stored or deflated members, including zip64. Source of the format:
 * PKWARE's APPNOTE.TXT, 4.3 to 4.5. */
#ifndef SS_APPS_DATA_ZIP_H
#define SS_APPS_DATA_ZIP_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct ss_zip;

/* Map the file PATH and read its list of members. Errors: SS_ERR_IO, SS_ERR_FORMAT, SS_ERR_MEMORY.
 * The caller closes it. The file must not be truncated while it is open. */
enum ss_status ss_zip_open(const char *path, struct ss_zip **out);
void ss_zip_close(struct ss_zip *zip); /* NULL is fine */

size_t ss_zip_count(const struct ss_zip *zip);
const char *ss_zip_name(const struct ss_zip *zip, size_t i); /* valid as long as the archive */

/* Read member i and verify its checksum. The bytes of a deflated member are in *owned, which the
 * caller frees; for a stored member *owned is NULL, and the bytes are valid as long as the archive.
 * Errors: SS_ERR_FORMAT, SS_ERR_UNSUPPORTED (encrypted, another method), SS_ERR_MEMORY. */
enum ss_status ss_zip_read(const struct ss_zip *zip, size_t i, const uint8_t **bytes, size_t *size,
                           uint8_t **owned);

#endif
