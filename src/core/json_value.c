#include "core/json_value.h"
#include "core/atomic_file.h"
#include "core/log.h"
#include "core/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A double holds 15 decimal digits (DBL_DIG), so 0.1 is written as 0.1. */
static const size_t format = JSON_INDENT(1) | JSON_REAL_PRECISION(15);

json_t *ss_json_text(const char *s)
{
    if (ss_utf8_is(s))
        return json_string(s);
    const size_t capacity = strlen(s) + 1;
    char *text = malloc(capacity);
    if (!text)
        return NULL;
    ss_utf8_copy(text, capacity, s);
    json_t *value = json_string(text);
    free(text);
    return value;
}

json_t *ss_json_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static void drop_unless(int whole, json_t **value)
{
    if (whole)
        return;
    json_decref(*value);
    *value = NULL;
}

void ss_json_set(json_t **object, const char *key, json_t *value)
{
    drop_unless(!json_object_set_new(*object, key, value), object);
}

void ss_json_append(json_t **list, json_t *value)
{
    drop_unless(!json_array_append_new(*list, value), list);
}

static enum ss_status fail(void)
{
    return ss_fail_memory("a JSON file's values", sizeof(json_t));
}

enum ss_status ss_json_write(json_t *value, FILE *f)
{
    if (!value)
        return fail();
    const int bad = json_dumpf(value, f, format) && !ferror(f);
    fputc('\n', f);
    json_decref(value);
    return bad ? fail() : SS_OK;
}

enum ss_status ss_json_save(json_t *value, const char *path)
{
    struct ss_atomic_file *f;
    char *text = value ? json_dumps(value, format) : NULL;
    json_decref(value);
    if (!text)
        return fail();
    enum ss_status status = ss_atomic_open(path, &f);
    if (status == SS_OK) {
        ss_atomic_write(f, text, strlen(text));
        ss_atomic_write(f, "\n", 1);
        status = ss_atomic_commit(f);
    }
    free(text);
    return status;
}
