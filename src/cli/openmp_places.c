/* openmp_places.c: a function that runs before all libraries' constructors (contract in
 * openmp_places.h). It may be called before a sanitizer has set itself up, so it calls nothing and
 * is not instrumented. */
#include "cli/openmp_places.h"
#include "runtime/environment.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {
    "OMP_PLACES=", "GOMP_CPU_AFFINITY=", "OMP_PROC_BIND=", "KMP_AFFINITY="};
enum { NAMES = sizeof names / sizeof *names, NAMING_CORES = 2 };
static const char *removed[NAMES];

#define BEFORE_ALL                                                                                 \
    __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")))

BEFORE_ALL static int begins_with(const char *text, const char *name)
{
    while (*name && *text == *name) {
        text++;
        name++;
    }
    return !*name;
}

BEFORE_ALL static void forget_places(int argc, char **argv, char **envp)
{
    char **kept = envp;
    (void)argc;
    (void)argv;
    for (char **e = envp; *e; e++) {
        int i = 0;
        while (i < NAMES && !begins_with(*e, names[i]))
            i++;
        if (i < NAMES)
            removed[i] = *e;
        else
            *kept++ = *e;
    }
    *kept = NULL;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const at_start)(int, char **, char **) = forget_places;

void ss_openmp_places_note(void)
{
    for (int i = 0; i < NAMING_CORES; i++)
        /* Words such as "cores" ask for what is done anyway. */
        if (removed[i] && strpbrk(strchr(removed[i], '='), "0123456789"))
            ss_environment_ignore(removed[i],
                                  "a rank's cores are those that its launcher bound it to "
                                  "(taskset, mpiexec --bind-to, srun --cpu-bind)");
}
