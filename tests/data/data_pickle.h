/* Builds pickles byte by byte, as Python 2's cPickle writes CIFAR-100 (protocol 2) and as Python 3
 * does (protocol 4), for tests and as seeds of the fuzzer. */
#ifndef SS_TESTS_DATA_PICKLE_H
#define SS_TESTS_DATA_PICKLE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct pickle_bytes {
    uint8_t *bytes;
    size_t size, capacity;
};

/* Content of the pickle; pickle_defaults() gives a valid file. */
struct pickle_how {
    int python3;           /* protocol 4 instead of Python 2's protocol 2 */
    size_t samples, width; /* shape of "data" */
    int ten;               /* CIFAR-10: one list of labels */
    size_t fine, coarse;   /* lengths of the label lists */
    int bad_label;         /* value of fine label 3, or -1 */
    const char *data_key, *dtype;
};

static inline struct pickle_how pickle_defaults(size_t samples)
{
    struct pickle_how how = {.samples = samples,
                             .width = 3072,
                             .fine = samples,
                             .coarse = samples,
                             .bad_label = -1,
                             .data_key = "data",
                             .dtype = "u1"};
    return how;
}

static inline void put(struct pickle_bytes *p, const void *bytes, size_t n)
{
    if (p->size + n > p->capacity) {
        p->capacity = 2 * (p->size + n);
        p->bytes = realloc(p->bytes, p->capacity);
        if (!p->bytes)
            abort();
    }
    if (n)
        memcpy(p->bytes + p->size, bytes, n);
    p->size += n;
}

static inline void put_text(struct pickle_bytes *p, const char *text)
{
    put(p, text, strlen(text));
}

static inline void put_number(struct pickle_bytes *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++, v >>= 8) {
        uint8_t b = (uint8_t)v;
        put(p, &b, 1);
    }
}

static inline void put_opcode(struct pickle_bytes *p, int opcode, uint64_t v, int bytes)
{
    put_number(p, (uint64_t)opcode, 1);
    put_number(p, v, bytes);
}

/* Memoizes every value, used or not, as the picklers do. */
static inline void put_memo(struct pickle_bytes *p, const struct pickle_how *how, int *memo)
{
    if (how->python3)
        put_text(p, "\x94");
    else
        put_opcode(p, 'q', (uint64_t)++ * memo, 1);
}

static inline void put_string(struct pickle_bytes *p, const struct pickle_how *how, int *memo,
                              const char *text)
{
    put_opcode(p, how->python3 ? 0x8C : 'U', strlen(text), 1);
    put_text(p, text);
    put_memo(p, how, memo);
}

static inline void put_global(struct pickle_bytes *p, const struct pickle_how *how, int *memo,
                              const char *module, const char *name)
{
    if (how->python3) {
        put_string(p, how, memo, module);
        put_string(p, how, memo, name);
        put_text(p, "\x93");
    } else {
        put_text(p, "c");
        put_text(p, module);
        put_text(p, "\n");
        put_text(p, name);
        put_text(p, "\n");
    }
    put_memo(p, how, memo);
}

static inline void put_labels(struct pickle_bytes *p, const struct pickle_how *how, int *memo,
                              const char *key, size_t count, int limit)
{
    put_string(p, how, memo, key);
    put_text(p, "]");
    put_memo(p, how, memo);
    put_text(p, "(");
    for (size_t i = 0; i < count; i++)
        if (i == 3 && limit == 100 && how->bad_label >= 0)
            put_opcode(p, 'J', (uint64_t)how->bad_label, 4);
        else
            put_opcode(p, 'K', (i * 7 + 1) % (size_t)limit, 1);
    put_text(p, "e");
}

/* Pixel j of sample i. */
static inline uint8_t pickle_pixel(size_t i, size_t j)
{
    return (uint8_t)(i * 31 + j * 7 + j / 256);
}

static inline void put_array(struct pickle_bytes *p, const struct pickle_how *how, int *memo)
{
    put_global(p, how, memo, "numpy.core.multiarray", "_reconstruct");
    put_global(p, how, memo, "numpy", "ndarray");
    put_text(p, "K");
    put_number(p, 0, 1);
    put_text(p, "\x85");
    put_memo(p, how, memo);
    put_opcode(p, how->python3 ? 'C' : 'U', 1, 1);
    put_text(p, "b");
    put_memo(p, how, memo);
    put_text(p, "\x87");
    put_memo(p, how, memo);
    put_text(p, "R");
    put_memo(p, how, memo);
    put_text(p, "(K\x01");
    put_opcode(p, 'M', how->samples, 2);
    put_opcode(p, 'M', how->width, 2);
    put_text(p, "\x86");
    put_memo(p, how, memo);
    put_global(p, how, memo, "numpy", "dtype");
    put_string(p, how, memo, how->dtype);
    if (how->python3) {
        put_text(p, "\x89\x88\x87");
    } else {
        put_opcode(p, 'K', 0, 1);
        put_text(p, "K\x01\x87");
    }
    put_memo(p, how, memo);
    put_text(p, "R");
    put_memo(p, how, memo);
    put_text(p, "(K\x03");
    put_string(p, how, memo, "|");
    put_text(p, "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff");
    put_opcode(p, 'K', 0, 1);
    put_text(p, "t");
    put_memo(p, how, memo);
    put_text(p, "b\x89");
    put_opcode(p, how->python3 ? 'B' : 'T', how->samples * how->width, 4);
    for (size_t i = 0; i < how->samples; i++)
        for (size_t j = 0; j < how->width; j++)
            put_number(p, pickle_pixel(i, j), 1);
    put_memo(p, how, memo);
    put_text(p, "t");
    put_memo(p, how, memo);
    put_text(p, "b");
}

/* The caller frees .bytes. */
static inline struct pickle_bytes make_pickle(const struct pickle_how *how)
{
    struct pickle_bytes p = {0};
    int memo = 0;
    put_text(&p, how->python3 ? "\x80\x04" : "\x80\x02");
    if (how->python3)
        put_opcode(&p, 0x95, 0, 8); /* FRAME; its length is set below */
    put_text(&p, "}");
    put_memo(&p, how, &memo);
    put_text(&p, "(");
    put_string(&p, how, &memo, "filenames");
    put_text(&p, "](");
    put_string(&p, how, &memo, "a.png");
    put_string(&p, how, &memo, "b.png");
    put_text(&p, "e");
    put_string(&p, how, &memo, "batch_label");
    put_string(&p, how, &memo, "training batch 1 of 1");
    put_labels(&p, how, &memo, how->ten ? "labels" : "fine_labels", how->fine, how->ten ? 10 : 100);
    if (!how->ten)
        put_labels(&p, how, &memo, "coarse_labels", how->coarse, 20);
    put_string(&p, how, &memo, how->data_key);
    put_array(&p, how, &memo);
    put_text(&p, "u.");
    if (how->python3) {
        uint64_t n = p.size - 11;
        for (int i = 0; i < 8; i++)
            p.bytes[3 + i] = (uint8_t)(n >> (8 * i));
    }
    return p;
}

#endif
