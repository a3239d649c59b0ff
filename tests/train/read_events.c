/* read_events FILE...: prints a line "TAG STEP VALUE" for each scalar of TensorBoard event files.
 * Exits with 1 after an error message if a checksum or a record is invalid, or a file cannot be
 * read. Used by command-line tests. */
#include "tests/train/events_reader.h"

#include <errno.h>
#include <inttypes.h>

/* Read a whole file. The caller frees the bytes. Returns NULL if it cannot be read. */
static unsigned char *read_all(const char *path, size_t *size)
{
    size_t capacity = 0;
    unsigned char *bytes = NULL;
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    *size = 0;
    do {
        capacity = 2 * capacity + 65536;
        unsigned char *larger = realloc(bytes, capacity);
        if (!larger)
            break;
        bytes = larger;
        *size += fread(bytes + *size, 1, capacity - *size, f);
    } while (*size == capacity);
    if (*size == capacity || ferror(f)) {
        free(bytes);
        bytes = NULL;
    }
    fclose(f);
    return bytes;
}

static int print_file(const char *path)
{
    struct events e;
    size_t size = 0;
    errno = 0;
    unsigned char *bytes = read_all(path, &size);
    if (!bytes) {
        fprintf(stderr, "%s: cannot read: %s\n", path, strerror(errno));
        return 1;
    }
    int broken = events_parse(bytes, size, &e) != 0;
    for (size_t i = 0; i < e.count; i++)
        printf("%s %" PRId64 " %.9g\n", e.scalars[i].tag, e.scalars[i].step,
               (double)e.scalars[i].value);
    if (broken)
        fprintf(stderr, "%s: %s\n", path, e.error);
    events_free(&e);
    free(bytes);
    return broken;
}

int main(int argc, char **argv)
{
    int bad = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: read_events FILE...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++)
        bad |= print_file(argv[i]);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "read_events: cannot write: %s\n", strerror(errno));
        bad = 1;
    }
    return bad;
}
