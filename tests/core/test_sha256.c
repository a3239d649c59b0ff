/* test_sha256.c: SHA-256 and HMAC-SHA-256 against published vectors. */
#include "core/sha256.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char hex[2 * SS_SHA256_BYTES + 1];

static void show(const unsigned char *digest)
{
    for (int i = 0; i < SS_SHA256_BYTES; i++)
        sprintf(hex + 2 * i, "%02x", digest[i]);
}

/* Hashes in pieces of `piece` bytes. Returns hexadecimal digits in a static buffer. */
static const char *hash_of(const void *data, size_t bytes, size_t piece)
{
    struct ss_sha256 hash;
    unsigned char digest[SS_SHA256_BYTES];
    ss_sha256_begin(&hash);
    for (size_t at = 0; at < bytes; at += piece)
        ss_sha256_add(&hash, (const char *)data + at, bytes - at < piece ? bytes - at : piece);
    ss_sha256_end(&hash, digest);
    show(digest);
    return hex;
}

/* NIST's example values for FIPS 180-4 (one block, two blocks) and the examples of FIPS 180-2,
 * appendix B; the empty message and the first of one byte: NIST's SHAVS short message tests. */
static const struct {
    const char *message, *digest;
} hashes[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"\xd3", "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
     "qrs"
     "mnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

START_TEST(hash_vectors)
{
    size_t bytes = strlen(hashes[_i].message);
    for (size_t piece = 1; piece < 130; piece++)
        ck_assert_str_eq(hash_of(hashes[_i].message, bytes, piece), hashes[_i].digest);
}
END_TEST

START_TEST(hash_million)
{
    char *a = malloc(1000000);
    ck_assert_ptr_nonnull(a);
    memset(a, 'a', 1000000);
    const char *want = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    ck_assert_str_eq(hash_of(a, 1000000, 1000000), want);
    ck_assert_str_eq(hash_of(a, 1000000, 977), want);
    free(a);
}
END_TEST

/* Zeros, every length of the last block. The digests of all lengths are hashed into one. Python's
 * hashlib computed the expected value. */
START_TEST(hash_lengths)
{
    unsigned char zeros[200] = {0}, digest[SS_SHA256_BYTES];
    struct ss_sha256 chain, one;
    ss_sha256_begin(&chain);
    for (size_t n = 0; n < sizeof zeros; n++) {
        ss_sha256_begin(&one);
        ss_sha256_add(&one, zeros, n);
        ss_sha256_end(&one, digest);
        ss_sha256_add(&chain, digest, sizeof digest);
    }
    ss_sha256_end(&chain, digest);
    show(digest);
    ck_assert_str_eq(hex, "59e350876ff46da193f0d152dd874fa876d2020a80910c6b83b1537e21104a9f");
}
END_TEST

/* RFC 4231, section 4: test cases 1, 2, 3, 4, 6 and 7 (5 has a truncated digest). */
static const struct {
    const char *key, *data, *mac;
    int key_repeats, data_repeats;
} macs[] = {
    {"\x0b", "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", 20, 1},
    {"Jefe", "what do ya want for nothing?",
     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", 1, 1},
    {"\xaa", "\xdd", "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe", 20, 50},
    {"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17"
     "\x18"
     "\x19",
     "\xcd", "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b", 1, 50},
    {"\xaa", "Test Using Larger Than Block-Size Key - Hash Key First",
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54", 131, 1},
    {"\xaa",
     "This is a test using a larger than block-size key and a larger than block-size data. The key "
     "needs to be hashed before being used by the HMAC algorithm.",
     "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2", 131, 1},
};

START_TEST(mac_vectors)
{
    char key[512] = "";
    struct ss_hmac mac;
    unsigned char digest[SS_SHA256_BYTES];
    for (int i = 0; i < macs[_i].key_repeats; i++)
        strcat(key, macs[_i].key);
    ss_hmac_begin(&mac, key, strlen(key));
    for (int i = 0; i < macs[_i].data_repeats; i++)
        ss_hmac_add(&mac, macs[_i].data, strlen(macs[_i].data));
    ss_hmac_end(&mac, digest);
    show(digest);
    ck_assert_str_eq(hex, macs[_i].mac);
}
END_TEST

START_TEST(equal)
{
    unsigned char a[SS_SHA256_BYTES] = {0}, b[SS_SHA256_BYTES] = {0};
    ck_assert(ss_digest_equal(a, b));
    for (int bit = 0; bit < 8 * SS_SHA256_BYTES; bit++) {
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert(!ss_digest_equal(a, b));
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sha256");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, hash_vectors, 0, sizeof hashes / sizeof hashes[0]);
    tcase_add_test(tc, hash_million);
    tcase_add_test(tc, hash_lengths);
    tcase_add_loop_test(tc, mac_vectors, 0, sizeof macs / sizeof macs[0]);
    tcase_add_test(tc, equal);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
