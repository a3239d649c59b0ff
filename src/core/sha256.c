/* sha256.c: FIPS 180-4 and RFC 2104 (contract in sha256.h). Not optimized: a rank hashes only
 * some megabytes at start. */
#include "core/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes: section
 * 4.2.2. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t read_big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_big_endian(unsigned char *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(x >> (24 - 8 * i));
}

/* Section 6.2.2. */
static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    for (int t = 0; t < 16; t++)
        w[t] = read_big_endian(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t x = w[t - 15], y = w[t - 2];
        w[t] = w[t - 16] + (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) + w[t - 7] +
               (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10);
    }
    /* Local variables, so that the compiler holds them in registers. */
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t t1 = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                      ((e & f) ^ (~e & g)) + k[t] + w[t];
        uint32_t t2 = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                      ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const uint32_t s[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void ss_sha256_begin(struct ss_sha256 *hash)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, first, sizeof first);
    hash->bytes = 0;
}

void ss_sha256_add(struct ss_sha256 *hash, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        size_t have = hash->bytes % SS_SHA256_BLOCK, n = SS_SHA256_BLOCK - have;
        if (n > bytes)
            n = bytes;
        memcpy(hash->block + have, from, n);
        hash->bytes += n;
        from += n;
        bytes -= n;
        if (have + n == SS_SHA256_BLOCK)
            take_block(hash->state, hash->block);
    }
}

/* Section 5.1.1: a one bit, zeros, and the length in bits fill the last block. */
void ss_sha256_end(struct ss_sha256 *hash, unsigned char digest[SS_SHA256_BYTES])
{
    static const unsigned char padding[SS_SHA256_BLOCK] = {0x80};
    uint64_t bits = 8 * hash->bytes;
    size_t have = hash->bytes % SS_SHA256_BLOCK;
    unsigned char length[8];
    write_big_endian(length, (uint32_t)(bits >> 32));
    write_big_endian(length + 4, (uint32_t)bits);
    ss_sha256_add(hash, padding, have < 56 ? 56 - have : 120 - have);
    ss_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 8; i++)
        write_big_endian(digest + 4 * i, hash->state[i]);
}

void ss_hmac_begin(struct ss_hmac *mac, const void *key, size_t key_bytes)
{
    unsigned char block[SS_SHA256_BLOCK] = {0};
    if (key_bytes > sizeof block) {
        ss_sha256_begin(&mac->inner);
        ss_sha256_add(&mac->inner, key, key_bytes);
        ss_sha256_end(&mac->inner, block);
    } else {
        memcpy(block, key, key_bytes);
    }
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36;
    ss_sha256_begin(&mac->inner);
    ss_sha256_add(&mac->inner, block, sizeof block);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36 ^ 0x5c;
    ss_sha256_begin(&mac->outer);
    ss_sha256_add(&mac->outer, block, sizeof block);
    explicit_bzero(block, sizeof block);
}

void ss_hmac_add(struct ss_hmac *mac, const void *data, size_t bytes)
{
    ss_sha256_add(&mac->inner, data, bytes);
}

void ss_hmac_end(struct ss_hmac *mac, unsigned char digest[SS_SHA256_BYTES])
{
    ss_sha256_end(&mac->inner, digest);
    ss_sha256_add(&mac->outer, digest, SS_SHA256_BYTES);
    ss_sha256_end(&mac->outer, digest);
}

int ss_digest_equal(const unsigned char *a, const unsigned char *b)
{
    unsigned char differing = 0;
    for (int i = 0; i < SS_SHA256_BYTES; i++)
        differing |= (unsigned char)(a[i] ^ b[i]);
    return differing == 0;
}
