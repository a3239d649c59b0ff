/* Checks whether a shared library loads with all its dependencies. Runs in a child process, so
 * that this one loads nothing and survives a crash of the library. */
#ifndef SS_APPS_DOCTOR_LIBRARY_H
#define SS_APPS_DOCTOR_LIBRARY_H

enum { SS_LIBRARY_TEXT = 300 };

enum ss_library_state {
    SS_LIBRARY_LOADS,
    SS_LIBRARY_ABSENT, /* no file of this name */
    SS_LIBRARY_FAILS   /* a dependency or a symbol is missing; or loading crashed or hung */
};

struct ss_library {
    enum ss_library_state state;
    char path[SS_LIBRARY_TEXT]; /* path of the loaded file */
    char with[SS_LIBRARY_TEXT]; /* path of the dependency named by `needs`; "": none */
    char why[SS_LIBRARY_TEXT];  /* if not loaded: the loader's message */
};

/* Try to load a library. needs: prefix of a dependency's name ("libfabric.so"), or NULL. Call
 * before this process starts threads. */
void ss_library_try(const char *name, const char *needs, struct ss_library *out);

#endif
