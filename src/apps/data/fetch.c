#include "apps/data/fetch.h"
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "data/dataset.h"
#include "apps/data/process.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* FOLDER_CAPACITY leaves space in PATH_CAPACITY for file names inside the folder. */
enum { FOLDER_CAPACITY = 3840, PATH_CAPACITY = 4096, LINE_CAPACITY = 400 };

enum { WANTED_CAPACITY = 2 * SS_CIFAR_MAX_FILES + 1 };

struct work {
    const struct ss_cifar *cifar;
    char wanted[WANTED_CAPACITY][32]; /* the files to unpack from the archive */
    int count;
    char folder[FOLDER_CAPACITY]; /* temporary, inside the target */
    char inside[PATH_CAPACITY];   /* the archive's folder, to which tar unpacks the files */
    char archive[PATH_CAPACITY], out[PATH_CAPACITY], err[PATH_CAPACITY];
};

static void list_wanted(struct work *w)
{
    for (int split = 0; split < 2; split++)
        for (const char *const *file = w->cifar->files[split]; *file; file++)
            snprintf(w->wanted[w->count++], sizeof w->wanted[0], "%s.bin", *file);
    snprintf(w->wanted[w->count++], sizeof w->wanted[0], "%s", w->cifar->names);
}

static enum ss_status begin_work(struct work *w, const char *dir)
{
    list_wanted(w);
    int n = snprintf(w->folder, sizeof w->folder, "%s/fetch.tmp.%ld", dir, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof w->folder)
        return ss_fail(SS_ERR_INVALID, "%.80s...: the folder's name is too long", dir);
    SS_TRY(ss_folder_join(w->inside, sizeof w->inside, w->folder, w->cifar->binary));
    SS_TRY(ss_folder_join(w->archive, sizeof w->archive, w->folder, "archive.tar.gz"));
    SS_TRY(ss_folder_join(w->out, sizeof w->out, w->folder, "out.txt"));
    SS_TRY(ss_folder_join(w->err, sizeof w->err, w->folder, "err.txt"));
    return ss_folder_make(w->folder);
}

static void end_work(const struct work *w)
{
    char path[PATH_CAPACITY];
    for (int i = 0; i < w->count; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", w->inside, w->wanted[i]);
        if (n > 0 && (size_t)n < sizeof path)
            unlink(path);
    }
    rmdir(w->inside);
    unlink(w->archive);
    unlink(w->out);
    unlink(w->err);
    if (rmdir(w->folder) != 0)
        ss_warn("%s: cannot remove the temporary folder: %s", w->folder, strerror(errno));
}

/* Read the first or last non-empty line of a program's output, "" if there is none. */
static void read_line(const char *path, int last, char line[LINE_CAPACITY])
{
    char next[LINE_CAPACITY];
    line[0] = '\0';
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    while ((last || !line[0]) && fgets(next, sizeof next, f)) {
        next[strcspn(next, "\r\n")] = '\0';
        if (next[0])
            memcpy(line, next, sizeof next);
    }
    fclose(f);
}

static enum ss_status run(const struct work *w, const char *const *argv, const char *in, int *code)
{
    struct ss_process process = {.argv = argv, .in = in, .out = w->out, .err = w->err};
    return ss_process_run(&process, code);
}

static enum ss_status download(const struct work *w, const char *url)
{
    const char *const curl[] = {"curl",
                                "--fail",
                                "--location",
                                "--silent",
                                "--show-error",
                                "--retry",
                                "2",
                                "--connect-timeout",
                                "30",
                                "--output",
                                w->archive,
                                "--url",
                                url,
                                NULL};
    const char *const wget[] = {"wget", "--no-verbose", "--tries=3", "--timeout=30",
                                "-O",   w->archive,     url,         NULL};
    const char *program = "curl";
    int code;
    ss_note("downloading %s", url);
    SS_TRY(run(w, curl, NULL, &code));
    if (code < 0) {
        program = "wget";
        SS_TRY(run(w, wget, NULL, &code));
    }
    if (code < 0)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "neither curl nor wget is installed; install one, or download %s elsewhere "
                       "and unpack %s and so on here",
                       url, w->wanted[0]);
    if (code != 0) {
        char why[LINE_CAPACITY];
        read_line(w->err, 1, why);
        return ss_fail(SS_ERR_IO, "%s: the download failed (%s: exit status %d%s%s)", url, program,
                       code, why[0] ? ": " : "", why);
    }
    return SS_OK;
}

static int is_hex(const char *text, size_t digits)
{
    if (strlen(text) != digits)
        return 0;
    for (size_t i = 0; i < digits; i++)
        if (!isxdigit((unsigned char)text[i]))
            return 0;
    return 1;
}

