/* test_pack.c: a pack gives what the decoder gives, its bytes do not depend on how it was built, it
 * is built again when the folder changed, and no damage of it goes unnoticed. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "data_images.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "core/folder.h"
#include "core/rng.h"
#include "data/imagefolder.h"
#include "data/pack.h"
#include "data/pack_format.h"

/* In the folder's order: names, and the reference pictures that they are copies of. */
static const char *const train_files[][2] = {
    {"a/0.jpg", "c420.jpg"}, {"a/1.jpg", "grey.jpg"},        {"a/2.jpg", "pixel.jpg"},
    {"a/3.jpg", "cmyk.jpg"}, {"a/4.jpg", "progressive.jpg"}, {"b/0.jpg", "large.jpg"},
    {"b/1.jpg", "ycck.jpg"}, {"b/2.jpg", "rotated.jpg"},     {"b/3.jpg", "c444.jpg"},
};
static const char *const val_files[][2] = {{"a/0.jpg", "c422.jpg"}, {"b/0.jpg", "pixel.jpg"}};
enum { TRAIN = sizeof train_files / sizeof *train_files, VAL = 2, OTHER_ORDER = 7 };

static void put_copy(const char *split, const char *const file[2])
{
    char name[64];
    struct bytes b = read_reference(file[1]);
    snprintf(name, sizeof name, "%s/%s", split, file[0]);
    write_file(name, b.at, b.size);
    free(b.at);
}

static void make_data(void)
{
    make_folder();
    static const char *const folders[] = {"train/a", "train/b", "val/a", "val/b"};
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(ss_folder_make(in_folder(folders[i])), SS_OK);
    for (size_t i = 0; i < TRAIN; i++)
        put_copy("train", train_files[i]);
    for (size_t i = 0; i < VAL; i++)
        put_copy("val", val_files[i]);
}

static struct ss_imagefolder *list(enum ss_split split)
{
    struct ss_imagefolder *f;
    ck_assert_msg(ss_imagefolder_open(folder, split, &f) == SS_OK, "%s", ss_log_last_error());
    return f;
}

static enum ss_status build(const char *name, const struct ss_imagefolder *f, int threads,
                            double portion, int skip_corrupt)
{
    struct ss_pack_builder *b;
    SS_TRY(ss_pack_begin(in_folder(name), f, threads, skip_corrupt, &b));
    for (size_t done = 0, before = 0; done < f->count; before = done) {
        enum ss_status status = ss_pack_continue(b, portion, &done);
        if (status != SS_OK) {
            ss_pack_abort(b);
            return status;
        }
        ck_assert_uint_gt(done, before);
    }
    return ss_pack_commit(b);
}

static void must_build(const char *name, enum ss_split split)
{
    struct ss_imagefolder *f = list(split);
    ck_assert_msg(build(name, f, 2, 9, 0) == SS_OK, "%s", ss_log_last_error());
    ss_imagefolder_close(f);
}

static struct ss_pack *must_open(const char *name, const struct ss_imagefolder *f)
{
    struct ss_pack *p = NULL;
    char why[200];
    ck_assert_int_eq(ss_pack_open(in_folder(name), f, why, sizeof why, &p), SS_OK);
    ck_assert_msg(p != NULL, "%s", why);
    ck_assert_str_eq(why, "");
    return p;
}

/* It does not fit, for a reason that holds `text`. */
static void expect_unfit(const char *name, const struct ss_imagefolder *f, const char *text)
{
    struct ss_pack *p = (void *)folder; /* must be set */
    char why[200];
    ck_assert_int_eq(ss_pack_open(in_folder(name), f, why, sizeof why, &p), SS_OK);
    ck_assert_msg(p == NULL, "opened, and should be \"%s\"", text);
    ck_assert_msg(strstr(why, text) != NULL && (*text || !*why), "\"%s\" lacks \"%s\"", why, text);
}

/* Picture i is what the decoder makes of the reference picture. */
static void expect_picture(struct ss_pack *p, size_t i, struct ss_jpeg *j, const char *reference)
{
    struct ss_jpeg_pixels got;
    struct picture want = decode_reference(j, reference);
    ck_assert_msg(ss_pack_pixels(p, i, &got) == SS_OK, "%s", ss_log_last_error());
    ck_assert_int_eq(got.area.x, 0);
    ck_assert_int_eq(got.area.y, 0);
    ck_assert_int_eq(got.area.width, want.width);
    ck_assert_int_eq(got.area.height, want.height);
    ck_assert_int_eq(got.scale, 1);
    ck_assert_uint_eq(got.stride, 3 * (size_t)want.width);
    ck_assert_uint_eq((uintptr_t)got.rgb % 64, 0);
    const size_t size = got.stride * (size_t)want.height;
    ck_assert_mem_eq(got.rgb, want.rgb, size);
    for (size_t k = size; k % 64 != 0; k++)
        ck_assert_uint_eq(got.rgb[k], 0);
    free(want.rgb);
}

