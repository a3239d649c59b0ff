#include "cli/cmd_data.h"
#include "cli/cmd_data_verb.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/options.h"
#include "data/convert.h"
#include "data/dataset.h"
#include "data/fetch.h"
#include "data/synthetic.h"

int data_verb_parse(const struct data_verb *verb, const struct ss_option *options, int argc,
                    char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            printf("usage: starstep %s %s [options]\n%s\n\n", verb->command, verb->data_set,
                   verb->about);
            ss_options_print(stdout, options);
            return EXIT_OK;
        }
    int help;
    return ss_options_parse(options, argc, argv, &help) == SS_OK ? -1 : EXIT_USAGE;
}

int data_verb_need(const char *command, const char *option, const char *value)
{
    if (value && *value)
        return 1;
    ss_fail(SS_ERR_INVALID, "%s: --%s DIR is needed", command, option);
    return 0;
}

static int run_make(const struct data_verb *verb, int argc, char **argv)
{
    const char *out = NULL;
    long train = 2000, test = 500, classes = 10, seed = 0;
    const struct ss_option options[] = {
        {"out", SS_OPT_STRING, &out, 0, 0, "DIR", "where train.bin and test.bin go"},
        {"train", SS_OPT_INT, &train, 1, SS_SYNTHETIC_MAX, "N", "training samples"},
        {"test", SS_OPT_INT, &test, 1, SS_SYNTHETIC_MAX, "N", "test samples"},
        {"classes", SS_OPT_INT, &classes, 1, 100, "N", "labels are 0 to N-1"},
        {"seed", SS_OPT_INT, &seed, 0, INT_MAX, "N", "equal seeds give equal data"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int code = data_verb_parse(verb, options, argc, argv);
    if (code >= 0)
        return code;
    if (!data_verb_need(argv[0], "out", out))
        return EXIT_USAGE;
    struct ss_synthetic what = {.train = (uint32_t)train,
                                .test = (uint32_t)test,
                                .classes = (uint32_t)classes,
                                .seed = (uint64_t)seed};
    if (ss_synthetic_cifar100(out, &what) != SS_OK)
        return EXIT_FAILED;
    printf("%s: %ld training and %ld test samples of %ld classes\n", out, train, test, classes);
    return EXIT_OK;
}

static int run_convert(const struct data_verb *verb, int argc, char **argv)
{
    const char *from = NULL, *out = NULL;
    const struct ss_option options[] = {
        {"from", SS_OPT_STRING, &from, 0, 0, "DIR", "folder with the files train and test"},
        {"out", SS_OPT_STRING, &out, 0, 0, "DIR", "where train.bin and test.bin go"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int code = data_verb_parse(verb, options, argc, argv);
    if (code >= 0)
        return code;
    if (!data_verb_need(argv[0], "from", from) || !data_verb_need(argv[0], "out", out))
        return EXIT_USAGE;
    if (ss_convert_cifar100(from, out) != SS_OK)
        return EXIT_FAILED;
    printf("%s: train.bin and test.bin written\n", out);
    return EXIT_OK;
}

static int run_fetch(const struct data_verb *verb, int argc, char **argv)
{
    const char *out = NULL;
    struct ss_fetch what = {.url = SS_CIFAR100_URL};
    const struct ss_option options[] = {
        {"out", SS_OPT_STRING, &out, 0, 0, "DIR", "where the files go"},
        {"url", SS_OPT_STRING, &what.url, 0, 0, "URL", "the archive: https, http or file"},
        {"md5", SS_OPT_STRING, &what.md5, 0, 0, "HEX",
         "the archive's MD5 if it is not the published one"},
        {"sha256", SS_OPT_STRING, &what.sha256, 0, 0, "HEX", "its SHA-256, instead or as well"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int code = data_verb_parse(verb, options, argc, argv);
    if (code >= 0)
        return code;
    if (!data_verb_need(argv[0], "out", out))
        return EXIT_USAGE;
    enum ss_status status = ss_fetch_cifar100(out, &what);
    if (status != SS_OK)
        return status == SS_ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
    printf("%s: train.bin, test.bin and fine_label_names.txt written\n", out);
    return EXIT_OK;
}

static enum ss_status print_split(const char *dir, enum ss_split split, const char *name)
{
    struct ss_dataset *d = NULL;
    SS_TRY(ss_dataset_open_cifar100(dir, split, &d));
    size_t per_class[256] = {0};
    int used = 0;
    for (size_t i = 0; i < d->count; i++)
        used += per_class[ss_dataset_label(d, i)]++ == 0;
    printf("%s: %zu images %dx%dx%d, %d of %d classes, fingerprint %016" PRIx64 "\n", name,
           d->count, d->channels, d->height, d->width, used, d->classes, d->fingerprint);
    ss_dataset_close(d);
    return SS_OK;
}

static int run_check(const struct data_verb *verb, int argc, char **argv)
{
    const char *dir = NULL;
    const struct ss_option options[] = {
        {"data-dir", SS_OPT_STRING, &dir, 0, 0, "DIR", "folder with train.bin and test.bin"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int code = data_verb_parse(verb, options, argc, argv);
    if (code >= 0)
        return code;
    if (!data_verb_need(argv[0], "data-dir", dir))
        return EXIT_USAGE;
    if (print_split(dir, SS_SPLIT_TRAIN, "train") != SS_OK ||
        print_split(dir, SS_SPLIT_TEST, "test") != SS_OK)
        return EXIT_FAILED;
    return EXIT_OK;
}

static const struct data_verb verbs[] = {
    {"make", "data make", "cifar100", "Generate a small learnable data set in CIFAR-100's format.",
     run_make},
    {"convert", "data convert", "cifar100",
     "Convert CIFAR-100's Python version (as torchvision keeps it) to train.bin and test.bin.",
     run_convert},
    {"fetch", "data fetch", "cifar100", "Download CIFAR-100 with curl or wget and check it.",
     run_fetch},
    {"check", "data check", "cifar100", "Check a data set and print what it holds.", run_check},
    {"make", "data make", "tinyimagenet",
     "Generate a small learnable data set of JPEG files in TinyImageNet's layout.",
     data_run_make_pictures},
    {"check", "data check", "tinyimagenet",
     "Check a data set of JPEG files (TinyImageNet's layout, or a folder for each class) and print "
     "what it holds.",
     data_run_check_pictures},
    {"pack", "data pack", "tinyimagenet",
     "Decode a data set of JPEG files once, into files that training reads faster.",
     data_run_pack_pictures},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void usage(FILE *out)
{
    fprintf(out, "usage: starstep data VERB DATA-SET [options]\n\n");
    for (int i = 0; i < VERBS; i++)
        fprintf(out, "  %-8s %-13s %s\n", verbs[i].name, verbs[i].data_set, verbs[i].about);
    fprintf(out, "\nstarstep data VERB DATA-SET --help lists the options.\n");
}

int ss_cmd_data(int argc, char **argv)
{
    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        usage(stdout);
        return EXIT_OK;
    }
    if (argc < 2) {
        ss_fail(SS_ERR_INVALID,
                "data: make, convert, fetch, check or pack? See starstep data --help");
        return EXIT_USAGE;
    }
    const struct data_verb *verb = NULL;
    for (int i = 0; i < VERBS; i++)
        if (!verb && !strcmp(argv[1], verbs[i].name))
            verb = &verbs[i];
    if (!verb) {
        ss_fail(SS_ERR_INVALID, "data: unknown verb \"%s\"; see starstep data --help", argv[1]);
        return EXIT_USAGE;
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
        return EXIT_USAGE;
    }
    verb = chosen;
    /* Hand on the options with the command's name in front, for messages. */
    char command[32];
    snprintf(command, sizeof command, "%s", verb->command);
    int skip = named ? 2 : 1;
    argv[skip] = command;
    for (int i = skip + 1; !named && i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            named = 1;
    if (!named) {
        ss_fail(SS_ERR_INVALID, "%s: name the data set: starstep %s %s ...", command, command,
                verb->data_set);
        return EXIT_USAGE;
    }
    return verb->run(verb, argc - skip, argv + skip);
}
