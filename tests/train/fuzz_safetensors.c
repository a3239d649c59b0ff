/* fuzz_safetensors.c: fuzzes the safetensors parser for a bounded time.
 *
 * The stand-alone program mutates well-formed files with a fixed seed for SS_FUZZ_SECONDS (default
 * 5); it is most useful in a sanitizer build. With -DSS_LIBFUZZER it is a libFuzzer target. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/clock.h"
#include "core/log.h"
#include "core/rng.h"
#include "tests/fuzz_bytes.h"
#include "train/safetensors.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static volatile unsigned sink;

/* Parse the file, and read every byte of the tensors if it is accepted. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct ss_safetensors *st;
    ss_log_set_quiet(1);
    if (ss_safetensors_parse("fuzz", bytes, size, &st) != SS_OK)
        return 0;
    for (size_t i = 0; i < ss_safetensors_count(st); i++) {
        const struct ss_st_tensor *t = ss_safetensors_get(st, i);
        const uint8_t *data = t->data;
        for (size_t b = 0; b < t->bytes; b++)
            sink += data[b];
        if (ss_safetensors_find(st, t->name) != t)
            abort();
    }
    ss_safetensors_metadata(st, "format");
    ss_safetensors_close(st);
    return 0;
}

#ifndef SS_LIBFUZZER

static const char *const seeds[] = {
    "{}",
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
    ("{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":"
     "[0,8]},\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[8,24]}}  "),
    /* Non-ASCII names, raw and escaped, an empty name, and prefixes of other programs */
    ("{\"\xe5\xb1\xa4:2.gewicht\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]},"
     "\"module._orig_mod.\\u00e9\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]},"
     "\"\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[16,24]},"
     "\"__metadata__\":{\"\\ud83d\\udc08\":\"\xc3\xbc\"}}"),
};
/* Tokens that byte flips hardly ever produce. */
static const char *const words[] = {
    "[",     "]",       "{",     "}",       "\"",   ",", ":",    "-1",     "9223372036854775807",
    "1e999", "\\u0000", "[0,4]", "\"F32\"", "null", "0", "\xff", "\"w\":", "\\ud83d",
    "\xc3",
};
enum { NSEEDS = sizeof seeds / sizeof seeds[0], NWORDS = sizeof words / sizeof words[0] };
enum { CAPACITY = 4096 };

static size_t mutate(struct ss_rng *rng, uint8_t *b, size_t size)
{
    size_t at = ss_rng_below(rng, (uint32_t)size + 1);
    const char *word = words[ss_rng_below(rng, NWORDS)];
    switch (ss_rng_below(rng, 5)) {
    case 0:
        if (at < size)
            b[at] = (uint8_t)(b[at] ^ (1u << ss_rng_below(rng, 8)));
        return size;
    case 1: /* replace a digit */
        if (at < size && b[at] >= '0' && b[at] <= '9')
            b[at] = (uint8_t)('0' + ss_rng_below(rng, 10));
        return size;
    case 2:
        return fuzz_splice(b, size, CAPACITY, at, ss_rng_below(rng, 4), word, strlen(word));
    case 3: /* remove */
        return fuzz_splice(b, size, CAPACITY, at, ss_rng_below(rng, 16), "", 0);
    default:
        return fuzz_copy_piece(rng, b, size, CAPACITY, at);
    }
}

int main(void)
{
    const char *env = getenv("SS_FUZZ_SECONDS");
    double seconds = env ? atof(env) : 5;
    uint32_t runs = 0;
    double start = ss_seconds();
    do {
        struct ss_rng rng;
        static uint8_t b[CAPACITY];
        ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, runs, 0);
        const char *json = seeds[ss_rng_below(&rng, NSEEDS)];
        uint64_t header = strlen(json);
        size_t size = 8 + header + (header > 2 ? 24 : 0);
        memset(b, 0, sizeof b);
        memcpy(b + 8, json, header);
        for (uint32_t m = ss_rng_below(&rng, 6); m > 0 && size > 8; m--)
            size = 8 + mutate(&rng, b + 8, size - 8);
        /* Mostly a valid header length; otherwise the parser would reject almost every input. */
        if (size >= 32 && ss_rng_below(&rng, 4) > 0)
            header = size - 8 - 24;
        if (ss_rng_below(&rng, 16) == 0)
            header = (uint64_t)ss_rng_u32(&rng) << 32;
        memcpy(b, &header, 8);
        /* Allocate exactly this size, so that the sanitizer detects a read past the end. */
        uint8_t *exact = malloc(size);
        if (!exact)
            return EXIT_FAILURE;
        memcpy(exact, b, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
        runs++;
    } while (ss_seconds() - start < seconds);
    printf("%u inputs\n", runs);
    return EXIT_SUCCESS;
}

#endif