static enum ss_status check_sum(const struct work *w, const char *url, const char *program,
                                const char *kind, const char *expected)
{
    const char *const argv[] = {program, NULL};
    int code;
    SS_TRY(run(w, argv, w->archive, &code));
    if (code < 0)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "%s is not installed; it is needed to verify the archive", program);
    char got[LINE_CAPACITY];
    read_line(w->out, 0, got);
    got[strcspn(got, " ")] = '\0';
    if (code != 0 || !is_hex(got, strlen(expected)))
        return ss_fail(SS_ERR_LIBRARY, "%s failed (exit status %d)", program, code);
    if (strcasecmp(got, expected) != 0)
        return ss_fail(SS_ERR_MISMATCH,
                       "%s: the archive's %s is %s, expected %s; the download is damaged or is "
                       "another file",
                       url, kind, got, expected);
    return SS_OK;
}

static enum ss_status unpack(const struct work *w, const char *url)
{
    enum { FIXED = 6 };
    char paths[WANTED_CAPACITY][80];
    const char *tar[FIXED + WANTED_CAPACITY + 1] = {"tar", "-xzf",    w->archive,
                                                    "-C",  w->folder, "--no-same-owner"};
    for (int i = 0; i < w->count; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", w->cifar->binary, w->wanted[i]);
        tar[FIXED + i] = paths[i];
    }
    int code;
    SS_TRY(run(w, tar, NULL, &code));
    if (code < 0)
        return ss_fail(SS_ERR_UNSUPPORTED,
                       "tar is not installed; it is needed to unpack the archive");
    if (code != 0) {
        char why[LINE_CAPACITY];
        read_line(w->err, 0, why);
        return ss_fail(SS_ERR_FORMAT, "%s: cannot unpack the archive (tar: exit status %d%s%s)",
                       url, code, why[0] ? ": " : "", why);
    }
    for (int i = 0; i < w->count; i++) {
        char path[PATH_CAPACITY];
        struct stat st;
        SS_TRY(ss_folder_join(path, sizeof path, w->inside, w->wanted[i]));
        /* A link in the archive could redirect to a file outside it. */
        if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
            return ss_fail(SS_ERR_FORMAT, "%s: %s in the archive is not a regular file", url,
                           w->wanted[i]);
    }
    for (int split = SS_SPLIT_TRAIN; split <= SS_SPLIT_TEST; split++) {
        struct ss_dataset *d = NULL;
        SS_TRY(ss_dataset_open_cifar(w->cifar, w->inside, (enum ss_split)split, &d));
        ss_dataset_close(d);
    }
    return SS_OK;
}

static enum ss_status move_files(const struct work *w, const char *dir)
{
    for (int i = 0; i < w->count; i++) {
        char from[PATH_CAPACITY], to[PATH_CAPACITY];
        SS_TRY(ss_folder_join(from, sizeof from, w->inside, w->wanted[i]));
        SS_TRY(ss_folder_join(to, sizeof to, dir, w->wanted[i]));
        int fd = open(from, O_RDONLY | O_CLOEXEC);
        int failed = fd < 0 || fsync(fd) != 0 || rename(from, to) != 0;
        enum ss_status status =
            failed ? ss_fail(SS_ERR_IO, "%s: cannot move the file there: %s", to, strerror(errno))
                   : SS_OK;
        if (fd >= 0)
            close(fd);
        SS_TRY(status);
    }
    return ss_atomic_sync_folder(dir);
}

static enum ss_status check_arguments(const char *url, const char *md5, const char *sha256)
{
    if (strncmp(url, "https://", 8) && strncmp(url, "http://", 7) && strncmp(url, "file://", 7))
        return ss_fail(SS_ERR_INVALID, "url \"%s\": must begin with https://, http:// or file://",
                       url);
    if (md5 && !is_hex(md5, 32))
        return ss_fail(SS_ERR_INVALID, "md5 \"%s\": must be 32 hexadecimal digits", md5);
    if (sha256 && !is_hex(sha256, 64))
        return ss_fail(SS_ERR_INVALID, "sha256 \"%s\": must be 64 hexadecimal digits", sha256);
    return SS_OK;
}

enum ss_status ss_fetch_cifar(const struct ss_cifar *cifar, const char *dir,
                              const struct ss_fetch *what)
{
    const char *url = what->url ? what->url : cifar->url;
    const char *md5 = what->md5 || what->sha256 ? what->md5 : cifar->md5;
    SS_TRY(check_arguments(url, md5, what->sha256));
    SS_TRY(ss_folder_make(dir));
    struct work w = {.cifar = cifar};
    SS_TRY(begin_work(&w, dir));
    enum ss_status status = download(&w, url);
    if (status == SS_OK && md5)
        status = check_sum(&w, url, "md5sum", "MD5", md5);
    if (status == SS_OK && what->sha256)
        status = check_sum(&w, url, "sha256sum", "SHA-256", what->sha256);
    if (status == SS_OK)
        status = unpack(&w, url);
    if (status == SS_OK)
        status = move_files(&w, dir);
    end_work(&w);
    return status;
}
