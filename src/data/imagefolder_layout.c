/* Layout detection for image folders, and splitting off a validation set
 * (imagefolder_internal.h). */
#include "core/log.h"
#include "core/rng.h"
#include "data/imagefolder_internal.h"
#include "data/image_file.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Names of the validation folder; the first that exists is used. */
static const char *const val_names[] = {"val", "validation", "valid", "test"};
enum { VAL_NAMES = sizeof val_names / sizeof *val_names };

int imagefolder_is_folder(const char *path)
{
    struct stat st;
    errno = ENOTDIR;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Write DIR/NAME to out. Returns 1 if it is a folder. */
static int enter(const char *dir, const char *name, char *out, size_t capacity)
{
    int n = snprintf(out, capacity, "%s/%s", dir, name);
    return n > 0 && (size_t)n < capacity && imagefolder_is_folder(out);
}

static int has_image(const char *dir)
{
    int found = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && !found && (e = readdir(d));)
        found = ss_is_image_name(e->d_name);
    if (d)
        closedir(d);
    return found;
}

/* Result of scanning the folders in a folder, up to the first one with images. */
struct folders {
    int count;
    int with_images; /* one has images, directly or in images/ as in TinyImageNet */
    char last[4096];
};

static void scan_folder(const char *dir, struct folders *f)
{
    memset(f, 0, sizeof *f);
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && !f->with_images && (e = readdir(d));) {
        char path[sizeof f->last], images[sizeof f->last];
        if (e->d_name[0] == '.' || !enter(dir, e->d_name, path, sizeof path))
            continue;
        f->count++;
        memcpy(f->last, path, sizeof path);
        f->with_images =
            has_image(path) || (enter(path, "images", images, sizeof images) && has_image(images));
    }
    if (d)
        closedir(d);
}

/* Detect the layout of `base`. *in: the folders in base, scanned only if there is no train/. */
static int find_at(const char *base, struct folders *in, struct imagefolder_layout *l)
{
    snprintf(l->base, sizeof l->base, "%s", base);
    int train = enter(base, "train", l->train, sizeof l->train), val = 0;
    if (!train)
        scan_folder(base, in);
    for (int i = 0; i < VAL_NAMES && !val && (train || !in->with_images); i++)
        val = enter(base, val_names[i], l->val, sizeof l->val);
    if (!val)
        l->val[0] = '\0';
    if (!train)
        snprintf(l->train, sizeof l->train, "%s", val ? "" : base);
    return train || val || in->with_images;
}

int imagefolder_find_layout(const char *dir, struct imagefolder_layout *l)
{
    struct folders in, below;
    return find_at(dir, &in, l) || (in.count == 1 && find_at(in.last, &below, l));
}

enum ss_status imagefolder_check_layout(const struct imagefolder_layout *l, double val_fraction)
{
    if (!l->train[0])
        return ss_fail(SS_ERR_FORMAT,
                       "%s: has no train/ next to it; the folders of train/ define the class "
                       "labels",
                       l->val);
    if (l->val[0] && val_fraction > 0)
        return ss_fail(SS_ERR_INVALID,
                       "--val-fraction: the validation set %s already exists; leave the option out",
                       l->val);
    if (l->val[0] || val_fraction > 0)
        return SS_OK;
    if (strcmp(l->train, l->base) != 0)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: has train/ but no validation set (val/, validation/, valid/ or "
                       "test/); add it, or split one off: --val-fraction 0.1",
                       l->base);
    return ss_fail(SS_ERR_FORMAT,
                   "%s: has class folders but no train/ and val/; split off a validation set: "
                   "--val-fraction 0.1",
                   l->base);
}

/* Return the number of validation files among n: at least one, but not all. */
static size_t share_of(size_t n, double fraction)
{
    const size_t share = (size_t)llround((double)n * fraction);
    return n < 2 ? 0 : share < 1 ? 1 : share < n ? share : n - 1;
}

/* Selection sampling (Knuth, TAOCP 2, section 3.4.2, algorithm S): all files of a class are equally
 * likely. */
enum ss_status imagefolder_split_off(struct ss_imagefolder *f, enum ss_split split,
                                     const struct ss_dataset_options *options)
{
    size_t kept = 0;
    for (size_t begin = 0, end; begin < f->count; begin = end) {
        const int label = f->entries[begin].label;
        struct ss_rng rng;
        for (end = begin; end < f->count && f->entries[end].label == label;)
            end++;
        size_t wanted = share_of(end - begin, options->val_fraction);
        ss_rng_open(&rng, options->val_seed, SS_RNG_SPLIT, (uint32_t)label, 0);
        for (size_t i = begin; i < end; i++) {
            const int drawn = ss_rng_below(&rng, (uint32_t)(end - i)) < wanted;
            wanted -= (size_t)drawn;
            if (drawn == (split == SS_SPLIT_TEST))
                f->entries[kept++] = f->entries[i];
        }
    }
    f->count = kept;
    return kept ? SS_OK
                : ss_fail(SS_ERR_FORMAT,
                          "%s: every class has one image, so no validation set can be split off; "
                          "leave --val-fraction out and add val/",
                          f->root);
}
