#include "apps/commands/cmd_data_verb.h"
#include "core/log.h"
#include "apps/data/convert_npz.h"

#include <limits.h>
#include <stdio.h>

struct arguments {
    const char *from, *out, *images, *labels;
    double val_fraction;
    long seed;
};

#define VAL_FRACTION(lacks)                                                                        \
    SS_OPTION_FLOAT(struct arguments, val_fraction, "--val-fraction", 0, 0, 0.9, "F",              \
                    "fraction of each class for validation if " lacks)
#define SEED                                                                                       \
    SS_OPTION_INT(struct arguments, seed, "--seed", 0, 0, INT_MAX, "N",                            \
                  "seed that selects the validation images")

static const struct ss_option npz_rows[] = {
    SS_OPTION_TEXT(struct arguments, from, "--from", NULL, "FILE", "the .npz file"),
    SS_OPTION_TEXT(struct arguments, out, "--out", NULL, "DIR", "output folder for train and val"),
    SS_OPTION_TEXT(struct arguments, images, "--images", NULL, "NAME",
                   "name of the image array, if unusual"),
    SS_OPTION_TEXT(struct arguments, labels, "--labels", NULL, "NAME", "name of the label array"),
    VAL_FRACTION("the file has no split"),
    SEED,
    {0}};

static const struct ss_option idx_rows[] = {
    SS_OPTION_TEXT(struct arguments, from, "--from", NULL, "DIR",
                   "folder with train-images-idx3-ubyte and the like, or with these as .gz"),
    SS_OPTION_TEXT(struct arguments, out, "--out", NULL, "DIR", "output folder for train and val"),
    VAL_FRACTION("there are no t10k-... files"),
    SEED,
    {0}};

static int run(const struct data_verb *verb, const struct ss_option *rows,
               enum ss_status (*convert)(const char *from, const char *to,
                                         const struct ss_npz_how *how,
                                         struct ss_npz_converted *out),
               int argc, char **argv)
{
    struct arguments a;
    struct ss_npz_converted got;
    int code = data_verb_parse(verb, rows, &a, argc, argv);
    if (code >= 0)
        return code;
    if (!a.from) {
        ss_fail(SS_ERR_INVALID, "%s: --from FILE is needed", argv[0]);
        return SS_EXIT_USAGE;
    }
    const struct ss_npz_how how = {.images = a.images,
                                   .labels = a.labels,
                                   .val_fraction = a.val_fraction,
                                   .seed = (uint64_t)a.seed,
                                   .stopped = data_is_stopped};
    data_catch_signals();
    if (convert(a.from, a.out, &how, &got) != SS_OK)
        return SS_EXIT_FAILED;
    printf("%s: %zu training images of %s and %zu validation images of %s, %d classes, "
           "%dx%dx%d\n",
           a.out, got.train, got.images, got.val, *got.val_images ? got.val_images : got.images,
           got.classes, got.channels, got.height, got.width);
    return SS_EXIT_OK;
}

int data_run_convert_npz(const struct data_verb *verb, int argc, char **argv)
{
    return run(verb, npz_rows, ss_convert_npz, argc, argv);
}

int data_run_convert_idx(const struct data_verb *verb, int argc, char **argv)
{
    return run(verb, idx_rows, ss_convert_idx, argc, argv);
}
