/* export_paje.c: definitions and names of the Paje format. */
#include "apps/trace/export_paje.h"
#include "core/atomic_file.h"
#include "core/log.h"
#include "apps/trace/export_paje_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Per event: its name, then its fields in the order of its lines. */
static const char *const definitions[SS_PAJE_LINES][9] = {
    [SS_PAJE_DEFINE_CONTAINER] = {"PajeDefineContainerType", "Alias string", "Type string",
                                  "Name string"},
    [SS_PAJE_DEFINE_STATE] = {"PajeDefineStateType", "Alias string", "Type string", "Name string"},
    [SS_PAJE_DEFINE_EVENT] = {"PajeDefineEventType", "Alias string", "Type string", "Name string"},
    [SS_PAJE_DEFINE_VARIABLE] = {"PajeDefineVariableType", "Alias string", "Type string",
                                 "Name string"},
    [SS_PAJE_DEFINE_LINK] = {"PajeDefineLinkType", "Alias string", "Type string",
                             "StartContainerType string", "EndContainerType string", "Name string"},
    [SS_PAJE_DEFINE_VALUE] = {"PajeDefineEntityValue", "Alias string", "Type string", "Name string",
                              "Color color"},
    [SS_PAJE_CREATE] = {"PajeCreateContainer", "Time date", "Alias string", "Type string",
                        "Container string", "Name string"},
    [SS_PAJE_DESTROY] = {"PajeDestroyContainer", "Time date", "Type string", "Name string"},
    [SS_PAJE_PUSH] = {"PajePushState", "Time date", "Type string", "Container string",
                      "Value string", "Step int", "Bucket int", "Kind string"},
    [SS_PAJE_POP] = {"PajePopState", "Time date", "Type string", "Container string"},
    [SS_PAJE_EVENT] = {"PajeNewEvent", "Time date", "Type string", "Container string",
                       "Value string"},
    [SS_PAJE_SET] = {"PajeSetVariable", "Time date", "Type string", "Container string",
                     "Value double"},
    [SS_PAJE_START_LINK] = {"PajeStartLink", "Time date", "Type string", "Container string",
                            "Value string", "StartContainer string", "Key string"},
    [SS_PAJE_END_LINK] = {"PajeEndLink", "Time date", "Type string", "Container string",
                          "Value string", "EndContainer string", "Key string"},
};

static const char types[] = "0 rank 0 \"Rank\"\n"
                            "0 track rank \"Track\"\n"
                            "1 task track \"Task\"\n"
                            "2 submitted rank \"step submitted\"\n"
                            "2 reported rank \"step reported\"\n"
                            "3 host rank \"memory host bytes\"\n"
                            "3 device rank \"memory device bytes\"\n"
                            "4 bucket rank track track \"Bucket\"\n";

/* The colors of the HTML page: distinguishable for colorblind readers (Okabe and Ito). */
static const unsigned colours[] = {
    [SS_TASK_LOAD] = 0x56b4e9,           [SS_TASK_UPLOAD] = 0x8fa3b8,
    [SS_TASK_CONVERT] = 0xb5bfcb,        [SS_TASK_FORWARD] = 0x0072b2,
    [SS_TASK_BACKWARD] = 0xe69f00,       [SS_TASK_ALLREDUCE] = 0xcc79a7,
    [SS_TASK_CHECK] = 0xf0e442,          [SS_TASK_UPDATE] = 0x009e73,
    [SS_TASK_SCALE] = 0xc9b400,          [SS_TASK_FETCH] = 0x7a8796,
    [SS_TASK_REDUCE_METRICS] = 0x8c5a7d, [SS_TASK_REPORT] = 0x3d4855,
    [SS_TASK_REDUCE_SCATTER] = 0xcc79a7, [SS_TASK_GATHER] = 0xb0608f,
    [SS_TASK_REDUCE_FOUND] = 0x8c5a7d,   [SS_TASK_ADD] = 0xd55e00,
    [SS_TASK_SYNC] = 0xa05195,           [SS_TASK_SQUARES] = 0xf0e442,
    [SS_TASK_REDUCE_SQUARES] = 0x8c5a7d, [SS_TASK_SUM] = 0xd55e00,
};

static int by_name(const void *a, const void *b)
{
    const struct ss_paje_name *x = a, *y = b;
    return strcmp(x->text, y->text);
}

static enum ss_status add_name(struct ss_paje_names *names, const char *text,
                               enum ss_task_kind kind)
{
    struct ss_paje_name name = {text, kind};
    SS_TRACE_ADD(names, name);
    return SS_OK;
}

/* Sort and remove duplicates. */
static void sort_names(struct ss_paje_names *names)
{
    size_t n = 0;
    if (names->count)
        qsort(names->at, names->count, sizeof *names->at, by_name);
    for (size_t i = 0; i < names->count; i++)
        if (!n || by_name(&names->at[n - 1], &names->at[i]))
            names->at[n++] = names->at[i];
    names->count = n;
}

