/* safetensors.c: read safetensors files (format and interface in safetensors.h).
 *
 * Files are untrusted input: every number is checked against the file's size before it is used,
 * and names are made printable before they are used in a message. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "train/safetensors.h"
#include "core/log.h"
#include "core/utf8.h"
#include "train/safetensors_format.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct ss_safetensors {
    void *map; /* NULL when the bytes belong to the caller */
    size_t map_bytes;
    json_t *root;                  /* owns the names and metadata strings */
    struct ss_st_tensor *tensors;  /* sorted by offset */
    struct ss_st_tensor **by_name; /* the same, sorted by name */
    size_t count;
};

const struct ss_st_dtype_info ss_st_dtypes[SS_ST_NDTYPES] = {
    [SS_ST_F32] = {"F32", 4}, [SS_ST_F16] = {"F16", 2}, [SS_ST_BF16] = {"BF16", 2},
    [SS_ST_F64] = {"F64", 8}, [SS_ST_I64] = {"I64", 8}, [SS_ST_I32] = {"I32", 4},
    [SS_ST_U8] = {"U8", 1},
};

size_t ss_st_dtype_bytes(enum ss_st_dtype dtype)
{
    return ss_st_dtypes[dtype].bytes;
}

struct ss_st_shown ss_st_show(const char *s)
{
    struct ss_st_shown out;
    size_t n = 0;
    while (*s && n + 8 < sizeof out.text) {
        const unsigned char *c = (const unsigned char *)s;
        const size_t bytes = ss_utf8_bytes(s);
        const int control = *c < 32 || *c == 127 || (*c == 0xc2 && c[1] < 0xa0);
        const size_t shown = bytes && !control ? bytes : 0; /* 0: replaced by "?" */
        memcpy(out.text + n, shown ? s : "?", shown ? shown : 1);
        n += shown ? shown : 1;
        s += bytes ? bytes : 1;
    }
    strcpy(out.text + n, *s ? "..." : "");
    return out;
}

int ss_st_shape_elements(const int64_t *shape, int ndim, size_t *elements)
{
    size_t product = 1;
    for (int d = 0; d < ndim; d++)
        if (shape[d] < 0 || __builtin_mul_overflow(product, (size_t)shape[d], &product))
            return -1;
    *elements = product;
    return 0;
}

static enum ss_status parse_dtype(const char *file, const char *tensor, const json_t *value,
                                  enum ss_st_dtype *out)
{
    const char *text = json_string_value(value);
    if (!text)
        return ss_fail(SS_ERR_FORMAT, "%s: tensor '%s': dtype is missing or not a string", file,
                       tensor);
    for (int i = 0; i < SS_ST_NDTYPES; i++) {
        if (strcmp(text, ss_st_dtypes[i].name) == 0) {
            *out = (enum ss_st_dtype)i;
            return SS_OK;
        }
    }
    return ss_fail(SS_ERR_FORMAT,
                   "%s: tensor '%s': dtype \"%s\" is not one of F32, F16, BF16, F64, I64, I32, U8",
                   file, tensor, ss_st_show(text).text);
}

static enum ss_status parse_shape(const char *file, const char *tensor, const json_t *value,
                                  struct ss_st_tensor *t)
{
    if (!json_is_array(value))
        return ss_fail(SS_ERR_FORMAT, "%s: tensor '%s': shape is missing or not an array", file,
                       tensor);
    size_t ndim = json_array_size(value), elements;
    if (ndim > SS_ST_MAX_DIMS)
        return ss_fail(SS_ERR_FORMAT, "%s: tensor '%s': shape has %zu dimensions, at most %d fit",
                       file, tensor, ndim, SS_ST_MAX_DIMS);
    for (size_t d = 0; d < ndim; d++) {
        const json_t *dim = json_array_get(value, d);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return ss_fail(SS_ERR_FORMAT, "%s: tensor '%s': shape[%zu] is not a whole number >= 0",
                           file, tensor, d);
        t->shape[d] = json_integer_value(dim);
    }
    t->ndim = (int)ndim;
    if (ss_st_shape_elements(t->shape, t->ndim, &elements) != 0 ||
        __builtin_mul_overflow(elements, ss_st_dtypes[t->dtype].bytes, &t->bytes))
        return ss_fail(SS_ERR_FORMAT, "%s: tensor '%s': the product of shape overflows", file,
                       tensor);
    return SS_OK;
}

