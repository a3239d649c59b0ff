/* SHA-256 and HMAC-SHA-256, for authenticating peers by a shared secret. Sources: FIPS 180-4
 * ("Secure Hash Standard"), sections 4 to 6; RFC 2104 ("HMAC: Keyed-Hashing for Message
 * Authentication"). */
#ifndef SS_CORE_SHA256_H
#define SS_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SS_SHA256_BYTES = 32, SS_SHA256_BLOCK = 64 };

struct ss_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* hashed so far */
    unsigned char block[SS_SHA256_BLOCK];
};

void ss_sha256_begin(struct ss_sha256 *hash);
void ss_sha256_add(struct ss_sha256 *hash, const void *data, size_t bytes);
void ss_sha256_end(struct ss_sha256 *hash, unsigned char digest[SS_SHA256_BYTES]);

struct ss_hmac {
    struct ss_sha256 inner, outer;
};

void ss_hmac_begin(struct ss_hmac *mac, const void *key, size_t key_bytes);
void ss_hmac_add(struct ss_hmac *mac, const void *data, size_t bytes);
void ss_hmac_end(struct ss_hmac *mac, unsigned char digest[SS_SHA256_BYTES]);

/* Return 1 if equal. Constant time, so that a digest cannot be guessed byte by byte. */
int ss_digest_equal(const unsigned char *a, const unsigned char *b);

#endif
