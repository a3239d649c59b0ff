/* An append-only CSV file with one writer, a header and complete lines only, even if the writer
 * is killed or the disk is full. */
#ifndef SS_APPS_MONITOR_LINES_H
#define SS_APPS_MONITOR_LINES_H

#include "core/status.h"

#include <stddef.h>

struct ss_lines;

/* Open PATH for appending. A new file gets the header (without a newline in `header`). An
 * existing file must begin with it; an incomplete last line is removed. Errors: SS_ERR_IO (also:
 * another process writes it), SS_ERR_FORMAT (another header), SS_ERR_MEMORY. The caller closes
 * *out. */
enum ss_status ss_lines_open(const char *path, const char *header, struct ss_lines **out);

/* Append complete lines with a single write. On SS_ERR_IO the file is unchanged. */
enum ss_status ss_lines_write(struct ss_lines *lines, const char *text, size_t bytes);

void ss_lines_close(struct ss_lines *lines); /* NULL is fine */

#endif
