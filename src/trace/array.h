/* Arrays that grow: struct { at, count, room }, {0} when empty, ended with free(x.at). */
#ifndef SS_TRACE_ARRAY_H
#define SS_TRACE_ARRAY_H

#include "core/log.h"

#include <stddef.h>
#include <stdlib.h>

#define SS_TRACE_ARRAY(type)                                                                       \
    struct {                                                                                       \
        type *at;                                                                                  \
        size_t count, room;                                                                        \
    }

/* Room for one more of `size` bytes; at: the address of the array's pointer. Errors:
 * SS_ERR_MEMORY. */
static inline enum ss_status ss_trace_grow(void *at, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return SS_OK;
    size_t more = *room ? 2 * *room : 16;
    void *grown = realloc(*(void **)at, more * size);
    if (!grown)
        return ss_fail_memory("marks of a trace", more * size);
    *(void **)at = grown;
    *room = more;
    return SS_OK;
}

/* Append; in functions that return a status and hold nothing. */
#define SS_TRACE_ADD(array, value)                                                                 \
    do {                                                                                           \
        SS_TRY(ss_trace_grow(&(array)->at, &(array)->room, (array)->count, sizeof *(array)->at));  \
        (array)->at[(array)->count++] = (value);                                                   \
    } while (0)

#endif
