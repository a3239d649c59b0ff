/* Startup before and after the constructors of the linked libraries. */
#include "api/openmp_places.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const names[] = {SS_OPENMP_PLACES};
enum { NAMES = sizeof names / sizeof *names };

/* May run before a sanitizer is initialized, so the function calls nothing that a sanitizer
 * intercepts and is not instrumented. */
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

BEFORE_ALL static void forget_places(char **envp)
{
    char **kept = envp;
    for (char **e = envp; *e; e++) {
        int i = 0;
        while (i < NAMES && !begins_with(*e, names[i]))
            i++;
        if (i == NAMES)
            *kept++ = *e;
    }
    *kept = NULL;
}

enum { MOST_SIGNALS = 32, KERNEL_SET = 8 };
static char ignored[MOST_SIGNALS]; /* by signal number: ignored at program start, as by nohup */

/* The kernel's struct sigaction begins with the handler on all processors supported by StarPU. */
BEFORE_ALL static void note_ignored(void)
{
    for (int number = 1; number < MOST_SIGNALS; number++) {
        void (*action[32])(int) = {NULL};
        if (syscall(SYS_rt_sigaction, number, NULL, action, KERNEL_SET) == 0)
            ignored[number] = action[0] == SIG_IGN;
    }
}

BEFORE_ALL static void before_libraries(int argc, char **argv, char **envp)
{
    (void)argc;
    (void)argv;
    forget_places(envp);
    note_ignored();
}

__attribute__((section(".preinit_array"),
               used)) static void (*const at_start)(int, char **, char **) = before_libraries;

/* Restore ignored signals: UCX, linked to by Debian 13's MPI, handles SIGHUP even under nohup. */
__attribute__((constructor)) static void after_libraries(void)
{
    for (int number = 1; number < MOST_SIGNALS; number++)
        if (ignored[number])
            signal(number, SIG_IGN);
}