START_TEST(round_trip)
{
    struct ss_jpeg *j;
    char path[600];
    ck_assert_int_eq(ss_jpeg_open(&j), SS_OK);
    for (int split = SS_SPLIT_TRAIN; split <= SS_SPLIT_TEST; split++) {
        const char *const(*files)[2] = split == SS_SPLIT_TRAIN ? train_files : val_files;
        struct ss_imagefolder *f = list((enum ss_split)split);
        ck_assert_uint_eq(f->count, split == SS_SPLIT_TRAIN ? TRAIN : VAL);
        ck_assert_int_eq(
            ss_pack_path(path, sizeof path, in_folder("cache/deep"), (enum ss_split)split), SS_OK);
        const char *name = path + strlen(folder) + 1;
        ck_assert_str_eq(name,
                         split == SS_SPLIT_TRAIN ? "cache/deep/train.pack" : "cache/deep/val.pack");
        expect_unfit(name, f, "");
        ck_assert_int_eq(build(name, f, 3, 9, 0), SS_OK);
        struct ss_pack *p = must_open(name, f);
        struct stat st;
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(ss_pack_bytes(p), (size_t)st.st_size);
        ck_assert_uint_eq(ss_pack_corrupt(p), 0);
        for (size_t k = 0; k < 2 * f->count; k++)
            expect_picture(p, k * OTHER_ORDER % f->count, j, files[k * OTHER_ORDER % f->count][1]);
        ss_pack_close(p);
        ss_imagefolder_close(f);
    }
    ck_assert_int_eq(count_files("cache/deep"), 2);
    ss_jpeg_close(j);
}
END_TEST

/* The bytes depend on the folder alone. */
START_TEST(same_bytes)
{
    static const struct {
        int threads;
        double portion;
    } ways[] = {{1, 9}, {4, 9}, {4, 0}, {1, 0}, {0, 0.001}, {33, 9}};
    write_file("train/a/1.jpg", "\xff\xd8 no", 5);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size, other;
    uint8_t *first = NULL;
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        ck_assert_int_eq(build("t.pack", f, ways[k].threads, ways[k].portion, 1), SS_OK);
        uint8_t *bytes = read_file("t.pack", &other);
        if (k == 0) {
            first = bytes;
            size = other;
            continue;
        }
        ck_assert_uint_eq(size, other);
        ck_assert_mem_eq(first, bytes, size);
        free(bytes);
    }
    free(first);
    struct ss_pack_builder *b = NULL;
    expect_error(ss_pack_begin(in_folder("x"), f, -1, 0, &b), SS_ERR_INVALID, "-1 threads");
    ck_assert_ptr_null(b);
    ss_imagefolder_close(f);
}
END_TEST

/* List again and look. */
static void expect_changed(const char *text)
{
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    if (text)
        expect_unfit("t.pack", f, text);
    else
        ss_pack_close(must_open("t.pack", f));
    ss_imagefolder_close(f);
}

START_TEST(changed)
{
    must_build("t.pack", SS_SPLIT_TRAIN);
    expect_changed(NULL);
    write_file("train/b/9.jpg", "another", 7);
    expect_changed("made of 9 files, and there are 10");
    ck_assert_int_eq(unlink(in_folder("train/b/9.jpg")), 0);
    expect_changed(NULL);
    ck_assert_int_eq(rename(in_folder("train/b/3.jpg"), in_folder("train/a/5.jpg")), 0);
    expect_changed("made of other files");
    ck_assert_int_eq(rename(in_folder("train/a/5.jpg"), in_folder("train/b/3.jpg")), 0);
    expect_changed(NULL);
    ck_assert_int_eq(rename(in_folder("train/b/3.jpg"), in_folder("kept.jpg")), 0);
    expect_changed("made of 9 files, and there are 8");
    ck_assert_int_eq(rename(in_folder("kept.jpg"), in_folder("train/b/3.jpg")), 0);

    /* Of the same size, but another file; then with the time that the first one had. */
    struct stat st;
    ck_assert_int_eq(stat(in_folder("train/a/2.jpg"), &st), 0);
    struct timespec times[2] = {st.st_mtim, st.st_mtim}; /* of reading and of writing */
    times[1].tv_nsec = (times[1].tv_nsec + 1) % 1000000000;
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("train/a/2.jpg"), times, 0), 0);
    expect_changed("made before some file changed");
    times[1] = times[0];
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("train/a/2.jpg"), times, 0), 0);
    expect_changed(NULL);
    write_file("train/a/2.jpg", "x", 1);
    expect_changed("made of other files");
    put_copy("train", train_files[2]);
    expect_changed("made before some file changed");
    must_build("t.pack", SS_SPLIT_TRAIN);
    expect_changed(NULL);
    struct ss_imagefolder *val = list(SS_SPLIT_TEST);
    expect_unfit("t.pack", val, "made of 9 files, and there are 2");
    ss_imagefolder_close(val);
}
END_TEST

