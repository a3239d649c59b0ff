/* A trace as one HTML page, which needs nothing else: the timeline of each rank and worker, where
 * the time of each step went, and the collectives of each bucket. Its sources are in page/; the
 * build puts them into the library. */
#ifndef SS_TRACE_EXPORT_HTML_H
#define SS_TRACE_EXPORT_HTML_H

#include "trace/export.h"

/* The page before and after its data. */
extern const char ss_page_head[], ss_page_tail[];

/* Errors: SS_ERR_IO (names the file). */
enum ss_status ss_export_html(const struct ss_export *e, const char *file);

#endif
