/* memory.h: what allocates memory, in front of the C library's functions, whose own names are called: dlsym() itself
 * takes some. For one .c file of a program or library, which defines first:
 *
 *   memory_fails(function, bytes, caller)   does this call fail? It has set errno then
 *   memory_taken(p, caller)                 p, NULL too, becomes caller's; returns p
 *   memory_given(p, caller)                 p, NULL too, is given back; returns whose what is made of it will be */
#ifndef SS_TESTS_MEMORY_H
#define SS_TESTS_MEMORY_H

#include "tests/meta/faults/ours.h"

#include <errno.h>
#include <stdlib.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

#define FAILS_TO_TAKE(bytes) memory_fails(__func__, bytes, CALLER)

void *malloc(size_t n)
{
    return FAILS_TO_TAKE(n) ? NULL : memory_taken(__libc_malloc(n), CALLER);
}

void *calloc(size_t n, size_t size)
{
    return FAILS_TO_TAKE(n * size) ? NULL : memory_taken(__libc_calloc(n, size), CALLER);
}

void *realloc(void *p, size_t n)
{
    if (FAILS_TO_TAKE(n))
        return NULL;
    const void *owner = memory_given(p, CALLER);
    void *grown = __libc_realloc(p, n);
    if (!grown && n)
        memory_taken(p, owner);
    return memory_taken(grown, owner);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return FAILS_TO_TAKE(n) ? NULL : memory_taken(__libc_memalign(alignment, n), CALLER);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    void *made = FAILS_TO_TAKE(n) ? NULL : memory_taken(__libc_memalign(alignment, n), CALLER);
    if (!made)
        return ENOMEM;
    *p = made;
    return 0;
}

char *strdup(const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = FAILS_TO_TAKE(n) ? NULL : memory_taken(__libc_malloc(n), CALLER);
    return copy ? memcpy(copy, text, n) : NULL;
}

void free(void *p)
{
    memory_given(p, CALLER);
    __libc_free(p);
}

#endif
