/* JSON files that people write or bring: nothing in them is trusted. */
#ifndef SS_CORE_JSON_FILE_H
#define SS_CORE_JSON_FILE_H

#include "core/status.h"

#include <jansson.h>
#include <stddef.h>

/* Read a file of at most `most` bytes, in which no key stands twice. option and what are for messages:
 * "--recipe" and "recipe". Errors: SS_ERR_IO, SS_ERR_FORMAT, SS_ERR_MEMORY. The caller drops *out. */
enum ss_status ss_json_load(const char *option, const char *path, const char *what, size_t most,
                            json_t **out);

#endif
