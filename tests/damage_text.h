/* Random damage to text files of fields and numbers, for tests of their readers. */
#ifndef SS_TESTS_DAMAGE_TEXT_H
#define SS_TESTS_DAMAGE_TEXT_H

#include "tests/fuzz_bytes.h"

static inline size_t damage_text(struct ss_rng *rng, uint8_t *b, size_t size, size_t capacity)
{
    static const char *const pieces[] = {"-1",    "9",    "0", "\"", ",",   "]",   "\n",
                                         "[N/A]", "1e99", "[", "/",  "nan", ", ,", "99999999999"};
    size_t at = ss_rng_below(rng, (uint32_t)size);
    const char *with = pieces[ss_rng_below(rng, sizeof pieces / sizeof *pieces)];
    switch (ss_rng_below(rng, 5)) {
    case 0:
        return fuzz_splice(b, size, capacity, at, ss_rng_below(rng, 4), with, strlen(with));
    case 1:
        return fuzz_copy_piece(rng, b, size, capacity, at);
    case 2:
    case 3: /* replace a digit: still a number */
        for (size_t i = at; i < size; i++)
            if (b[i] >= '0' && b[i] <= '9') {
                b[i] = (uint8_t)('0' + ss_rng_below(rng, 10));
                break;
            }
        return size;
    default:
        return ss_rng_below(rng, 8) ? size : at;
    }
}

#endif
