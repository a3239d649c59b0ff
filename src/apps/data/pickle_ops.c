#include "apps/data/pickle_internal.h"
#include "apps/data/pickle_opcodes.h"

#include <string.h>

enum { MAX_NAME = 256 };

/* Consume the next n bytes of the file. */
static enum ss_status take(struct ss_pickle *p, uint64_t n, const uint8_t **out)
{
    if (n > p->size - p->at)
        return pickle_fail(p, SS_ERR_FORMAT,
                           "needs %llu more bytes, the file has %zu; the file is truncated or "
                           "damaged",
                           (unsigned long long)n, p->size - p->at);
    *out = p->bytes + p->at;
    p->at += (size_t)n;
    return SS_OK;
}

/* Consume a little-endian unsigned number of n <= 8 bytes. */
static enum ss_status take_number(struct ss_pickle *p, int n, uint64_t *out)
{
    const uint8_t *b = NULL;
    SS_TRY(take(p, (uint64_t)n, &b));
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)b[i] << (8 * i);
    *out = v;
    return SS_OK;
}

static enum ss_status push_new(struct ss_pickle *p, enum ss_pickle_type type,
                               struct ss_pickle_value **out)
{
    SS_TRY(pickle_new(p, type, out));
    return pickle_push(p, *out);
}

static enum ss_status push_integer(struct ss_pickle *p, enum ss_pickle_type type, int64_t integer)
{
    struct ss_pickle_value *v = NULL;
    SS_TRY(push_new(p, type, &v));
    v->integer = integer;
    return SS_OK;
}

static enum ss_status push_string(struct ss_pickle *p, enum ss_pickle_type type, int length_bytes)
{
    uint64_t n;
    const uint8_t *bytes = NULL;
    struct ss_pickle_value *v = NULL;
    SS_TRY(take_number(p, length_bytes, &n));
    SS_TRY(take(p, n, &bytes));
    SS_TRY(push_new(p, type, &v));
    v->string.bytes = bytes;
    v->string.size = (size_t)n;
    return SS_OK;
}

static enum ss_status push_float(struct ss_pickle *p)
{
    uint64_t bits;
    SS_TRY(take_number(p, 8, &bits));
    bits = __builtin_bswap64(bits); /* the only big-endian number in the format */
    struct ss_pickle_value *v = NULL;
    SS_TRY(push_new(p, SS_PICKLE_FLOAT, &v));
    memcpy(&v->number, &bits, sizeof bits);
    return SS_OK;
}

static enum ss_status push_long(struct ss_pickle *p)
{
    uint64_t n, v = 0;
    SS_TRY(take_number(p, 1, &n));
    if (n > 8)
        return pickle_fail(p, SS_ERR_UNSUPPORTED, "an integer of %d bytes; at most 8 are supported",
                           (int)n);
    SS_TRY(take_number(p, (int)n, &v));
    if (n > 0 && n < 8 && v >> (8 * n - 1))
        v |= ~(uint64_t)0 << (8 * n);
    return push_integer(p, SS_PICKLE_INT, (int64_t)v);
}

static enum ss_status push_global(struct ss_pickle *p)
{
    const uint8_t *part[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        size_t left = p->size - p->at;
        const uint8_t *line = p->bytes + p->at;
        const uint8_t *end = memchr(line, '\n', left < MAX_NAME ? left : MAX_NAME);
        if (!end)
            return pickle_fail(p, SS_ERR_FORMAT, "a name without an end, or longer than %d bytes",
                               MAX_NAME);
        part[i] = line;
        size[i] = (size_t)(end - line);
        p->at += size[i] + 1;
    }
    struct ss_pickle_value *v = NULL;
    SS_TRY(pickle_find_global(p, part[0], size[0], part[1], size[1], &v));
    return pickle_push(p, v);
}

static enum ss_status push_stack_global(struct ss_pickle *p)
{
    SS_TRY(pickle_need(p, 2));
    const struct ss_pickle_value *module = p->stack[p->depth - 2], *name = p->stack[p->depth - 1];
    if (module->type != SS_PICKLE_TEXT || name->type != SS_PICKLE_TEXT)
        return pickle_fail(p, SS_ERR_FORMAT, "a name must be two str");
    struct ss_pickle_value *v = NULL;
    SS_TRY(pickle_find_global(p, module->string.bytes, module->string.size, name->string.bytes,
                              name->string.size, &v));
    p->depth -= 2;
    return pickle_push(p, v);
}

static enum ss_status reduce(struct ss_pickle *p)
{
    SS_TRY(pickle_need(p, 2));
    struct ss_pickle_value *v = NULL;
    SS_TRY(pickle_reduce(p, p->stack[p->depth - 2], p->stack[p->depth - 1], &v));
    p->depth -= 2;
    return pickle_push(p, v);
}

static enum ss_status build(struct ss_pickle *p)
{
    SS_TRY(pickle_need(p, 2));
    SS_TRY(pickle_build(p, p->stack[p->depth - 2], p->stack[p->depth - 1]));
    p->depth--;
    return SS_OK;
}

static enum ss_status check_frame(struct ss_pickle *p)
{
    uint64_t n;
    const uint8_t *frame;
    SS_TRY(take_number(p, 8, &n));
    SS_TRY(take(p, n, &frame));
    p->at -= (size_t)n; /* frames only serve read-ahead */
    return SS_OK;
}

