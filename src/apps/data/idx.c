#include "apps/data/idx.h"
#include "core/folder.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* MOST_PACKED: upper bound of gzip's compression ratio. */
enum { HEAD = 4, BYTES = 8, MOST_PACKED = 1032 };

/* Read exactly n bytes; fail if the file ends earlier. */
static enum ss_status take(gzFile f, const char *path, uint8_t *to, size_t n)
{
    enum { PART = 1 << 30 };
    int code;
    while (n > 0) {
        const int got = gzread(f, to, n < PART ? (unsigned)n : PART);
        if (got < 0)
            return ss_fail(SS_ERR_FORMAT, "%s: %s", path, gzerror(f, &code));
        if (got == 0)
            return ss_fail(SS_ERR_FORMAT, "%s: truncated: %zu bytes are missing", path, n);
        to += got;
        n -= (size_t)got;
    }
    return SS_OK;
}

static enum ss_status read_head(gzFile f, const char *path, struct ss_npz_array *out)
{
    uint8_t head[HEAD], size[4];
    SS_TRY(take(f, path, head, sizeof head));
    if (head[0] || head[1] || !head[3] || head[3] > SS_NPZ_MAX_DIMS)
        return ss_fail(SS_ERR_FORMAT, "%s: not an IDX file: it begins with %02x %02x %02x %02x",
                       path, head[0], head[1], head[2], head[3]);
    if (head[2] != BYTES)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "%s: its values are of type 0x%02x; only bytes (0x08) are supported", path,
                       head[2]);
    strcpy(out->type, "|u1");
    out->item = 1;
    out->dims = head[3];
    for (int i = 0; i < out->dims; i++) {
        SS_TRY(take(f, path, size, sizeof size));
        out->shape[i] =
            (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | size[3];
    }
    return SS_OK;
}

static enum ss_status read_values(gzFile f, const char *path, struct ss_npz_array *out)
{
    struct stat st;
    uint8_t more;
    size_t n = 1;
    if (stat(path, &st) != 0)
        return ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    for (int i = 0; i < out->dims; i++)
        if (__builtin_mul_overflow(n, out->shape[i], &n) || n / MOST_PACKED > (size_t)st.st_size)
            return ss_fail(SS_ERR_FORMAT, "%s: dimension %d is %zu: more than the file can hold",
                           path, i + 1, out->shape[i]);
    out->bytes = out->owned = malloc(n ? n : 1);
    if (!out->owned)
        return ss_fail_memory(path, n);
    SS_TRY(take(f, path, out->owned, n));
    return gzread(f, &more, 1) == 0
               ? SS_OK
               : ss_fail(SS_ERR_FORMAT, "%s: extra data after its %zu values", path, n);
}

enum ss_status ss_idx_read(const char *dir, const char *name, struct ss_npz_array *out)
{
    char path[4096];
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", name);
    SS_TRY(ss_folder_join(path, sizeof path, dir, name));
    gzFile f = gzopen(path, "rb");
    if (!f)
        return ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    enum ss_status status = read_head(f, path, out);
    if (status == SS_OK)
        status = read_values(f, path, out);
    gzclose(f);
    return status;
}
