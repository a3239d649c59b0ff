#include "apps/data/zip.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    LOCAL = 30,  /* bytes of a local file header, without names */
    MEMBER = 46, /* bytes of a central directory entry, without names */
    END = 22,    /* bytes of the end of central directory record, without its comment */
    END_64 = 56,
    LOCATOR_64 = 20,
    COMMENT = 65535,
    STORED = 0,
    DEFLATED = 8,
    MOST_DEFLATED = 1032, /* maximum compression ratio of deflate */
    MAX_MEMBERS = 1 << 20,
};

struct member {
    char *name;
    uint64_t at; /* offset of the local file header */
    uint64_t packed, size;
    uint32_t crc;
    int method, encrypted;
};

struct ss_zip {
    char *path;
    const uint8_t *bytes;
    size_t size;
    struct member *members;
    size_t count;
};

static uint64_t number(const uint8_t *at, int n)
{
    uint64_t v = 0;
    for (int i = n; i-- > 0;)
        v = v << 8 | at[i];
    return v;
}

static int is_at(const struct ss_zip *z, uint64_t at, size_t capacity, const char *magic)
{
    return at <= z->size && z->size - at >= capacity && memcmp(z->bytes + at, magic, 4) == 0;
}

static enum ss_status damaged(const struct ss_zip *z, const char *what)
{
    return ss_fail(SS_ERR_FORMAT, "%s: not a complete zip archive (.npz): %s", z->path, what);
}

/* Find the central directory: its offset and number of entries. */
static enum ss_status find_list(const struct ss_zip *z, uint64_t *at, uint64_t *count)
{
    if (z->size < END)
        return damaged(z, "it is too short");
    size_t end = z->size - END;
    const size_t first = end > COMMENT ? end - COMMENT : 0;
    while (end > first && !is_at(z, end, END, "PK\5\6"))
        end--;
    if (!is_at(z, end, END, "PK\5\6"))
        return damaged(z, "its end record is missing");
    *count = number(z->bytes + end + 10, 2);
    *at = number(z->bytes + end + 16, 4);
    if (end < LOCATOR_64 || !is_at(z, end - LOCATOR_64, LOCATOR_64, "PK\6\7"))
        return SS_OK;
    const uint64_t end_64 = number(z->bytes + end - LOCATOR_64 + 8, 8);
    if (!is_at(z, end_64, END_64, "PK\6\6"))
        return damaged(z, "its zip64 end record is missing");
    *count = number(z->bytes + end_64 + 32, 8);
    *at = number(z->bytes + end_64 + 48, 8);
    return SS_OK;
}

/* Read the zip64 extra field: 32-bit fields that overflow are all ones and follow there as 64-bit
 * values in this order. */
static void read_extra(struct member *m, const uint8_t *extra, size_t size)
{
    while (size >= 4) {
        const size_t n = (size_t)number(extra + 2, 2);
        if (n > size - 4)
            return;
        if (number(extra, 2) == 1) {
            uint64_t *const fields[] = {&m->size, &m->packed, &m->at};
            size_t at = 0;
            for (int i = 0; i < 3; i++)
                if (*fields[i] == UINT32_MAX && at + 8 <= n) {
                    *fields[i] = number(extra + 4 + at, 8);
                    at += 8;
                }
            return;
        }
        extra += 4 + n;
        size -= 4 + n;
    }
}

static enum ss_status read_member(const struct ss_zip *z, uint64_t *at, struct member *m)
{
    if (!is_at(z, *at, MEMBER, "PK\1\2"))
        return damaged(z, "its list of members is damaged");
    const uint8_t *p = z->bytes + *at;
    const size_t name = (size_t)number(p + 28, 2), extra = (size_t)number(p + 30, 2),
                 all = MEMBER + name + extra + (size_t)number(p + 32, 2);
    if (all > z->size - *at)
        return damaged(z, "its list of members is cut off");
    *m = (struct member){.at = number(p + 42, 4),
                         .packed = number(p + 20, 4),
                         .size = number(p + 24, 4),
                         .crc = (uint32_t)number(p + 16, 4),
                         .method = (int)number(p + 10, 2),
                         .encrypted = p[8] & 1};
    m->name = strndup((const char *)p + MEMBER, name);
    if (!m->name)
        return ss_fail_memory("a name", name);
    read_extra(m, p + MEMBER + name, extra);
    *at += all;
    return SS_OK;
}

static enum ss_status read_list(struct ss_zip *z)
{
    uint64_t at = 0, count = 0;
    SS_TRY(find_list(z, &at, &count));
    if (count > MAX_MEMBERS)
        return damaged(z, "it lists too many members");
    z->members = calloc(count ? count : 1, sizeof *z->members);
    if (!z->members)
        return ss_fail_memory("a list of members", count * sizeof *z->members);
    while (z->count < count) {
        SS_TRY(read_member(z, &at, &z->members[z->count]));
        z->count++;
    }
    return SS_OK;
}