static enum ss_status parse_offsets(const char *file, const char *tensor, const json_t *value,
                                    const char *data, size_t data_bytes, struct ss_st_tensor *t)
{
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: tensor '%s': data_offsets is missing or not two whole numbers", file,
                       tensor);
    long long b = json_integer_value(begin), e = json_integer_value(end);
    if (b < 0 || e < b)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: tensor '%s': data_offsets [%lld, %lld] are not 0 <= begin <= end", file,
                       tensor, b, e);
    if ((unsigned long long)e > data_bytes)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: tensor '%s': data_offsets [%lld, %lld] end past the %zu bytes of data; "
                       "the file may be truncated",
                       file, tensor, b, e, data_bytes);
    if ((size_t)(e - b) != t->bytes)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: tensor '%s': data_offsets [%lld, %lld] hold %lld bytes, but shape and "
                       "dtype %s need %zu",
                       file, tensor, b, e, e - b, ss_st_dtypes[t->dtype].name, t->bytes);
    t->data = data + b;
    return SS_OK;
}

static enum ss_status parse_tensor(const char *file, const char *name, const json_t *entry,
                                   const char *data, size_t data_bytes, struct ss_st_tensor *t)
{
    struct ss_st_shown shown = ss_st_show(name);
    if (!json_is_object(entry))
        return ss_fail(SS_ERR_FORMAT, "%s: tensor '%s': its description is not a JSON object", file,
                       shown.text);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)entry, key, value)
    {
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            return ss_fail(SS_ERR_FORMAT,
                           "%s: tensor '%s': unknown field '%s'; dtype, shape and data_offsets are "
                           "allowed",
                           file, shown.text, ss_st_show(key).text);
    }
    t->name = name;
    SS_TRY(parse_dtype(file, shown.text, json_object_get(entry, "dtype"), &t->dtype));
    SS_TRY(parse_shape(file, shown.text, json_object_get(entry, "shape"), t));
    return parse_offsets(file, shown.text, json_object_get(entry, "data_offsets"), data, data_bytes,
                         t);
}

static enum ss_status check_metadata(const char *file, const json_t *metadata)
{
    if (!json_is_object(metadata))
        return ss_fail(SS_ERR_FORMAT, "%s: " SS_ST_METADATA_KEY " is not a JSON object", file);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value)
    {
        if (!json_is_string(value))
            return ss_fail(SS_ERR_FORMAT,
                           "%s: " SS_ST_METADATA_KEY ": the value of '%s' is not a string", file,
                           ss_st_show(key).text);
    }
    return SS_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct ss_st_tensor *x = a, *y = b;
    const char *xdata = x->data, *ydata = y->data;
    if (xdata != ydata)
        return xdata < ydata ? -1 : 1;
    /* An empty tensor shares its offset with the next one and goes first. */
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const struct ss_st_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Check that each tensor, sorted by offset, begins at the end of the previous one, and that the
 * last one ends at the end of the file. */
static enum ss_status check_layout(const char *file, const struct ss_safetensors *st,
                                   const char *data, size_t data_bytes)
{
    size_t end = 0;
    for (size_t i = 0; i < st->count; i++) {
        const struct ss_st_tensor *t = &st->tensors[i];
        size_t begin = (size_t)((const char *)t->data - data);
        if (begin < end)
            return ss_fail(SS_ERR_FORMAT, "%s: tensors '%s' and '%s' overlap at data offset %zu",
                           file, ss_st_show(st->tensors[i - 1].name).text, ss_st_show(t->name).text,
                           begin);
        if (begin > end)
            return ss_fail(SS_ERR_FORMAT,
                           "%s: tensor '%s': begins at data offset %zu, %zu bytes after the end of "
                           "the tensor before; gaps are not allowed",
                           file, ss_st_show(t->name).text, begin, begin - end);
        end = begin + t->bytes;
    }
    if (end != data_bytes)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: %zu bytes left over after the last tensor, which ends at data offset "
                       "%zu",
                       file, data_bytes - end, end);
    return SS_OK;
}

