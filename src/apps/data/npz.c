#include "apps/data/npz.h"
#include "core/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find(const struct ss_zip *zip, const char *name, size_t *at)
{
    char file[80];
    snprintf(file, sizeof file, "%s.npy", name);
    for (size_t i = 0; i < ss_zip_count(zip); i++)
        if (!strcmp(ss_zip_name(zip, i), file)) {
            *at = i;
            return 1;
        }
    return 0;
}

int ss_npz_has(const struct ss_zip *zip, const char *name)
{
    size_t at;
    return find(zip, name, &at);
}

void ss_npz_names(const struct ss_zip *zip, char *names, size_t capacity)
{
    *names = '\0';
    for (size_t i = 0; i < ss_zip_count(zip); i++) {
        const size_t used = strlen(names);
        const char *name = ss_zip_name(zip, i), *dot = strrchr(name, '.');
        const int length = (int)(dot ? (size_t)(dot - name) : strlen(name));
        snprintf(names + used, capacity - used, "%s%.*s", used ? ", " : "", length, name);
    }
}

static enum ss_status fail_missing(const struct ss_zip *zip, const char *path, const char *name)
{
    char names[300];
    ss_npz_names(zip, names, sizeof names);
    return ss_fail(SS_ERR_FORMAT, "%s: has no array \"%s\"; it has: %s", path, name, names);
}

/* Return the text after 'KEY': in the header, a Python dict; NULL if the key is missing. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

static int parse_type(const char *header, struct ss_npz_array *a)
{
    const char *text = value_of(header, "descr");
    if (!text || *text != '\'')
        return 0;
    const size_t n = strcspn(text + 1, "'");
    if (n < 3 || n >= sizeof a->type)
        return 0;
    memcpy(a->type, text + 1, n);
    a->type[n] = '\0';
    char *end;
    const unsigned long item = strtoul(a->type + 2, &end, 10);
    a->item = item;
    return *end == '\0' && item > 0 && item < 1 << 20 && strchr("<>|=", a->type[0]);
}

/* Parse "(60000, 28, 28)". Returns 1, -1 for a syntax error, 0 for too many dimensions. */
static int parse_shape(const char *header, struct ss_npz_array *a)
{
    const char *text = value_of(header, "shape");
    if (!text || *text++ != '(')
        return -1;
    a->dims = 0;
    for (;;) {
        text += strspn(text, " ");
        if (*text == ')')
            return 1;
        if (*text < '0' || *text > '9')
            return -1;
        if (a->dims == SS_NPZ_MAX_DIMS)
            return 0;
        char *end;
        a->shape[a->dims++] = strtoul(text, &end, 10);
        text = end + (*end == ',');
        if (*end != ',' && *end != ')')
            return -1;
    }
}

/* Compute the bytes of all elements. Returns 0 on overflow. */
static int count_bytes(const struct ss_npz_array *a, size_t *bytes)
{
    *bytes = a->item;
    for (int i = 0; i < a->dims; i++)
        if (__builtin_mul_overflow(*bytes, a->shape[i], bytes))
            return 0;
    return 1;
}

static enum ss_status parse_header(const char *path, const char *header, struct ss_npz_array *a)
{
    const char *order = value_of(header, "fortran_order");
    const int shape = parse_shape(header, a);
    if (!order || shape < 0)
        return ss_fail(SS_ERR_FORMAT, "%s: %s: its header is not NumPy's", path, a->name);
    if (!parse_type(header, a))
        return ss_fail(SS_ERR_UNSUPPORTED, "%s: %s: is not an array of plain numbers", path,
                       a->name);
    if (!shape)
        return ss_fail(SS_ERR_UNSUPPORTED, "%s: %s: has more than %d dimensions", path, a->name,
                       SS_NPZ_MAX_DIMS);
    if (strncmp(order, "False", 5) != 0)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "%s: %s: is in Fortran order; save numpy.ascontiguousarray of it", path,
                       a->name);
    return SS_OK;
}

static enum ss_status parse(const char *path, const uint8_t *bytes, size_t size,
                            struct ss_npz_array *a)
{
    enum { FIXED = 10, LONG_FIXED = 12, LONGEST = 65535 };
    if (size < LONG_FIXED || memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3)
        return ss_fail(SS_ERR_FORMAT, "%s: %s: is not NumPy's format, version 1 to 3", path,
                       a->name);
    const int is_long = bytes[6] > 1;
    const size_t fixed = is_long ? LONG_FIXED : FIXED,
                 length = (size_t)bytes[8] | (size_t)bytes[9] << 8 |
                          (is_long ? (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24 : 0);
    if (length > size - fixed || length > LONGEST)
        return ss_fail(SS_ERR_FORMAT, "%s: %s: its header is truncated", path, a->name);
    char *header = strndup((const char *)bytes + fixed, length);
    if (!header)
        return ss_fail_memory("a header", length);
    enum ss_status status = parse_header(path, header, a);
    free(header);
    SS_TRY(status);
    size_t need;
    if (!count_bytes(a, &need) || need != size - fixed - length)
        return ss_fail(SS_ERR_FORMAT, "%s: %s: has %zu bytes, which do not match its shape", path,
                       a->name, size - fixed - length);
    a->bytes = bytes + fixed + length;
    return SS_OK;
}

enum ss_status ss_npz_read(const struct ss_zip *zip, const char *path, const char *name,
                           struct ss_npz_array *out)
{
    struct ss_npz_array a = {.dims = 0};
    const uint8_t *bytes;
    size_t at, size;
    if (strlen(name) >= sizeof a.name || !find(zip, name, &at))
        return fail_missing(zip, path, name);
    strcpy(a.name, name);
    SS_TRY(ss_zip_read(zip, at, &bytes, &size, &a.owned));
    enum ss_status status = parse(path, bytes, size, &a);
    if (status != SS_OK) {
        free(a.owned);
        return status;
    }
    *out = a;
    return SS_OK;
}

void ss_npz_free(struct ss_npz_array *a)
{
    free(a->owned);
    *a = (struct ss_npz_array){.dims = 0};
}

int ss_npz_is_integer(const struct ss_npz_array *a)
{
    return strchr("uib", a->type[1]) &&
           (a->item == 1 || a->item == 2 || a->item == 4 || a->item == 8);
}

int64_t ss_npz_integer(const struct ss_npz_array *a, size_t i)
{
    const uint8_t *at = a->bytes + i * a->item;
    const int big = a->type[0] == '>';
    uint64_t v = 0;
    for (size_t k = 0; k < a->item; k++)
        v = v << 8 | at[big ? k : a->item - 1 - k];
    const int unused = 64 - 8 * (int)a->item;
    if (a->type[1] == 'i')
        return (int64_t)(v << unused) >> unused;
    return (int64_t)v;
}