static enum ss_status map_file(struct ss_zip *z)
{
    struct stat st;
    enum ss_status status = SS_OK;
    /* O_NONBLOCK: a FIFO of that name must not hang the open. */
    int fd = open(z->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open: %s", z->path, strerror(errno));
    if (fstat(fd, &st) != 0)
        status = ss_fail(SS_ERR_IO, "%s: cannot stat: %s", z->path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        status = ss_fail(SS_ERR_IO, "%s: is not a regular file", z->path);
    else if (st.st_size == 0)
        status = ss_fail(SS_ERR_FORMAT, "%s: the file is empty", z->path);
    if (status == SS_OK) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            status = ss_fail(SS_ERR_IO, "%s: cannot map %lld bytes: %s", z->path,
                             (long long)st.st_size, strerror(errno));
        } else {
            z->bytes = p;
            z->size = (size_t)st.st_size;
        }
    }
    close(fd);
    return status;
}

enum ss_status ss_zip_open(const char *path, struct ss_zip **out)
{
    struct ss_zip *z = calloc(1, sizeof *z);
    if (!z)
        return ss_fail_memory("an archive", sizeof *z);
    z->path = strdup(path);
    enum ss_status status = z->path ? map_file(z) : ss_fail_memory("a name", strlen(path));
    if (status == SS_OK)
        status = read_list(z);
    if (status != SS_OK) {
        ss_zip_close(z);
        return status;
    }
    *out = z;
    return SS_OK;
}

void ss_zip_close(struct ss_zip *z)
{
    if (!z)
        return;
    if (z->bytes)
        munmap((void *)(uintptr_t)z->bytes, z->size);
    for (size_t i = 0; i < z->count; i++)
        free(z->members[i].name);
    free(z->members);
    free(z->path);
    free(z);
}

size_t ss_zip_count(const struct ss_zip *z)
{
    return z->count;
}

const char *ss_zip_name(const struct ss_zip *z, size_t i)
{
    return z->members[i].name;
}

static enum ss_status fail_member(const struct ss_zip *z, const struct member *m, const char *what)
{
    return ss_fail(SS_ERR_FORMAT, "%s: %s: %s; the file is damaged", z->path, m->name, what);
}

/* Inflate in portions, because zlib counts in 32 bits. */
static int inflate_all(const uint8_t *in, uint64_t packed, uint8_t *out, uint64_t size)
{
    enum { PORTION = 1 << 30 };
    z_stream s = {.next_in = (Bytef *)(uintptr_t)in, .next_out = out};
    int code = inflateInit2(&s, -MAX_WBITS);
    if (code != Z_OK)
        return code;
    uint64_t in_left = packed, out_left = size;
    while (code == Z_OK) {
        if (s.avail_in == 0) {
            s.avail_in = in_left < PORTION ? (uInt)in_left : PORTION;
            in_left -= s.avail_in;
        }
        if (s.avail_out == 0) {
            s.avail_out = out_left < PORTION ? (uInt)out_left : PORTION;
            out_left -= s.avail_out;
        }
        code = inflate(&s, Z_NO_FLUSH);
    }
    const int whole = code == Z_STREAM_END && s.avail_out == 0 && out_left == 0;
    inflateEnd(&s);
    return whole ? Z_OK : code == Z_MEM_ERROR ? code : Z_DATA_ERROR;
}

static enum ss_status unpack(const struct ss_zip *z, const struct member *m, const uint8_t *in,
                             uint8_t **out)
{
    if (m->size / MOST_DEFLATED > m->packed)
        return fail_member(z, m, "its compressed data are too short for its size");
    uint8_t *bytes = malloc(m->size ? m->size : 1);
    if (!bytes)
        return ss_fail_memory(m->name, m->size);
    const int code = inflate_all(in, m->packed, bytes, m->size);
    if (code != Z_OK) {
        free(bytes);
        return code == Z_MEM_ERROR ? ss_fail_memory("zlib", m->size)
                                   : fail_member(z, m, "it cannot be unpacked");
    }
    *out = bytes;
    return SS_OK;
}

enum ss_status ss_zip_read(const struct ss_zip *z, size_t i, const uint8_t **bytes, size_t *size,
                           uint8_t **owned)
{
    const struct member *m = &z->members[i];
    if (m->encrypted || (m->method != STORED && m->method != DEFLATED))
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "%s: %s: is %s; save the arrays with numpy.savez or numpy.savez_compressed",
                       z->path, m->name,
                       m->encrypted ? "encrypted" : "compressed with another method than deflate");
    if (!is_at(z, m->at, LOCAL, "PK\3\4"))
        return fail_member(z, m, "its header is missing");
    const uint8_t *header = z->bytes + m->at;
    const uint64_t skip = LOCAL + number(header + 26, 2) + number(header + 28, 2),
                   capacity = z->size - m->at;
    if (skip > capacity || m->packed > capacity - skip)
        return fail_member(z, m, "it extends past the end of the file");
    if (m->method == STORED && m->packed != m->size)
        return fail_member(z, m, "its two sizes differ");
    const uint8_t *content = header + skip;
    uint8_t *unpacked = NULL;
    if (m->method == DEFLATED) {
        SS_TRY(unpack(z, m, content, &unpacked));
        content = unpacked;
    }
    if (crc32_z(0, content, m->size) != m->crc) {
        free(unpacked);
        return fail_member(z, m, "its checksum is wrong");
    }
    *bytes = content;
    *size = m->size;
    *owned = unpacked;
    return SS_OK;
}
