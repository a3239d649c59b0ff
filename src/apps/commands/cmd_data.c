#include "apps/commands/cmd_data_verb.h"
#include "core/log.h"
#include "core/options.h"
#include "data/dataset.h"
#include "apps/data/synthetic.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ss_cifar *cifar_of(const struct data_verb *verb)
{
    return strcmp(verb->data_set, ss_cifar10.name) ? &ss_cifar100 : &ss_cifar10;
}

struct make_arguments {
    const char *out;
    long train, test, classes, seed;
};

static const struct ss_option make_rows[] = {
    SS_OPTION_TEXT(struct make_arguments, out, "--out", NULL, "DIR", "output folder"),
    SS_OPTION_INT(struct make_arguments, train, "--train", 2000, 1, SS_SYNTHETIC_MAX, "N",
                  "training samples"),
    SS_OPTION_INT(struct make_arguments, test, "--test", 500, 1, SS_SYNTHETIC_MAX, "N",
                  "test samples"),
    SS_OPTION_INT(struct make_arguments, classes, "--classes", 10, 1, 100, "N",
                  "number of classes"),
    SS_OPTION_INT(struct make_arguments, seed, "--seed", 0, 0, INT_MAX, "N",
                  "seed of the generated data"),
    {0}};

static int run_make(const struct data_verb *verb, int argc, char **argv)
{
    struct make_arguments a;
    int code = data_verb_parse(verb, make_rows, &a, argc, argv);
    if (code >= 0)
        return code;
    struct ss_synthetic what = {.train = (uint32_t)a.train,
                                .test = (uint32_t)a.test,
                                .classes = (uint32_t)a.classes,
                                .seed = (uint64_t)a.seed};
    if (ss_synthetic_cifar(cifar_of(verb), a.out, &what) != SS_OK)
        return SS_EXIT_FAILED;
    printf("%s: %ld training and %ld test samples of %ld classes\n", a.out, a.train, a.test,
           a.classes);
    return SS_EXIT_OK;
}

static enum ss_status print_split(const struct ss_cifar *cifar, const char *dir,
                                  enum ss_split split, const char *name)
{
    struct ss_dataset *d = NULL;
    SS_TRY(ss_dataset_open_cifar(cifar, dir, split, &d));
    size_t per_class[256] = {0};
    int used = 0;
    for (size_t i = 0; i < d->count; i++)
        used += per_class[ss_dataset_label(d, i)]++ == 0;
    printf("%s: %zu images %dx%dx%d, %d of %d classes, fingerprint %016" PRIx64 "\n", name,
           d->count, d->channels, d->height, d->width, used, d->classes, d->fingerprint);
    ss_dataset_close(d);
    return SS_OK;
}

struct check_arguments {
    const char *dir;
};

static const struct ss_option check_rows[] = {SS_OPTION_TEXT(struct check_arguments, dir,
                                                             "--data-dir", NULL, "DIR",
                                                             "folder of the data set"),
                                              {0}};

static int run_check(const struct data_verb *verb, int argc, char **argv)
{
    struct check_arguments a;
    int code = data_verb_parse(verb, check_rows, &a, argc, argv);
    if (code >= 0)
        return code;
    if (print_split(cifar_of(verb), a.dir, SS_SPLIT_TRAIN, "train") != SS_OK ||
        print_split(cifar_of(verb), a.dir, SS_SPLIT_TEST, "test") != SS_OK)
        return SS_EXIT_FAILED;
    return SS_EXIT_OK;
}

