/* A CSV file that grows by whole lines: one writer, a header, and never half a line, also when the
 * writer is killed or the disk is full. */
#ifndef SS_MONITOR_LINES_H
#define SS_MONITOR_LINES_H

#include "core/status.h"

#include <stddef.h>

struct ss_lines;

/* Open PATH to append to. A new file gets the header (a line without its end); a file that is there
 * must begin with it, and half a line at its end is cut off. Errors: SS_ERR_IO (also: another
 * process writes it), SS_ERR_FORMAT (another header), SS_ERR_MEMORY. The caller closes *out. */
enum ss_status ss_lines_open(const char *path, const char *header, struct ss_lines **out);

/* Append whole lines at once. Errors: SS_ERR_IO; the file is then as before. */
enum ss_status ss_lines_write(struct ss_lines *lines, const char *text, size_t bytes);

void ss_lines_close(struct ss_lines *lines); /* NULL is fine */

#endif
