/* test_data.c: valid and invalid CIFAR files; the sampler's shards on every rank; crop, flip and
 * normalization against a double-precision reference; the generated data set. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/rng.h"
#include "data/augment.h"
#include "data/cifar.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "apps/data/synthetic.h"
#include "tests/data_common.h"

#include <math.h>

enum { RECORD = SS_CIFAR100_RECORD };

/* Returns `count` records: labels cycle through all classes, pixels are random. */
static uint8_t *make_records(size_t count)
{
    uint8_t *r = malloc(count * RECORD + 1);
    ck_assert_ptr_nonnull(r);
    struct ss_rng rng;
    ss_rng_open(&rng, 7, SS_RNG_SYNTHETIC, 0, 0);
    for (size_t i = 0; i < count * RECORD; i++)
        r[i] = (uint8_t)ss_rng_u32(&rng);
    for (size_t i = 0; i < count; i++) {
        r[i * RECORD] = (uint8_t)(i % 20);
        r[i * RECORD + 1] = (uint8_t)((i + 99) % 100);
    }
    return r;
}

static void write_records(const char *name, size_t count, size_t extra)
{
    uint8_t *r = make_records(count + 1);
    write_file(name, r, count * RECORD + extra);
    free(r);
}

static enum ss_status open_train(struct ss_dataset **d)
{
    return ss_dataset_open_cifar(&ss_cifar100, folder, SS_SPLIT_TRAIN, d);
}

START_TEST(reads_records)
{
    struct ss_dataset *d, *e;
    uint8_t *r = make_records(120);
    write_file("train.bin", r, 120 * RECORD);
    ck_assert_int_eq(open_train(&d), SS_OK);
    ck_assert_uint_eq(d->count, 120);
    ck_assert_int_eq(d->classes, 100);
    for (size_t i = 0; i < d->count; i++) {
        ck_assert_int_eq(ss_dataset_label(d, i), r[i * RECORD + 1]);
        ck_assert_mem_eq(ss_dataset_image(d, i), r + i * RECORD + 2, SS_CIFAR_IMAGE);
    }

    /* Equal content has an equal fingerprint; one changed bit gives a different one. */
    uint64_t fingerprint = d->fingerprint;
    mkdir(in_folder("cifar-100-binary"), 0777);
    write_file("cifar-100-binary/test.bin", r, 120 * RECORD);
    ck_assert_int_eq(ss_dataset_open_cifar(&ss_cifar100, folder, SS_SPLIT_TEST, &e), SS_OK);
    ck_assert_uint_eq(e->fingerprint, fingerprint);
    ss_dataset_close(e);
    for (size_t at = 2; at < 120 * RECORD; at += 10007) {
        size_t byte = at % RECORD < 2 ? at + 2 : at;
        r[byte] ^= 0x80;
        write_file("test.bin", r, 120 * RECORD);
        ck_assert_int_eq(ss_dataset_open_cifar(&ss_cifar100, folder, SS_SPLIT_TEST, &e), SS_OK);
        ck_assert_uint_ne(e->fingerprint, fingerprint);
        ss_dataset_close(e);
        r[byte] ^= 0x80;
    }
    ss_dataset_close(d);
    free(r);
}
END_TEST

/* Checks that the data set is the concatenation of all files of a split in their order. */
static void expect_files(const struct ss_dataset *d, int split)
{
    const uint8_t *at = d->records;
    for (const char *const *file = ss_cifar10.files[split]; *file; file++) {
        char name[64];
        size_t size;
        snprintf(name, sizeof name, "ten/%s.bin", *file);
        uint8_t *bytes = read_file(name, &size);
        ck_assert_mem_eq(at, bytes, size);
        for (size_t i = 0; i < size / 3073; i++) {
            const size_t sample = (size_t)(at - d->records) / 3073 + i;
            ck_assert_int_eq(ss_dataset_label(d, sample), bytes[i * 3073]);
            ck_assert_mem_eq(ss_dataset_image(d, sample), bytes + i * 3073 + 1, SS_CIFAR_IMAGE);
        }
        at += size;
        free(bytes);
    }
    ck_assert_ptr_eq(at, d->records + d->count * 3073);
}

