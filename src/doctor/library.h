/* Does a shared library load, with all that it needs? Tried in a child process, so that this one
 * loads nothing and survives what the library does. */
#ifndef SS_DOCTOR_LIBRARY_H
#define SS_DOCTOR_LIBRARY_H

enum { SS_LIBRARY_TEXT = 300 };

enum ss_library_state {
    SS_LIBRARY_LOADS,
    SS_LIBRARY_ABSENT, /* there is no file of this name */
    SS_LIBRARY_FAILS   /* a library that it needs, or a symbol, is missing; or it crashed or hung */
};

struct ss_library {
    enum ss_library_state state;
    char path[SS_LIBRARY_TEXT]; /* the file that was taken */
    char with[SS_LIBRARY_TEXT]; /* the file that a library of the name `needs` came from; "": none */
    char why[SS_LIBRARY_TEXT];  /* not loaded: the loader's message */
};

/* needs: the beginning of a library's name ("libfabric.so"); NULL: none is looked for. Before this
 * process has threads of its own. */
void ss_library_try(const char *name, const char *needs, struct ss_library *out);

#endif
