/* The list of files and the reading of a file (imagefolder.h, imagefolder_internal.h). */
#include "core/folder.h"
#include "core/log.h"
#include "data/imagefolder_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Grow an array to at least `want` elements by doubling its capacity. */
static enum ss_status grow(void *pointer, size_t *capacity, size_t want, size_t size)
{
    void **p = pointer;
    if (want <= *capacity)
        return SS_OK;
    size_t more = *capacity ? *capacity : 1024;
    while (more < want)
        more *= 2;
    void *q = realloc(*p, more * size);
    if (!q)
        return ss_fail_memory("a list of files", more * size);
    *p = q;
    *capacity = more;
    return SS_OK;
}

enum ss_status imagefolder_store(struct ss_imagefolder *f, const char *string, size_t length,
                                 size_t *at)
{
    SS_TRY(grow(&f->text, &f->text_capacity, f->text_used + length + 1, 1));
    memcpy(f->text + f->text_used, string, length);
    f->text[f->text_used + length] = '\0';
    *at = f->text_used;
    f->text_used += length + 1;
    return SS_OK;
}

enum ss_status imagefolder_add(struct ss_imagefolder *f, const char *name, int label)
{
    char path[sizeof f->root + 512];
    struct stat st;
    SS_TRY(ss_folder_join(path, sizeof path, f->root, name));
    if (stat(path, &st) != 0 || access(path, R_OK) != 0)
        return ss_fail(SS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ss_fail(SS_ERR_IO, "%s: is not a regular file", path);
    SS_TRY(grow(&f->entries, &f->capacity, f->count + 1, sizeof *f->entries));
    struct ss_imagefolder_entry *e = &f->entries[f->count];
    SS_TRY(imagefolder_store(f, name, strlen(name), &e->name));
    e->size = (uint64_t)st.st_size;
    e->changed = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
    e->label = label;
    f->count++;
    return SS_OK;
}

int imagefolder_find_class(const struct ss_imagefolder *f, const char *name)
{
    int low = 0, high = f->classes - 1;
    while (low <= high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(name, f->text + f->class_names[middle]);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}

const char *ss_imagefolder_name(const struct ss_imagefolder *f, size_t i)
{
    return f->text + f->entries[i].name;
}

const char *ss_imagefolder_class(const struct ss_imagefolder *f, int label)
{
    return f->text + f->class_names[label];
}

const char *ss_imagefolder_words(const struct ss_imagefolder *f, int label)
{
    return f->class_words[label] ? f->text + f->class_words[label] : NULL;
}

static enum ss_status read_descriptor(int fd, struct ss_image_file *file)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return ss_fail(SS_ERR_IO, "%s: cannot stat: %s", file->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ss_fail(SS_ERR_IO, "%s: is not a regular file", file->path);
    size_t size = (size_t)st.st_size;
    SS_TRY(grow(&file->bytes, &file->capacity, size + 1, 1));
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, file->bytes + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ss_fail(SS_ERR_IO, "%s: cannot read: %s", file->path, strerror(errno));
        if (n == 0)
            return ss_fail(SS_ERR_IO, "%s: ended after %zu of %zu bytes while it was read",
                           file->path, done, size);
        done += (size_t)n;
    }
    file->bytes[size] = '\0';
    file->size = size;
    return SS_OK;
}

enum ss_status imagefolder_read_path(struct ss_image_file *file)
{
    /* O_NONBLOCK: a FIFO of that name must not hang the open. */
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ss_fail(SS_ERR_IO, "%s: cannot open: %s", file->path, strerror(errno));
    enum ss_status status = read_descriptor(fd, file);
    close(fd);
    return status;
}
