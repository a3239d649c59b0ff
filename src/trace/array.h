/* Growable arrays: struct { at, count, capacity }. Initialize with {0}, release with free(x.at). */
#ifndef SS_TRACE_ARRAY_H
#define SS_TRACE_ARRAY_H

#include "core/log.h"

#include <stddef.h>
#include <stdlib.h>

#define SS_TRACE_ARRAY(type)                                                                       \
    struct {                                                                                       \
        type *at;                                                                                  \
        size_t count, capacity;                                                                    \
    }

/* Ensure capacity for one more element of `size` bytes. at: the address of the array's pointer.
 * Errors: SS_ERR_MEMORY. */
static inline enum ss_status ss_trace_grow(void *at, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return SS_OK;
    size_t more = *capacity ? 2 * *capacity : 16;
    void *grown = realloc(*(void **)at, more * size);
    if (!grown)
        return ss_fail_memory("events of a trace", more * size);
    *(void **)at = grown;
    *capacity = more;
    return SS_OK;
}

/* Append an element. For functions that return a status and own nothing to release. */
#define SS_TRACE_ADD(array, value)                                                                 \
    do {                                                                                           \
        SS_TRY(                                                                                    \
            ss_trace_grow(&(array)->at, &(array)->capacity, (array)->count, sizeof *(array)->at)); \
        (array)->at[(array)->count++] = (value);                                                   \
    } while (0)

#endif
