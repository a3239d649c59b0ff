/* Build JSON values in memory with Jansson, then write them. After an allocation failure a value
 * is NULL, and so is every object or list that it is added to: only the outermost value needs a
 * check, which ss_json_write and ss_json_save do. */
#ifndef SS_CORE_JSON_VALUE_H
#define SS_CORE_JSON_VALUE_H

#include "core/status.h"

#include <jansson.h>
#include <stdio.h>

/* Return a JSON string. Bytes that are not UTF-8 become "?". */
json_t *ss_json_text(const char *s);

/* Return a JSON number, or null if v is not finite. */
json_t *ss_json_number(double v);

/* Add a value to an object or a list. Takes over the reference to the value, also on failure. */
void ss_json_set(json_t **object, const char *key, json_t *value);
void ss_json_append(json_t **list, json_t *value);

/* Write a value, indented, with 15 digits per number, and a newline. Takes over the reference to
 * the value. Errors: SS_ERR_MEMORY; for stream errors check ferror(f). */
enum ss_status ss_json_write(json_t *value, FILE *f);

/* Write a value to a file, atomically (core/atomic_file.h). Errors: as ss_atomic_commit,
 * SS_ERR_MEMORY. */
enum ss_status ss_json_save(json_t *value, const char *path);

#endif