static enum ss_status parse_entries(const char *file, const char *data, size_t data_bytes,
                                    struct ss_safetensors *st)
{
    size_t entries = json_object_size(st->root);
    st->tensors = calloc(entries + 1, sizeof *st->tensors);
    st->by_name = calloc(entries + 1, sizeof *st->by_name);
    if (!st->tensors || !st->by_name)
        return ss_fail_memory("the tensors of a safetensors file", entries * sizeof *st->tensors);
    const char *name;
    json_t *entry;
    json_object_foreach(st->root, name, entry)
    {
        if (strcmp(name, SS_ST_METADATA_KEY) == 0)
            SS_TRY(check_metadata(file, entry));
        else
            SS_TRY(parse_tensor(file, name, entry, data, data_bytes, &st->tensors[st->count++]));
    }
    qsort(st->tensors, st->count, sizeof *st->tensors, by_offset);
    SS_TRY(check_layout(file, st, data, data_bytes));
    for (size_t i = 0; i < st->count; i++)
        st->by_name[i] = &st->tensors[i];
    qsort(st->by_name, st->count, sizeof *st->by_name, by_name);
    return SS_OK;
}

/* 1 for output of torch.save: a ZIP archive (PyTorch 1.6 and later) or a pickle. */
static int is_of_torch(const char *bytes)
{
    return !memcmp(bytes, "PK\3\4", 4) || (bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5);
}

/* Check the header length and parse the header's JSON into st->root. The bytes of a torch.save
 * file may also be a valid header length, so it is recognized only if the length or the '{' is
 * wrong. */
static enum ss_status parse_header(const char *file, const char *bytes, size_t size,
                                   struct ss_safetensors *st, size_t *data_begin)
{
    uint64_t header;
    if (size < SS_ST_LENGTH_BYTES)
        return ss_fail(
            SS_ERR_FORMAT,
            "%s: %zu bytes long; a safetensors file begins with 8 bytes of header length", file,
            size);
    memcpy(&header, bytes, SS_ST_LENGTH_BYTES);
    if ((header == 0 || header > size - SS_ST_LENGTH_BYTES || bytes[SS_ST_LENGTH_BYTES] != '{') &&
        is_of_torch(bytes))
        return ss_fail(SS_ERR_FORMAT,
                       "%s: written by torch.save; convert it in Python with "
                       "safetensors.torch.save_file(torch.load(\"%s\"), \"model.safetensors\"), "
                       "where torch.load gives a state_dict",
                       file, file);
    if (header > SS_ST_MAX_HEADER_BYTES)
        return ss_fail(SS_ERR_FORMAT, "%s: header length %llu is over the limit of %llu bytes",
                       file, (unsigned long long)header,
                       (unsigned long long)SS_ST_MAX_HEADER_BYTES);
    if (header > size - SS_ST_LENGTH_BYTES)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: header length %llu is past the end of the file, which has %zu bytes "
                       "after the length; the file may be truncated",
                       file, (unsigned long long)header, size - SS_ST_LENGTH_BYTES);
    if (header == 0 || bytes[SS_ST_LENGTH_BYTES] != '{')
        return ss_fail(SS_ERR_FORMAT, "%s: the header does not begin with '{'", file);
    json_error_t error;
    st->root = json_loadb(bytes + SS_ST_LENGTH_BYTES, header, JSON_REJECT_DUPLICATES, &error);
    if (!st->root && json_error_code(&error) == json_error_out_of_memory)
        return ss_fail_memory("a safetensors header", header);
    if (!st->root)
        return ss_fail(SS_ERR_FORMAT, "%s: header is not valid JSON: %s (at header byte %d)", file,
                       ss_st_show(error.text).text, error.position);
    *data_begin = SS_ST_LENGTH_BYTES + (size_t)header;
    return SS_OK;
}

