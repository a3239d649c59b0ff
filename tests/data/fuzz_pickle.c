/* fuzz_pickle.c: feeds mutated pickles to the restricted reader for a bounded time.
 *
 * The stand-alone program mutates well-formed files with a fixed seed for SS_FUZZ_SECONDS (default
 * 5); run it in a sanitizer build. With -DSS_LIBFUZZER it is a libFuzzer target. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/clock.h"
#include "core/log.h"
#include "core/rng.h"
#include "apps/data/pickle.h"
#include "tests/data/data_pickle.h"
#include "tests/fuzz_bytes.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static volatile unsigned sink;

/* Reads all of a value's data, to a limited depth and count (values may contain themselves). */
static void walk(const struct ss_pickle_value *v, int depth, int *budget)
{
    if (depth == 0 || --*budget < 0)
        return;
    switch (v->type) {
    case SS_PICKLE_BYTES:
    case SS_PICKLE_TEXT:
        for (size_t i = 0; i < v->string.size; i++)
            sink += v->string.bytes[i];
        break;
    case SS_PICKLE_DICT:
        if (v->sequence.count % 2)
            abort();
        ss_pickle_lookup(v, "data");
        __attribute__((fallthrough));
    case SS_PICKLE_LIST:
    case SS_PICKLE_TUPLE:
        for (size_t i = 0; i < v->sequence.count; i++)
            walk(v->sequence.items[i], depth - 1, budget);
        break;
    case SS_PICKLE_ARRAY: {
        size_t total = v->array.dims > 0;
        for (int i = 0; i < v->array.dims; i++)
            total *= v->array.shape[i];
        if (total != v->array.size)
            abort();
        for (size_t i = 0; i < v->array.size; i++)
            sink += v->array.bytes[i];
        break;
    }
    case SS_PICKLE_NONE:
    case SS_PICKLE_BOOL:
    case SS_PICKLE_INT:
    case SS_PICKLE_FLOAT:
    case SS_PICKLE_GLOBAL:
    case SS_PICKLE_DTYPE:
        sink += (unsigned)v->integer;
    }
}

/* Returns 1 if the pickle is accepted. */
static int parse(const uint8_t *bytes, size_t size)
{
    struct ss_pickle *p;
    ss_log_set_quiet(1);
    if (ss_pickle_parse("fuzz", bytes, size, &p) != SS_OK)
        return 0;
    int budget = 10000;
    walk(ss_pickle_root(p), 20, &budget);
    ss_pickle_close(p);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    parse(bytes, size);
    return 0;
}

#ifndef SS_LIBFUZZER

enum { CAPACITY = 4096, SEEDS = 5 };

static struct pickle_bytes make_seed(int which)
{
    static const char encoded[] = "\x80\x02](c_codecs\nencode\nX\4\0\0\0\xc3\xbf\xc2\x80X\6\0\0\0"
                                  "latin1\x86Rc__builtin__\nbytes\n)RG?\xf8\0\0\0\0\0\0\x8a\2\0\xff"
                                  "N\x88\x89(K\1M\2\3t)\x85\x86\x87"
                                  "02e}U\1aK\1sr\7\0\0\0"
                                  "0j\7\0\0\0a.";
    struct pickle_how how = pickle_defaults(4);
    how.width = 6;
    how.python3 = which & 1;
    if (which < 4)
        return make_pickle(&how);
    struct pickle_bytes p = {0};
    put(&p, encoded, sizeof encoded - 1);
    return p;
}

static size_t mutate(struct ss_rng *rng, uint8_t *b, size_t size)
{
    static const char opcodes[] = "(.012BCGJKMNRTUX]abcehjqrstu})\x80\x85\x86\x87\x88\x89\x8a\x8b"
                                  "\x8c\x8d\x8e\x93\x94\x95";
    uint8_t piece[64];
    size_t at = ss_rng_below(rng, (uint32_t)size + 1);
    switch (ss_rng_below(rng, 6)) {
    case 0: /* flip a bit */
        if (at < size)
            b[at] ^= (uint8_t)(1u << ss_rng_below(rng, 8));
        return size;
    case 1: /* set a byte to 0 or 255 */
        if (at < size)
            b[at] = ss_rng_below(rng, 2) ? 0xFF : 0;
        return size;
    case 2: /* insert an opcode or replace a byte by one */
        piece[0] = (uint8_t)opcodes[ss_rng_below(rng, sizeof opcodes - 1)];
        return fuzz_splice(b, size, CAPACITY, at, ss_rng_below(rng, 2), piece, 1);
    case 3: /* remove */
        return fuzz_splice(b, size, CAPACITY, at, ss_rng_below(rng, 16), "", 0);
    case 4: /* truncate */
        return ss_rng_below(rng, 8) ? size : at;
    default:
        return fuzz_copy_piece(rng, b, size, CAPACITY, at);
    }
}

int main(void)
{
    const char *env = getenv("SS_FUZZ_SECONDS");
    double seconds = env ? atof(env) : 5;
    uint32_t runs = 0, accepted = 0;
    struct pickle_bytes seeds[SEEDS];
    for (int i = 0; i < SEEDS; i++) {
        seeds[i] = make_seed(i);
        if (!parse(seeds[i].bytes, seeds[i].size)) {
            printf("seed %d is well-formed but was refused\n", i);
            return EXIT_FAILURE;
        }
    }
    double start = ss_seconds();
    do {
        struct ss_rng rng;
        static uint8_t b[CAPACITY];
        ss_rng_open(&rng, 2, SS_RNG_SYNTHETIC, runs, 0);
        const struct pickle_bytes *seed = &seeds[ss_rng_below(&rng, SEEDS)];
        size_t size = seed->size;
        memcpy(b, seed->bytes, size);
        for (uint32_t m = ss_rng_below(&rng, 5); m > 0; m--)
            size = mutate(&rng, b, size);
        /* A block of exactly this size lets the sanitizer detect reads past the end. */
        uint8_t *exact = malloc(size ? size : 1);
        if (!exact)
            return EXIT_FAILURE;
        memcpy(exact, b, size);
        accepted += (uint32_t)parse(exact, size);
        free(exact);
        runs++;
    } while (ss_seconds() - start < seconds);
    for (int i = 0; i < SEEDS; i++)
        free(seeds[i].bytes);
    printf("%u inputs, %u accepted\n", runs, accepted);
    return EXIT_SUCCESS;
}

#endif
