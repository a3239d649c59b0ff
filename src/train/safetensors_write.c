/* safetensors_write.c: write safetensors files (format and interface in safetensors.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/atomic_file.h"
#include "core/json_value.h"
#include "core/log.h"
#include "train/safetensors.h"
#include "train/safetensors_format.h"

#include <stdlib.h>
#include <string.h>

static enum ss_status header_tensor(const char *path, json_t *root, const struct ss_st_tensor *t,
                                    size_t *offset)
{
    size_t elements, bytes, end;
    struct ss_st_shown shown = ss_st_show(t->name ? t->name : "(no name)");
    if (!t->name || strcmp(t->name, SS_ST_METADATA_KEY) == 0 || json_object_get(root, t->name))
        return ss_fail(SS_ERR_INVALID,
                       "%s: tensor '%s': the name is missing, reserved, or given "
                       "twice",
                       path, shown.text);
    if (t->ndim < 0 || t->ndim > SS_ST_MAX_DIMS ||
        ss_st_shape_elements(t->shape, t->ndim, &elements) != 0 ||
        __builtin_mul_overflow(elements, ss_st_dtypes[t->dtype].bytes, &bytes) ||
        bytes != t->bytes || __builtin_add_overflow(*offset, bytes, &end) || end > INT64_MAX)
        return ss_fail(SS_ERR_INVALID,
                       "%s: tensor '%s': %zu bytes are not what its shape and dtype need", path,
                       shown.text, t->bytes);
    json_t *shape = json_array();
    for (int d = 0; d < t->ndim; d++)
        ss_json_append(&shape, json_integer(t->shape[d]));
    /* json_pack takes ownership of shape, even on failure. */
    json_t *entry = json_pack("{s:s, s:o, s:[I,I]}", "dtype", ss_st_dtypes[t->dtype].name, "shape",
                              shape, "data_offsets", (json_int_t)*offset, (json_int_t)end);
    if (!entry)
        return ss_fail_memory("a safetensors header", 256);
    if (json_object_set_new(root, t->name, entry) != 0)
        return ss_fail(SS_ERR_INVALID, "%s: tensor '%s': the name is not UTF-8", path, shown.text);
    *offset = end;
    return SS_OK;
}

static enum ss_status header_metadata(const char *path, json_t *root, const char *const *metadata)
{
    json_t *map = json_object();
    if (!map || json_object_set_new(root, SS_ST_METADATA_KEY, map) != 0)
        return ss_fail_memory("a safetensors header", 256);
    for (; metadata[0]; metadata += 2)
        if (!metadata[1] || json_object_set_new(map, metadata[0], json_string(metadata[1])) != 0)
            return ss_fail(SS_ERR_INVALID, "%s: metadata '%s': no value, or not UTF-8", path,
                           ss_st_show(metadata[0]).text);
    return SS_OK;
}

/* Order the tensors by decreasing element size, then as given. The data begins at a multiple of
 * 8, so every tensor is aligned to its element size, as PyTorch's reader requires. */
static enum ss_status layout_order(const char *path, const struct ss_st_tensor *tensors,
                                   size_t count, const struct ss_st_tensor ***out)
{
    const struct ss_st_tensor **order = calloc(count + 1, sizeof *order);
    size_t n = 0;
    if (!order)
        return ss_fail_memory("the order of tensors in a file", count * sizeof *order);
    for (size_t bytes = 8; bytes > 0; bytes /= 2)
        for (size_t i = 0; i < count; i++)
            if ((unsigned)tensors[i].dtype < SS_ST_NDTYPES &&
                ss_st_dtypes[tensors[i].dtype].bytes == bytes)
                order[n++] = &tensors[i];
    if (n != count) {
        free(order);
        return ss_fail(SS_ERR_INVALID, "%s: a tensor has no known dtype", path);
    }
    *out = order;
    return SS_OK;
}

static enum ss_status make_header(const char *path, const struct ss_st_tensor *const *order,
                                  size_t count, const char *const *metadata, char **out)
{
    json_t *root = json_object();
    size_t offset = 0;
    enum ss_status status = root ? SS_OK : ss_fail_memory("a safetensors header", 256);
    if (status == SS_OK && metadata)
        status = header_metadata(path, root, metadata);
    for (size_t i = 0; status == SS_OK && i < count; i++)
        status = header_tensor(path, root, order[i], &offset);
    if (status == SS_OK) {
        *out = json_dumps(root, JSON_COMPACT);
        if (!*out)
            status = ss_fail_memory("a safetensors header", 256);
    }
    json_decref(root);
    return status;
}

static enum ss_status write_file(const char *path, const char *json,
                                 const struct ss_st_tensor *const *order, size_t count)
{
    static const char spaces[] = "        ";
    size_t json_bytes = strlen(json), padding = (8 - json_bytes % 8) % 8;
    uint64_t header = json_bytes + padding;
    if (header > SS_ST_MAX_HEADER_BYTES)
        return ss_fail(SS_ERR_INVALID, "%s: the header needs %llu bytes; the limit is %llu", path,
                       (unsigned long long)header, (unsigned long long)SS_ST_MAX_HEADER_BYTES);
    struct ss_atomic_file *file;
    SS_TRY(ss_atomic_open(path, &file));
    enum ss_status status = ss_atomic_write(file, &header, SS_ST_LENGTH_BYTES);
    if (status == SS_OK)
        status = ss_atomic_write(file, json, json_bytes);
    if (status == SS_OK)
        status = ss_atomic_write(file, spaces, padding);
    for (size_t i = 0; status == SS_OK && i < count; i++)
        status = ss_atomic_write(file, order[i]->data, order[i]->bytes);
    if (status != SS_OK) {
        ss_atomic_abort(file);
        return status;
    }
    return ss_atomic_commit(file);
}

enum ss_status ss_safetensors_write(const char *path, const struct ss_st_tensor *tensors,
                                    size_t count, const char *const *metadata)
{
    char *json = NULL;
    const struct ss_st_tensor **order = NULL;
    enum ss_status status = layout_order(path, tensors, count, &order);
    if (status == SS_OK)
        status = make_header(path, order, count, metadata, &json);
    if (status == SS_OK)
        status = write_file(path, json, order, count);
    free(json);
    free(order);
    return status;
}
