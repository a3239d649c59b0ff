#include "apps/commands/cmd_data_verb.h"
#include "core/log.h"
#include "data/imagefolder.h"
#include "data/image_file.h"
#include "apps/data/make_tinyimagenet.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct make_arguments {
    const char *out;
    long train, val, classes, seed;
};

static const struct ss_option make_rows[] = {
    SS_OPTION_TEXT(struct make_arguments, out, "--out", NULL, "DIR",
                   "output folder for train and val"),
    SS_OPTION_INT(struct make_arguments, train, "--train", 2000, 1, SS_MAKE_TINYIMAGENET_FILES, "N",
                  "training images"),
    SS_OPTION_INT(struct make_arguments, val, "--val", 500, 1, SS_MAKE_TINYIMAGENET_FILES, "N",
                  "validation images"),
    SS_OPTION_INT(struct make_arguments, classes, "--classes", 10, 1, SS_MAKE_TINYIMAGENET_CLASSES,
                  "N", "number of classes"),
    SS_OPTION_INT(struct make_arguments, seed, "--seed", 0, 0, INT_MAX, "N",
                  "seed of the generated data"),
    {0}};

int data_run_make_images(const struct data_verb *verb, int argc, char **argv)
{
    struct make_arguments a;
    int code = data_verb_parse(verb, make_rows, &a, argc, argv);
    if (code >= 0)
        return code;
    struct ss_tinyimagenet what = {.classes = (uint32_t)a.classes,
                                   .train = (uint32_t)a.train,
                                   .val = (uint32_t)a.val,
                                   .seed = (uint64_t)a.seed};
    if (ss_make_tinyimagenet(a.out, &what) != SS_OK)
        return SS_EXIT_FAILED;
    printf("%s: %ld training and %ld validation images of %ld classes\n", a.out, a.train, a.val,
           a.classes);
    return SS_EXIT_OK;
}

/* Statistics of the decoded images: count and side lengths. */
struct decoded {
    size_t count;
    int least, most;
};

static void count_image(struct decoded *d, int width, int height)
{
    const int shorter = width < height ? width : height, longer = width < height ? height : width;
    d->least = !d->count || shorter < d->least ? shorter : d->least;
    d->most = longer > d->most ? longer : d->most;
    d->count++;
}

/* Each corrupt file gets a line; library warnings do not count as corruption. */
static enum ss_status decode_all(const struct ss_imagefolder *f, const char *name)
{
    struct ss_decoder *decoder;
    struct ss_image_file file = {.bytes = NULL};
    struct decoded d = {0};
    SS_TRY(ss_decoder_open(&decoder));
    enum ss_status result = SS_OK;
    for (size_t i = 0; i < f->count; i++) {
        struct ss_pixels pixels;
        int width, height;
        enum ss_status status = ss_imagefolder_read(f, i, &file);
        if (status == SS_OK)
            status = ss_decoder_begin(decoder, file.path, file.bytes, file.size, &width, &height);
        if (status == SS_OK)
            status = ss_decoder_decode(decoder, NULL, 1, &pixels);
        if (status == SS_OK && ss_decoder_warning(decoder))
            ss_warn("%s: %s", file.path, ss_decoder_warning(decoder));
        if (status == SS_OK)
            count_image(&d, width, height);
        else
            result = status;
    }
    free(file.bytes);
    ss_decoder_close(decoder);
    printf("%s: %zu of %zu decoded, sides from %d to %d pixels\n", name, d.count, f->count, d.least,
           d.most);
    return result;
}

struct check_arguments {
    const char *dir;
    double val_fraction;
    long val_seed;
    int decode;
};

static enum ss_status print_folder(const struct check_arguments *a, enum ss_split split,
                                   const char *name)
{
    const struct ss_dataset_options how = {.val_fraction = a->val_fraction,
                                           .val_seed = (uint64_t)a->val_seed};
    struct ss_imagefolder *f;
    SS_TRY(ss_imagefolder_open(a->dir, split, &how, &f));
    printf("%s: %zu images of %d classes, fingerprint %016" PRIx64 "\n", name, f->count, f->classes,
           f->fingerprint);
    enum ss_status status = a->decode ? decode_all(f, name) : ss_imagefolder_check_sizes(f);
    ss_imagefolder_close(f);
    return status;
}

static const struct ss_option check_rows[] = {
    SS_OPTION_TEXT(struct check_arguments, dir, "--data-dir", NULL, "DIR",
                   "folder with train and val, or a folder for each class"),
    SS_OPTION_FLOAT(struct check_arguments, val_fraction, "--val-fraction", 0, 0, 0.999, "F",
                    "same as for train"),
    SS_OPTION_INT(struct check_arguments, val_seed, "--val-seed", 0, 0, 1L << 53, "N",
                  "same as for train"),
    SS_OPTION_FLAG(struct check_arguments, decode, "--decode", "also decode every image"),
    {0}};

int data_run_check_images(const struct data_verb *verb, int argc, char **argv)
{
    struct check_arguments a;
    int code = data_verb_parse(verb, check_rows, &a, argc, argv);
    if (code >= 0)
        return code;
    enum ss_status train = print_folder(&a, SS_SPLIT_TRAIN, "train");
    if (train != SS_OK && !a.decode)
        return SS_EXIT_FAILED;
    enum ss_status val = print_folder(&a, SS_SPLIT_TEST, "val");
    return train == SS_OK && val == SS_OK ? SS_EXIT_OK : SS_EXIT_FAILED;
}