enum ss_status ss_safetensors_parse(const char *name, const void *bytes, size_t size,
                                    struct ss_safetensors **out)
{
    struct ss_safetensors *st = calloc(1, sizeof *st);
    size_t begin = 0;
    if (!st)
        return ss_fail_memory("a safetensors file's description", sizeof *st);
    enum ss_status status = parse_header(name, bytes, size, st, &begin);
    if (status == SS_OK)
        status = parse_entries(name, (const char *)bytes + begin, size - begin, st);
    if (status != SS_OK) {
        ss_safetensors_close(st);
        return status;
    }
    *out = st;
    return SS_OK;
}

static enum ss_status map_file(const char *path, void **map, size_t *bytes)
{
    struct stat info;
    /* Without O_NONBLOCK, opening a FIFO would block until it has a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    enum ss_status status = SS_OK;
    if (fstat(fd, &info) != 0)
        status = ss_fail(SS_ERR_IO, "%s: cannot read its size: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        status = ss_fail(SS_ERR_IO, "%s: is not a regular file", path);
    else if (info.st_size < SS_ST_LENGTH_BYTES) /* mmap fails on an empty file */
        status =
            ss_fail(SS_ERR_FORMAT,
                    "%s: %lld bytes long; a safetensors file begins with 8 bytes of header length",
                    path, (long long)info.st_size);
    if (status == SS_OK) {
        *bytes = (size_t)info.st_size;
        *map = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (*map == MAP_FAILED)
            status =
                ss_fail(SS_ERR_IO, "%s: cannot map %zu bytes: %s", path, *bytes, strerror(errno));
    }
    close(fd);
    return status;
}

enum ss_status ss_safetensors_open(const char *path, struct ss_safetensors **out)
{
    void *map = NULL;
    size_t bytes = 0;
    SS_TRY(map_file(path, &map, &bytes));
    enum ss_status status = ss_safetensors_parse(path, map, bytes, out);
    if (status != SS_OK) {
        munmap(map, bytes);
        return status;
    }
    (*out)->map = map;
    (*out)->map_bytes = bytes;
    return SS_OK;
}

void ss_safetensors_close(struct ss_safetensors *st)
{
    if (!st)
        return;
    if (st->map)
        munmap(st->map, st->map_bytes);
    json_decref(st->root);
    free(st->tensors);
    free(st->by_name);
    free(st);
}

size_t ss_safetensors_count(const struct ss_safetensors *st)
{
    return st->count;
}

const struct ss_st_tensor *ss_safetensors_get(const struct ss_safetensors *st, size_t i)
{
    return &st->tensors[i];
}

const struct ss_st_tensor *ss_safetensors_find(const struct ss_safetensors *st, const char *name)
{
    struct ss_st_tensor wanted = {.name = name};
    const struct ss_st_tensor *key = &wanted;
    struct ss_st_tensor **found =
        bsearch(&key, st->by_name, st->count, sizeof *st->by_name, by_name);
    return found ? *found : NULL;
}

const char *ss_safetensors_metadata(const struct ss_safetensors *st, const char *key)
{
    return json_string_value(json_object_get(json_object_get(st->root, SS_ST_METADATA_KEY), key));
}

int ss_safetensors_metadata_at(const struct ss_safetensors *st, size_t i, const char **key,
                               const char **value)
{
    json_t *map = json_object_get(st->root, SS_ST_METADATA_KEY);
    void *iter = json_object_iter(map);
    while (iter && i--)
        iter = json_object_iter_next(map, iter);
    if (!iter)
        return 0;
    *key = json_object_iter_key(iter);
    *value = json_string_value(json_object_iter_value(iter));
    return 1;
}