static const struct data_verb verbs[] = {
    {"make", "data make", "cifar100", "Generate a small data set in CIFAR-100's format, for tests.",
     run_make},
    {"make", "data make", "cifar10", "Generate a small data set in CIFAR-10's format, for tests.",
     run_make},
    {"convert", "data convert", "cifar100",
     "Convert CIFAR-100's Python version (torchvision's) to train.bin and test.bin.",
     data_run_tool},
    {"convert", "data convert", "cifar10",
     "Convert CIFAR-10's Python version to data_batch_1.bin to 5 and test_batch.bin.",
     data_run_tool},
    {"convert", "data convert", "npz",
     "Convert NumPy arrays of images and labels to folders of PNG files.", data_run_tool},
    {"convert", "data convert", "idx",
     "Convert IDX files (MNIST, FashionMNIST) to folders of PNG files.", data_run_tool},
    {"convert", "data convert", "parquet",
     "Convert Parquet files of the Hugging Face hub to folders of image files.", data_run_tool},
    {"convert", "data convert", "images",
     "Convert folders of WebP, TIFF, BMP and other files that Pillow reads.", data_run_tool},
    {"fetch", "data fetch", "cifar100", "Download CIFAR-100 and verify it.", data_run_tool},
    {"fetch", "data fetch", "cifar10", "Download CIFAR-10 and verify it.", data_run_tool},
    {"check", "data check", "cifar100", "Check a data set and print what it holds.", run_check},
    {"check", "data check", "cifar10", "Check a data set and print what it holds.", run_check},
    {"make", "data make", "tinyimagenet",
     "Generate a small data set of JPEG files in TinyImageNet's layout.", data_run_make_images},
    {"check", "data check", "tinyimagenet",
     "Check a data set of image files and print what it holds.", data_run_check_images},
    {"pack", "data pack", "tinyimagenet",
     "Decode a data set of image files into packed files that load faster.", data_run_pack_images},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void usage(FILE *out)
{
    fprintf(out, "usage: starstep data VERB DATA-SET [OPTION...]\n\n");
    for (int i = 0; i < VERBS; i++)
        fprintf(out, "  %-8s %-13s %s\n", verbs[i].name, verbs[i].data_set, verbs[i].about);
    fprintf(out, "\nstarstep data VERB DATA-SET --help lists the options.\n");
}

int ss_cmd_data(int argc, char **argv)
{
    if (argc >= 2 && ss_options_is_help(argv[1])) {
        usage(stdout);
        return SS_EXIT_OK;
    }
    if (argc < 2) {
        ss_fail(SS_ERR_INVALID,
                "data: no verb; give make, convert, fetch, check or pack (starstep data --help)");
        return SS_EXIT_USAGE;
    }
    const struct data_verb *verb = NULL;
    for (int i = 0; i < VERBS; i++)
        if (!verb && !strcmp(argv[1], verbs[i].name))
            verb = &verbs[i];
    if (!verb) {
        ss_fail(SS_ERR_INVALID, "data: unknown verb \"%s\"; see starstep data --help", argv[1]);
        return SS_EXIT_USAGE;
    }
    int named = argc >= 3 && argv[2][0] != '-';
    const struct data_verb *chosen = named ? NULL : verb;
    char known[64] = "";
    for (int i = 0; named && i < VERBS; i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        if (!strcmp(argv[2], verbs[i].data_set))
            chosen = &verbs[i];
        strcat(strcat(known, *known ? ", " : ""), verbs[i].data_set);
    }
    if (!chosen) {
        ss_fail(SS_ERR_INVALID, "%s: unknown data set \"%s\"; known here: %s", verb->command,
                argv[2], known);
        return SS_EXIT_USAGE;
    }
    verb = chosen;
    /* Pass the options on with the command's name as argv[0], for messages. */
    char command[32];
    snprintf(command, sizeof command, "%s", verb->command);
    int skip = named ? 2 : 1;
    argv[skip] = command;
    for (int i = skip + 1; !named && i < argc; i++)
        if (ss_options_is_help(argv[i]))
            named = 1;
    if (!named) {
        ss_fail(SS_ERR_INVALID, "%s: name the data set: starstep %s %s ...", command, command,
                verb->data_set);
        return SS_EXIT_USAGE;
    }
    return verb->run(verb, argc - skip, argv + skip);
}
