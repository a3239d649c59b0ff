/* test_pack_damage.c: damage of a pack is always detected and never causes out-of-bounds reads. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/rng.h"
#include "data/pack_format.h"
#include "tests/data/pack_common.h"

#include <pthread.h>

/* Sets the correct checksums of a pack whose fields were changed. */
static void sign(uint8_t *bytes, size_t size)
{
    struct pack_header *h = (void *)bytes;
    struct pack_trailer *t = (void *)(bytes + size - sizeof *t);
    h->checksum = pack_checksum(h, offsetof(struct pack_header, checksum));
    t->header_checksum = h->checksum;
    if (t->index_offset <= size - sizeof *t)
        t->index_checksum =
            pack_checksum(bytes + t->index_offset, (size - sizeof *t - t->index_offset) / 8 * 8);
    t->checksum = pack_checksum(t, offsetof(struct pack_trailer, checksum));
}

START_TEST(damaged)
{
    must_build("t.pack", SS_SPLIT_TRAIN);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size;
    uint8_t *bytes = read_file("t.pack", &size);
    bytes = realloc(bytes, size + 64);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes + size, 0, 64);
    const size_t ends[] = {0,
                           1,
                           63,
                           64,
                           127,
                           128,
                           size / 2,
                           size - 64,
                           size - 128,
                           size - 1,
                           size + 1,
                           size + 64,
                           size / 64 / 3 * 64};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        write_file("d.pack", bytes, ends[k]);
        expect_unfit("d.pack", f, "damaged: it ");
    }
    /* A valid trailer at the end of a file of another length. */
    memcpy(bytes + size, bytes + size - 64, 64);
    write_file("d.pack", bytes, size + 64);
    expect_unfit("d.pack", f, "damaged: it has ");

    const struct pack_trailer *t = (void *)(bytes + size - sizeof *t);
    for (size_t at = 0; at < size; at++) {
        if (at == sizeof(struct pack_header))
            at = t->index_offset;
        bytes[at] ^= (uint8_t)(1 << at % 8);
        write_file("d.pack", bytes, size);
        expect_unfit("d.pack", f, at >= 8 && at < 12 ? "of another version (" : "damaged: ");
        bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    write_file("d.pack", bytes, size);
    ss_pack_close(must_open("d.pack", f));
    free(bytes);
    ss_imagefolder_close(f);
}
END_TEST

/* The trailer of one pack with the header of another pack of the same files. */
START_TEST(header_of_another)
{
    must_build("t.pack", SS_SPLIT_TRAIN);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size;
    uint8_t *bytes = read_file("t.pack", &size);
    struct pack_header *h = (void *)bytes;
    h->zero[1] = 1;
    h->checksum = pack_checksum(h, offsetof(struct pack_header, checksum));
    write_file("d.pack", bytes, size);
    expect_unfit("d.pack", f, "damaged: the checksum of its end is wrong");
    sign(bytes, size);
    write_file("d.pack", bytes, size);
    ss_pack_close(must_open("d.pack", f));
    free(bytes);
    ss_imagefolder_close(f);
}
END_TEST

