/* export_paje_events.c: the events, as lines sorted by time. */
#include "core/log.h"
#include "apps/trace/export_flow.h"
#include "apps/trace/export_paje_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ss_paje_quote(char out[SS_PAJE_QUOTED], const char *before, const char *name,
                          const char *after)
{
    snprintf(out, SS_PAJE_QUOTED - 1, "\"%s%s%s", before, *name ? name : "?", after);
    for (char *c = out + 1; *c; c++) {
        if (*c == '"')
            *c = '\'';
        else if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    }
    return strcat(out, "\"");
}

static enum ss_status SS_PRINTF(4, 5)
    note(struct ss_paje *p, int64_t at, enum ss_paje_line what, const char *fmt, ...)
{
    char text[3 * SS_PAJE_QUOTED];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t bytes = strlen(text) + 1;
    struct ss_paje_event event = {at, p->text.count, what};
    SS_TRACE_ADD(&p->event, event);
    while (p->text.capacity - p->text.count < bytes)
        SS_TRY(ss_trace_grow(&p->text.at, &p->text.capacity, p->text.capacity, 1));
    memcpy(p->text.at + p->text.count, text, bytes);
    p->text.count += bytes;
    return SS_OK;
}

static enum ss_status note_slices(struct ss_paje *p, const struct ss_export_rank *r)
{
    char name[SS_PAJE_QUOTED];
    int rank = r->trace->rank;
    for (size_t i = 0; i < r->slice.count; i++) {
        const struct ss_export_slice *s = &r->slice.at[i];
        ss_paje_quote(name, "", ss_export_name(r, s), "");
        SS_TRY(note(p, s->begin, SS_PAJE_PUSH, "task r%dt%d %s %" PRId64 " %d %s", rank, s->track,
                    name, s->step, s->bucket, ss_task_kind_name(ss_export_kind(r, s))));
        SS_TRY(note(p, s->end, SS_PAJE_POP, "task r%dt%d", rank, s->track));
    }
    return SS_OK;
}

static enum ss_status note_link(struct ss_paje *p, const struct ss_export_rank *r,
                                const struct ss_export_slice *from,
                                const struct ss_export_slice *to)
{
    int rank = r->trace->rank;
    int64_t begin = from->end < to->begin ? from->end : to->begin;
    size_t key = p->links++;
    SS_TRY(note(p, begin, SS_PAJE_START_LINK, "bucket r%d \"bucket %d\" r%dt%d %zu", rank,
                to->bucket, rank, from->track, key));
    return note(p, to->begin, SS_PAJE_END_LINK, "bucket r%d \"bucket %d\" r%dt%d %zu", rank,
                to->bucket, rank, to->track, key);
}

static enum ss_status note_flows(struct ss_paje *p, const struct ss_export_rank *r)
{
    struct ss_export_flow *flow;
    size_t n;
    SS_TRY(ss_export_flows(r, &flow, &n));
    enum ss_status status = SS_OK;
    for (size_t i = 0; status == SS_OK && i < n; i++) {
        status = note_link(p, r, flow[i].written, flow[i].summed);
        if (status == SS_OK && flow[i].applied)
            status = note_link(p, r, flow[i].summed, flow[i].applied);
    }
    free(flow);
    return status;
}

static enum ss_status note_shares(struct ss_paje *p, const struct ss_export *e,
                                  const struct ss_export_rank *r)
{
    char name[SS_PAJE_QUOTED];
    struct ss_export_share *share;
    size_t n;
    SS_TRY(ss_export_shares(e, r, &share, &n));
    enum ss_status status = SS_OK;
    for (size_t i = 0; status == SS_OK && i < n; i++)
        status = note(p, share[i].at, SS_PAJE_SET, "%s r%d %.2f",
                      ss_paje_quote(name, "busy ", share[i].worker, " percent"), r->trace->rank,
                      100 * share[i].share);
    free(share);
    return status;
}

static enum ss_status note_memory(struct ss_paje *p, const struct ss_export_rank *r)
{
    for (size_t i = 0; i < r->trace->memory.count; i++) {
        const struct ss_trace_memory *m = &r->trace->memory.at[i];
        SS_TRY(note(p, m->at, SS_PAJE_SET, "host r%d %" PRId64, r->trace->rank, m->host));
        if (r->trace->cuda)
            SS_TRY(note(p, m->at, SS_PAJE_SET, "device r%d %" PRId64, r->trace->rank, m->device));
    }
    return SS_OK;
}

static enum ss_status note_steps(struct ss_paje *p, const struct ss_export *e,
                                 const struct ss_export_rank *r)
{
    for (size_t i = 0; i < r->trace->step.count; i++) {
        const struct ss_trace_step *s = &r->trace->step.at[i];
        if (s->reported < s->submitted) /* the run ended earlier */
            continue;
        SS_TRY(note(p, ss_export_time(e, r, s->submitted), SS_PAJE_EVENT,
                    "submitted r%d \"step %" PRId64 "\"", r->trace->rank, s->step));
        SS_TRY(note(p, ss_export_time(e, r, s->reported), SS_PAJE_EVENT,
                    "reported r%d \"step %" PRId64 "\"", r->trace->rank, s->step));
    }
    return SS_OK;
}

static int by_time(const void *a, const void *b)
{
    const struct ss_paje_event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->text > y->text) - (x->text < y->text);
}

enum ss_status ss_paje_note(struct ss_paje *p, const struct ss_export *e)
{
    for (int i = 0; i < e->count; i++) {
        const struct ss_export_rank *r = &e->rank[i];
        SS_TRY(note_slices(p, r));
        SS_TRY(note_flows(p, r));
        SS_TRY(note_steps(p, e, r));
        SS_TRY(note_memory(p, r));
        SS_TRY(note_shares(p, e, r));
    }
    qsort(p->event.at, p->event.count, sizeof *p->event.at, by_time);
    return SS_OK;
}