static enum ss_status check_protocol(struct ss_pickle *p)
{
    uint64_t version;
    SS_TRY(take_number(p, 1, &version));
    if (version < 2 || version > 4)
        return pickle_fail(p, SS_ERR_UNSUPPORTED, "pickle protocol %d; 2, 3 and 4 are supported",
                           (int)version);
    return SS_OK;
}

/* Run an opcode that is followed by a number of n bytes. */
static enum ss_status number_opcode(struct ss_pickle *p, int n)
{
    uint64_t v;
    SS_TRY(take_number(p, n, &v));
    switch (p->opcode) {
    case OP_BININT:
        return push_integer(p, SS_PICKLE_INT, (int32_t)(uint32_t)v);
    case OP_BINGET:
    case OP_LONG_BINGET:
        return pickle_memo_get(p, v);
    case OP_BINPUT:
    case OP_LONG_BINPUT:
        return pickle_memo_put(p, v);
    default:
        return push_integer(p, SS_PICKLE_INT, (int64_t)v);
    }
}

/* Run an opcode that consumes all values above the last MARK. */
static enum ss_status mark_opcode(struct ss_pickle *p)
{
    size_t begin;
    SS_TRY(pickle_pop_mark(p, &begin));
    switch (p->opcode) {
    case OP_TUPLE:
        return pickle_make_tuple(p, begin);
    case OP_APPENDS:
        return pickle_add_items(p, begin, SS_PICKLE_LIST);
    case OP_SETITEMS:
        return pickle_add_items(p, begin, SS_PICKLE_DICT);
    default: /* OP_POP_MARK */
        p->depth = begin;
        return SS_OK;
    }
}

/* Run an opcode that uses the n topmost values. */
static enum ss_status top_opcode(struct ss_pickle *p, size_t n)
{
    SS_TRY(pickle_need(p, n));
    switch (p->opcode) {
    case OP_APPEND:
        return pickle_add_items(p, p->depth - n, SS_PICKLE_LIST);
    case OP_SETITEM:
        return pickle_add_items(p, p->depth - n, SS_PICKLE_DICT);
    case OP_POP:
        p->depth--;
        return SS_OK;
    case OP_DUP:
        return pickle_push(p, p->stack[p->depth - 1]);
    default: /* OP_TUPLE1, OP_TUPLE2, OP_TUPLE3 */
        return pickle_make_tuple(p, p->depth - n);
    }
}

enum ss_status pickle_step(struct ss_pickle *p)
{
    struct ss_pickle_value *v = NULL;
    switch (p->opcode) {
    case OP_PROTO:
        return check_protocol(p);
    case OP_FRAME:
        return check_frame(p);
    case OP_MARK:
        return pickle_push_mark(p);
    case OP_NONE:
        return push_new(p, SS_PICKLE_NONE, &v);
    case OP_NEWTRUE:
    case OP_NEWFALSE:
        return push_integer(p, SS_PICKLE_BOOL, p->opcode == OP_NEWTRUE);
    case OP_BININT1:
    case OP_BINGET:
    case OP_BINPUT:
        return number_opcode(p, 1);
    case OP_BININT2:
        return number_opcode(p, 2);
    case OP_BININT:
    case OP_LONG_BINGET:
    case OP_LONG_BINPUT:
        return number_opcode(p, 4);
    case OP_LONG1:
        return push_long(p);
    case OP_BINFLOAT:
        return push_float(p);
    case OP_SHORT_BINSTRING:
    case OP_SHORT_BINBYTES:
        return push_string(p, SS_PICKLE_BYTES, 1);
    case OP_BINSTRING:
    case OP_BINBYTES:
        return push_string(p, SS_PICKLE_BYTES, 4);
    case OP_BINBYTES8:
        return push_string(p, SS_PICKLE_BYTES, 8);
    case OP_SHORT_BINUNICODE:
        return push_string(p, SS_PICKLE_TEXT, 1);
    case OP_BINUNICODE:
        return push_string(p, SS_PICKLE_TEXT, 4);
    case OP_BINUNICODE8:
        return push_string(p, SS_PICKLE_TEXT, 8);
    case OP_EMPTY_LIST:
        return push_new(p, SS_PICKLE_LIST, &v);
    case OP_EMPTY_DICT:
        return push_new(p, SS_PICKLE_DICT, &v);
    case OP_EMPTY_TUPLE:
        return push_new(p, SS_PICKLE_TUPLE, &v);
    case OP_POP:
    case OP_DUP:
    case OP_TUPLE1:
    case OP_APPEND:
        return top_opcode(p, 1);
    case OP_SETITEM:
    case OP_TUPLE2:
        return top_opcode(p, 2);
    case OP_TUPLE3:
        return top_opcode(p, 3);
    case OP_TUPLE:
    case OP_APPENDS:
    case OP_SETITEMS:
    case OP_POP_MARK:
        return mark_opcode(p);
    case OP_MEMOIZE:
        return pickle_memo_put(p, p->memo_count);
    case OP_GLOBAL:
        return push_global(p);
    case OP_STACK_GLOBAL:
        return push_stack_global(p);
    case OP_REDUCE:
        return reduce(p);
    case OP_BUILD:
        return build(p);
    default:
        return pickle_fail(p, SS_ERR_UNSUPPORTED, "unsupported opcode, or the file is damaged");
    }
}
