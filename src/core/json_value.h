/* JSON values that are built in memory and written at once, with Jansson. After an allocation
 * failure a value is NULL, and so is every object or list that it was to be added to: only the
 * outermost one needs a check, which ss_json_write and ss_json_save do. */
#ifndef SS_CORE_JSON_VALUE_H
#define SS_CORE_JSON_VALUE_H

#include "core/status.h"

#include <jansson.h>
#include <stdio.h>

/* Bytes that are not UTF-8 become "?". */
json_t *ss_json_text(const char *s);

/* null unless it is finite. */
json_t *ss_json_number(double v);

/* Add a value to an object or a list. The value's reference is taken over, also on failure. */
void ss_json_set(json_t **object, const char *key, json_t *value);
void ss_json_append(json_t **list, json_t *value);

/* Write a value, indented and with 15 digits for each number, and a newline; the value's reference
 * is taken over. Errors: SS_ERR_MEMORY; those of the stream stay in it. */
enum ss_status ss_json_write(json_t *value, FILE *f);

/* The same as a file that appears whole or not at all. Errors: as ss_atomic_commit, SS_ERR_MEMORY. */
enum ss_status ss_json_save(json_t *value, const char *path);

#endif
