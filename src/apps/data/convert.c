#include "apps/data/convert.h"
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "data/cifar.h"
#include "apps/data/pickle.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PATH_CAPACITY = 4096 };

struct samples {
    size_t count;
    const uint8_t *images;                         /* (count, 3, 32, 32) */
    const struct ss_pickle_value *labels, *coarse; /* coarse: NULL if there are none */
};

static enum ss_status find_labels(const struct ss_cifar *cifar, const char *path,
                                  const struct ss_pickle_value *root, const char *key, size_t count,
                                  int64_t limit, const struct ss_pickle_value **out)
{
    const struct ss_pickle_value *v = ss_pickle_lookup(root, key);
    if (!v)
        return ss_fail(SS_ERR_FORMAT, "%s: no \"%s\"; this is not %s's Python version", path, key,
                       cifar->title);
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

static enum ss_status find_samples(const struct ss_cifar *cifar, const char *path,
                                   const struct ss_pickle_value *root, struct samples *out)
{
    if (root->type != SS_PICKLE_DICT)
        return ss_fail(SS_ERR_FORMAT,
                       "%s: the pickle is not a dict; this is not %s's Python version", path,
                       cifar->title);
    const struct ss_pickle_value *data = ss_pickle_lookup(root, "data");
    if (!data)
        return ss_fail(SS_ERR_FORMAT, "%s: no \"data\"; this is not %s's Python version", path,
                       cifar->title);
    if (data->type != SS_PICKLE_ARRAY || data->array.dims != 2 ||
        data->array.shape[1] != SS_CIFAR_IMAGE || data->array.shape[0] == 0)
        return ss_fail(SS_ERR_FORMAT, "%s: \"data\" is not a uint8 array of shape (samples, %d)",
                       path, SS_CIFAR_IMAGE);
    struct samples s = {.count = data->array.shape[0], .images = data->array.bytes};
    SS_TRY(find_labels(cifar, path, root, cifar->labels, s.count, cifar->classes, &s.labels));
    if (cifar->coarse)
        SS_TRY(find_labels(cifar, path, root, "coarse_labels", s.count, cifar->coarse, &s.coarse));
    *out = s;
    return SS_OK;
}

static enum ss_status write_samples(const struct samples *s, struct ss_atomic_file *f)
{
    for (size_t i = 0; i < s->count; i++) {
        uint8_t labels[2];
        size_t n = 0;
        if (s->coarse)
            labels[n++] = (uint8_t)s->coarse->sequence.items[i]->integer;
        labels[n++] = (uint8_t)s->labels->sequence.items[i]->integer;
        SS_TRY(ss_atomic_write(f, labels, n));
        SS_TRY(ss_atomic_write(f, s->images + i * SS_CIFAR_IMAGE, SS_CIFAR_IMAGE));
    }
    return SS_OK;
}

/* Convert one file. On success the caller commits or aborts *out. */
static enum ss_status convert_file(const struct ss_cifar *cifar, const char *from, const char *to,
                                   const char *file, struct ss_atomic_file **out)
{
    char in[PATH_CAPACITY], path[PATH_CAPACITY], name[32];
    snprintf(name, sizeof name, "%s.bin", file);
    SS_TRY(ss_folder_join(in, sizeof in, from, file));
    SS_TRY(ss_folder_join(path, sizeof path, to, name));
    struct ss_pickle *pickle = NULL;
    SS_TRY(ss_pickle_open(in, &pickle));
    struct samples s = {0};
    struct ss_atomic_file *f = NULL;
    enum ss_status status = find_samples(cifar, in, ss_pickle_root(pickle), &s);
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

static int has_all(const struct ss_cifar *cifar, const char *dir, const char **missing)
{
    for (int split = 0; split < 2; split++)
        for (const char *const *file = cifar->files[split]; *file; file++)
            if (!ss_folder_has(dir, *file)) {
                *missing = *file;
                return 0;
            }
    return 1;
}

enum ss_status ss_convert_cifar(const struct ss_cifar *cifar, const char *from, const char *to)
{
    char inside[PATH_CAPACITY];
    const char *missing;
    SS_TRY(ss_folder_join(inside, sizeof inside, from, cifar->python));
    if (!ss_folder_has(from, cifar->files[0][0]) && ss_folder_has(inside, cifar->files[0][0]))
        from = inside;
    if (!has_all(cifar, from, &missing))
        return ss_fail(SS_ERR_IO, "%s/%s: missing; %s's Python version is the files %s%s and %s",
                       from, missing, cifar->title, cifar->files[0][0],
                       cifar->files[0][1] ? " and so on" : "", cifar->files[1][0]);
    SS_TRY(ss_folder_make(to));
    struct ss_atomic_file *files[2 * SS_CIFAR_MAX_FILES];
    enum ss_status status = SS_OK;
    int count = 0, done = 0;
    for (int split = 0; split < 2; split++)
        for (const char *const *file = cifar->files[split]; *file && status == SS_OK; file++) {
            status = convert_file(cifar, from, to, *file, &files[count]);
            count += status == SS_OK;
        }
    while (status == SS_OK && done < count)
        status = ss_atomic_commit(files[done++]);
    while (done < count)
        ss_atomic_abort(files[done++]);
    return status;
}
