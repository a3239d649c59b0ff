/* What the program does before the constructors of the libraries that it is linked to, and after them. */
#include "api/openmp_places.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const names[] = {SS_OPENMP_PLACES};
enum { NAMES = sizeof names / sizeof *names };

/* It may be called before a sanitizer has set itself up, so it calls nothing that one stands in for and is not
 * instrumented. */
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
static char ignored[MOST_SIGNALS]; /* by number: when the program was started, as nohup does it */

/* The kernel's struct sigaction begins with the handler on all processors that StarPU runs on. */
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

/* UCX, which Debian 13's MPI is linked to, has taken SIGHUP whatever nohup said. */
__attribute__((constructor)) static void after_libraries(void)
{
    for (int number = 1; number < MOST_SIGNALS; number++)
        if (ignored[number])
            signal(number, SIG_IGN);
}
