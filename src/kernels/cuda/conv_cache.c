/* conv_cache.c: cache file of tuned convolution algorithms, one per line: key TAB choice.
 *
 * Several processes may share the file. A writer reads it again, replaces or adds its own lines,
 * and renames the result into place. So the file is always complete; of two simultaneous writers
 * the later one wins, and the entries of the other are tuned again later.
 *
 * No error with this file ends a run. A file without the expected first line is neither read nor
 * written. */
#include "core/atomic_file.h"
#include "kernels/cuda/conv_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HEADER[] = "# starstep: convolution algorithms tuned by timing, version 1\n";
enum { LARGEST_FILE = 16 << 20 };

/* GPUs of one process may be opened by different threads, and the name of the temporary file is
 * per process only. A network has many convolutions, so each file is reported once: stores the
 * file last reported, and the file that could not be written. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char complained[1024], unwritable[1024];

static int same(const char *remembered, const char *path)
{
    return strncmp(remembered, path, sizeof complained - 1) == 0;
}

static void complain(const char *path, const char *what)
{
    if (same(complained, path))
        return;
    snprintf(complained, sizeof complained, "%s", path);
    ss_warn("%s: %s", path, what);
}

/* Returns the file as a string, "" if it does not exist, or NULL if it cannot be used. */
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f && errno == ENOENT)
        return calloc(1, 1);
    if (!f) {
        complain(path, "cannot be read; convolutions are tuned again");
        return NULL;
    }
    char *text = malloc(LARGEST_FILE);
    const size_t n = text ? fread(text, 1, LARGEST_FILE, f) : 0;
    const int bad = !text || ferror(f) || n == LARGEST_FILE;
    fclose(f);
    if (!bad) {
        text[n] = '\0';
        if (strlen(text) == n && (n == 0 || strncmp(text, HEADER, strlen(HEADER)) == 0))
            return text;
    }
    complain(path, "not a file of tuned convolutions; it is ignored, and nothing is saved");
    free(text);
    return NULL;
}

/* Returns the next line, *length characters at *line, without the newline. 0 at the end. */
static int next_line(const char **at, const char **line, size_t *length)
{
    if (**at == '\0')
        return 0;
    *line = *at;
    *length = strcspn(*at, "\n");
    *at += *length + ((*at)[*length] == '\n');
    return 1;
}

/* Returns the key's length if the line is "key TAB choice", else 0. */
static size_t key_length(const char *line, size_t length)
{
    const char *tab = memchr(line, '\t', length);
    const size_t key = tab ? (size_t)(tab - line) : 0;
    if (key == 0 || length - key - 1 == 0 || length - key - 1 >= SS_CONV_CHOICE)
        return 0;
    return memchr(tab + 1, '\t', length - key - 1) ? 0 : key;
}

static int has_key(const char *line, size_t length, const char *key)
{
    return length == strlen(key) && memcmp(line, key, length) == 0;
}

static void load(const char *path, struct ss_conv_memory *m)
{
    char *text = read_file(path);
    if (!text)
        return;
    const char *at = text + (*text ? strlen(HEADER) : 0), *line;
    size_t length;
    while (next_line(&at, &line, &length)) {
        const size_t key = key_length(line, length);
        if (key == 0)
            complain(path, "has lines that are not \"key TAB choice\"; they are ignored");
        for (int i = 0; key > 0 && i < SS_CONV_ALL_PASSES; i++)
            if (has_key(line, key, m->key[i]))
                snprintf(m->choice[i], SS_CONV_CHOICE, "%.*s", (int)(length - key - 1),
                         line + key + 1);
    }
    free(text);
}

static enum ss_status store(const char *path, const struct ss_conv_memory *m, const char *text)
{
    struct ss_atomic_file *f;
    SS_TRY(ss_atomic_open(path, &f));
    ss_atomic_write(f, HEADER, strlen(HEADER));
    const char *at = text + (*text ? strlen(HEADER) : 0), *line;
    size_t length;
    while (next_line(&at, &line, &length)) {
        const size_t key = key_length(line, length);
        int keep = key > 0;
        for (int i = 0; i < SS_CONV_ALL_PASSES; i++)
            keep = keep && !(m->choice[i][0] && has_key(line, key, m->key[i]));
        if (keep) {
            ss_atomic_write(f, line, length);
            ss_atomic_write(f, "\n", 1);
        }
    }
    for (int i = 0; i < SS_CONV_ALL_PASSES; i++) {
        char entry[SS_CONV_KEY + SS_CONV_CHOICE + 2];
        if (m->choice[i][0])
            ss_atomic_write(
                f, entry,
                (size_t)snprintf(entry, sizeof entry, "%s\t%s\n", m->key[i], m->choice[i]));
    }
    return ss_atomic_commit(f);
}

void ss_conv_cache_load(const char *path, struct ss_conv_memory *m)
{
    pthread_mutex_lock(&lock);
    load(path, m);
    pthread_mutex_unlock(&lock);
}

void ss_conv_cache_store(const char *path, const struct ss_conv_memory *m)
{
    pthread_mutex_lock(&lock);
    char *text = same(unwritable, path) ? NULL : read_file(path);
    if (text && store(path, m, text) != SS_OK) {
        snprintf(unwritable, sizeof unwritable, "%s", path);
        ss_warn("%s: cannot be written; tuned convolutions are not saved", path);
    }
    free(text);
    pthread_mutex_unlock(&lock);
}
