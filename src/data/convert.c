#include "data/convert.h"
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "data/cifar100.h"
#include "data/pickle.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PATH_ROOM = 4096 };

struct samples {
    size_t count;
    const uint8_t *images; /* (count, 3, 32, 32) */
    const struct ss_pickle_value *fine, *coarse;
};

static enum ss_status find_labels(const char *path, const struct ss_pickle_value *root,
                                  const char *key, size_t count, int64_t limit,
                                  const struct ss_pickle_value **out)
{
    const struct ss_pickle_value *v = ss_pickle_lookup(root, key);
    if (!v)
        return ss_fail(SS_ERR_FORMAT, "%s: no \"%s\"; this is not CIFAR-100's Python version", path,
                       key);
    if (v->type != SS_PICKLE_LIST)
        return ss_fail(SS_ERR_FORMAT, "%s: \"%s\" is not a list", path, key);
    if (v->sequence.count != count)
        return ss_fail(SS_ERR_FORMAT, "%s: \"%s\" has %zu labels for %zu images", path, key,
                       v->sequence.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct ss_pickle_value *label = v->sequence.items[i];
        if (label->type != SS_PICKLE_INT)
            return ss_fail(SS_ERR_FORMAT, "%s: \"%s\": item %zu is not an integer", path, key, i);
        if (label->integer < 0 || label->integer >= limit)
            return ss_fail(SS_ERR_FORMAT, "%s: \"%s\": item %zu is %lld; it must be 0 to %lld",
                           path, key, i, (long long)label->integer, (long long)limit - 1);
    }
    *out = v;
    return SS_OK;
}

static enum ss_status find_samples(const char *path, const struct ss_pickle_value *root,
                                   struct samples *out)
{
    if (root->type != SS_PICKLE_DICT)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: the pickle is not a dict; this is not CIFAR-100's "
                       "Python version",
                       path);
    const struct ss_pickle_value *data = ss_pickle_lookup(root, "data");
    if (!data)
        return ss_fail(SS_ERR_FORMAT, "%s: no \"data\"; this is not CIFAR-100's Python version",
                       path);
    if (data->type != SS_PICKLE_ARRAY || data->array.dims != 2 ||
        data->array.shape[1] != SS_CIFAR100_IMAGE || data->array.shape[0] == 0)
        return ss_fail(SS_ERR_FORMAT, "%s: \"data\" is not a uint8 array of shape (samples, %d)",
                       path, SS_CIFAR100_IMAGE);
    struct samples s = {.count = data->array.shape[0], .images = data->array.bytes};
    SS_TRY(find_labels(path, root, "fine_labels", s.count, SS_CIFAR100_CLASSES, &s.fine));
    SS_TRY(find_labels(path, root, "coarse_labels", s.count, SS_CIFAR100_COARSE, &s.coarse));
    *out = s;
    return SS_OK;
}

static enum ss_status write_samples(const struct samples *s, struct ss_atomic_file *f)
{
    for (size_t i = 0; i < s->count; i++) {
        uint8_t labels[2] = {(uint8_t)s->coarse->sequence.items[i]->integer,
                             (uint8_t)s->fine->sequence.items[i]->integer};
        SS_TRY(ss_atomic_write(f, labels, sizeof labels));
        SS_TRY(ss_atomic_write(f, s->images + i * SS_CIFAR100_IMAGE, SS_CIFAR100_IMAGE));
    }
    return SS_OK;
}

/* Write one split's records to a file that stays uncommitted. */
static enum ss_status convert_split(const char *from, const char *to, const char *split,
                                    struct ss_atomic_file **out)
{
    char in[PATH_ROOM], path[PATH_ROOM], name[16];
    snprintf(name, sizeof name, "%s.bin", split);
    SS_TRY(ss_folder_join(in, sizeof in, from, split));
    SS_TRY(ss_folder_join(path, sizeof path, to, name));
    struct ss_pickle *pickle = NULL;
    SS_TRY(ss_pickle_open(in, &pickle));
    struct samples s = {0};
    struct ss_atomic_file *f = NULL;
    enum ss_status status = find_samples(in, ss_pickle_root(pickle), &s);
    if (status == SS_OK)
        status = ss_atomic_open(path, &f);
    if (status == SS_OK)
        status = write_samples(&s, f);
    ss_pickle_close(pickle);
    if (status != SS_OK) {
        ss_atomic_abort(f);
        return status;
    }
    *out = f;
    return SS_OK;
}

enum ss_status ss_convert_cifar100(const char *from, const char *to)
{
    char inside[PATH_ROOM];
    SS_TRY(ss_folder_join(inside, sizeof inside, from, "cifar-100-python"));
    if (!ss_folder_has(from, "train") && ss_folder_has(inside, "train"))
        from = inside;
    if (!ss_folder_has(from, "train") || !ss_folder_has(from, "test"))
        return ss_fail(SS_ERR_IO,
                       "%s/%s: missing; CIFAR-100's Python version is the files train and test",
                       from, ss_folder_has(from, "train") ? "test" : "train");
    SS_TRY(ss_folder_make(to));
    struct ss_atomic_file *train = NULL, *test = NULL;
    SS_TRY(convert_split(from, to, "train", &train));
    enum ss_status status = convert_split(from, to, "test", &test);
    if (status != SS_OK) {
        ss_atomic_abort(train);
        return status;
    }
    status = ss_atomic_commit(train);
    if (status != SS_OK) {
        ss_atomic_abort(test);
        return status;
    }
    return ss_atomic_commit(test);
}
