/* test_imagefolder.c: layouts of image data sets, error messages for invalid ones, and the data set
 * that starstep generates: its images decode and its classes are separable. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/folder.h"
#include "data/augment.h"
#include "data/imagefolder.h"
#include "data/jpeg.h"
#include "apps/data/make_tinyimagenet.h"
#include "data/image.h"
#include "tests/data_common.h"

#include <math.h>
#include <sys/types.h>

/* Creates a file and its folders; the content is its name. */
static void put(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder(name));
    *strrchr(path, '/') = '\0';
    ck_assert_int_eq(ss_folder_make(path), SS_OK);
    write_file(name, name, strlen(name));
}

static void put_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static struct ss_dataset_options split_how; /* options of the following opens */

static struct ss_imagefolder *open_split(enum ss_split split)
{
    struct ss_imagefolder *f;
    ck_assert_msg(ss_imagefolder_open(folder, split, &split_how, &f) == SS_OK, "%s",
                  ss_log_last_error());
    return f;
}

/* Checks that the folder consists of exactly these "name label" entries, in this order; the list
 * ends with NULL. */
static void expect_files(const struct ss_imagefolder *f, const char *const *files)
{
    size_t i = 0;
    for (; files[i]; i++) {
        char got[300];
        ck_assert_uint_lt(i, f->count);
        snprintf(got, sizeof got, "%s %d", ss_imagefolder_name(f, i), ss_imagefolder_label(f, i));
        ck_assert_str_eq(got, files[i]);
    }
    ck_assert_uint_eq(i, f->count);
}

