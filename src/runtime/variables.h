/* Every variable that StarPU 1.4 documents, and what becomes of it here (docs/starpu.md has the same table for people,
 * with what each was seen to change). */
#ifndef SS_RUNTIME_VARIABLES_H
#define SS_RUNTIME_VARIABLES_H

#include <stddef.h>

enum ss_variable_use {
    SS_VARIABLE_ACTS,   /* StarPU follows it */
    SS_VARIABLE_NUMBER, /* likewise, and would stop unless it is a whole number */
    SS_VARIABLE_SET,    /* starstep sets it to `value`, and refuses others */
    SS_VARIABLE_LACKS, /* refused likewise by this StarPU, which was built without what it is of; acts in others */
    SS_VARIABLE_REFUSED, /* but for `value`, which says what is done anyway; NULL: any is */
};

struct ss_variable {
    const char *name; /* with * at its end: all that begin so and that no row above names */
    enum ss_variable_use use;
    const char *value;
    const char *why; /* what takes its place; NULL for the first two */
};
/* A name NULL ends it. */
extern const struct ss_variable ss_variables[];

/* NULL: StarPU documents none of that name. */
const struct ss_variable *ss_variable_find(const char *name, size_t length);
/* One whose name is a typing mistake or two away; NULL: none. */
const char *ss_variable_nearest(const char *name);

#endif
