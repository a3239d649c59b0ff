#include "core/utf8.h"

#include <stdint.h>
#include <string.h>

size_t ss_utf8_bytes(const char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char c = (unsigned char)*s;
    const size_t n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    if (n < 2)
        return n;
    uint32_t value = c & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((unsigned char)s[i] >> 6 != 2)
            return 0;
        value = value << 6 | ((unsigned char)s[i] & 0x3f);
    }
    return value < least[n] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0 : n;
}

int ss_utf8_is(const char *s)
{
    for (size_t n; *s; s += n)
        if (!(n = ss_utf8_bytes(s)))
            return 0;
    return 1;
}

void ss_utf8_copy(char *to, size_t capacity, const char *from)
{
    for (size_t n; *from; from += n ? n : 1) {
        n = ss_utf8_bytes(from);
        const size_t bytes = n ? n : 1;
        if (bytes >= capacity)
            break;
        memcpy(to, n ? from : "?", bytes);
        to += bytes;
        capacity -= bytes;
    }
    *to = '\0';
}

int ss_utf8_is_copy(const char *text, const char *of)
{
    for (size_t n; *of; of += n ? n : 1, text += n ? n : 1) {
        n = ss_utf8_bytes(of);
        if (n ? strncmp(of, text, n) : *text != '?')
            return 0;
    }
    return !*text;
}