static void put_plain(void)
{
    static const char *const names[] = {
        "train/b/2.jpg",    "train/b/10.JPEG",     "train/b/notes.txt",  "train/b/sub/1.jpeg",
        "train/b-x/1.PnG",  "train/B/1.jpg",       "train/b/sub-/0.jpg", "train/b/z.JpEg",
        "train/README.jpg", "train/b/sub/a/x.jpg", "val/b/v.jpg",        "val/B/v.jpg",
        "val/b-x/v.jpg",    "val/README.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(names[i]);
}

/* The order of torchvision's ImageFolder for these names. */
START_TEST(plain)
{
    put_plain();
    struct ss_imagefolder *f = open_split(SS_SPLIT_TRAIN);
    static const char *const train[] = {"B/1.jpg 0",       "b/10.JPEG 1",    "b/2.jpg 1",
                                        "b/z.JpEg 1",      "b/sub/1.jpeg 1", "b/sub-/0.jpg 1",
                                        "b/sub/a/x.jpg 1", "b-x/1.PnG 2",    NULL};
    expect_files(f, train);
    ck_assert_int_eq(f->classes, 3);
    ck_assert_str_eq(ss_imagefolder_class(f, 0), "B");
    ck_assert_str_eq(ss_imagefolder_class(f, 2), "b-x");
    ck_assert_ptr_null(ss_imagefolder_words(f, 1));

    struct ss_image_file file = {.bytes = NULL};
    for (size_t i = 0; i < f->count; i++) {
        ck_assert_int_eq(ss_imagefolder_read(f, i, &file), SS_OK);
        ck_assert_uint_eq(file.size, strlen("train/") + strlen(ss_imagefolder_name(f, i)));
        ck_assert_mem_eq(file.bytes + 6, ss_imagefolder_name(f, i), file.size - 6);
    }
    unlink(in_folder("train/b/2.jpg"));
    expect_error(ss_imagefolder_read(f, 2, &file), SS_ERR_IO,
                 "/train/b/2.jpg: cannot open: No such");
    free(file.bytes);
    ss_imagefolder_close(f);

    f = open_split(SS_SPLIT_TEST);
    static const char *const val[] = {"B/v.jpg 0", "b/v.jpg 1", "b-x/v.jpg 2", NULL};
    expect_files(f, val);
    ss_imagefolder_close(f);
}
END_TEST

static void put_tiny(void)
{
    static const char *const names[] = {
        "train/n02/images/n02_1.JPEG", "train/n02/images/n02_0.JPEG", "train/n02/n02_boxes.txt",
        "train/n01/images/n01_0.JPEG", "val/images/val_0.JPEG",       "val/images/val_1.JPEG",
        "val/images/val_10.JPEG",      "test/images/test_0.JPEG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(names[i]);
    put_text("wnids.txt", "n02\nn01\n");
    put_text("words.txt", "n00\tentity\nn01\tgoldfish, Carassius auratus\r\nn02\ttoad\nn03\n");
    put_text("val/val_annotations.txt",
             "val_10.JPEG\tn01\t0\t0\t62\t62\nval_0.JPEG\tn02\t1\t2\t3\t4\r\nval_1.JPEG\tn01\n");
}

START_TEST(tiny)
{
    put_tiny();
    struct ss_imagefolder *f = open_split(SS_SPLIT_TRAIN);
    static const char *const train[] = {"n01/images/n01_0.JPEG 0", "n02/images/n02_0.JPEG 1",
                                        "n02/images/n02_1.JPEG 1", NULL};
    expect_files(f, train);
    ck_assert_str_eq(ss_imagefolder_words(f, 0), "goldfish, Carassius auratus");
    ck_assert_str_eq(ss_imagefolder_words(f, 1), "toad");
    ss_imagefolder_close(f);
    f = open_split(SS_SPLIT_TEST);
    static const char *const val[] = {"images/val_0.JPEG 1", "images/val_1.JPEG 0",
                                      "images/val_10.JPEG 0", NULL};
    expect_files(f, val);
    ck_assert_int_eq(f->classes, 2);
    ss_imagefolder_close(f);

    /* Validation images sorted into class folders. */
    ck_assert_int_eq(unlink(in_folder("val/val_annotations.txt")), 0);
    put("val/n01/a.JPEG");
    put("val/n02/images/b.JPEG");
    struct ss_imagefolder *none = NULL;
    expect_error(ss_imagefolder_open(folder, SS_SPLIT_TEST, &split_how, &none), SS_ERR_FORMAT,
                 "/val/images: this class has no folder in train/");
    ck_assert_ptr_null(none);
    ck_assert_int_eq(rename(in_folder("val/images"), in_folder("elsewhere")), 0);
    f = open_split(SS_SPLIT_TEST);
    static const char *const sorted[] = {"n01/a.JPEG 0", "n02/images/b.JPEG 1", NULL};
    expect_files(f, sorted);
    ss_imagefolder_close(f);
}
END_TEST

static uint64_t fingerprint(void)
{
    struct ss_imagefolder *f = open_split(SS_SPLIT_TRAIN);
    uint64_t fingerprint = f->fingerprint;
    ss_imagefolder_close(f);
    return fingerprint;
}

START_TEST(fingerprints)
{
    put_plain();
    uint64_t first = fingerprint();
    ck_assert_uint_eq(fingerprint(), first);
    put_text("train/b/2.jpg", "another con12"); /* 13 bytes, as before */
    ck_assert_uint_eq(fingerprint(), first);
    put_text("train/b/2.jpg", "a longer content");
    ck_assert_uint_ne(fingerprint(), first);
    put("train/b/2.jpg");
    ck_assert_uint_eq(fingerprint(), first);
    rename(in_folder("train/b/2.jpg"), in_folder("train/b/3.jpg"));
    ck_assert_uint_ne(fingerprint(), first);
    rename(in_folder("train/b/3.jpg"), in_folder("train/b/2.jpg"));
    put("train/0/1.jpg");
    ck_assert_uint_ne(fingerprint(), first);
}
END_TEST

#define expect_refusal(split, status, text)                                                        \
    do {                                                                                           \
        struct ss_imagefolder *refused = NULL;                                                     \
        expect_error(ss_imagefolder_open(folder, (split), &split_how, &refused), (status),         \
                     (text));                                                                      \
        ck_assert_ptr_null(refused);                                                               \
    } while (0)

START_TEST(refused_folders)
{
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, ": holds no images in folders");
    put("val/a/1.jpg");
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, "/val: has no train/ next to it");
    put("train/readme.txt");
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, "/train: holds no folder");
    put("train/a/1.jpg");
    put("train/b/2.txt");
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, "/train/b: the class has no JPEG or PNG file");
    put("train/b/3.PPM");
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT,
                   "/train/b/3.PPM: only JPEG and PNG files can be read");
    unlink(in_folder("train/b/3.PPM"));
    write_file("train/b/2.jpg", "", 0);
    struct ss_imagefolder *f = open_split(SS_SPLIT_TRAIN);
    expect_error(ss_imagefolder_check_sizes(f), SS_ERR_FORMAT, "/train/b/2.jpg: the file is empty");
    ss_imagefolder_close(f);
    unlink(in_folder("train/b/2.jpg"));
    ck_assert_int_eq(symlink("nowhere", in_folder("train/b/2.jpg")), 0);
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_IO, "/train/b/2.jpg: cannot be read: No such file");
    unlink(in_folder("train/b/2.jpg"));
    ck_assert_int_eq(mkfifo(in_folder("train/b/2.jpg"), 0666), 0);
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_IO, "/train/b/2.jpg: is not a regular file");
    unlink(in_folder("train/b/2.jpg"));
    put("train/b/2.jpg");
    ck_assert_int_eq(symlink("..", in_folder("train/b/up")), 0);
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, "a cycle of symbolic links?");
    unlink(in_folder("train/b/up"));
    put("val/c/1.jpg");
    expect_refusal(SS_SPLIT_TEST, SS_ERR_FORMAT, "/val/c: this class has no folder in train/");
    ss_imagefolder_close(open_split(SS_SPLIT_TRAIN));
    if (geteuid() != 0) {
        chmod(in_folder("train/b/2.jpg"), 0);
        expect_refusal(SS_SPLIT_TRAIN, SS_ERR_IO, "/train/b/2.jpg: cannot be read: Permission");
    }
}
END_TEST

