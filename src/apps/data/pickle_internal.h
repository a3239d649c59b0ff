/* Internals of the pickle reader, private to its files. */
#ifndef SS_APPS_DATA_PICKLE_INTERNAL_H
#define SS_APPS_DATA_PICKLE_INTERNAL_H

#include "core/log.h"
#include "apps/data/pickle.h"

/* Supported globals, stored in struct ss_pickle_value's integer if type is SS_PICKLE_GLOBAL. */
enum pickle_global {
    GLOBAL_RECONSTRUCT, /* numpy.core.multiarray._reconstruct */
    GLOBAL_NDARRAY,
    GLOBAL_DTYPE,
    GLOBAL_ENCODE, /* _codecs.encode */
    GLOBAL_BYTES,
};

struct pickle_chunk; /* block of memory from which values are allocated */

struct ss_pickle {
    const char *name; /* used while parsing only */
    const uint8_t *bytes;
    size_t size, at; /* at: next byte to read */
    size_t opcode_at;
    uint8_t opcode;

    struct ss_pickle_value **stack;
    size_t depth, stack_capacity;
    size_t *marks; /* depths of the stack at each MARK */
    size_t mark_count, mark_capacity;
    struct ss_pickle_value **memo;
    size_t memo_capacity, memo_count; /* slots; slots in use */

    struct pickle_chunk *chunks;
    size_t memory_used, memory_limit;

    struct ss_pickle_value *root;
    uint8_t *owned; /* the bytes if ss_pickle_open read them, else NULL */
};

/* Report "NAME: byte N: opcode X: ...". */
enum ss_status pickle_fail(const struct ss_pickle *p, enum ss_status status, const char *fmt, ...)
    SS_PRINTF(3, 4);

/* Allocate zeroed memory that is valid as long as the pickle. */
enum ss_status pickle_alloc(struct ss_pickle *p, size_t bytes, void **out);
void pickle_free_chunks(struct ss_pickle *p);

enum ss_status pickle_new(struct ss_pickle *p, enum ss_pickle_type type,
                          struct ss_pickle_value **out);
/* Append n values to a list, tuple or dict. */
enum ss_status pickle_extend(struct ss_pickle *p, struct ss_pickle_value *sequence,
                             struct ss_pickle_value **items, size_t n);

/* Return "list", "bytes", ... */
const char *pickle_type_name(enum ss_pickle_type type);
int pickle_string_is(const struct ss_pickle_value *v, const char *text);

/* pickle_ops.c: run the opcode just read (p->opcode; any but STOP). */
enum ss_status pickle_step(struct ss_pickle *p);

/* pickle_stack.c */
enum ss_status pickle_push(struct ss_pickle *p, struct ss_pickle_value *v);
/* Fail unless there are n values above the last MARK. Values below it belong to an unfinished
 * list. */
enum ss_status pickle_need(const struct ss_pickle *p, size_t n);
enum ss_status pickle_push_mark(struct ss_pickle *p);
/* Remove the last MARK; *begin: stack index of the first value above it. */
enum ss_status pickle_pop_mark(struct ss_pickle *p, size_t *begin);
/* Replace the values from `begin` up by a tuple of these values. */
enum ss_status pickle_make_tuple(struct ss_pickle *p, size_t begin);
/* Move the values from `begin` up into the list or dict just below them. */
enum ss_status pickle_add_items(struct ss_pickle *p, size_t begin, enum ss_pickle_type type);
enum ss_status pickle_memo_put(struct ss_pickle *p, uint64_t index);
enum ss_status pickle_memo_get(struct ss_pickle *p, uint64_t index);

/* pickle_numpy.c: the supported globals. */
enum ss_status pickle_find_global(struct ss_pickle *p, const uint8_t *module, size_t module_size,
                                  const uint8_t *name, size_t name_size,
                                  struct ss_pickle_value **out);
enum ss_status pickle_reduce(struct ss_pickle *p, const struct ss_pickle_value *function,
                             const struct ss_pickle_value *args, struct ss_pickle_value **out);
enum ss_status pickle_build(struct ss_pickle *p, struct ss_pickle_value *object,
                            const struct ss_pickle_value *state);

#endif
