/* tensorboard.c: encode event files and write them record by record (format and interface in
 * tensorboard.h). */
#include "train/tensorboard.h"
#include "core/crc32c.h"
#include "core/folder.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_CAPACITY = 4096,
    NAME_TRIES = 1000,
    MESSAGE_CAPACITY =
        SS_TENSORBOARD_TAG + 64, /* all keys, lengths and numbers need less than 64 */
    HEAD = 12,                   /* length and its CRC */
    FOOT = 4,                    /* CRC of the message */
};

struct ss_tensorboard {
    int fd;
    off_t size; /* of the complete records */
    enum ss_status status;
    char path[PATH_CAPACITY];
};

struct message {
    size_t size;
    unsigned char bytes[MESSAGE_CAPACITY];
};

/* Wire type of a field: the lowest three bits of its key. */
enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LENGTH = 2, WIRE_FIXED32 = 5 };

static void put_fixed(unsigned char *at, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(x >> 8 * i);
}

static void put_varint(struct message *m, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        m->bytes[m->size++] = (unsigned char)(x | 0x80);
    m->bytes[m->size++] = (unsigned char)x;
}

static void put_key(struct message *m, unsigned field, enum wire wire)
{
    put_varint(m, field << 3 | wire);
}

static void put_integer(struct message *m, unsigned field, int64_t x)
{
    put_key(m, field, WIRE_VARINT);
    put_varint(m, (uint64_t)x);
}

static void put_double(struct message *m, unsigned field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(m, field, WIRE_FIXED64);
    put_fixed(m->bytes + m->size, bits, 8);
    m->size += 8;
}

static void put_float(struct message *m, unsigned field, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(m, field, WIRE_FIXED32);
    put_fixed(m->bytes + m->size, bits, 4);
    m->size += 4;
}

/* Append a string or a nested message. */
static void put_bytes(struct message *m, unsigned field, const void *bytes, size_t size)
{
    put_key(m, field, WIRE_LENGTH);
    put_varint(m, size);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

/* Fields of Event, Summary and Summary.Value. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2 };

/* Masked CRC of the format: rotated plus a constant, because the CRC of data that contains a CRC
 * would be degenerate. */
static uint32_t masked_crc(const void *bytes, size_t size)
{
    uint32_t crc = ss_crc32c(0, bytes, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static int write_all(int fd, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Report a failed write. A partial record is truncated: readers would wait for the rest of it. */
static enum ss_status fail_write(struct ss_tensorboard *t)
{
    int reason = errno;
    const char *end = ftruncate(t->fd, t->size) == 0 ? "it ends after its last complete record"
                                                     : "its last record is incomplete";
    t->status =
        ss_fail(SS_ERR_IO, "%s: cannot write: %s; %s: free space there or name another folder",
                t->path, strerror(reason), end);
    return t->status;
}

static enum ss_status write_record(struct ss_tensorboard *t, const struct message *m)
{
    unsigned char record[HEAD + MESSAGE_CAPACITY + FOOT];
    size_t size = HEAD + m->size + FOOT;
    put_fixed(record, m->size, 8);
    put_fixed(record + 8, masked_crc(record, 8), 4);
    memcpy(record + HEAD, m->bytes, m->size);
    put_fixed(record + HEAD + m->size, masked_crc(m->bytes, m->size), 4);
    if (write_all(t->fd, record, size) != 0)
        return fail_write(t);
    t->size += (off_t)size;
    return SS_OK;
}

static enum ss_status write_version(struct ss_tensorboard *t, time_t now)
{
    static const char version[] = "brain.Event:2";
    struct message event = {0};
    put_double(&event, EVENT_WALL_TIME, (double)now);
    put_bytes(&event, EVENT_FILE_VERSION, version, sizeof version - 1);
    return write_record(t, &event);
}

/* Create a new file. A run restarted within the same second, possibly with the same process ID in
 * a container, must not append to the older run's file. */
static enum ss_status create_file(struct ss_tensorboard *t, const char *dir, time_t now)
{
    char host[256] = "", name[512];
    gethostname(host, sizeof host - 1);
    for (int i = 0; i < NAME_TRIES; i++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld.%d", (long long)now,
                 host[0] ? host : "localhost", (long)getpid(), i);
        SS_TRY(ss_folder_join(t->path, sizeof t->path, dir, name));
        t->fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (t->fd >= 0)
            return SS_OK;
        if (errno != EEXIST)
            break;
    }
    return ss_fail(SS_ERR_IO,
                   "%s: cannot create the file: %s; name a folder in which files can be created",
                   t->path, strerror(errno));
}

enum ss_status ss_tensorboard_open(const char *dir, struct ss_tensorboard **out)
{
    time_t now = time(NULL);
    SS_TRY(ss_folder_make(dir));
    struct ss_tensorboard *t = calloc(1, sizeof *t);
    if (!t)
        return ss_fail_memory("a TensorBoard file", sizeof *t);
    enum ss_status status = create_file(t, dir, now);
    if (status == SS_OK) {
        status = write_version(t, now);
        if (status == SS_OK) {
            *out = t;
            return SS_OK;
        }
        close(t->fd);
        unlink(t->path);
    }
    free(t);
    return status;
}

enum ss_status ss_tensorboard_scalar(struct ss_tensorboard *t, const char *tag, int64_t step,
                                     double wall_time, double value)
{
    struct message inner = {0}, summary = {0}, event = {0};
    size_t length = strlen(tag);
    if (t->status != SS_OK)
        return t->status;
    if (length == 0 || length > SS_TENSORBOARD_TAG)
        return ss_fail(SS_ERR_INVALID, "%s: tag '%.80s' has %zu bytes; 1 to %d fit", t->path, tag,
                       length, SS_TENSORBOARD_TAG);
    put_bytes(&inner, VALUE_TAG, tag, length);
    put_float(&inner, VALUE_SIMPLE_VALUE, (float)value);
    put_bytes(&summary, SUMMARY_VALUE, inner.bytes, inner.size);
    put_double(&event, EVENT_WALL_TIME, wall_time);
    put_integer(&event, EVENT_STEP, step);
    put_bytes(&event, EVENT_SUMMARY, summary.bytes, summary.size);
    return write_record(t, &event);
}

enum ss_status ss_tensorboard_close(struct ss_tensorboard *t)
{
    if (!t)
        return SS_OK;
    /* Some network file systems report write errors at close. */
    if (close(t->fd) != 0 && t->status == SS_OK)
        t->status = ss_fail(SS_ERR_IO,
                            "%s: cannot write: %s; records at its end may be missing: free space "
                            "there or name another folder",
                            t->path, strerror(errno));
    enum ss_status status = t->status;
    free(t);
    return status;
}