/* Other names of the validation folder, inside an enclosing folder. Labels follow train/, even if
 * validation has no images of a class. */
START_TEST(names_of_val)
{
    static const char *const names[] = {"test", "valid", "validation", "val"};
    put("all/train/a/1.jpg");
    put("all/train/b/1.jpg");
    put("all/train/c/1.jpg");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "all/%s/c/%zu.jpg", names[i], i);
        put(name); /* takes precedence over the earlier names */
        snprintf(name, sizeof name, "all/%s/b/none.txt", names[i]);
        put(name);
        struct ss_imagefolder *f = open_split(SS_SPLIT_TEST);
        snprintf(name, sizeof name, "c/%zu.jpg 2", i);
        const char *const expected[] = {name, NULL};
        expect_files(f, expected);
        ck_assert_int_eq(f->classes, 3);
        ss_imagefolder_close(f);
    }
    split_how.val_fraction = 0.5;
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_INVALID, "/all/val already exists");
}
END_TEST

/* Opens both splits of classes "a", "b", ... and checks that each file is in exactly one of them,
 * in the order of the flat list. Adds the number of validation files per class to of_class and
 * returns a bit mask of the validation files of class a. */
static uint64_t draw(size_t *of_class)
{
    struct ss_imagefolder *all, *train = open_split(SS_SPLIT_TRAIN),
                                *val = open_split(SS_SPLIT_TEST);
    size_t t = 0, v = 0;
    uint64_t drawn = 0;
    ck_assert_int_eq(ss_imagefolder_open_flat(train->root, &all), SS_OK);
    for (size_t i = 0; i < all->count; i++) {
        const char *name = ss_imagefolder_name(all, i);
        const int label = name[0] - 'a';
        if (v < val->count && !strcmp(name, ss_imagefolder_name(val, v))) {
            ck_assert_int_eq(ss_imagefolder_label(val, v++), label);
            of_class[label]++;
            drawn |= label ? 0 : (uint64_t)1 << i;
        } else {
            ck_assert_uint_lt(t, train->count);
            ck_assert_str_eq(name, ss_imagefolder_name(train, t));
            ck_assert_int_eq(ss_imagefolder_label(train, t++), label);
        }
    }
    ck_assert_uint_eq(t, train->count);
    ck_assert_uint_eq(v, val->count);
    ck_assert_uint_ne(train->fingerprint, val->fingerprint);
    ss_imagefolder_close(all);
    ss_imagefolder_close(train);
    ss_imagefolder_close(val);
    return drawn;
}

