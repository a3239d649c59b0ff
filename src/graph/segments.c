#include "graph/segments.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

int ss_segments_take(enum ss_task_kind kind)
{
    return kind == SS_TASK_FORWARD || kind == SS_TASK_BACKWARD || kind == SS_TASK_SUM;
}

/* Returns whether the task is on another lane of a GPU than forward and backward. */
static int is_elsewhere(const struct ss_plan *plan, const struct ss_plan_task *t)
{
    const int behind_sums = t->kind == SS_TASK_CHECK || t->kind == SS_TASK_SQUARES ||
                            t->kind == SS_TASK_UPDATE || t->kind == SS_TASK_SCALE;
    if (ss_task_sums(t->kind) || behind_sums)
        return plan->options.device_sums;
    return t->kind == SS_TASK_LOAD || t->kind == SS_TASK_UPLOAD || t->kind == SS_TASK_FETCH ||
           t->kind == SS_TASK_REPORT;
}

/* Returns the mode in which t accesses the data that `a` names; 0: no access. */
static int mode_of(const struct ss_plan_task *t, const struct ss_access *a)
{
    for (int i = 0; i < t->naccess; i++)
        if (t->access[i].space == a->space && t->access[i].index == a->index)
            return t->access[i].mode;
    return 0;
}

/* Returns whether task i must wait, for the data that `a` names, for a task of another lane that
 * no preceding task of this lane has waited for. Wraps around to the previous step. Its metrics
 * have been fetched: the upload of this step's input has waited for that. */
static int waits(const struct ss_plan *plan, int i, const struct ss_access *a)
{
    const int n = plan->train.count;
    for (int k = 1; k < n; k++) {
        const struct ss_plan_task *t = &plan->train.task[(i - k + n) % n];
        const int mode = mode_of(t, a);
        if (mode && (t->kind == SS_TASK_FETCH || !is_elsewhere(plan, t)))
            return 0;
        if ((mode | a->mode) & SS_WRITE && mode)
            return 1;
    }
    return 0;
}

/* Returns whether the next task that conflicts with task i's access `a` is outside of segments.
 * Updates on one rank follow all of backward, and no task waits for them. */
static int hands_over(const struct ss_plan *plan, int i, const struct ss_access *a)
{
    for (int k = i + 1; k < plan->train.count; k++) {
        const struct ss_plan_task *t = &plan->train.task[k];
        const int mode = mode_of(t, a);
        if (mode && ss_segments_take(t->kind))
            return 0;
        if (mode && ((mode | a->mode) & SS_WRITE) &&
            (is_elsewhere(plan, t) || t->kind == SS_TASK_ADD || t->kind == SS_TASK_CONVERT))
            return 1;
    }
    return 0;
}

static int any(const struct ss_plan *plan, int i,
               int (*is)(const struct ss_plan *plan, int i, const struct ss_access *a))
{
    const struct ss_plan_task *t = &plan->train.task[i];
    for (int k = 0; k < t->naccess; k++)
        if (is(plan, i, &t->access[k]))
            return 1;
    return 0;
}

static void add_accesses(struct ss_segment *s, const struct ss_plan_task *t)
{
    for (int i = 0; i < t->naccess; i++) {
        const struct ss_access *a = &t->access[i];
        int k = 0;
        while (k < s->naccess && (s->access[k].space != a->space || s->access[k].index != a->index))
            k++;
        if (k == s->naccess)
            s->access[s->naccess++] = *a;
        else
            s->access[k].mode |= a->mode;
    }
}

static enum ss_status gather_accesses(const struct ss_plan *plan, struct ss_segments *out)
{
    for (int i = 0; i < out->count; i++) {
        struct ss_segment *s = &out->at[i];
        const int *member = out->member + s->first;
        size_t most = 0;
        for (int k = 0; k < s->count; k++)
            most += (size_t)plan->train.task[member[k]].naccess;
        s->access = calloc(most, sizeof *s->access);
        if (!s->access)
            return ss_fail_memory("segments of the step", most * sizeof *s->access);
        for (int k = 0; k < s->count; k++)
            add_accesses(s, &plan->train.task[member[k]]);
    }
    return SS_OK;
}

static void cut(const struct ss_plan *plan, struct ss_segments *out)
{
    int open = 0, members = 0;
    for (int i = 0; i < plan->train.count; i++) {
        out->of[i] = -1;
        if (!ss_segments_take(plan->train.task[i].kind))
            continue;
        if (!open || any(plan, i, waits))
            out->at[out->count++].first = members;
        out->of[i] = out->count - 1;
        out->at[out->count - 1].count++;
        out->member[members++] = i;
        open = !any(plan, i, hands_over);
    }
}

enum ss_status ss_segments_find(const struct ss_plan *plan, struct ss_segments *out)
{
    const size_t n = (size_t)plan->train.count;
    *out = (struct ss_segments){.at = calloc(n, sizeof *out->at),
                                .member = calloc(n, sizeof *out->member),
                                .of = calloc(n, sizeof *out->of)};
    enum ss_status status = SS_OK;
    if (!out->at || !out->member || !out->of)
        status = ss_fail_memory("segments of the step", n * sizeof *out->at);
    if (status == SS_OK) {
        cut(plan, out);
        status = gather_accesses(plan, out);
    }
    if (status != SS_OK)
        ss_segments_free(out);
    return status;
}

void ss_segments_free(struct ss_segments *s)
{
    for (int i = 0; i < s->count; i++)
        free(s->at[i].access);
    free(s->at);
    free(s->member);
    free(s->of);
    *s = (struct ss_segments){0};
}
