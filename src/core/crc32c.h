/* CRC-32C (Castagnoli's polynomial, as in iSCSI). It detects corruption; it does not authenticate
 * the writer. Sources: Castagnoli, Braeuer, Herrmann, IEEE Trans. Comm. 41(6), 1993; RFC 3720,
 * section 12.1 (bit order, initial and final value); tables for 8 bytes at a time: Kounavis and
 * Berry, IEEE Symposium on Computers and Communications (ISCC), 2005. */
#ifndef SS_CORE_CRC32C_H
#define SS_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Return the CRC of `bytes` bytes of data, appended to data whose CRC is `crc` (0: no preceding
 * data). Thread-safe. */
uint32_t ss_crc32c(uint32_t crc, const void *data, size_t bytes);

#endif
