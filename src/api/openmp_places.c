#include "api/openmp_places.h"
#include "core/log.h"
#include "runtime/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {SS_OPENMP_PLACES};

/* setting: one of those variables, with the value at process start. */
static void note(const char *setting, size_t which)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(names[which], "="), names[which]);
    if (getenv(name))
        ss_warn("%.200s: an OpenMP library has bound this program's first thread; "
                "unset the variable before starting the program",
                setting);
    /* Words such as "cores" request the default behavior. */
    else if (which < SS_OPENMP_NAMING_CORES && strpbrk(strchr(setting, '='), "0123456789"))
        ss_environment_ignore(setting, "a rank's cores are those that its launcher bound it to "
                                       "(taskset, mpiexec --bind-to, srun --cpu-bind)");
}

void ss_openmp_places_note(void)
{
    static int noted;
    char *setting = NULL;
    size_t capacity = 0;
    FILE *f = noted++ ? NULL : fopen("/proc/self/environ", "re");
    if (!f)
        return;
    while (getdelim(&setting, &capacity, '\0', f) > 0)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!strncmp(setting, names[i], strlen(names[i])))
                note(setting, i);
    free(setting);
    fclose(f);
}
