/* Export as one self-contained HTML page: the timeline of each rank and worker, the breakdown of
 * each step's time, and the collectives of each bucket. Its sources are in page/; the build
 * embeds them in the library. */
#ifndef SS_APPS_TRACE_EXPORT_HTML_H
#define SS_APPS_TRACE_EXPORT_HTML_H

#include "apps/trace/export.h"

/* The page before and after its data. */
extern const char ss_page_head[], ss_page_tail[];

/* Errors: SS_ERR_IO (names the file). */
enum ss_status ss_export_html(const struct ss_export *e, const char *file);

#endif