START_TEST(split_off)
{
    static const int files[] = {40, 10, 3, 1};
    static const struct {
        double fraction;
        size_t of_class[4];
    } cases[] = {
        {0.1, {4, 1, 1, 0}}, {0.5, {20, 5, 2, 0}}, {0.999, {39, 9, 2, 0}}, {1e-9, {1, 1, 1, 0}}};
    char name[64];
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < files[k]; i++) {
            snprintf(name, sizeof name, "%c/%02d.png", 'a' + k, i);
            put(name);
        }
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, ": has class folders but no train/ and val/");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t of_class[4] = {0};
        split_how.val_fraction = cases[c].fraction;
        draw(of_class);
        ck_assert_mem_eq(of_class, cases[c].of_class, sizeof of_class);
    }
    /* Each file is drawn equally often: 50 of 500 draws, with a standard deviation of 6.7. */
    size_t often[40] = {0}, unused[4] = {0};
    split_how.val_fraction = 0.1;
    for (split_how.val_seed = 0; split_how.val_seed < 500; split_how.val_seed++) {
        const uint64_t drawn = draw(unused);
        ck_assert_uint_eq(draw(unused), drawn);
        for (int i = 0; i < 40; i++)
            often[i] += drawn >> i & 1;
    }
    for (int i = 0; i < 40; i++)
        ck_assert(often[i] > 20 && often[i] < 80);
    /* With train/ alone, the same files are drawn. */
    split_how.val_seed = 3;
    const uint64_t drawn = draw(unused);
    ck_assert_int_eq(mkdir(in_folder("train"), 0700), 0);
    for (int k = 0; k < 4; k++) {
        const char from[] = {(char)('a' + k), '\0'};
        snprintf(name, sizeof name, "train/%s", from);
        ck_assert_int_eq(rename(in_folder(from), in_folder(name)), 0);
    }
    ck_assert_uint_eq(draw(unused), drawn);
    split_how.val_fraction = 0;
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, ": has train/ but no validation set (val/, ");
}
END_TEST

START_TEST(one_image_a_class)
{
    put("a/1.jpg");
    put("b/1.jpg");
    split_how.val_fraction = 0.1;
    expect_refusal(SS_SPLIT_TEST, SS_ERR_FORMAT, ": every class has one image");
}
END_TEST

START_TEST(refused_lists)
{
    put_tiny();
    put_text("wnids.txt", "n02\nn01\nn05\n");
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, "/wnids.txt: line 3: n05 has no folder");
    put_text("wnids.txt", "n02\n");
    expect_refusal(SS_SPLIT_TRAIN, SS_ERR_FORMAT, "/wnids.txt: n01");
    put_text("wnids.txt", "n02\r\n\nn01");
    ss_imagefolder_close(open_split(SS_SPLIT_TRAIN));
    put_text("val/val_annotations.txt", "val_0.JPEG\tn02\nval_1.JPEG\tn07\t1\n");
    expect_refusal(SS_SPLIT_TEST, SS_ERR_FORMAT,
                   "/val_annotations.txt: line 2: val_1.JPEG has the wnid n07");
    put_text("val/val_annotations.txt", "val_0.JPEG n02\n");
    expect_refusal(SS_SPLIT_TEST, SS_ERR_FORMAT, "line 1: a file's name, a tab and a wnid");
    put_text("val/val_annotations.txt", "../val_0.JPEG\tn02\n");
    expect_refusal(SS_SPLIT_TEST, SS_ERR_FORMAT, "line 1: \"../val_0.JPEG\" is not a plain");
    put_text("val/val_annotations.txt", "val_0.JPEG\tn02\nval_0.JPEG\tn01\n");
    expect_refusal(SS_SPLIT_TEST, SS_ERR_FORMAT, "images/val_0.JPEG is listed twice");
    put_text("val/val_annotations.txt", "val_9.JPEG\tn02\n");
    expect_refusal(SS_SPLIT_TEST, SS_ERR_IO, "/val/images/val_9.JPEG: cannot be read");
    put_text("val/val_annotations.txt", "\n");
    expect_refusal(SS_SPLIT_TEST, SS_ERR_FORMAT, "/val_annotations.txt: names no file");
}
END_TEST

