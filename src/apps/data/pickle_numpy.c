#include "apps/data/pickle_internal.h"

#include <string.h>

static const struct {
    const char *module, *name;
    enum pickle_global global;
} known[] = {
    {"numpy.core.multiarray", "_reconstruct", GLOBAL_RECONSTRUCT},
    {"numpy._core.multiarray", "_reconstruct", GLOBAL_RECONSTRUCT}, /* numpy 2 */
    {"numpy", "ndarray", GLOBAL_NDARRAY},
    {"numpy", "dtype", GLOBAL_DTYPE},
    {"_codecs", "encode", GLOBAL_ENCODE},
    {"__builtin__", "bytes", GLOBAL_BYTES},
    {"builtins", "bytes", GLOBAL_BYTES},
};
enum { KNOWN = sizeof known / sizeof *known };

static int same(const uint8_t *bytes, size_t size, const char *text)
{
    return size == strlen(text) && !memcmp(bytes, text, size);
}

/* Copy a name from the file with unprintable characters replaced by '?'. */
static void printable(char *out, size_t capacity, const uint8_t *bytes, size_t size)
{
    size_t n = size < capacity - 1 ? size : capacity - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(bytes[i] >= 0x20 && bytes[i] < 0x7F ? bytes[i] : '?');
    out[n] = '\0';
}

enum ss_status pickle_find_global(struct ss_pickle *p, const uint8_t *module, size_t module_size,
                                  const uint8_t *name, size_t name_size,
                                  struct ss_pickle_value **out)
{
    for (int i = 0; i < KNOWN; i++) {
        if (!same(module, module_size, known[i].module) || !same(name, name_size, known[i].name))
            continue;
        SS_TRY(pickle_new(p, SS_PICKLE_GLOBAL, out));
        (*out)->integer = known[i].global;
        return SS_OK;
    }
    char m[80], n[80];
    printable(m, sizeof m, module, module_size);
    printable(n, sizeof n, name, name_size);
    return pickle_fail(p, SS_ERR_UNSUPPORTED,
                       "the file uses %s.%s, which is not allowed; only numpy arrays of uint8, "
                       "bytes, lists and dicts are supported",
                       m, n);
}

static int is_global(const struct ss_pickle_value *v, enum pickle_global global)
{
    return v->type == SS_PICKLE_GLOBAL && v->integer == (int64_t)global;
}

/* _codecs.encode(text, "latin1"): Python 3's way to write bytes in protocol 2. */
static enum ss_status encode(struct ss_pickle *p, const struct ss_pickle_value *args,
                             struct ss_pickle_value **out)
{
    struct ss_pickle_value *const *a = args->sequence.items;
    if (args->sequence.count != 2 || a[0]->type != SS_PICKLE_TEXT ||
        !(pickle_string_is(a[1], "latin1") || pickle_string_is(a[1], "latin-1")))
        return pickle_fail(p, SS_ERR_UNSUPPORTED,
                           "_codecs.encode is supported only as encode(str, \"latin1\")");
    struct ss_pickle_value *text = a[0];
    if (text->string.encoded) {
        *out = text->string.encoded;
        return SS_OK;
    }
    const uint8_t *from = text->string.bytes;
    size_t size = text->string.size, n = 0;
    void *memory = NULL;
    SS_TRY(pickle_alloc(p, size, &memory));
    uint8_t *to = memory;
    for (size_t i = 0; i < size; i++) {
        uint8_t b = from[i];
        if (b >= 0x80) {
            /* U+0080 to U+00FF are C2 80 to C3 BF. */
            if ((b != 0xC2 && b != 0xC3) || i + 1 >= size || (from[i + 1] & 0xC0) != 0x80)
                return pickle_fail(p, SS_ERR_FORMAT,
                                   "_codecs.encode: byte %zu of the text is not a latin1 character "
                                   "in UTF-8",
                                   i);
            b = (uint8_t)((b & 3) << 6 | (from[++i] & 0x3F));
        }
        to[n++] = b;
    }
    struct ss_pickle_value *v = NULL;
    SS_TRY(pickle_new(p, SS_PICKLE_BYTES, &v));
    v->string.bytes = to;
    v->string.size = n;
    text->string.encoded = v;
    *out = v;
    return SS_OK;
}

static enum ss_status new_dtype(struct ss_pickle *p, const struct ss_pickle_value *args,
                                struct ss_pickle_value **out)
{
    struct ss_pickle_value *const *a = args->sequence.items;
    if (args->sequence.count < 1 || (a[0]->type != SS_PICKLE_TEXT && a[0]->type != SS_PICKLE_BYTES))
        return pickle_fail(p, SS_ERR_FORMAT, "numpy.dtype without the name of a type");
    if (!pickle_string_is(a[0], "u1") && !pickle_string_is(a[0], "|u1")) {
        char name[32];
        printable(name, sizeof name, a[0]->string.bytes, a[0]->string.size);
        return pickle_fail(p, SS_ERR_UNSUPPORTED,
                           "a numpy array of type \"%s\"; only uint8 (\"u1\") is read", name);
    }
    return pickle_new(p, SS_PICKLE_DTYPE, out);
}

