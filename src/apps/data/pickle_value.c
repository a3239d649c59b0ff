#include "apps/data/pickle_internal.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 32 * 1024, ALIGNMENT = 16 };

struct pickle_chunk {
    struct pickle_chunk *next;
    size_t used, capacity;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

enum ss_status pickle_alloc(struct ss_pickle *p, size_t bytes, void **out)
{
    /* An opcode of one byte creates a value of less than 100 bytes, so valid input stays far below
     * the limit. The limit stops input that encodes a long text repeatedly. */
    if (bytes > p->memory_limit - p->memory_used)
        return pickle_fail(p, SS_ERR_FORMAT,
                           "its values need more than the limit of %zu bytes of memory",
                           p->memory_limit);
    size_t need = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct pickle_chunk *c = p->chunks;
    if (!c || need > c->capacity - c->used) {
        size_t capacity = need > CHUNK_BYTES ? need : CHUNK_BYTES;
        c = calloc(1, sizeof *c + capacity);
        if (!c)
            return ss_fail_memory("the values of a pickle", capacity);
        c->capacity = capacity;
        c->next = p->chunks;
        p->chunks = c;
    }
    *out = c->bytes + c->used;
    c->used += need;
    p->memory_used += bytes;
    return SS_OK;
}

void pickle_free_chunks(struct ss_pickle *p)
{
    while (p->chunks) {
        struct pickle_chunk *next = p->chunks->next;
        free(p->chunks);
        p->chunks = next;
    }
}

enum ss_status pickle_new(struct ss_pickle *p, enum ss_pickle_type type,
                          struct ss_pickle_value **out)
{
    void *v = NULL;
    SS_TRY(pickle_alloc(p, sizeof **out, &v));
    *out = v;
    (*out)->type = type;
    return SS_OK;
}

enum ss_status pickle_extend(struct ss_pickle *p, struct ss_pickle_value *sequence,
                             struct ss_pickle_value **items, size_t n)
{
    size_t count = sequence->sequence.count;
    if (n > sequence->sequence.capacity - count) {
        /* Double the capacity. Old blocks are freed only with the pickle; their total size is at
         * most that of the last block. */
        size_t capacity = count + n > 2 * count ? count + n : 2 * count;
        void *grown = NULL;
        SS_TRY(pickle_alloc(p, capacity * sizeof *items, &grown));
        if (count)
            memcpy(grown, sequence->sequence.items, count * sizeof *items);
        sequence->sequence.items = grown;
        sequence->sequence.capacity = capacity;
    }
    if (n)
        memcpy(sequence->sequence.items + count, items, n * sizeof *items);
    sequence->sequence.count = count + n;
    return SS_OK;
}

const char *pickle_type_name(enum ss_pickle_type type)
{
    static const char *const names[] = {
        [SS_PICKLE_NONE] = "None",   [SS_PICKLE_BOOL] = "bool",   [SS_PICKLE_INT] = "int",
        [SS_PICKLE_FLOAT] = "float", [SS_PICKLE_BYTES] = "bytes", [SS_PICKLE_TEXT] = "str",
        [SS_PICKLE_LIST] = "list",   [SS_PICKLE_TUPLE] = "tuple", [SS_PICKLE_DICT] = "dict",
        [SS_PICKLE_ARRAY] = "array", [SS_PICKLE_DTYPE] = "dtype", [SS_PICKLE_GLOBAL] = "function",
    };
    return names[type];
}

int pickle_string_is(const struct ss_pickle_value *v, const char *text)
{
    size_t n = strlen(text);
    return (v->type == SS_PICKLE_TEXT || v->type == SS_PICKLE_BYTES) && v->string.size == n &&
           (n == 0 || !memcmp(v->string.bytes, text, n));
}

const struct ss_pickle_value *ss_pickle_lookup(const struct ss_pickle_value *dict, const char *key)
{
    if (dict->type != SS_PICKLE_DICT)
        return NULL;
    /* Search from the end: as in Python, the last of equal keys is valid. */
    for (size_t i = dict->sequence.count; i >= 2; i -= 2)
        if (pickle_string_is(dict->sequence.items[i - 2], key))
            return dict->sequence.items[i - 1];
    return NULL;
}
