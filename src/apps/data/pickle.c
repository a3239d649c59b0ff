#include "apps/data/pickle_internal.h"
#include "apps/data/pickle_opcodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum ss_status finish(struct ss_pickle *p)
{
    if (p->depth != 1 || p->mark_count)
        return pickle_fail(p, SS_ERR_FORMAT,
                           "%zu values and %zu marks are left; one value is "
                           "expected",
                           p->depth, p->mark_count);
    if (p->at != p->size)
        return pickle_fail(p, SS_ERR_FORMAT, "%zu bytes follow the end of the pickle",
                           p->size - p->at);
    p->root = p->stack[0];
    return SS_OK;
}

static enum ss_status run(struct ss_pickle *p)
{
    if (p->size == 0)
        return ss_fail(SS_ERR_FORMAT, "%s: the file is empty; a pickle is expected", p->name);
    if (p->bytes[0] != OP_PROTO)
        return ss_fail(SS_ERR_FORMAT, "%s: byte 0: 0x%02x: not a pickle of protocol 2, 3 or 4",
                       p->name, p->bytes[0]);
    while (p->at < p->size) {
        p->opcode_at = p->at;
        p->opcode = p->bytes[p->at++];
        if (p->opcode == OP_STOP)
            return finish(p);
        SS_TRY(pickle_step(p));
    }
    return ss_fail(SS_ERR_FORMAT,
                   "%s: byte %zu: the file ends before the pickle does (no STOP); it "
                   "is truncated",
                   p->name, p->size);
}

enum ss_status ss_pickle_parse(const char *name, const void *bytes, size_t size,
                               struct ss_pickle **out)
{
    struct ss_pickle *p = calloc(1, sizeof *p);
    if (!p)
        return ss_fail_memory("a pickle", sizeof *p);
    p->name = name;
    p->bytes = bytes;
    p->size = size;
    if (__builtin_mul_overflow(size, (size_t)128, &p->memory_limit) ||
        __builtin_add_overflow(p->memory_limit, (size_t)65536, &p->memory_limit))
        p->memory_limit = SIZE_MAX;
    enum ss_status status = run(p);
    /* Only the values are needed from here on. */
    free(p->stack);
    free(p->marks);
    free(p->memo);
    p->stack = p->memo = NULL;
    p->marks = NULL;
    if (status != SS_OK) {
        ss_pickle_close(p);
        return status;
    }
    *out = p;
    return SS_OK;
}

/* Read the file instead of mapping it: the values point into the bytes, and truncation of a mapped
 * file would end the process. */
static enum ss_status read_file(const char *path, int fd, uint8_t **out, size_t *size)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return ss_fail(SS_ERR_IO, "%s: cannot stat: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ss_fail(SS_ERR_IO, "%s: is not a regular file", path);
    size_t capacity = (size_t)st.st_size, got = 0;
    uint8_t *bytes = malloc(capacity ? capacity : 1);
    if (!bytes)
        return ss_fail_memory("a pickle file", capacity);
    while (got < capacity) {
        ssize_t n = read(fd, bytes + got, capacity - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            enum ss_status status =
                ss_fail(SS_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
            free(bytes);
            return status;
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *out = bytes;
    *size = got;
    return SS_OK;
}

enum ss_status ss_pickle_open(const char *path, struct ss_pickle **out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    uint8_t *bytes = NULL;
    size_t size = 0;
    enum ss_status status = read_file(path, fd, &bytes, &size);
    close(fd);
    if (status != SS_OK)
        return status;
    struct ss_pickle *p;
    status = ss_pickle_parse(path, bytes, size, &p);
    if (status != SS_OK) {
        free(bytes);
        return status;
    }
    p->owned = bytes;
    *out = p;
    return SS_OK;
}

const struct ss_pickle_value *ss_pickle_root(const struct ss_pickle *pickle)
{
    return pickle->root;
}

void ss_pickle_close(struct ss_pickle *pickle)
{
    if (!pickle)
        return;
    pickle_free_chunks(pickle);
    free(pickle->owned);
    free(pickle);
}
