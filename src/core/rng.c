#include "core/rng.h"

#include <math.h>

void ss_philox4x32(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t ss_mix64(uint64_t a, uint64_t b)
{
    uint64_t z = a + 0x9E3779B97F4A7C15u * (b + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t ss_mix_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = ss_mix64(h, (uint64_t)(unsigned char)*text);
    return h;
}

void ss_rng_open(struct ss_rng *rng, uint64_t seed, enum ss_rng_domain domain, uint32_t a,
                 uint32_t b)
{
    uint64_t key = ss_mix64(seed, (uint64_t)domain);
    rng->key[0] = (uint32_t)key;
    rng->key[1] = (uint32_t)(key >> 32);
    rng->counter[0] = 0;
    rng->counter[1] = (uint32_t)domain;
    rng->counter[2] = a;
    rng->counter[3] = b;
    rng->used = 4;
}

uint32_t ss_rng_u32(struct ss_rng *rng)
{
    if (rng->used == 4) {
        ss_philox4x32(rng->key, rng->counter, rng->buffer);
        rng->counter[0]++;
        rng->used = 0;
    }
    return rng->buffer[rng->used++];
}

float ss_rng_uniform(struct ss_rng *rng)
{
    return (float)(ss_rng_u32(rng) >> 8) * 0x1p-24f;
}

double ss_rng_between(struct ss_rng *rng, double low, double high)
{
    uint64_t bits = (uint64_t)ss_rng_u32(rng) << 21;
    bits |= ss_rng_u32(rng) >> 11;
    return low + (high - low) * ((double)bits * 0x1p-53);
}

/* Logarithm of a uniform draw in (0, 1]. */
static double log_uniform(struct ss_rng *rng)
{
    return log(1 - ss_rng_between(rng, 0, 1));
}

static double log_gamma_draw(struct ss_rng *rng, double alpha)
{
    if (alpha < 1) {
        const double small = log_uniform(rng) / alpha;
        return log_gamma_draw(rng, alpha + 1) + small;
    }
    const double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double radius = sqrt(-2 * log_uniform(rng));
        const double x = radius * cos(6.283185307179586 * ss_rng_between(rng, 0, 1));
        const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
        if (v > 0 && log_uniform(rng) < 0.5 * x * x + d * (1 - v + log(v)))
            return log(d * v);
    }
}

double ss_rng_beta(struct ss_rng *rng, double alpha)
{
    const double x = log_gamma_draw(rng, alpha), y = log_gamma_draw(rng, alpha);
    return x == y ? 0.5 : 1 / (1 + exp(y - x)); /* also if both are infinite */
}

float ss_rng_normal(struct ss_rng *rng)
{
    double u = 1 - (double)ss_rng_uniform(rng), v = (double)ss_rng_uniform(rng);
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

uint32_t ss_rng_below(struct ss_rng *rng, uint32_t n)
{
    /* Rejection of the short last interval of 2^32 / n. */
    uint32_t threshold = (0u - n) % n;
    for (;;) {
        uint32_t x = ss_rng_u32(rng);
        if (x >= threshold)
            return x % n;
    }
}