enum { CLASSES = 4, TRAIN = 90, VAL = 41, SIDE = 64 };

/* With confused NULL, adds each image to the sum of its class in mean. Otherwise counts the images
 * that correlate better with another class in *confused. Returns the number of gray images. */
static int mean_images(const struct ss_imagefolder *f, double (*mean)[3 * SIDE * SIDE],
                       int *confused)
{
    struct ss_jpeg *jpeg;
    struct ss_image_file file = {.bytes = NULL};
    int grey = 0, count[CLASSES] = {0};
    ck_assert_int_eq(ss_jpeg_open(&jpeg), SS_OK);
    for (size_t i = 0; i < f->count; i++) {
        struct ss_pixels pixels;
        int w, h, label = ss_imagefolder_label(f, i), is_grey = 1;
        ck_assert_int_eq(ss_imagefolder_read(f, i, &file), SS_OK);
        ck_assert_int_eq(ss_jpeg_begin(jpeg, file.path, file.bytes, file.size, &w, &h), SS_OK);
        ck_assert_int_eq(w, SIDE);
        ck_assert_int_eq(h, SIDE);
        ck_assert_int_eq(ss_jpeg_decode(jpeg, NULL, 1, &pixels), SS_OK);
        double score[CLASSES] = {0};
        for (int k = 0; k < 3 * SIDE * SIDE; k++) {
            int v = pixels.rgb[(size_t)(k / (3 * SIDE)) * pixels.stride + (size_t)(k % (3 * SIDE))];
            is_grey &= v == pixels.rgb[(size_t)(k / (3 * SIDE)) * pixels.stride +
                                       (size_t)(k % (3 * SIDE) / 3 * 3)];
            if (!confused)
                mean[label][k] += v - 128;
            for (int c = 0; confused && c < CLASSES; c++)
                score[c] += mean[c][k] / (TRAIN / CLASSES) * (v - 128);
        }
        for (int c = 0; confused && c < CLASSES; c++)
            if (score[c] > score[label]) {
                ++*confused;
                break;
            }
        grey += is_grey;
        count[label]++;
    }
    for (int c = 0; c < CLASSES; c++)
        ck_assert_int_ge(count[c], (int)f->count / CLASSES);
    free(file.bytes);
    ss_jpeg_close(jpeg);
    return grey;
}

/* Correlation with the mean image of a class, which is not shift-invariant, classifies most of val
 * correctly; chance is 1 in 4. */
