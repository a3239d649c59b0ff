/* Reader of TensorBoard event files for tests. It shares no code with src/train/tensorboard.c, so
 * that a mistake in one is not repeated in the other. The sources of the format are listed in
 * tensorboard.h. */
#ifndef SS_TESTS_EVENTS_READER_H
#define SS_TESTS_EVENTS_READER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct events_scalar {
    char tag[512];
    int64_t step;
    double wall_time;
    float value;
};

/* Contents of a file up to the first invalid record. Free with events_free. */
struct events {
    double start; /* wall time of the first record */
    size_t records, count, capacity;
    struct events_scalar *scalars;
    char error[160]; /* "": no error */
};

/* CRC-32C bit by bit, as defined by the polynomial division. */
static inline uint32_t events_crc(const unsigned char *bytes, size_t size)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < 8 * size; i++) {
        uint32_t bit = (crc ^ (uint32_t)bytes[i / 8] >> i % 8) & 1;
        crc = crc >> 1 ^ (bit ? 0x82f63b78 : 0);
    }
    return crc ^ 0xffffffff;
}

/* Little-endian integer of `bytes` bytes. */
static inline uint64_t events_fixed(const unsigned char *at, int bytes)
{
    uint64_t x = 0;
    while (bytes-- > 0)
        x = x << 8 | at[bytes];
    return x;
}

/* Unmask a CRC stored in the file. */
static inline uint32_t events_unmask(const unsigned char *at)
{
    uint32_t turned = (uint32_t)events_fixed(at, 4) - 0xa282ead8;
    return turned << 15 | turned >> 17;
}

/* The unread rest of a message. */
struct events_span {
    const unsigned char *at, *end;
};

/* One field of a message: number holds integers and the bits of floating-point values, body holds
 * fixed-size and length-delimited data. */
struct events_field {
    unsigned id, wire;
    uint64_t number;
    struct events_span body;
};

static inline int events_varint(struct events_span *s, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        unsigned char c = *s->at++;
        *out |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return 1;
    }
    return 0;
}

/* Read the next field. Returns 1, 0 at the end, or -1 if the bytes are not a valid message. */
static inline int events_next_field(struct events_span *s, struct events_field *f)
{
    uint64_t key;
    if (s->at == s->end)
        return 0;
    if (!events_varint(s, &key) || key >> 3 == 0 || key >> 3 > 536870911)
        return -1;
    f->id = (unsigned)(key >> 3);
    f->wire = (unsigned)key & 7;
    if (f->wire == 0)
        return events_varint(s, &f->number) ? 1 : -1;
    size_t left, size = f->wire == 1 ? 8 : 4;
    if (f->wire == 2) {
        if (!events_varint(s, &f->number))
            return -1;
        size = f->number;
    } else if (f->wire != 1 && f->wire != 5) {
        return -1;
    }
    left = (size_t)(s->end - s->at);
    if (size > left)
        return -1;
    f->body = (struct events_span){s->at, s->at + size};
    if (f->wire != 2)
        f->number = events_fixed(s->at, (int)size);
    s->at += size;
    return 1;
}

static inline int events_fail(struct events *e, const char *what)
{
    snprintf(e->error, sizeof e->error, "record %zu: %s", e->records, what);
    return -1;
}