enum ss_status pickle_reduce(struct ss_pickle *p, const struct ss_pickle_value *function,
                             const struct ss_pickle_value *args, struct ss_pickle_value **out)
{
    if (function->type != SS_PICKLE_GLOBAL)
        return pickle_fail(p, SS_ERR_FORMAT, "a %s is called as a function",
                           pickle_type_name(function->type));
    if (args->type != SS_PICKLE_TUPLE)
        return pickle_fail(p, SS_ERR_FORMAT, "the arguments of a call are a %s, not a tuple",
                           pickle_type_name(args->type));
    switch ((enum pickle_global)function->integer) {
    case GLOBAL_RECONSTRUCT:
        if (args->sequence.count != 3 || !is_global(args->sequence.items[0], GLOBAL_NDARRAY))
            return pickle_fail(p, SS_ERR_FORMAT,
                               "the arguments of numpy's _reconstruct are not (ndarray, shape, "
                               "type)");
        return pickle_new(p, SS_PICKLE_ARRAY, out);
    case GLOBAL_DTYPE:
        return new_dtype(p, args, out);
    case GLOBAL_ENCODE:
        return encode(p, args, out);
    case GLOBAL_BYTES:
        if (args->sequence.count != 0)
            break;
        return pickle_new(p, SS_PICKLE_BYTES, out);
    case GLOBAL_NDARRAY:
        break;
    }
    return pickle_fail(p, SS_ERR_UNSUPPORTED, "unsupported call");
}

/* State of an array: (version, shape, dtype, is Fortran order, bytes). */
static enum ss_status build_array(struct ss_pickle *p, struct ss_pickle_value *array,
                                  const struct ss_pickle_value *state)
{
    struct ss_pickle_value *const *s = state->sequence.items;
    if (state->sequence.count != 5 || s[0]->type != SS_PICKLE_INT || s[0]->integer != 1 ||
        s[1]->type != SS_PICKLE_TUPLE || s[2]->type != SS_PICKLE_DTYPE)
        return pickle_fail(p, SS_ERR_FORMAT,
                           "an array's state that is not (1, shape, dtype, order, bytes)");
    const struct ss_pickle_value *shape = s[1], *bytes = s[4];
    size_t dims = shape->sequence.count, total = 1;
    int fortran = (s[3]->type == SS_PICKLE_BOOL || s[3]->type == SS_PICKLE_INT) && s[3]->integer;
    if (array->array.bytes)
        return pickle_fail(p, SS_ERR_FORMAT, "the state of an array is set twice");
    if (bytes->type != SS_PICKLE_BYTES)
        return pickle_fail(p, SS_ERR_FORMAT, "an array's content is a %s, not bytes",
                           pickle_type_name(bytes->type));
    if (dims < 1 || dims > SS_PICKLE_MAX_DIMS)
        return pickle_fail(p, SS_ERR_UNSUPPORTED, "an array of %zu dimensions; 1 to %d are read",
                           dims, SS_PICKLE_MAX_DIMS);
    if (fortran && dims > 1)
        return pickle_fail(p, SS_ERR_UNSUPPORTED,
                           "an array in Fortran order; store numpy.ascontiguousarray(array)");
    for (size_t i = 0; i < dims; i++) {
        const struct ss_pickle_value *n = shape->sequence.items[i];
        if (n->type != SS_PICKLE_INT || n->integer < 0 ||
            __builtin_mul_overflow(total, (size_t)n->integer, &total))
            return pickle_fail(p, SS_ERR_FORMAT, "an array's shape is not a tuple of sizes");
    }
    if (total != bytes->string.size)
        return pickle_fail(p, SS_ERR_FORMAT, "an array of %zu elements with %zu bytes of content",
                           total, bytes->string.size);
    for (size_t i = 0; i < dims; i++)
        array->array.shape[i] = (size_t)shape->sequence.items[i]->integer;
    array->array.dims = (int)dims;
    array->array.bytes = bytes->string.bytes;
    array->array.size = total;
    return SS_OK;
}

/* State of a dtype: (version, byte order, subarray, names, fields, ...); a plain uint8 has None for
 * the last three. */
static enum ss_status build_dtype(struct ss_pickle *p, const struct ss_pickle_value *state)
{
    struct ss_pickle_value *const *s = state->sequence.items;
    if (state->sequence.count < 5 || s[2]->type != SS_PICKLE_NONE || s[3]->type != SS_PICKLE_NONE ||
        s[4]->type != SS_PICKLE_NONE)
        return pickle_fail(p, SS_ERR_UNSUPPORTED, "a dtype that is more than a plain uint8");
    return SS_OK;
}

enum ss_status pickle_build(struct ss_pickle *p, struct ss_pickle_value *object,
                            const struct ss_pickle_value *state)
{
    if (object->type != SS_PICKLE_ARRAY && object->type != SS_PICKLE_DTYPE)
        return pickle_fail(p, SS_ERR_FORMAT, "a state for a %s; only arrays and dtypes have one",
                           pickle_type_name(object->type));
    if (state->type != SS_PICKLE_TUPLE)
        return pickle_fail(p, SS_ERR_FORMAT, "the state of an object is a %s, not a tuple",
                           pickle_type_name(state->type));
    if (object->type == SS_PICKLE_DTYPE)
        return build_dtype(p, state);
    return build_array(p, object, state);
}