START_TEST(cifar10)
{
    static const struct ss_synthetic what = {.train = 103, .test = 21, .classes = 10},
                                     many = {.train = 103, .test = 21, .classes = 11},
                                     few = {.train = 4, .test = 21, .classes = 4};
    static const struct ss_dataset_options options = {.channels = 0};
    struct ss_dataset *d;
    expect_error(ss_synthetic_cifar(&ss_cifar10, in_folder("ten"), &many), SS_ERR_INVALID,
                 "11 classes; give 1 to 10");
    expect_error(ss_synthetic_cifar(&ss_cifar10, in_folder("ten"), &few), SS_ERR_INVALID,
                 "4 training and 21 test samples; give 5 to");
    ck_assert_int_eq(ss_synthetic_cifar(&ss_cifar10, in_folder("ten"), &what), SS_OK);
    ck_assert_int_eq(count_files("ten"), 6);
    for (int split = 0; split < 2; split++) {
        ck_assert_int_eq(ss_dataset_open(in_folder("ten"), (enum ss_split)split, &options, &d),
                         SS_OK);
        ck_assert_str_eq(d->name, "cifar10");
        ck_assert_int_eq(d->classes, 10);
        ck_assert_uint_eq(d->count, split ? 21 : 103);
        ck_assert_float_eq(d->mean[0], 0.4914f);
        expect_files(d, split);
        ss_dataset_close(d);
    }
    rename(in_folder("ten"), in_folder("cifar-10-batches-bin"));
    ck_assert_int_eq(ss_dataset_open(folder, SS_SPLIT_TRAIN, &options, &d), SS_OK);
    ss_dataset_close(d);
    mkdir(in_folder("cifar-100-python"), 0777);
    ck_assert_int_eq(ss_dataset_open(folder, SS_SPLIT_TRAIN, &options, &d), SS_OK);
    ss_dataset_close(d);
    write_records("train.bin", 1, 0);
    expect_error(ss_dataset_open(folder, SS_SPLIT_TRAIN, &options, &d), SS_ERR_INVALID,
                 "contains both CIFAR-10 and CIFAR-100");
    unlink(in_folder("train.bin"));

    size_t size;
    uint8_t *bytes = read_file("cifar-10-batches-bin/data_batch_4.bin", &size);
    bytes[3073] = 10;
    write_file("cifar-10-batches-bin/data_batch_4.bin", bytes, size);
    free(bytes);
    expect_error(ss_dataset_open(folder, SS_SPLIT_TRAIN, &options, &d), SS_ERR_FORMAT,
                 "data_batch_4.bin: record 2 (the first is 1; at byte 3073): label 10; it must be "
                 "below 10; the file is damaged or not CIFAR-10's");
    unlink(in_folder("cifar-10-batches-bin/data_batch_3.bin"));
    expect_error(ss_dataset_open(folder, SS_SPLIT_TRAIN, &options, &d), SS_ERR_IO,
                 "/data_batch_3.bin: missing; CIFAR-10's binary version is data_batch_1.bin");
    rename(in_folder("cifar-10-batches-bin"), in_folder("other"));
    rmdir(in_folder("cifar-100-python"));
    mkdir(in_folder("cifar-10-batches-py"), 0777);
    expect_error(ss_dataset_open(folder, SS_SPLIT_TRAIN, &options, &d), SS_ERR_IO,
                 "starstep data convert cifar10 --from /tmp/");
}
END_TEST

START_TEST(missing)
{
    struct ss_dataset *d = NULL;
    expect_error(open_train(&d), SS_ERR_IO, "train.bin: missing");
    expect_error(open_train(&d), SS_ERR_IO, "starstep data fetch cifar100");
    expect_error(ss_dataset_open_cifar(&ss_cifar100, "/nonexistent/x", SS_SPLIT_TEST, &d),
                 SS_ERR_IO, "No such file");
    write_file("file", "x", 1);
    expect_error(ss_dataset_open_cifar(&ss_cifar100, in_folder("file"), SS_SPLIT_TEST, &d),
                 SS_ERR_IO, "is not a folder");
    char long_name[6000];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    expect_error(ss_dataset_open_cifar(&ss_cifar100, long_name, SS_SPLIT_TEST, &d), SS_ERR_INVALID,
                 "too long");
    ck_assert_ptr_null(d);
}
END_TEST

START_TEST(python_version)
{
    struct ss_dataset *d = NULL;
    mkdir(in_folder("cifar-100-python"), 0777);
    expect_error(open_train(&d), SS_ERR_IO, "starstep data convert cifar100 --from /tmp/");
    rmdir(in_folder("cifar-100-python"));
    write_file("train", "x", 1);
    write_file("test", "x", 1);
    write_file("meta", "x", 1);
    expect_error(open_train(&d), SS_ERR_IO, "starstep data convert cifar100 --from /tmp/");
}
END_TEST

