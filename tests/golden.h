/* Comparison of a test's text with a golden file; SS_UPDATE_GOLDEN=1 rewrites the file. */
#ifndef SS_TESTS_GOLDEN_H
#define SS_TESTS_GOLDEN_H

#include "tests/assert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline char *golden_read(const char *path)
{
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s: %s", path, strerror(errno));
    char *text = NULL;
    size_t capacity = 0;
    if (getdelim(&text, &capacity, '\0', f) < 0)
        text = calloc(1, 1);
    fclose(f);
    return text;
}

static inline void golden_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_msg(f != NULL, "%s: %s", path, strerror(errno));
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

enum { GOLDEN_PATH = 1024 };

/* Stores the path of `file`, relative to the source's tests/, in path and returns it. */
static inline const char *golden_path(char path[GOLDEN_PATH], const char *file)
{
    const char *srcdir = getenv("srcdir");
    snprintf(path, GOLDEN_PATH, "%s/tests/%s", srcdir ? srcdir : ".", file);
    return path;
}

static inline void golden(const char *file, const char *text)
{
    char path[GOLDEN_PATH];
    golden_path(path, file);
    if (getenv("SS_UPDATE_GOLDEN")) {
        golden_write(path, text);
        return;
    }
    char *want = golden_read(path);
    int line = 1;
    size_t same = 0, begin = 0;
    for (; text[same] && text[same] == want[same]; same++)
        if (text[same] == '\n') {
            line++;
            begin = same + 1;
        }
    ck_assert_msg(text[same] == want[same],
                  "%s: line %d is now\n%.*s\nand was\n%.*s\n(SS_UPDATE_GOLDEN=1 rewrites it)", path,
                  line, (int)strcspn(text + begin, "\n"), text + begin,
                  (int)strcspn(want + begin, "\n"), want + begin);
    free(want);
}

#endif