/* Parse a Summary.Value and store it if it is a scalar; skip other values. Returns 0 or -1. */
static inline int events_value(struct events *e, struct events_span s, int64_t step, double wall)
{
    struct events_scalar scalar = {.step = step, .wall_time = wall};
    struct events_field f;
    int more, has_value = 0;
    while ((more = events_next_field(&s, &f)) == 1) {
        size_t size = f.wire == 2 ? (size_t)(f.body.end - f.body.at) : 0;
        if (f.id == 1 && (f.wire != 2 || size >= sizeof scalar.tag))
            return events_fail(e, "tag is not a string, or too long");
        if (f.id == 2 && f.wire != 5)
            return events_fail(e, "simple_value is not a float");
        if (f.id == 1) {
            memcpy(scalar.tag, f.body.at, size);
            scalar.tag[size] = '\0';
        }
        if (f.id == 2) {
            uint32_t bits = (uint32_t)f.number;
            memcpy(&scalar.value, &bits, sizeof bits);
            has_value = 1;
        }
    }
    if (more < 0)
        return events_fail(e, "value is not a message");
    if (!has_value)
        return 0;
    if (e->count == e->capacity) {
        size_t capacity = e->capacity ? 2 * e->capacity : 16;
        struct events_scalar *larger = realloc(e->scalars, capacity * sizeof *larger);
        if (!larger)
            return events_fail(e, "out of memory");
        e->scalars = larger;
        e->capacity = capacity;
    }
    e->scalars[e->count++] = scalar;
    return 0;
}

static inline int events_summary(struct events *e, struct events_span s, int64_t step, double wall)
{
    struct events_field f;
    int more;
    while ((more = events_next_field(&s, &f)) == 1) {
        if (f.id != 1)
            continue;
        if (f.wire != 2)
            return events_fail(e, "value is not a message");
        if (events_value(e, f.body, step, wall) != 0)
            return -1;
    }
    return more < 0 ? events_fail(e, "summary is not a message") : 0;
}

/* Parse an Event. Fields may have any order, so the summary is parsed last. */
static inline int events_event(struct events *e, struct events_span s)
{
    static const char first[] = "brain.Event:2";
    struct events_span summary = {NULL, NULL}, version = {NULL, NULL};
    struct events_field f;
    double wall = 0;
    int64_t step = 0;
    int more;
    while ((more = events_next_field(&s, &f)) == 1) {
        static const unsigned wires[] = {0, 1, 0, 2, 0, 2};
        if ((f.id <= 3 || f.id == 5) && f.wire != wires[f.id])
            return events_fail(e, "field of the wrong type");
        if (f.id == 1)
            memcpy(&wall, &f.number, sizeof wall);
        else if (f.id == 2)
            step = (int64_t)f.number;
        else if (f.id == 3)
            version = f.body;
        else if (f.id == 5)
            summary = f.body;
    }
    if (more < 0)
        return events_fail(e, "not a message");
    if (e->records == 0) {
        size_t size = (size_t)(version.end - version.at);
        e->start = wall;
        if (size != sizeof first - 1 || memcmp(version.at, first, size) != 0)
            return events_fail(e, "version is not brain.Event:2");
    } else if (version.at) {
        return events_fail(e, "duplicate version");
    }
    return summary.at ? events_summary(e, summary, step, wall) : 0;
}

/* Parse a file. Returns 0, or -1 on invalid data: e->error then describes the problem, and e holds
 * the preceding records. */
static inline int events_parse(const unsigned char *bytes, size_t size, struct events *e)
{
    memset(e, 0, sizeof *e);
    if (size == 0)
        return events_fail(e, "missing: the file is empty");
    for (size_t at = 0; at < size; e->records++) {
        const unsigned char *head = bytes + at;
        if (size - at < 12)
            return events_fail(e, "header is truncated");
        if (events_crc(head, 8) != events_unmask(head + 8))
            return events_fail(e, "wrong checksum of the length");
        uint64_t length = events_fixed(head, 8);
        if (length > size - at - 12 || size - at - 12 - length < 4)
            return events_fail(e, "truncated");
        const unsigned char *body = head + 12;
        if (events_crc(body, length) != events_unmask(body + length))
            return events_fail(e, "wrong checksum of the message");
        if (events_event(e, (struct events_span){body, body + length}) != 0)
            return -1;
        at += 16 + length;
    }
    return 0;
}

static inline void events_free(struct events *e)
{
    free(e->scalars);
    e->scalars = NULL;
    e->count = 0;
}

#endif