/* Put the right checksums into a pack whose fields were changed. */
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
    /* An end of another length that is a good end in itself. */
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

/* Indexes that make no sense and have the right checksums. */
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
        {good.offset, 65536, 1, 0},
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
        expect_unfit("d.pack", f, "damaged: its index makes no sense");
    }
    e[4] = good;
    for (int more = -32; more <= 32; more += 64) {
        e[TRAIN - 1].height += (uint32_t)more;
        sign(bytes, size);
        write_file("d.pack", bytes, size);
        expect_unfit("d.pack", f, "damaged: its index makes no sense");
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
    expect_unfit("d.pack", f, "damaged: its index makes no sense");
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

    ((struct pack_header *)(void *)bytes)->version = 2;
    sign(bytes, size);
    write_file("d.pack", bytes, size);
    expect_unfit("d.pack", f, "of another version (2, not 1)");
    free(bytes);
    ss_imagefolder_close(f);
}
END_TEST

/* One bit, in the pixels and in the zeros behind them: that picture is refused, and no other. */
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
            struct ss_jpeg_pixels pixels = {.rgb = NULL};
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
    struct ss_jpeg_pixels pixels;
    for (size_t i = 0; i < count; i++)
        if (ss_pack_pixels(p, i, &pixels) == SS_OK)
            for (size_t k = 0; k < pixels.stride * (size_t)pixels.area.height; k++)
                sum += pixels.rgb[k];
    return sum;
}

/* Random bytes at random places, mostly outside of the pixels, in half of the copies with right
 * checksums; some copies are cut too. Whatever is accepted can be read. */
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

/* Those with the numbers 1, 6 and 7, the later ones found sooner: 6 is no JPEG at all. */
static void damage_files(void)
{
    for (size_t k = 0; k < 2; k++) {
        const char *const *file = train_files[k ? 7 : 1];
        struct bytes b = read_reference(file[1]);
        char name[64];
        snprintf(name, sizeof name, "train/%s", file[0]);
        write_file(name, b.at, b.size - 30);
        free(b.at);
    }
    write_file("train/b/1.jpg", "no", 2);
}

START_TEST(corrupt)
{
    must_build("t.pack", SS_SPLIT_TRAIN);
    size_t size, other;
    uint8_t *before = read_file("t.pack", &size);
    damage_files();
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    for (int threads = 1; threads <= 4; threads++)
        expect_error(build("t.pack", f, threads, 9, 0), SS_ERR_FORMAT,
                     "/train/a/1.jpg: the file is truncated");
    uint8_t *after = read_file("t.pack", &other);
    ck_assert_uint_eq(size, other);
    ck_assert_mem_eq(before, after, size);
    free(before);
    free(after);

    struct ss_jpeg *j;
    struct ss_jpeg_pixels pixels = {.rgb = NULL};
    ck_assert_int_eq(ss_jpeg_open(&j), SS_OK);
    ck_assert_int_eq(build("t.pack", f, 4, 0, 1), SS_OK);
    struct ss_pack *p = must_open("t.pack", f);
    ck_assert_uint_eq(ss_pack_corrupt(p), 3);
    for (size_t i = 0; i < f->count; i++)
        if (i != 1 && i != 6 && i != 7)
            expect_picture(p, i, j, train_files[i][1]);
    expect_error(ss_pack_pixels(p, 1, &pixels), SS_ERR_FORMAT, "/train/a/1.jpg: not a usable");
    expect_error(ss_pack_pixels(p, 6, &pixels), SS_ERR_FORMAT, "/train/b/1.jpg: not a usable");
    expect_error(ss_pack_pixels(p, 7, &pixels), SS_ERR_FORMAT, "/train/b/2.jpg: not a usable");
    ck_assert_ptr_null(pixels.rgb);
    ss_pack_close(p);

    /* A file that is not there is no corrupt file. */
    ck_assert_int_eq(unlink(in_folder("train/b/3.jpg")), 0);
    expect_error(build("t.pack", f, 4, 9, 1), SS_ERR_IO, "/train/b/3.jpg: cannot open");
    p = must_open("t.pack", f);
    ss_pack_close(p);
    ck_assert_int_eq(count_files(NULL), 3);
    ss_jpeg_close(j);
    ss_imagefolder_close(f);
}
END_TEST

