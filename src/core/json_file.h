/* Load JSON files that come from users; their content is not trusted. */
#ifndef SS_CORE_JSON_FILE_H
#define SS_CORE_JSON_FILE_H

#include "core/status.h"

#include <jansson.h>
#include <stddef.h>

/* Load a JSON file of at most `most` bytes; duplicate keys are rejected. option and what are used
 * in messages, for example "--recipe" and "recipe". The caller releases *out with json_decref.
 * Errors: SS_ERR_IO, SS_ERR_FORMAT, SS_ERR_MEMORY. */
enum ss_status ss_json_load(const char *option, const char *path, const char *what, size_t most,
                            json_t **out);

#endif
