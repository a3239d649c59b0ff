/* program.c: identifies the files this process was started from (contract in program.h). */
#include "core/program.h"
#include "core/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* open_as may differ from out->path: /proc/self/exe still opens the running file if its path has
 * been replaced. */
static void hash_file(const char *open_as, struct ss_program_file *out)
{
    unsigned char buffer[1 << 15], digest[SS_SHA256_BYTES];
    struct ss_sha256 hash;
    ssize_t n = -1;
    int fd = open(open_as, O_RDONLY | O_CLOEXEC);
    ss_sha256_begin(&hash);
    while (fd >= 0 && ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)))
        ss_sha256_add(&hash, buffer, n > 0 ? (size_t)n : 0);
    if (fd >= 0)
        close(fd);
    if (n < 0) {
        snprintf(out->sha256, sizeof out->sha256, "unreadable");
        return;
    }
    ss_sha256_end(&hash, digest);
    for (size_t i = 0; i < SS_SHA256_BYTES; i++)
        snprintf(out->sha256 + 2 * i, 3, "%02x", digest[i]);
}

void ss_program_hash_file(const char *path, struct ss_program_file *out)
{
    snprintf(out->path, sizeof out->path, "%s", path);
    hash_file(path, out);
}

/* Finds the loaded object that contains this function. The main program has an empty name in this
 * list. */
static int find_library(struct dl_phdr_info *object, size_t bytes, void *out)
{
    uintptr_t here = (uintptr_t)&find_library;
    (void)bytes;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || here - object->dlpi_addr - part->p_vaddr >= part->p_memsz)
            continue;
        struct ss_program_file *library = out;
        snprintf(library->path, sizeof library->path, "%s", object->dlpi_name);
        return 1;
    }
    return 0;
}

void ss_program_path(char *path, size_t capacity)
{
    struct stat by_name, running;
    char self[32];
    snprintf(self, sizeof self, "/proc/%ld/exe", (long)getpid());
    ssize_t n = readlink(self, path, capacity - 1);
    path[n > 0 ? n : 0] = '\0';
    if (stat(path, &by_name) != 0 || stat(self, &running) != 0 ||
        by_name.st_dev != running.st_dev || by_name.st_ino != running.st_ino)
        snprintf(path, capacity, "%s", self);
}

void ss_program_identify(struct ss_program *out)
{
    static const char self[] = "/proc/self/exe";
    memset(out, 0, sizeof *out);
    ssize_t n = readlink(self, out->program.path, sizeof out->program.path - 1);
    if (n < 0)
        snprintf(out->program.path, sizeof out->program.path, "%s", self);
    hash_file(self, &out->program);
    dl_iterate_phdr(find_library, &out->library);
    if (out->library.path[0])
        hash_file(out->library.path, &out->library);
    else
        snprintf(out->library.sha256, sizeof out->library.sha256, "none");
}
