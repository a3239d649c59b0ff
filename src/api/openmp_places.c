#include "api/openmp_places.h"
#include "core/log.h"
#include "runtime/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {SS_OPENMP_PLACES};

/* setting: one of those variables, as the process was started with it. */
static void note(const char *setting, size_t which)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(names[which], "="), names[which]);
    if (getenv(name))
        ss_warn("%.200s: an OpenMP library has bound this program's first thread by it before "
                "starstep could; unset it where the program is started",
                setting);
    /* Words such as "cores" ask for what is done anyway. */
    else if (which < SS_OPENMP_NAMING_CORES && strpbrk(strchr(setting, '='), "0123456789"))
        ss_environment_ignore(setting, "a rank's cores are those that its launcher bound it to "
                                       "(taskset, mpiexec --bind-to, srun --cpu-bind)");
}

void ss_openmp_places_note(void)
{
    static int noted;
    char *setting = NULL;
    size_t room = 0;
    FILE *f = noted++ ? NULL : fopen("/proc/self/environ", "re");
    if (!f)
        return;
    while (getdelim(&setting, &room, '\0', f) > 0)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!strncmp(setting, names[i], strlen(names[i])))
                note(setting, i);
    free(setting);
    fclose(f);
}
