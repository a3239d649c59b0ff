/* ours.h: checks whether a call comes from starstep's program or library, not from another library
 * or a test. Allocates no memory, so that overrides of C library functions can use it. */
#ifndef SS_TESTS_OURS_H
#define SS_TESTS_OURS_H

#include <link.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define CALLER __builtin_return_address(0)

/* Address ranges of that code. */
static struct {
    uintptr_t begin, end;
} ours[16];
static int nours;

static inline int ours_add(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *program = arg, *name = *info->dlpi_name ? info->dlpi_name : program;
    const char *slash = strrchr(name, '/');
    (void)size;
    name = slash ? slash + 1 : name;
    if (strncmp(name, "libstarstep", 11) && strncmp(name, "libinside.", 10) &&
        strcmp(name, "starstep") && strcmp(name, "lt-starstep"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && nours < 16; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            ours[nours].begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            ours[nours].end = ours[nours].begin + info->dlpi_phdr[i].p_memsz;
            nours++;
        }
    return 0;
}

static inline void ours_find(void)
{
    static char program[4096];
    if (!nours && readlink("/proc/self/exe", program, sizeof program - 1) > 0)
        dl_iterate_phdr(ours_add, program);
}

static inline int is_ours(const void *caller)
{
    for (int i = 0; i < nours; i++)
        if ((uintptr_t)caller >= ours[i].begin && (uintptr_t)caller < ours[i].end)
            return 1;
    return 0;
}

#endif