START_TEST(generated)
{
    struct ss_tinyimagenet what = {.classes = CLASSES, .train = TRAIN, .val = VAL, .seed = 3};
    static double mean[CLASSES][3 * SIDE * SIDE];
    ck_assert_int_eq(ss_make_tinyimagenet(folder, &what), SS_OK);
    struct ss_imagefolder *f = open_split(SS_SPLIT_TRAIN);
    uint64_t print = f->fingerprint;
    ck_assert_uint_eq(f->count, TRAIN);
    ck_assert_str_eq(ss_imagefolder_words(f, 1), "generated pattern 1");
    int grey = mean_images(f, mean, NULL), confused = 0;
    ss_imagefolder_close(f);
    f = open_split(SS_SPLIT_TEST);
    ck_assert_uint_eq(f->count, VAL);
    grey += mean_images(f, mean, &confused);
    ss_imagefolder_close(f);
    ck_assert_int_gt(grey, 0);
    ck_assert_int_lt(grey, VAL);
    ck_assert_msg(confused < VAL / 2, "%d of %d are misclassified", confused, VAL);

    expect_error(ss_make_tinyimagenet(folder, &what), SS_ERR_INVALID, "already has a folder train");
    remove_folder();
    ck_assert_int_eq(ss_make_tinyimagenet(folder, &what), SS_OK);
    ck_assert_uint_eq(fingerprint(), print);
    remove_folder();
    what.seed = 4;
    ck_assert_int_eq(ss_make_tinyimagenet(folder, &what), SS_OK);
    ck_assert_uint_ne(fingerprint(), print);
    what.classes = 201;
    expect_error(ss_make_tinyimagenet(folder, &what), SS_ERR_INVALID, "201 classes");
    what = (struct ss_tinyimagenet){.classes = 10, .train = 9, .val = 1};
    expect_error(ss_make_tinyimagenet(folder, &what), SS_ERR_INVALID, "9 training");
}
END_TEST

/* The loader's sample equals the file read, decoded, cropped and resized step by step. */
START_TEST(samples)
{
    enum { OUT = 24, PIXELS = OUT * (OUT + 9), BYTES = 3 * PIXELS };
    struct ss_tinyimagenet what = {.classes = 2, .train = 12, .val = 2, .seed = 5};
    ck_assert_int_eq(ss_make_tinyimagenet(folder, &what), SS_OK);
    struct ss_imagefolder *f = open_split(SS_SPLIT_TRAIN);
    struct ss_image_loader *loader;
    struct ss_image_file file = {.bytes = NULL};
    struct ss_jpeg *jpeg;
    struct ss_resizer *resizer;
    ck_assert_int_eq(ss_image_open(&loader), SS_OK);
    ck_assert_int_eq(ss_jpeg_open(&jpeg), SS_OK);
    ck_assert_int_eq(ss_resizer_open(&resizer), SS_OK);
    for (uint32_t k = 0; k < 32 * f->count; k++) {
        uint32_t i = k / 32;
        const struct ss_size size = {OUT, k & 8 ? OUT + 9 : OUT}, least = {30, k & 8 ? 38 : 30};
        const size_t pixels_of = (size_t)size.height * (size_t)size.width;
        struct ss_image_how how = {.size = size,
                                   .channels = k & 16 ? 1 : 3,
                                   .least = k & 1 ? least : (struct ss_size){0},
                                   .range = SS_CROP_RANGE,
                                   .seed = 2,
                                   .epoch = 9,
                                   .order = k & 2 ? SS_PIXELS_HWC : SS_PIXELS_CHW,
                                   .reduced = (k & 4) != 0};
        uint8_t got[BYTES], want[BYTES];
        ck_assert_int_eq(ss_image_load(loader, f, i, &how, got), SS_OK);
        ck_assert_ptr_null(ss_image_warning(loader));
        struct ss_pixels pixels;
        struct ss_crop crop = ss_crop_draw(2, 9, i, SIDE, SIDE, &SS_CROP_RANGE, size);
        if (k & 1)
            ck_assert_int_eq(ss_crop_centre(SIDE, SIDE, least, size, &crop), SS_OK);
        int w, h, fits = crop.area.width / 2 >= crop.width && crop.area.height / 2 >= crop.height;
        ck_assert_int_eq(ss_imagefolder_read(f, i, &file), SS_OK);
        ck_assert_int_eq(ss_jpeg_begin(jpeg, file.path, file.bytes, file.size, &w, &h), SS_OK);
        ck_assert_int_eq(ss_jpeg_decode(jpeg, &crop.area, how.reduced && fits ? 2 : 1, &pixels),
                         SS_OK);
        ck_assert_int_eq(ss_crop_apply(resizer, &crop, &pixels, how.order, want), SS_OK);
        const size_t next = how.order == SS_PIXELS_CHW ? pixels_of : 1,
                     step = how.order == SS_PIXELS_CHW ? 1 : 3;
        for (size_t p = 0; how.channels == 1 && p < pixels_of; p++) {
            const uint8_t *rgb = want + p * step;
            want[p] = (uint8_t)floor(
                0.5 + (19595.0 * rgb[0] + 38470.0 * rgb[next] + 7471.0 * rgb[2 * next]) / 65536);
        }
        ck_assert_mem_eq(got, want, (size_t)how.channels * pixels_of);
    }
    uint8_t out[BYTES];
    struct ss_image_how how = {.size = ss_square(OUT), .channels = 3, .least = ss_square(20)};
    expect_error(ss_image_load(loader, f, 0, &how, out), SS_ERR_INVALID, "from at least 20x20");
    how.size = (struct ss_size){0, 4};
    expect_error(ss_image_load(loader, f, 0, &how, out), SS_ERR_INVALID, "0 x 4");
    how.size = ss_square(20);
    char path[256];
    snprintf(path, sizeof path, "train/%s", ss_imagefolder_name(f, 3));
    write_file(path, "\xff\xd8\xff", 3);
    expect_error(ss_image_load(loader, f, 3, &how, out), SS_ERR_FORMAT, path);
    ck_assert_int_eq(ss_image_load(loader, f, 4, &how, out), SS_OK);
    ss_image_close(loader);
    ss_resizer_close(resizer);
    ss_jpeg_close(jpeg);
    free(file.bytes);
    ss_imagefolder_close(f);
}
END_TEST

