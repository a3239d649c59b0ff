#include "data/pack_format.h"
#include "core/rng.h"

#include <string.h>

enum { LANES = 8 };

static inline uint64_t step(uint64_t lane, const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    word = (lane ^ word) * 0x9E3779B97F4A7C15u;
    return word << 29 | word >> 35;
}

uint64_t pack_checksum(const void *bytes, size_t n)
{
    const uint8_t *p = bytes, *end = p + n;
    uint64_t lane[LANES];
    for (uint64_t k = 0; k < LANES; k++)
        lane[k] = ss_mix64(k, 1);
    /* Separate variables, so that the compiler allocates registers for them. */
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    uint64_t e = lane[4], f = lane[5], g = lane[6], h = lane[7];
    for (; end - p >= 8 * LANES; p += 8 * LANES) {
        a = step(a, p);
        b = step(b, p + 8);
        c = step(c, p + 16);
        d = step(d, p + 24);
        e = step(e, p + 32);
        f = step(f, p + 40);
        g = step(g, p + 48);
        h = step(h, p + 56);
    }
    const uint64_t done[LANES] = {a, b, c, d, e, f, g, h};
    memcpy(lane, done, sizeof lane);
    for (size_t k = 0; p < end; p += 8, k++)
        lane[k] = step(lane[k], p);
    uint64_t sum = n;
    for (size_t k = 0; k < LANES; k++)
        sum = ss_mix64(sum, lane[k]);
    return sum;
}
