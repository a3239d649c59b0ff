/* Reading TensorBoard's event files, for tests: shares nothing with src/train/tensorboard.c, so
 * that a mistake in the one is not repeated in the other. Format: tensorboard.h
 * names its sources. */
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

/* What a file holds, up to the first thing in it that is broken. Ends with events_free. */
struct events {
    double start; /* wall time of the first record */
    size_t records, count, room;
    struct events_scalar *scalars;
    char error[160]; /* "": all was read */
};

/* One bit at a time, as the definition divides. */
static inline uint32_t events_crc(const unsigned char *bytes, size_t size)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < 8 * size; i++) {
        uint32_t bit = (crc ^ (uint32_t)bytes[i / 8] >> i % 8) & 1;
        crc = crc >> 1 ^ (bit ? 0x82f63b78 : 0);
    }
    return crc ^ 0xffffffff;
}

static inline uint64_t events_fixed(const unsigned char *at, int bytes)
{
    uint64_t x = 0;
    while (bytes-- > 0)
        x = x << 8 | at[bytes];
    return x;
}

/* The file's CRC with the mask taken off. */
static inline uint32_t events_unmask(const unsigned char *at)
{
    uint32_t turned = (uint32_t)events_fixed(at, 4) - 0xa282ead8;
    return turned << 15 | turned >> 17;
}

/* A part of a message that is still to be read. */
struct events_span {
    const unsigned char *at, *end;
};

/* One field of a message: number holds integers and bits of floating-point numbers, body what has a
 * length. */
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

/* 1: a field; 0: the end; -1: not a message. */
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

/* Summary.Value: 0 or -1. One that is not a scalar is passed over. */
static inline int events_value(struct events *e, struct events_span s, int64_t step, double wall)
{
    struct events_scalar scalar = {.step = step, .wall_time = wall};
    struct events_field f;
    int more, has_value = 0;
    while ((more = events_next_field(&s, &f)) == 1) {
        size_t size = f.wire == 2 ? (size_t)(f.body.end - f.body.at) : 0;
        if (f.id == 1 && (f.wire != 2 || size >= sizeof scalar.tag))
            return events_fail(e, "a tag that is not a string, or too long");
        if (f.id == 2 && f.wire != 5)
            return events_fail(e, "a simple_value that is not a float");
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
        return events_fail(e, "a value that is not a message");
    if (!has_value)
        return 0;
    if (e->count == e->room) {
        size_t room = e->room ? 2 * e->room : 16;
        struct events_scalar *larger = realloc(e->scalars, room * sizeof *larger);
        if (!larger)
            return events_fail(e, "out of memory");
        e->scalars = larger;
        e->room = room;
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
            return events_fail(e, "a value that is not a message");
        if (events_value(e, f.body, step, wall) != 0)
            return -1;
    }
    return more < 0 ? events_fail(e, "a summary that is not a message") : 0;
}

/* Fields may come in any order: the summary is read last. */
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
            return events_fail(e, "a field of the wrong type");
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
            return events_fail(e, "is not the version brain.Event:2");
    } else if (version.at) {
        return events_fail(e, "a version, again");
    }
    return summary.at ? events_summary(e, summary, step, wall) : 0;
}

/* 0, or -1 when something is broken: e->error then says what, and e holds what came before. */
static inline int events_parse(const unsigned char *bytes, size_t size, struct events *e)
{
    memset(e, 0, sizeof *e);
    if (size == 0)
        return events_fail(e, "is missing: the file is empty");
    for (size_t at = 0; at < size; e->records++) {
        const unsigned char *head = bytes + at;
        if (size - at < 12)
            return events_fail(e, "its head is cut off");
        if (events_crc(head, 8) != events_unmask(head + 8))
            return events_fail(e, "the checksum of its length is wrong");
        uint64_t length = events_fixed(head, 8);
        if (length > size - at - 12 || size - at - 12 - length < 4)
            return events_fail(e, "is cut off");
        const unsigned char *body = head + 12;
        if (events_crc(body, length) != events_unmask(body + length))
            return events_fail(e, "the checksum of its message is wrong");
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