/* Images without classes, in folders or as a single file. */
START_TEST(flat)
{
    struct ss_imagefolder *f;
    expect_error(ss_imagefolder_open_flat(in_folder("x"), &f), SS_ERR_IO, "/x: No such file");
    put("x/notes.txt");
    expect_error(ss_imagefolder_open_flat(in_folder("x"), &f), SS_ERR_FORMAT,
                 "/x: no JPEG or PNG file");
    put("x/b.jpg");
    put("x/B.PNG");
    put("x/a/z.jpeg");
    ck_assert_int_eq(ss_imagefolder_open_flat(in_folder("x"), &f), SS_OK);
    static const char *const files[] = {"B.PNG -1", "b.jpg -1", "a/z.jpeg -1", NULL};
    expect_files(f, files);
    ck_assert_int_eq(f->classes, 0);
    ss_imagefolder_close(f);
    ck_assert_int_eq(ss_imagefolder_open_flat(in_folder("x/a/z.jpeg"), &f), SS_OK);
    static const char *const one[] = {"z.jpeg -1", NULL};
    expect_files(f, one);
    ck_assert_str_eq(f->root, in_folder("x/a"));
    ss_imagefolder_close(f);
    ck_assert_int_eq(chdir(in_folder("x/a")), 0);
    ck_assert_int_eq(ss_imagefolder_open_flat("z.jpeg", &f), SS_OK);
    ck_assert_str_eq(f->root, ".");
    ss_imagefolder_close(f);
    ck_assert_int_eq(chdir("/"), 0);
    put("x/a/p.webp");
    expect_error(ss_imagefolder_open_flat(in_folder("x"), &f), SS_ERR_FORMAT, "a/p.webp: only");
}
END_TEST

