/* JSON values that are built and written whole, with Jansson. What cannot be made, for want of
 * memory, is NULL, and so becomes whatever it is put into: only the last value needs a check, and
 * ss_json_write and ss_json_save do that. */
#ifndef SS_CORE_JSON_VALUE_H
#define SS_CORE_JSON_VALUE_H

#include "core/status.h"

#include <jansson.h>
#include <stdio.h>

/* Bytes that are not UTF-8 become "?". */
json_t *ss_json_text(const char *s);

/* null unless it is finite. */
json_t *ss_json_number(double v);

/* Put a value into an object or at a list's end; both take it over. */
void ss_json_set(json_t **object, const char *key, json_t *value);
void ss_json_append(json_t **list, json_t *value);

/* Write a value, indented, numbers in 15 digits, and a line's end, and drop it. Errors:
 * SS_ERR_MEMORY; those of the stream stay in it. */
enum ss_status ss_json_write(json_t *value, FILE *f);

/* The same as a file that appears whole or not at all. Errors: as ss_atomic_commit, SS_ERR_MEMORY. */
enum ss_status ss_json_save(json_t *value, const char *path);

#endif
