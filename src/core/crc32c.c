/* crc32c.c: table-driven CRC-32C, eight bytes at a time (contract in crc32c.h). */
#include "core/crc32c.h"

#include <pthread.h>

enum { SLICES = 8 };

/* table[k][b]: register after byte b followed by k zero bytes. */
static uint32_t table[SLICES][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    const uint32_t polynomial = 0x82f63b78; /* 0x1edc6f41, bit-reversed */
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < SLICES; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

static uint32_t read_little_endian(const unsigned char *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

uint32_t ss_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    pthread_once(&table_once, fill_table);
    crc = ~crc;
    for (; bytes >= SLICES; bytes -= SLICES, p += SLICES) {
        uint32_t low = crc ^ read_little_endian(p), high = read_little_endian(p + 4);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
              table[4][low >> 24] ^ table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
              table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
    }
    for (; bytes > 0; bytes--)
        crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
    return ~crc;
}
