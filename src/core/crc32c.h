/* CRC-32C (Castagnoli's polynomial, as in iSCSI): finds damage, proves nothing about who wrote.
 * Sources: Castagnoli, Braeuer, Herrmann, IEEE Trans. Comm. 41(6), 1993; RFC 3720, section 12.1
 * (order of bits, start and end); tables for 8 bytes at once: Kounavis and Berry, IEEE Symposium on
 * Computers and Communications (ISCC), 2005. */
#ifndef SS_CORE_CRC32C_H
#define SS_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of `bytes` bytes that follow those whose CRC is `crc` (0: nothing precedes them). Threads may
 * call it at the same time. */
uint32_t ss_crc32c(uint32_t crc, const void *data, size_t bytes);

#endif
