/* Text as UTF-8 (RFC 3629): no overlong forms, surrogates or values above U+10FFFF. */
#ifndef SS_CORE_UTF8_H
#define SS_CORE_UTF8_H

#include <stddef.h>

/* Bytes of the character that begins here; 0: none does. The end of the text is one of 1 byte. */
size_t ss_utf8_bytes(const char *s);

int ss_utf8_is(const char *s);

/* As many whole characters of a text as fit, and a 0; a byte that is none becomes "?". */
void ss_utf8_copy(char *to, size_t room, const char *from);
/* Whether a text is the copy of another, where there was room for it. */
int ss_utf8_is_copy(const char *text, const char *of);

#endif
