/* Shared by export_paje.c and export_paje_events.c. */
#ifndef SS_APPS_TRACE_EXPORT_PAJE_INTERNAL_H
#define SS_APPS_TRACE_EXPORT_PAJE_INTERNAL_H

#include "apps/trace/export.h"

/* Numbers of the event definitions: definitions, then timed events. */
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

/* A line without its number and time. Events with equal times keep the order in which they were
 * noted. */
struct ss_paje_event {
    int64_t at;
    size_t text; /* offset in paje.text */
    enum ss_paje_line what;
};

/* Values of states, and variables: both are identified by name. */
struct ss_paje_name {
    const char *text;
    enum ss_task_kind kind; /* of a task */
};
struct ss_paje_names {
    struct ss_paje_name *at;
    size_t count, capacity;
};

struct ss_paje {
    SS_TRACE_ARRAY(struct ss_paje_event) event;
    SS_TRACE_ARRAY(char) text;
    struct ss_paje_names task, worker;
    size_t links;
};

enum { SS_PAJE_QUOTED = 256 };

/* Write before, name and after to out as one quoted string of the format. Names may contain
 * blanks, so all are quoted; the format has no escapes, and pj_dump rejects empty strings.
 * Returns out. */
const char *ss_paje_quote(char out[SS_PAJE_QUOTED], const char *before, const char *name,
                          const char *after);

/* Fill p->event, sorted, and p->text. Errors: SS_ERR_MEMORY. */
enum ss_status ss_paje_note(struct ss_paje *p, const struct ss_export *e);

#endif
