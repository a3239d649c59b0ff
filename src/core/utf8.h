/* Text as UTF-8 (RFC 3629): no overlong forms, surrogates or values above U+10FFFF. */
#ifndef SS_CORE_UTF8_H
#define SS_CORE_UTF8_H

#include <stddef.h>

/* Return the length in bytes of the character at s, or 0 if it is invalid. The terminating 0 has
 * length 1. */
size_t ss_utf8_bytes(const char *s);

int ss_utf8_is(const char *s);

/* Copy as many complete characters as fit, and a terminating 0. An invalid byte becomes "?". */
void ss_utf8_copy(char *to, size_t capacity, const char *from);
/* Return 1 if `text` equals the complete ss_utf8_copy of `of`. */
int ss_utf8_is_copy(const char *text, const char *of);

#endif
