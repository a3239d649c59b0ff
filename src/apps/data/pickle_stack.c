#include "apps/data/pickle_internal.h"

#include <stdlib.h>
#include <string.h>

/* Grow an array of `size`-byte elements to hold at least `need` of them. */
static enum ss_status grow(void **array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return SS_OK;
    size_t more = *capacity < 32 ? 64 : *capacity * 2;
    if (more < need)
        more = need;
    void *p = realloc(*array, more * size);
    if (!p)
        return ss_fail_memory("a pickle's stack", more * size);
    memset((char *)p + *capacity * size, 0, (more - *capacity) * size);
    *array = p;
    *capacity = more;
    return SS_OK;
}

enum ss_status pickle_push(struct ss_pickle *p, struct ss_pickle_value *v)
{
    void *array = p->stack;
    SS_TRY(grow(&array, &p->stack_capacity, p->depth + 1, sizeof *p->stack));
    p->stack = array;
    p->stack[p->depth++] = v;
    return SS_OK;
}

enum ss_status pickle_push_mark(struct ss_pickle *p)
{
    void *array = p->marks;
    SS_TRY(grow(&array, &p->mark_capacity, p->mark_count + 1, sizeof *p->marks));
    p->marks = array;
    p->marks[p->mark_count++] = p->depth;
    return SS_OK;
}

enum ss_status pickle_need(const struct ss_pickle *p, size_t n)
{
    size_t floor = p->mark_count ? p->marks[p->mark_count - 1] : 0;
    if (p->depth - floor < n)
        return pickle_fail(p, SS_ERR_FORMAT, "needs %zu values on the stack, there are %zu", n,
                           p->depth - floor);
    return SS_OK;
}

enum ss_status pickle_pop_mark(struct ss_pickle *p, size_t *begin)
{
    if (!p->mark_count)
        return pickle_fail(p, SS_ERR_FORMAT, "no MARK before it");
    *begin = p->marks[--p->mark_count];
    return SS_OK;
}

enum ss_status pickle_make_tuple(struct ss_pickle *p, size_t begin)
{
    struct ss_pickle_value *v = NULL;
    SS_TRY(pickle_new(p, SS_PICKLE_TUPLE, &v));
    SS_TRY(pickle_extend(p, v, p->stack + begin, p->depth - begin));
    p->depth = begin;
    return pickle_push(p, v);
}

enum ss_status pickle_add_items(struct ss_pickle *p, size_t begin, enum ss_pickle_type type)
{
    size_t floor = p->mark_count ? p->marks[p->mark_count - 1] : 0;
    if (begin <= floor)
        return pickle_fail(p, SS_ERR_FORMAT, "there is no %s to add to", pickle_type_name(type));
    struct ss_pickle_value *to = p->stack[begin - 1];
    size_t n = p->depth - begin;
    if (to->type != type)
        return pickle_fail(p, SS_ERR_FORMAT, "items are added to a %s; a %s is expected",
                           pickle_type_name(to->type), pickle_type_name(type));
    if (type == SS_PICKLE_DICT && n % 2)
        return pickle_fail(p, SS_ERR_FORMAT, "a key without a value");
    SS_TRY(pickle_extend(p, to, p->stack + begin, n));
    p->depth = begin;
    return SS_OK;
}

enum ss_status pickle_memo_put(struct ss_pickle *p, uint64_t index)
{
    SS_TRY(pickle_need(p, 1));
    /* Picklers number memo entries consecutively from 0 or 1, so the file's size bounds the
     * memo. */
    if (index > p->size)
        return pickle_fail(p, SS_ERR_FORMAT, "memo index %llu is larger than the file",
                           (unsigned long long)index);
    void *array = p->memo;
    SS_TRY(grow(&array, &p->memo_capacity, (size_t)index + 1, sizeof *p->memo));
    p->memo = array;
    if (!p->memo[index])
        p->memo_count++;
    p->memo[index] = p->stack[p->depth - 1];
    return SS_OK;
}

enum ss_status pickle_memo_get(struct ss_pickle *p, uint64_t index)
{
    if (index >= p->memo_capacity || !p->memo[index])
        return pickle_fail(p, SS_ERR_FORMAT, "no value is stored under memo index %llu",
                           (unsigned long long)index);
    return pickle_push(p, p->memo[index]);
}
