#include "cli/cmd_data_verb.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "data/imagefolder.h"
#include "data/jpeg.h"
#include "data/make_tinyimagenet.h"

int data_run_make_pictures(const struct data_verb *verb, int argc, char **argv)
{
    const char *out = NULL;
    long train = 2000, val = 500, classes = 10, seed = 0;
    const struct ss_option options[] = {
        {"out", SS_OPT_STRING, &out, 0, 0, "DIR", "where the folders train and val go"},
        {"train", SS_OPT_INT, &train, 1, SS_MAKE_TINYIMAGENET_FILES, "N", "training pictures"},
        {"val", SS_OPT_INT, &val, 1, SS_MAKE_TINYIMAGENET_FILES, "N", "validation pictures"},
        {"classes", SS_OPT_INT, &classes, 1, SS_MAKE_TINYIMAGENET_CLASSES, "N",
         "labels are 0 to N-1"},
        {"seed", SS_OPT_INT, &seed, 0, INT_MAX, "N", "equal seeds give equal data"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int code = data_verb_parse(verb, options, argc, argv);
    if (code >= 0)
        return code;
    if (!data_verb_need(argv[0], "out", out))
        return EXIT_USAGE;
    struct ss_make_tinyimagenet what = {.classes = (uint32_t)classes,
                                        .train = (uint32_t)train,
                                        .val = (uint32_t)val,
                                        .seed = (uint64_t)seed};
    if (ss_make_tinyimagenet(out, &what) != SS_OK)
        return EXIT_FAILED;
    printf("%s: %ld training and %ld validation pictures of %ld classes\n", out, train, val,
           classes);
    return EXIT_OK;
}

/* Each damaged file has its line; libjpeg's warnings are no damage. */
static enum ss_status decode_all(const struct ss_imagefolder *f)
{
    struct ss_jpeg *jpeg;
    struct ss_image_file file = {.bytes = NULL};
    SS_TRY(ss_jpeg_open(&jpeg));
    enum ss_status result = SS_OK;
    for (size_t i = 0; i < f->count; i++) {
        struct ss_jpeg_pixels pixels;
        int width, height;
        enum ss_status status = ss_imagefolder_read(f, i, &file);
        if (status == SS_OK)
            status = ss_jpeg_begin(jpeg, file.path, file.bytes, file.size, &width, &height);
        if (status == SS_OK)
            status = ss_jpeg_decode(jpeg, NULL, 1, &pixels);
        if (status == SS_OK && ss_jpeg_warning(jpeg))
            ss_warn("%s: %s", file.path, ss_jpeg_warning(jpeg));
        if (status != SS_OK)
            result = status;
    }
    free(file.bytes);
    ss_jpeg_close(jpeg);
    return result;
}

static enum ss_status print_folder(const char *dir, enum ss_split split, const char *name,
                                   int decode)
{
    struct ss_imagefolder *f;
    SS_TRY(ss_imagefolder_open(dir, split, &f));
    printf("%s: %zu JPEG files of %d classes, fingerprint %016" PRIx64 "\n", name, f->count,
           f->classes, f->fingerprint);
    enum ss_status status = decode ? decode_all(f) : ss_imagefolder_check_sizes(f);
    ss_imagefolder_close(f);
    return status;
}

int data_run_check_pictures(const struct data_verb *verb, int argc, char **argv)
{
    const char *dir = NULL;
    int decode = 0;
    const struct ss_option options[] = {
        {"data-dir", SS_OPT_STRING, &dir, 0, 0, "DIR", "folder with train and val"},
        {"decode", SS_OPT_FLAG, &decode, 0, 0, NULL, "decode every picture too"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int code = data_verb_parse(verb, options, argc, argv);
    if (code >= 0)
        return code;
    if (!data_verb_need(argv[0], "data-dir", dir))
        return EXIT_USAGE;
    enum ss_status train = print_folder(dir, SS_SPLIT_TRAIN, "train", decode);
    if (train != SS_OK && !decode)
        return EXIT_FAILED;
    enum ss_status val = print_folder(dir, SS_SPLIT_TEST, "val", decode);
    return train == SS_OK && val == SS_OK ? EXIT_OK : EXIT_FAILED;
}
