/* memory.h: overrides of the C library's allocation functions.
 *
 * They call glibc's __libc_ names, because dlsym() itself allocates memory. Included by one .c file
 * of a program or library, which first defines:
 *
 *   memory_fails(function, bytes, caller)   returns 1 and sets errno if this call shall fail
 *   memory_taken(p, caller)                 records p, which may be NULL, for caller; returns p
 *   memory_given(p, caller)                 removes p, which may be NULL; returns the owner of a
 *                                           block reallocated from it */
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
