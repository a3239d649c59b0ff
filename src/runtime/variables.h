/* All variables documented by StarPU 1.4, and how starstep handles them. docs/starpu.md has the
 * same table for users, with observed effects. */
#ifndef SS_RUNTIME_VARIABLES_H
#define SS_RUNTIME_VARIABLES_H

#include <stddef.h>

enum ss_variable_use {
    SS_VARIABLE_ACTS,    /* passed to StarPU */
    SS_VARIABLE_NUMBER,  /* likewise; must be a whole number, otherwise StarPU stops */
    SS_VARIABLE_SET,     /* set by starstep to `value`; other values are refused */
    SS_VARIABLE_LACKS,   /* as REFUSED, because this StarPU was built without the feature */
    SS_VARIABLE_REFUSED, /* refused, except `value`, which is the default here; NULL: all values */
};

struct ss_variable {
    const char *name; /* a final * matches all names with this prefix that match no row above */
    enum ss_variable_use use;
    const char *value;
    const char *why; /* reason or replacement; NULL for the first two */
};
/* A NULL name ends the table. */
extern const struct ss_variable ss_variables[];

/* Find a variable by name. Returns NULL if StarPU documents no such variable. */
const struct ss_variable *ss_variable_find(const char *name, size_t length);
/* Return a variable whose name is one or two typing mistakes away, or NULL. */
const char *ss_variable_nearest(const char *name);

#endif
