/* What the two files of export_paje.h share. */
#ifndef SS_TRACE_EXPORT_PAJE_INTERNAL_H
#define SS_TRACE_EXPORT_PAJE_INTERNAL_H

#include "trace/export.h"

/* The numbers of lines: what they define, or what happens at a time. */
enum ss_paje_line {
    SS_PAJE_DEFINE_CONTAINER,
    SS_PAJE_DEFINE_STATE,
    SS_PAJE_DEFINE_EVENT,
    SS_PAJE_DEFINE_VARIABLE,
    SS_PAJE_DEFINE_LINK,
    SS_PAJE_DEFINE_VALUE,
    SS_PAJE_CREATE,
    SS_PAJE_DESTROY,
    SS_PAJE_PUSH,
    SS_PAJE_POP,
    SS_PAJE_EVENT,
    SS_PAJE_SET,
    SS_PAJE_START_LINK,
    SS_PAJE_END_LINK,
    SS_PAJE_LINES
};

/* A line without its number and time. Of the same time, what was noted first comes first. */
struct ss_paje_event {
    int64_t at;
    size_t text; /* where in paje.text */
    enum ss_paje_line what;
};

/* Values of states, and variables: both are known by their names. */
struct ss_paje_name {
    const char *text;
    enum ss_task_kind kind; /* of a task */
};
struct ss_paje_names {
    struct ss_paje_name *at;
    size_t count, room;
};

struct ss_paje {
    SS_TRACE_ARRAY(struct ss_paje_event) event;
    SS_TRACE_ARRAY(char) text;
    struct ss_paje_names task, worker;
    size_t links;
};

enum { SS_PAJE_QUOTED = 256 };

/* before, name and after as one string of the format, in room. Names may have blanks, so all stand
 * in quotes, for which the format has no escapes; pj_dump takes no empty one. Returns room. */
const char *ss_paje_quote(char room[SS_PAJE_QUOTED], const char *before, const char *name,
                          const char *after);

/* Fill p->event, sorted, and p->text. Errors: SS_ERR_MEMORY. */
enum ss_status ss_paje_note(struct ss_paje *p, const struct ss_export *e);

#endif
