/* Preloaded into a run: reports changes of the environment while other threads exist, which may
 * read it, in the file $LATE_SETENV. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

/* Reports calls from this project only, not from MPI and other libraries. */
static void check(const char *what, const char *name, const void *caller)
{
    Dl_info info;
    const char *file = getenv("LATE_SETENV");
    if (!file || !dladdr(caller, &info) || !strstr(info.dli_fname, "starstep") || threads() == 1)
        return;
    FILE *out = fopen(file, "a");
    if (out) {
        fprintf(out, "%s(%s) with %d threads\n", what, name, threads());
        fclose(out);
    }
}

#define NEXT(function) *(void **)&next = dlsym(RTLD_NEXT, #function)

int setenv(const char *name, const char *value, int replace)
{
    int (*next)(const char *, const char *, int);
    NEXT(setenv);
    check("setenv", name, __builtin_return_address(0));
    return next(name, value, replace);
}

int unsetenv(const char *name)
{
    int (*next)(const char *);
    NEXT(unsetenv);
    check("unsetenv", name, __builtin_return_address(0));
    return next(name);
}

int putenv(char *text)
{
    int (*next)(char *);
    NEXT(putenv);
    check("putenv", text, __builtin_return_address(0));
    return next(text);
}