START_TEST(wrong_size)
{
    struct ss_dataset *d = NULL;
    write_records("train.bin", 0, 0);
    expect_error(open_train(&d), SS_ERR_FORMAT, "the file is empty");
    write_records("train.bin", 0, 1);
    expect_error(open_train(&d), SS_ERR_FORMAT, "1 bytes left over after record 0");
    write_records("train.bin", 120, RECORD - 1);
    expect_error(open_train(&d), SS_ERR_FORMAT,
                 "train.bin: 3073 bytes left over after record 120; a record is 3074 bytes");
    write_records("train.bin", 2, 1);
    expect_error(open_train(&d), SS_ERR_FORMAT, "1 bytes left over after record 2");
}
END_TEST

START_TEST(wrong_label)
{
    struct ss_dataset *d = NULL;
    uint8_t *r = make_records(10);
    r[4 * RECORD + 1] = 100;
    write_file("train.bin", r, 10 * RECORD);
    expect_error(open_train(&d), SS_ERR_FORMAT,
                 "record 5 (the first is 1; at byte 12296): fine label 100; it must be below 100");
    r[4 * RECORD + 1] = 99;
    r[9 * RECORD] = 20;
    write_file("train.bin", r, 10 * RECORD);
    expect_error(open_train(&d), SS_ERR_FORMAT, "record 10 ");
    expect_error(open_train(&d), SS_ERR_FORMAT, "coarse label 20; it must be below 20");
    free(r);
}
END_TEST

START_TEST(not_a_file)
{
    struct ss_dataset *d = NULL;
    mkdir(in_folder("train.bin"), 0777);
    expect_error(open_train(&d), SS_ERR_IO, "train.bin: is a folder");
    rmdir(in_folder("train.bin"));
    ck_assert_int_eq(mkfifo(in_folder("train.bin"), 0666), 0);
    expect_error(open_train(&d), SS_ERR_IO, "train.bin: is not a regular file");
    unlink(in_folder("train.bin"));
    if (geteuid() != 0) { /* root ignores the mode */
        write_records("train.bin", 1, 0);
        chmod(in_folder("train.bin"), 0);
        expect_error(open_train(&d), SS_ERR_IO, "train.bin: cannot open: Permission denied");
    }
}
END_TEST

/* Returns one output value as torchvision's RandomHorizontalFlip and RandomCrop(padding) define it,
 * in double precision. */
static double reference(const struct ss_dataset *d, const uint8_t *image, struct ss_crop_flip how,
                        int padding, int c, int y, int x)
{
    int sy = y + how.dy - padding, sx = x + how.dx - padding;
    double v = 0;
    if (sy >= 0 && sy < d->height && sx >= 0 && sx < d->width) {
        if (how.flip)
            sx = d->width - 1 - sx;
        v = image[(c * d->height + sy) * d->width + sx] / 255.0;
    }
    return (v - (double)d->mean[c]) / (double)d->std[c];
}

START_TEST(augment_against_double)
{
    struct ss_dataset *d;
    static float out[SS_CIFAR_IMAGE];
    write_records("train.bin", 3, 0);
    ck_assert_int_eq(open_train(&d), SS_OK);
    static const int paddings[] = {0, 1, 4, 40};
    for (int p = 0; p < 4; p++)
        for (uint32_t sample = 0; sample < 300; sample++) {
            int padding = paddings[p];
            struct ss_crop_flip how = ss_augment_draw(3, sample % 7, sample, padding);
            if (sample < 2)
                how = (struct ss_crop_flip){2 * padding, 0, (int)sample};
            const uint8_t *image = ss_dataset_image(d, sample % 3);
            ss_augment_apply(d, image, how, padding, out);
            for (int c = 0, i = 0; c < 3; c++)
                for (int y = 0; y < 32; y++)
                    for (int x = 0; x < 32; x++, i++) {
                        double want = reference(d, image, how, padding, c, y, x);
                        if (fabs((double)out[i] - want) < 1e-6)
                            continue;
                        ck_abort_msg("padding %d, crop %d,%d flip %d, at %d,%d,%d: %g, not %g",
                                     padding, how.dy, how.dx, how.flip, c, y, x, (double)out[i],
                                     want);
                    }
        }
    ss_dataset_close(d);
}
END_TEST