static enum ss_status name_all(struct ss_paje *p, const struct ss_export *e)
{
    static const struct ss_export_slice unplanned = {.task = -1};
    for (int i = 0; i < e->count; i++) {
        const struct ss_export_rank *r = &e->rank[i];
        SS_TRY(add_name(&p->task, ss_export_name(r, &unplanned), ss_export_kind(r, &unplanned)));
        for (size_t k = 0; k < r->trace->task.count; k++)
            SS_TRY(add_name(&p->task, r->trace->task.at[k].name, r->trace->task.at[k].kind));
        for (size_t k = 0; k < r->times->worker.count; k++)
            SS_TRY(add_name(&p->worker, r->times->worker.at[k].name, 0));
    }
    sort_names(&p->task);
    sort_names(&p->worker);
    return SS_OK;
}

static void put_time(struct ss_atomic_file *f, enum ss_paje_line what, int64_t ns)
{
    int64_t magnitude = ns < 0 ? -ns : ns;
    ss_atomic_print(f, "%d %s%" PRId64 ".%09" PRId64, what, ns < 0 ? "-" : "",
                    magnitude / 1000000000, magnitude % 1000000000);
}

static void put_definitions(struct ss_atomic_file *f)
{
    for (int i = 0; i < SS_PAJE_LINES; i++) {
        ss_atomic_print(f, "%%EventDef %s %d\n", definitions[i][0], i);
        for (int k = 1; definitions[i][k]; k++)
            ss_atomic_print(f, "%% %s\n", definitions[i][k]);
        ss_atomic_print(f, "%%EndEventDef\n");
    }
    ss_atomic_print(f, "%s", types);
}

static void put_containers(struct ss_atomic_file *f, const struct ss_export_rank *r, int64_t at)
{
    char name[SS_PAJE_QUOTED], before[32];
    int rank = r->trace->rank;
    snprintf(before, sizeof before, "rank %d (", rank);
    put_time(f, SS_PAJE_CREATE, at);
    ss_atomic_print(f, " r%d rank 0 %s\n", rank, ss_paje_quote(name, before, r->trace->host, ")"));
    snprintf(before, sizeof before, "rank %d ", rank);
    for (size_t t = 0; t < r->track.count; t++) {
        put_time(f, SS_PAJE_CREATE, at);
        ss_atomic_print(f, " r%dt%zu track r%d %s\n", rank, t, rank,
                        ss_paje_quote(name, before, r->track.at[t].name, ""));
    }
}

static void end_containers(struct ss_atomic_file *f, const struct ss_export_rank *r, int64_t at)
{
    for (size_t t = 0; t < r->track.count; t++) {
        put_time(f, SS_PAJE_DESTROY, at);
        ss_atomic_print(f, " track r%dt%zu\n", r->trace->rank, t);
    }
    put_time(f, SS_PAJE_DESTROY, at);
    ss_atomic_print(f, " rank r%d\n", r->trace->rank);
}

/* Define tasks as values of states, and workers as variables. */
static void put_names(struct ss_atomic_file *f, const struct ss_paje *p)
{
    char name[SS_PAJE_QUOTED];
    for (size_t i = 0; i < p->task.count; i++) {
        unsigned c = colours[p->task.at[i].kind];
        ss_paje_quote(name, "", p->task.at[i].text, "");
        ss_atomic_print(f, "%d %s task %s \"%.3f %.3f %.3f\"\n", SS_PAJE_DEFINE_VALUE, name, name,
                        (c >> 16) / 255.0, (c >> 8 & 255) / 255.0, (c & 255) / 255.0);
    }
    for (size_t i = 0; i < p->worker.count; i++) {
        ss_paje_quote(name, "busy ", p->worker.at[i].text, " percent");
        ss_atomic_print(f, "%d %s rank %s\n", SS_PAJE_DEFINE_VARIABLE, name, name);
    }
}

static void put_all(struct ss_atomic_file *f, const struct ss_export *e, const struct ss_paje *p)
{
    put_definitions(f);
    put_names(f, p);
    for (int i = 0; i < e->count; i++)
        put_containers(f, &e->rank[i], p->event.at[0].at);
    for (size_t i = 0; i < p->event.count; i++) {
        put_time(f, p->event.at[i].what, p->event.at[i].at);
        ss_atomic_print(f, " %s\n", p->text.at + p->event.at[i].text);
    }
    for (int i = 0; i < e->count; i++)
        end_containers(f, &e->rank[i], p->event.at[p->event.count - 1].at);
}

enum ss_status ss_export_paje(const struct ss_export *e, const char *file)
{
    struct ss_paje p = {0};
    struct ss_atomic_file *f = NULL;
    enum ss_status status = ss_paje_note(&p, e);
    if (status == SS_OK)
        status = name_all(&p, e);
    if (status == SS_OK)
        status = ss_atomic_open(file, &f);
    if (status == SS_OK) {
        put_all(f, e, &p);
        status = ss_atomic_commit(f);
    }
    free(p.event.at);
    free(p.text.at);
    free(p.task.at);
    free(p.worker.at);
    return status;
}
