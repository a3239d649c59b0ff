/* The program starstep: the library's command line. */
#include "api/openmp_places.h"
#include "api/starstep.h"

#include <stddef.h>

static const char *const names[] = {SS_OPENMP_PLACES};
enum { NAMES = sizeof names / sizeof *names };

/* This runs before all libraries' constructors. It may be called before a sanitizer has set itself up, so
 * it calls nothing and is not instrumented. */
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
        if (i == NAMES)
            *kept++ = *e;
    }
    *kept = NULL;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const at_start)(int, char **, char **) = forget_places;

int main(int argc, char **argv)
{
    return ss_main(argc, argv);
}