START_TEST(augment_identity)
{
    struct ss_dataset *d;
    static float out[SS_CIFAR_IMAGE];
    write_records("train.bin", 1, 0);
    ck_assert_int_eq(open_train(&d), SS_OK);
    const uint8_t *image = ss_dataset_image(d, 0);
    ss_augment_apply(d, image, (struct ss_crop_flip){4, 4, 0}, 4, out);
    /* Bit-identical to torchvision, which divides by 255, subtracts and divides in FP32. */
    for (int i = 0; i < SS_CIFAR_IMAGE; i++) {
        volatile float scaled = (float)image[i] / 255.0f;
        volatile float centred = scaled - d->mean[i / 1024];
        if (out[i] != centred / d->std[i / 1024])
            ck_abort_msg("pixel %d: %g", i, (double)out[i]);
    }
    ss_dataset_close(d);
}
END_TEST

START_TEST(draw_distribution)
{
    enum { DRAWS = 81000 };
    int dy[9] = {0}, dx[9] = {0}, flip = 0, same = 0, both[9][9] = {{0}};
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct ss_crop_flip a = ss_augment_draw(11, 2, i, 4), b = ss_augment_draw(11, 2, i, 4);
        struct ss_crop_flip next = ss_augment_draw(11, 3, i, 4);
        if (a.dy != b.dy || a.dx != b.dx || a.flip != b.flip || a.dy < 0 || a.dy > 8 || a.dx < 0 ||
            a.dx > 8)
            ck_abort_msg("sample %u: %d,%d", i, a.dy, a.dx);
        dy[a.dy]++;
        dx[a.dx]++;
        both[a.dy][a.dx]++;
        flip += a.flip;
        same += a.dy == next.dy && a.dx == next.dx && a.flip == next.flip;
    }
    /* Expected 9000 +- 89 (one sigma), 1000 +- 31, half +- 142, 1/162 +- 22; the tolerance is five
 * sigma. */
    for (int i = 0; i < 9; i++) {
        ck_assert_int_lt(abs(dy[i] - 9000), 450);
        ck_assert_int_lt(abs(dx[i] - 9000), 450);
        for (int j = 0; j < 9; j++)
            ck_assert_int_lt(abs(both[i][j] - 1000), 160);
    }
    ck_assert_int_lt(abs(flip - DRAWS / 2), 720);
    ck_assert_int_lt(abs(same - DRAWS / 162), 115);
}
END_TEST

/* Checks over all ranks that shards are disjoint and in range and that step counts are equal.
 * Returns the number of samples read. */
static size_t check_epoch(size_t count, int world, size_t batch, int shuffle,
                          enum ss_sampler_end end, uint32_t epoch)
{
    uint8_t *seen = calloc(count, 1);
    ck_assert_ptr_nonnull(seen);
    size_t total = 0, steps = 0, shard = 0;
    for (int rank = 0; rank < world; rank++) {
        struct ss_sampler s;
        ck_assert_int_eq(ss_sampler_open(&s, count, rank, world, batch, shuffle, end, 5), SS_OK);
        ss_sampler_set_epoch(&s, epoch);
        if (rank == 0) {
            steps = s.steps;
            shard = s.shard;
        }
        ck_assert_uint_eq(s.steps, steps);
        ck_assert(s.shard == shard || (end == SS_END_EVERY && s.shard + 1 == shard));
        size_t mine = 0;
        for (size_t step = 0; step < s.steps; step++)
            for (size_t k = 0; k < batch; k++) {
                size_t i = ss_sampler_index(&s, step, k);
                if (i == SIZE_MAX && end != SS_END_DROP && step == s.steps - 1)
                    continue;
                /* Plain conditions: Check's assertions are slow, and these run a million times. */
                if (i >= count || seen[i])
                    ck_abort_msg("sample %zu of %zu is outside or read twice", i, count);
                if (!shuffle && i != (size_t)rank + (step * batch + k) * (size_t)world)
                    ck_abort_msg("rank %d, step %zu, sample %zu: reads %zu", rank, step, k, i);
                seen[i] = 1;
                mine++;
            }
        ck_assert_uint_eq(mine, s.shard);
        ck_assert_uint_eq(ss_sampler_read(&s, s.steps), mine);
        total += mine;
        ss_sampler_close(&s);
    }
    free(seen);
    return total;
}