/* Images without classes load as in evaluation; their paths are available. */
START_TEST(images_without_classes)
{
    enum { EDGE = 24, FILES = 5 };
    static const struct ss_tinyimagenet what = {.classes = 2, .train = 2, .val = FILES, .seed = 3};
    const struct ss_dataset_options options = {.size = {EDGE, EDGE}, .skip_corrupt = 1};
    const struct ss_load_how how = {.augment = 0};
    struct ss_dataset *set, *images;
    static float x[3 * EDGE * EDGE], y[3 * EDGE * EDGE];
    int32_t label;
    char path[512];
    ck_assert_int_eq(ss_make_tinyimagenet(folder, &what), SS_OK);
    ck_assert_int_eq(ss_dataset_open(folder, SS_SPLIT_TEST, &options, &set), SS_OK);
    ck_assert_int_eq(ss_images_open(in_folder("val"), &options, &images), SS_OK);
    ck_assert_uint_eq(images->count, FILES);
    ck_assert_int_eq(images->classes, 0);
    for (size_t i = 0; i < FILES; i++) {
        ck_assert_int_eq(ss_dataset_load(set, i, &how, x, &label), SS_OK);
        ck_assert_int_eq(ss_dataset_load(images, i, &how, y, &label), SS_OK);
        ck_assert_int_eq(label, -1);
        ck_assert_mem_eq(x, y, sizeof x);
    }
    ck_assert_int_eq(ss_images_path(images, 2, path, sizeof path), SS_OK);
    ck_assert_str_eq(path, in_folder("val/images/val_2.JPEG"));
    put_text("val/images/val_2.JPEG", "no image");
    ck_assert_int_eq(ss_dataset_load(images, 2, &how, y, &label), SS_OK);
    ck_assert_int_eq(ss_dataset_skipped(images, 2), 1);
    ck_assert_int_eq(ss_dataset_skipped(images, 1), 0);
    ss_dataset_close(set);
    ss_dataset_close(images);
}
END_TEST

/* The padded crop equals the evaluation image (the whole image at the sample's size) with the draw
 * of augment.h applied, as for CIFAR; also as bytes, which devices normalize. */
START_TEST(padded)
{
    enum { EDGE = 20, TRAINING = 6, PLANE = EDGE * EDGE };
    static const struct ss_tinyimagenet what = {
        .classes = 2, .train = TRAINING, .val = 2, .seed = 3};
    const struct ss_dataset_options options = {.size = {EDGE, EDGE}, .crop = SS_CROP_PADDED};
    struct ss_load_how how = {.bytes = 1};
    struct ss_dataset *d;
    static uint8_t image[3 * PLANE], bytes[3 * PLANE], want[3 * PLANE];
    static float values[3 * PLANE], wanted[3 * PLANE];
    int32_t label;
    int moved = 0;
    ck_assert_int_eq(ss_make_tinyimagenet(folder, &what), SS_OK);
    ck_assert_int_eq(ss_dataset_open(folder, SS_SPLIT_TRAIN, &options, &d), SS_OK);
    ck_assert_int_eq(d->least.height, EDGE);
    for (uint32_t k = 0; k < 8 * TRAINING; k++) {
        const uint32_t i = k % TRAINING, epoch = k / TRAINING;
        const struct ss_crop_flip draw = ss_augment_draw(7, epoch, i, 4);
        how = (struct ss_load_how){.bytes = 1};
        ck_assert_int_eq(ss_dataset_load(d, i, &how, image, &label), SS_OK);
        how = (struct ss_load_how){.bytes = 1, .augment = 1, .seed = 7, .epoch = epoch};
        ck_assert_int_eq(ss_dataset_load(d, i, &how, bytes, &label), SS_OK);
        ss_augment_apply_bytes(d, image, draw, 4, want);
        ck_assert_mem_eq(bytes, want, sizeof want);
        moved += memcmp(image, want, sizeof want) != 0;
        how.bytes = 0;
        ck_assert_int_eq(ss_dataset_load(d, i, &how, values, &label), SS_OK);
        ss_augment_apply(d, image, draw, 4, wanted);
        ck_assert_mem_eq(values, wanted, sizeof wanted);
    }
    ck_assert_int_gt(moved, 6 * TRAINING);
    ss_dataset_close(d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("imagefolder");
    TCase *tc = tcase_create("imagefolder");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, plain);
    tcase_add_test(tc, tiny);
    tcase_add_test(tc, fingerprints);
    tcase_add_test(tc, refused_folders);
    tcase_add_test(tc, names_of_val);
    tcase_add_test(tc, split_off);
    tcase_add_test(tc, one_image_a_class);
    tcase_add_test(tc, refused_lists);
    tcase_add_test(tc, generated);
    tcase_add_test(tc, samples);
    tcase_add_test(tc, flat);
    tcase_add_test(tc, images_without_classes);
    tcase_add_test(tc, padded);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