/* Inconsistent indexes with correct checksums. */
START_TEST(hostile_index)
{
    must_build("t.pack", SS_SPLIT_TRAIN);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size;
    uint8_t *bytes = read_file("t.pack", &size);
    struct pack_trailer *t = (void *)(bytes + size - sizeof *t);
    struct pack_entry *e = (void *)(bytes + t->index_offset);
    const struct pack_entry good = e[4];
    const uint64_t far = (uint64_t)1 << 63;
    const struct pack_entry bad[] = {
        {good.offset + 64, good.width, good.height, 0},
        {good.offset - 64, good.width, good.height, 0},
        {good.offset | far, good.width, good.height, 0},
        {far, 1, 1, 0},
        {good.offset, 65535, 65535, 0},
        {good.offset, SS_IMAGE_MAX_PIXELS + 1, 1, 0},
        {good.offset, UINT32_MAX, UINT32_MAX, 0},
        {good.offset, 0x80000000u, 0x55555556u, 0},
        {good.offset, good.width, 0, 0},
        {good.offset, good.width, good.height + 64, 0},
        {0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        e[4] = bad[k];
        sign(bytes, size);
        write_file("d.pack", bytes, size);
        expect_unfit("d.pack", f, "damaged: its index is inconsistent");
    }
    e[4] = good;
    for (int more = -32; more <= 32; more += 64) {
        e[TRAIN - 1].height += (uint32_t)more;
        sign(bytes, size);
        write_file("d.pack", bytes, size);
        expect_unfit("d.pack", f, "damaged: its index is inconsistent");
        e[TRAIN - 1].height -= (uint32_t)more;
    }
    t->file_bytes += 64;
    sign(bytes, size);
    write_file("d.pack", bytes, size);
    expect_unfit("d.pack", f, "damaged: it has");
    t->file_bytes -= 64;
    t->corrupt = 1;
    sign(bytes, size);
    write_file("d.pack", bytes, size);
    expect_unfit("d.pack", f, "damaged: its index is inconsistent");
    t->corrupt = 0;
    const uint64_t offset = t->index_offset;
    const uint64_t offsets[] = {0, 64, offset + 64, offset - 64, far, UINT64_MAX};
    for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
        t->index_offset = offsets[k];
        sign(bytes, size);
        write_file("d.pack", bytes, size);
        expect_unfit("d.pack", f, "damaged: it has");
    }
    t->index_offset = offset;
    sign(bytes, size);
    write_file("d.pack", bytes, size);
    ss_pack_close(must_open("d.pack", f));

    ((struct pack_header *)(void *)bytes)->version = 3;
    sign(bytes, size);
    write_file("d.pack", bytes, size);
    expect_unfit("d.pack", f, "of another version (3, not 2)");
    free(bytes);
    ss_imagefolder_close(f);
}
END_TEST

/* A flipped bit in the pixels or in the padding after them: only that image is refused. */
START_TEST(damaged_pixels)
{
    must_build("t.pack", SS_SPLIT_TRAIN);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size;
    uint8_t *bytes = read_file("t.pack", &size);
    const struct pack_trailer *t = (void *)(bytes + size - sizeof *t);
    const struct pack_entry *e = (void *)(bytes + t->index_offset);
    for (size_t i = 0; i < f->count; i++) {
        uint64_t end = i + 1 < f->count ? e[i + 1].offset : t->index_offset;
        for (uint64_t at = e[i].offset; at < end; at += (end - e[i].offset) / 5 + 1) {
            struct ss_pixels pixels = {.rgb = NULL};
            char text[600];
            bytes[at] ^= 1;
            write_file("d.pack", bytes, size);
            bytes[at] ^= 1;
            struct ss_pack *p = must_open("d.pack", f);
            snprintf(text, sizeof text, "%s: the pixels of %s are damaged", in_folder("d.pack"),
                     ss_imagefolder_name(f, i));
            expect_error(ss_pack_pixels(p, i, &pixels), SS_ERR_IO, text);
            expect_error(ss_pack_pixels(p, i, &pixels), SS_ERR_IO, text);
            ck_assert_ptr_null(pixels.rgb);
            ck_assert_int_eq(ss_pack_pixels(p, (i + 1) % f->count, &pixels), SS_OK);
            ss_pack_close(p);
        }
    }
    free(bytes);
    ss_imagefolder_close(f);
}
END_TEST

static unsigned read_all(struct ss_pack *p, size_t count)
{
    unsigned sum = 0;
    struct ss_pixels pixels;
    for (size_t i = 0; i < count; i++)
        if (ss_pack_pixels(p, i, &pixels) == SS_OK)
            for (size_t k = 0; k < pixels.stride * (size_t)pixels.area.height; k++)
                sum += pixels.rgb[k];
    return sum;
}

/* Random bytes at random places, mostly outside of the pixels. Half of the copies have correct
 * checksums; some copies are truncated too. Every accepted pack can be read. */