START_TEST(sampler_covers)
{
    static const size_t counts[] = {1, 2, 7, 64, 97, 1000};
    for (int c = 0; c < 6; c++)
        for (int world = 1; world <= 8; world++)
            for (size_t batch = 1; batch <= 33; batch += 8)
                for (int shuffle = 0; shuffle <= 1; shuffle++) {
                    size_t n = counts[c], step = batch * (size_t)world;
                    ck_assert_uint_eq(check_epoch(n, world, batch, shuffle, SS_END_EVERY, 3), n);
                    if (n >= step)
                        ck_assert_uint_eq(check_epoch(n, world, batch, shuffle, SS_END_DROP, 3),
                                          n / step * step);
                    if (n >= (size_t)world)
                        ck_assert_uint_eq(check_epoch(n, world, batch, shuffle, SS_END_KEEP, 3),
                                          n / (size_t)world * (size_t)world);
                }
}
END_TEST

START_TEST(sampler_order)
{
    enum { COUNT = 1000 };
    struct ss_sampler a, b;
    ck_assert_int_eq(ss_sampler_open(&a, COUNT, 0, 1, 10, 1, SS_END_DROP, 42), SS_OK);
    ck_assert_int_eq(ss_sampler_open(&b, COUNT, 1, 4, 5, 1, SS_END_DROP, 42), SS_OK);
    ss_sampler_set_epoch(&b, 9);
    ss_sampler_set_epoch(&a, 1);
    ss_sampler_set_epoch(&b, 1);
    /* Position p goes to rank p mod N, for any number of ranks and any earlier epoch. */
    for (size_t k = 0; k < COUNT / 4; k++) {
        size_t p = 4 * k + 1;
        ck_assert_uint_eq(ss_sampler_index(&b, k / 5, k % 5), ss_sampler_index(&a, p / 10, p % 10));
    }
    int moved = 0, fixed = 0;
    uint32_t first[COUNT];
    memcpy(first, a.order, sizeof first);
    ss_sampler_set_epoch(&a, 2);
    for (uint32_t i = 0; i < COUNT; i++) {
        moved += a.order[i] != first[i];
        fixed += a.order[i] == i;
    }
    ck_assert_int_gt(moved, COUNT - 10);
    ck_assert_int_lt(fixed, 10);
    ss_sampler_close(&a);
    ss_sampler_close(&b);
}
END_TEST

/* A step reads the same samples on any number of ranks with the same global batch, so that a run
 * can resume on another number of ranks in the middle of an epoch. */
START_TEST(sampler_steps)
{
    enum { COUNT = 1003, GLOBAL = 24 };
    const int worlds[] = {1, 2, 3, 4, 24};
    for (size_t w = 1; w < sizeof worlds / sizeof *worlds; w++) {
        size_t batch = GLOBAL / (size_t)worlds[w];
        struct ss_sampler alone;
        ck_assert_int_eq(ss_sampler_open(&alone, COUNT, 0, 1, GLOBAL, 1, SS_END_DROP, 7), SS_OK);
        ss_sampler_set_epoch(&alone, 3);
        for (int rank = 0; rank < worlds[w]; rank++) {
            struct ss_sampler s;
            ck_assert_int_eq(ss_sampler_open(&s, COUNT, rank, worlds[w], batch, 1, SS_END_DROP, 7),
                             SS_OK);
            ss_sampler_set_epoch(&s, 3);
            ck_assert_uint_eq(s.steps, alone.steps);
            for (size_t i = 0; i < s.steps * batch; i++)
                ck_assert_uint_eq(ss_sampler_index(&s, i / batch, i % batch),
                                  ss_sampler_index(&alone, i / batch,
                                                   i % batch * (size_t)worlds[w] + (size_t)rank));
            ss_sampler_close(&s);
        }
        ss_sampler_close(&alone);
    }
}
END_TEST