START_TEST(given_up)
{
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    struct ss_pack_builder *b;
    size_t done = 0;
    for (size_t portions = 0; portions < 4; portions++) {
        ck_assert_int_eq(ss_pack_begin(in_folder("cache/t.pack"), f, 3, 0, &b), SS_OK);
        for (size_t k = 0; k < portions; k++)
            ck_assert_int_eq(ss_pack_continue(b, 0, &done), SS_OK);
        ck_assert_uint_eq(done, portions);
        ck_assert_int_eq(count_files("cache"), 1);
        ss_pack_abort(b);
        ck_assert_int_eq(count_files("cache"), 0);
    }
    ck_assert_int_eq(ss_pack_begin(in_folder("cache/t.pack"), f, 3, 0, &b), SS_OK);
    ck_assert_int_eq(ss_pack_continue(b, 0, &done), SS_OK);
    expect_error(ss_pack_commit(b), SS_ERR_INVALID, "1 of 9 files");
    ck_assert_int_eq(count_files("cache"), 0);

    write_file("file", "", 0);
    expect_error(ss_pack_begin(in_folder("file/t.pack"), f, 1, 0, &b), SS_ERR_IO, "/file");
    struct ss_pack *p;
    char why[9];
    expect_error(ss_pack_open(in_folder("file/t.pack"), f, why, sizeof why, &p), SS_ERR_IO,
                 "/file/t.pack: cannot open: Not a directory");
    expect_error(ss_pack_open(folder, f, why, sizeof why, &p), SS_ERR_IO, "not a regular file");
    ss_imagefolder_close(f);
}
END_TEST

/* Killed in the middle: the older pack is whole, and the next building succeeds. */
START_TEST(killed)
{
    must_build("cache/t.pack", SS_SPLIT_TRAIN);
    struct ss_imagefolder *f = list(SS_SPLIT_TRAIN);
    size_t size, other;
    uint8_t *before = read_file("cache/t.pack", &size);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct ss_pack_builder *b;
        size_t done = 0;
        if (ss_pack_begin(in_folder("cache/t.pack"), f, 2, 0, &b) != SS_OK)
            _exit(1);
        while (done < 6)
            if (ss_pack_continue(b, 0, &done) != SS_OK)
                _exit(2);
        if (write(ends[1], "x", 1) != 1)
            _exit(3);
        for (;;)
            pause();
    }
    char byte;
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_int_eq(count_files("cache"), 2); /* what it had begun */
    uint8_t *after = read_file("cache/t.pack", &other);
    ck_assert_uint_eq(size, other);
    ck_assert_mem_eq(before, after, size);
    free(before);
    free(after);
    ss_pack_close(must_open("cache/t.pack", f));
    ck_assert_int_eq(build("cache/t.pack", f, 2, 9, 0), SS_OK);
    ss_pack_close(must_open("cache/t.pack", f));
    ss_imagefolder_close(f);
}
END_TEST

/* What killed runs left goes when it is old and a pack's. */
START_TEST(leftovers)
{
    static const char *const kept[] = {"cache/t.pack.tmp.12",  "cache/t.pack.tmp.1x",
                                       "cache/t.pack.tmp.",    "cache/u.pack.tmp.11",
                                       "cache/at.pack.tmp.11", "cache/t.pack.old"};
    enum { KEPT = sizeof kept / sizeof *kept };
    const struct timespec old[2] = {{.tv_sec = time(NULL) - 3700}, {.tv_sec = time(NULL) - 3700}};
    ck_assert_int_eq(ss_folder_make(in_folder("cache")), SS_OK);
    for (size_t i = 0; i < KEPT; i++) {
        write_file(kept[i], "x", 1);
        if (i > 0)
            ck_assert_int_eq(utimensat(AT_FDCWD, in_folder(kept[i]), old, 0), 0);
    }
    write_file("cache/t.pack.tmp.11", "x", 1);
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("cache/t.pack.tmp.11"), old, 0), 0);
    must_build("cache/t.pack", SS_SPLIT_TRAIN);
    ck_assert(!has_file("cache/t.pack.tmp.11"));
    for (size_t i = 0; i < KEPT; i++)
        ck_assert_msg(has_file(kept[i]), "%s is gone", kept[i]);
    ck_assert_int_eq(count_files("cache"), KEPT + 1);
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

/* Every bit of a word matters, wherever the word is, and so do two words together. */
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
    Suite *suite = suite_create("pack");
    TCase *tc = tcase_create("pack");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, make_data, remove_folder);
    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, same_bytes);
    tcase_add_test(tc, changed);
    tcase_add_test(tc, damaged);
    tcase_add_test(tc, hostile_index);
    tcase_add_test(tc, damaged_pixels);
    tcase_add_test(tc, fuzz);
    tcase_add_test(tc, corrupt);
    tcase_add_test(tc, given_up);
    tcase_add_test(tc, killed);
    tcase_add_test(tc, leftovers);
    tcase_add_test(tc, many_readers);
    tcase_add_test(tc, checksums);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
