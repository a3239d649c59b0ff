/* test_crc32c.c: CRC-32C against published values and a bitwise implementation. */
#include "core/crc32c.h"
#include "tests/data_common.h"
#include "tests/train/events_reader.h"

#include "tests/assert.h"
#include <stdlib.h>

/* RFC 3720, appendix B.4 (lists CRCs lowest byte first), and the check value of CRC catalogs. */
static const struct {
    const char *what;
    unsigned char first;
    int step, bytes;
    uint32_t crc;
} patterns[] = {
    {"32 bytes of zeros", 0, 0, 32, 0x8a9136aa}, {"32 bytes of ones", 0xff, 0, 32, 0x62a8ab43},
    {"32 rising bytes", 0, 1, 32, 0x46dd794e},   {"32 falling bytes", 31, -1, 32, 0x113fdb5c},
    {"123456789", '1', 1, 9, 0xe3069283},        {"nothing", 0, 0, 0, 0},
};

START_TEST(crc_vectors)
{
    unsigned char bytes[32];
    for (int i = 0; i < patterns[_i].bytes; i++)
        bytes[i] = (unsigned char)(patterns[_i].first + i * patterns[_i].step);
    ck_assert_msg(ss_crc32c(0, bytes, (size_t)patterns[_i].bytes) == patterns[_i].crc, "%s",
                  patterns[_i].what);
    /* The bitwise implementation, too. */
    ck_assert_msg(events_crc(bytes, (size_t)patterns[_i].bytes) == patterns[_i].crc, "%s",
                  patterns[_i].what);
}
END_TEST

/* RFC 3720's fifth example: a SCSI Read (10) command. */
START_TEST(crc_read_command)
{
    static const unsigned char command[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 4, [27] = 0x14, [31] = 0x18, 0x28, [40] = 2};
    ck_assert_uint_eq(ss_crc32c(0, command, sizeof command), 0xd9963a56);
}
END_TEST

/* Any length and alignment, and data split in two at any byte. */
START_TEST(crc_parts)
{
    unsigned char bytes[100];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i * 37 + 11);
    for (size_t from = 0; from < 9; from++)
        for (size_t n = 0; from + n <= sizeof bytes; n++)
            ck_assert_uint_eq(ss_crc32c(0, bytes + from, n), events_crc(bytes + from, n));
    uint32_t whole = events_crc(bytes, sizeof bytes);
    for (size_t n = 0; n <= sizeof bytes; n++)
        ck_assert_uint_eq(ss_crc32c(ss_crc32c(0, bytes, n), bytes + n, sizeof bytes - n), whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crc32c");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, crc_vectors, 0, sizeof patterns / sizeof patterns[0]);
    tcase_add_test(tc, crc_read_command);
    tcase_add_test(tc, crc_parts);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