START_TEST(sampler_refuses)
{
    struct ss_sampler s;
    expect_error(ss_sampler_open(&s, 100, 0, 4, 26, 0, SS_END_DROP, 0), SS_ERR_INVALID,
                 "100 samples do not fill one batch of 26 on each of 4 ranks");
    expect_error(ss_sampler_open(&s, 3, 0, 4, 1, 0, SS_END_DROP, 0), SS_ERR_INVALID, "3 samples");
    expect_error(ss_sampler_open(&s, 100, 0, 4, SIZE_MAX, 0, SS_END_DROP, 0), SS_ERR_INVALID,
                 "100 samples");
    expect_error(ss_sampler_open(&s, 3, 0, 4, 1, 0, SS_END_KEEP, 0), SS_ERR_INVALID,
                 "3 samples are fewer than the 4 ranks");
    expect_error(ss_sampler_open(&s, 100, 4, 4, 1, 0, SS_END_DROP, 0), SS_ERR_INVALID,
                 "rank 4 of 4");
    expect_error(ss_sampler_open(&s, 100, 0, 1, 0, 0, SS_END_EVERY, 0), SS_ERR_INVALID,
                 "batch of 0");
    expect_error(ss_sampler_open(&s, 0, 0, 1, 1, 0, SS_END_EVERY, 0), SS_ERR_INVALID, "0 samples");
    ck_assert_int_eq(ss_sampler_open(&s, 100, 0, 3, SIZE_MAX, 0, SS_END_EVERY, 0), SS_OK);
    ck_assert_uint_eq(s.steps, 1);
    ss_sampler_close(&s);
}
END_TEST

START_TEST(synthetic)
{
    struct ss_synthetic what = {.train = 205, .test = 31, .classes = 10, .seed = 1};
    struct ss_dataset *d;
    ck_assert_int_eq(ss_synthetic_cifar(&ss_cifar100, in_folder("a/b"), &what), SS_OK);
    ck_assert_int_eq(ss_dataset_open_cifar(&ss_cifar100, in_folder("a/b"), SS_SPLIT_TRAIN, &d),
                     SS_OK);
    ck_assert_uint_eq(d->count, 205);
    int count[100] = {0}, in_order = 0;
    for (size_t i = 0; i < d->count; i++) {
        count[ss_dataset_label(d, i)]++;
        in_order += ss_dataset_label(d, i) == (int)i % 10;
    }
    for (int k = 0; k < 10; k++)
        ck_assert_int_eq(count[k], k < 5 ? 21 : 20);
    ck_assert_int_lt(in_order, 60);
    /* Identical on every machine: integer arithmetic only. */
    uint64_t first = d->fingerprint;
    ck_assert_uint_eq(first, 3000594174303173336u);
    ss_dataset_close(d);
    ck_assert_int_eq(count_files("a/b"), 2);

    ck_assert_int_eq(ss_synthetic_cifar(&ss_cifar100, in_folder("c"), &what), SS_OK);
    ck_assert_int_eq(ss_dataset_open_cifar(&ss_cifar100, in_folder("c"), SS_SPLIT_TRAIN, &d),
                     SS_OK);
    ck_assert_uint_eq(d->fingerprint, first);
    ss_dataset_close(d);
    what.seed = 2;
    ck_assert_int_eq(ss_synthetic_cifar(&ss_cifar100, in_folder("c"), &what), SS_OK);
    ck_assert_int_eq(ss_dataset_open_cifar(&ss_cifar100, in_folder("c"), SS_SPLIT_TRAIN, &d),
                     SS_OK);
    ck_assert_uint_ne(d->fingerprint, first);
    ss_dataset_close(d);

    what.classes = 101;
    expect_error(ss_synthetic_cifar(&ss_cifar100, in_folder("d"), &what), SS_ERR_INVALID,
                 "101 classes");
    what.classes = 10;
    what.test = 0;
    expect_error(ss_synthetic_cifar(&ss_cifar100, in_folder("d"), &what), SS_ERR_INVALID,
                 "0 test samples");
    what.test = 1;
    write_file("file", "x", 1);
    expect_error(ss_synthetic_cifar(&ss_cifar100, in_folder("file/d"), &what), SS_ERR_IO, "file");
    ck_assert(!has_file("d"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, reads_records);
    tcase_add_test(tc, cifar10);
    tcase_add_test(tc, missing);
    tcase_add_test(tc, python_version);
    tcase_add_test(tc, wrong_size);
    tcase_add_test(tc, wrong_label);
    tcase_add_test(tc, not_a_file);
    tcase_add_test(tc, augment_against_double);
    tcase_add_test(tc, augment_identity);
    tcase_add_test(tc, draw_distribution);
    tcase_add_test(tc, sampler_covers);
    tcase_add_test(tc, sampler_order);
    tcase_add_test(tc, sampler_steps);
    tcase_add_test(tc, sampler_refuses);
    tcase_add_test(tc, synthetic);
    tcase_set_timeout(tc, 240);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