START_TEST(fuzz)
{
    enum { COPIES = 300 };
    must_build("t.pack", SS_SPLIT_TRAIN);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size, opened = 0, sum = 0;
    uint8_t *good = read_file("t.pack", &size), *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    struct ss_rng rng;
    ss_rng_open(&rng, 1, SS_RNG_SYNTHETIC, 0, 0);
    for (int copy = 0; copy < COPIES; copy++) {
        memcpy(bytes, good, size);
        size_t cut = ss_rng_below(&rng, 4) ? 0 : 64 * ss_rng_below(&rng, 40);
        for (uint32_t k = 1 + ss_rng_below(&rng, 8); k > 0; k--) {
            size_t at = size - cut - 1 - ss_rng_below(&rng, 64 + 256 + 64);
            if (ss_rng_below(&rng, 4) == 0)
                at = ss_rng_below(&rng, 3) ? ss_rng_below(&rng, 64)
                                           : ss_rng_below(&rng, (uint32_t)(size - cut));
            bytes[at] = (uint8_t)ss_rng_u32(&rng);
        }
        if (copy % 2)
            sign(bytes, size - cut);
        write_file("d.pack", bytes, size - cut);
        struct ss_pack *p;
        char why[100];
        ck_assert_int_eq(ss_pack_open(in_folder("d.pack"), f, why, sizeof why, &p), SS_OK);
        if (p) {
            opened++;
            sum += read_all(p, f->count);
            ss_pack_close(p);
        } else
            ck_assert_uint_gt(strlen(why), 0);
    }
    printf("fuzz: %zu of %d copies opened (%zu)\n", opened, COPIES, sum % 7);
    ck_assert_uint_gt(opened, 0);
    ck_assert_uint_lt(opened, COPIES / 2);
    free(good);
    free(bytes);
    ss_imagefolder_close(f);
}
END_TEST

struct reader {
    struct ss_pack *pack;
    size_t count;
    unsigned sum;
};

static void *read_in_thread(void *arg)
{
    struct reader *r = arg;
    for (int k = 0; k < 20; k++)
        r->sum += read_all(r->pack, r->count);
    return NULL;
}

START_TEST(many_readers)
{
    enum { READERS = 4 };
    must_build("t.pack", SS_SPLIT_TRAIN);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    struct ss_pack *p = must_open("t.pack", f);
    struct reader readers[READERS];
    pthread_t threads[READERS];
    for (int k = 0; k < READERS; k++) {
        readers[k] = (struct reader){p, f->count, 0};
        ck_assert_int_eq(pthread_create(&threads[k], NULL, read_in_thread, &readers[k]), 0);
    }
    for (int k = 0; k < READERS; k++)
        ck_assert_int_eq(pthread_join(threads[k], NULL), 0);
    for (int k = 0; k < READERS; k++)
        ck_assert_uint_eq(readers[k].sum, 20 * read_all(p, f->count));
    ck_assert_uint_ne(readers[0].sum, 0);
    ss_pack_close(p);
    ss_imagefolder_close(f);
}
END_TEST

/* The checksum depends on every bit of every word; equal flips in two words do not cancel. */
START_TEST(checksums)
{
    uint64_t words[40] = {0};
    for (size_t n = 0; n < 40; n++) {
        const uint64_t zeros = pack_checksum(words, 8 * n);
        ck_assert_uint_ne(zeros, pack_checksum(words, 8 * n + 8));
        for (size_t i = 0; i < n; i++)
            for (int bit = 0; bit < 64; bit++) {
                words[i] ^= (uint64_t)1 << bit;
                ck_assert_uint_ne(pack_checksum(words, 8 * n), zeros);
                words[(i + 8) % 40] ^= (uint64_t)1 << bit;
                ck_assert_uint_ne(pack_checksum(words, 8 * n), zeros);
                words[(i + 8) % 40] ^= (uint64_t)1 << bit;
                words[i] ^= (uint64_t)1 << bit;
            }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pack damage");
    TCase *tc = tcase_create("pack damage");
    tcase_set_timeout(tc, 240);
    tcase_add_checked_fixture(tc, make_data, remove_folder);
    tcase_add_test(tc, damaged);
    tcase_add_test(tc, header_of_another);
    tcase_add_test(tc, hostile_index);
    tcase_add_test(tc, damaged_pixels);
    tcase_add_test(tc, fuzz);
    tcase_add_test(tc, many_readers);
    tcase_add_test(tc, checksums);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
