/* Shared helpers of unit tests: a temporary folder, files, and expected errors. */
#ifndef SS_TESTS_DATA_COMMON_H
#define SS_TESTS_DATA_COMMON_H

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* nftw */
#endif
#include "core/log.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static inline void make_folder(void)
{
    strcpy(folder, "/tmp/test_data.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ss_log_set_quiet(1);
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void remove_folder(void)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Returns "FOLDER/NAME", valid until the fourth next call. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *f = fopen(in_folder(name), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

/* Simulates a full disk: limits the size of files of this process to `bytes`; RLIM_INFINITY removes
 * the limit. Check's message file is subject to it too. */
static inline void fill_disk(rlim_t bytes)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Reads the whole file; the caller frees it. */
static inline uint8_t *read_file(const char *name, size_t *size)
{
    FILE *f = fopen(in_folder(name), "rb");
    ck_assert_msg(f != NULL, "%s is missing", name);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

/* Reads the whole file as text; the caller frees it. */
static inline char *read_text(const char *name)
{
    size_t n;
    char *text = (char *)read_file(name, &n);
    text[n] = '\0';
    return text;
}

static inline void file_says(const char *name, const char *expected)
{
    char *text = read_text(name);
    ck_assert_str_eq(text, expected);
    free(text);
}

static inline void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static inline int has_file(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

/* Returns the number of entries of a folder in the temporary one (NULL: of itself), without hidden
 * files; 0 if it does not exist. */
static inline int count_files(const char *name)
{
    DIR *d = opendir(name ? in_folder(name) : folder);
    if (!d)
        return 0;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Checks that the call fails with this status and a one-line message that contains `text`. */
#define expect_error(call, status, text)                                                           \
    do {                                                                                           \
        ck_assert_int_eq((call), (status));                                                        \
        ck_assert_msg(strstr(ss_log_last_error(), (text)) != NULL, "\"%s\" without \"%s\"",        \
                      ss_log_last_error(), (text));                                                \
        ck_assert_ptr_null(strchr(ss_log_last_error(), '\n'));                                     \
    } while (0)

#endif
