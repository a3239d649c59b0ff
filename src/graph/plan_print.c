/* Prints the plan (`starstep plan`) as a table or as a DOT graph. */
#include "core/log.h"
#include "graph/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *ss_task_kind_name(enum ss_task_kind kind)
{
    static const char *const names[] = {
        [SS_TASK_LOAD] = "load",
        [SS_TASK_UPLOAD] = "upload",
        [SS_TASK_CONVERT] = "convert",
        [SS_TASK_FORWARD] = "forward",
        [SS_TASK_BACKWARD] = "backward",
        [SS_TASK_SUM] = "sum",
        [SS_TASK_ADD] = "add",
        [SS_TASK_SYNC] = "sync",
        [SS_TASK_ALLREDUCE] = "all-reduce",
        [SS_TASK_REDUCE_SCATTER] = "reduce-scatter",
        [SS_TASK_CHECK] = "check",
        [SS_TASK_SQUARES] = "squares",
        [SS_TASK_UPDATE] = "update",
        [SS_TASK_GATHER] = "gather",
        [SS_TASK_SCALE] = "scale",
        [SS_TASK_FETCH] = "fetch",
        [SS_TASK_REDUCE_METRICS] = "reduce-metrics",
        [SS_TASK_REDUCE_FOUND] = "reduce-found",
        [SS_TASK_REDUCE_SQUARES] = "reduce-squares",
        [SS_TASK_REPORT] = "report",
    };
    return names[kind];
}

static const char *const space_names[] = {
    "buf",   "images", "labels",  "params", "grads", "state", "running", "metrics", "log",
    "token", "staged", "fetched", "scaler", "accum", "sync",  "squares", "keys"};

const char *ss_space_name(enum ss_space space)
{
    return space_names[space];
}

static enum ss_status finish(FILE *out)
{
    if (fflush(out) || ferror(out))
        return ss_fail(SS_ERR_IO, "writing the plan: %s", strerror(errno));
    return SS_OK;
}

/* Print the data of a task in the given mode, as "buf3 params0". Slices of one space are merged. */
static void print_accesses(const struct ss_plan_task *t, enum ss_mode mode, FILE *out)
{
    const char *gap = "";
    for (int i = 0; i < t->naccess; i++) {
        const struct ss_access *a = &t->access[i];
        if (!(a->mode & mode))
            continue;
        int sliced = a->space == SS_SPACE_IMAGES || a->space == SS_SPACE_LABELS;
        if (sliced && i && t->access[i - 1].space == a->space)
            continue;
        fprintf(out, "%s%s", gap, space_names[a->space]);
        int many = a->space < SS_SPACE_METRICS || a->space == SS_SPACE_ACCUM;
        if (many && !(sliced && t->kind != SS_TASK_LOAD))
            fprintf(out, "%d", a->index);
        gap = " ";
    }
}

/* Skip the micro-batches between the second and the last, which repeat the second. Returns the
 * first task of the next micro-batch to print. */
static int skip_micros(const struct ss_task_list *list, int i, FILE *out)
{
    const int last = list->task[list->count - 1].micro, from = list->task[i].micro;
    int to = i;
    while (from == 2 && list->task[to].micro != last)
        to++;
    if (to > i)
        fprintf(out, "%5d to %d: micro-batches 3 to %d repeat the second\n", i, to - 1, last);
    fprintf(out, "micro-batch %d of %d\n", list->task[to].micro + 1, last + 1);
    return to;
}

static void print_tasks(const struct ss_task_list *list, FILE *out)
{
    fprintf(out, "%5s %-15s %8s  %-32s %s\n", "task", "kind", "priority", "name",
            "reads -> writes");
    for (int i = 0; i < list->count; i++) {
        const struct ss_plan_task *t = &list->task[i];
        if (i && t->micro != t[-1].micro) {
            i = skip_micros(list, i, out);
            t = &list->task[i];
        }
        fprintf(out, "%5d %-15s %8d  %-32s ", i, ss_task_kind_name(t->kind), t->priority, t->name);
        print_accesses(t, SS_READ, out);
        fprintf(out, " -> ");
        print_accesses(t, SS_WRITE, out);
        fputc('\n', out);
    }
}

static int count_kind(const struct ss_task_list *list, enum ss_task_kind kind)
{
    int n = 0;
    for (int i = 0; i < list->count; i++)
        n += list->task[i].kind == kind;
    return n;
}

/* Print the cost of synchronized BatchNorm. */
static void print_sync(const struct ss_plan *plan, FILE *out)
{
    size_t bytes = 0;
    for (int i = 0; i < plan->train.count; i++)
        bytes += (size_t)plan->train.task[i].sums * sizeof(double);
    if (plan->options.sync_stats > 1)
        fprintf(out, "BatchNorm statistics over %d ranks: %d all-reduces per step, %.1f KB\n",
                plan->options.sync_stats, count_kind(&plan->train, SS_TASK_SYNC),
                (double)bytes / 1024);
}

/* Print the activations of the training step that are not stored. */
static void print_unstored(const struct ss_plan *plan, FILE *out)
{
    size_t bytes = 0;
    int n = 0;
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        if (t->kind != SS_TASK_FORWARD || plan->block[t->block].made_by < 0 || t->micro)
            continue;
        n++;
        bytes += plan->tensor[t->tensor[t->tensor[SS_ROLE_Z] < 0 ? SS_ROLE_X : SS_ROLE_Z]].bytes;
    }
    if (n)
        fprintf(
            out,
            "not stored: %d activations, %.1f MB, recomputed by the convolutions that read them\n",
            n, (double)bytes / 1048576);
}

enum ss_status ss_plan_print_table(const struct ss_plan *plan, FILE *out)
{
    const double mib = 1048576.0;
    const struct ss_plan_options *o = &plan->options;
    size_t params = 0;
    for (int k = 0; k < plan->nbuckets; k++)
        params += plan->bucket[k].bytes / sizeof(float);
    const int64_t frozen = ss_plan_frozen(plan);
    fprintf(out, "model %s, batch %d per rank, %d layers in %d blocks, %zu parameters",
            ss_graph_name(plan->graph), o->batch, ss_graph_layers(plan->graph), plan->nblocks,
            params + (size_t)frozen);
    if (frozen)
        fprintf(out, ", %lld of them frozen", (long long)frozen);
    fputc('\n', out);
    fprintf(out, "training step: ");
    if (o->accumulate > 1)
        fprintf(out, "%d micro-batches, ", o->accumulate);
    fprintf(out, "%d tasks (", plan->train.count);
    const char *gap = "";
    for (int k = 0; k <= SS_TASK_REPORT; k++) {
        int n = count_kind(&plan->train, (enum ss_task_kind)k);
        if (n)
            fprintf(out, "%s%d %s", gap, n, ss_task_kind_name((enum ss_task_kind)k));
        gap = ", ";
    }
    fprintf(out, ")\n\n");
    print_tasks(&plan->train, out);

    fprintf(out, "\n%6s %10s %7s %12s  %s\n", "bucket", "MB", "params", "after task", "parameters");
    for (int k = 0; k < plan->nbuckets; k++) {
        const struct ss_bucket *b = &plan->bucket[k];
        const struct ss_plan_param *p = &plan->param[b->first_param];
        fprintf(out, "%6d %10.3f %7d %12d  %s ... %s\n", k, (double)b->bytes / mib, b->nparams,
                b->ready_task, ss_graph_param(plan->graph, p[0].graph_param)->name,
                ss_graph_param(plan->graph, p[b->nparams - 1].graph_param)->name);
    }
    if (o->grad_dtype != SS_DTYPE_F32)
        fprintf(out, "sent between ranks as %s: %.3f MB per step instead of %.3f\n",
                ss_dtype_name(o->grad_dtype),
                (double)(params * ss_dtype_bytes(o->grad_dtype)) / mib,
                (double)(params * sizeof(float)) / mib);
    print_sync(plan, out);
    fprintf(out, "\n%6s %10s  %s\n", "buffer", "MB", "tensors (tasks)");
    for (int i = 0; i < plan->nbuffers; i++) {
        fprintf(out, "%6d %10.3f ", i, (double)plan->buffer_bytes[i] / mib);
        for (int t = 0; t < plan->ntensors; t++)
            if (plan->tensor[t].buffer == i && plan->tensor[t].first >= 0)
                fprintf(out, " %s%s(%d-%d)", plan->tensor[t].of < 0 ? "" : "view ",
                        plan->tensor[t].name, plan->tensor[t].first, plan->tensor[t].last);
        fputc('\n', out);
    }
    fprintf(out, "activations: %.1f MB in %d buffers; %.1f MB if no tensor shared memory\n",
            (double)ss_plan_buffer_bytes(plan) / mib, plan->nbuffers,
            (double)ss_plan_tensor_bytes(plan) / mib);
    print_unstored(plan, out);
    return finish(out);
}

/* Edges as StarPU infers them from one submission in order: a reader waits for the last writer, a
 * writer for the last writer and all readers since. */
struct dot_data {
    enum ss_space space;
    int index, writer;
    int readers[1024], nreaders;
};

static struct dot_data *find_data(struct dot_data *d, int *n, const struct ss_access *a)
{
    for (int i = 0; i < *n; i++)
        if (d[i].space == a->space && d[i].index == a->index)
            return &d[i];
    d[*n] = (struct dot_data){.space = a->space, .index = a->index, .writer = -1};
    return &d[(*n)++];
}

static void dot_edge(FILE *out, int from, int to)
{
    if (from >= 0 && from != to)
        fprintf(out, "  t%d -> t%d;\n", from, to);
}

enum ss_status ss_plan_print_dot(const struct ss_plan *plan, FILE *out)
{
    static const char *const colour[] = {
        [SS_TASK_LOAD] = "lightyellow",         [SS_TASK_UPLOAD] = "lightyellow",
        [SS_TASK_CONVERT] = "lightyellow",      [SS_TASK_FORWARD] = "lightblue",
        [SS_TASK_BACKWARD] = "lightsalmon",     [SS_TASK_ALLREDUCE] = "palegreen",
        [SS_TASK_CHECK] = "lightgrey",          [SS_TASK_UPDATE] = "plum",
        [SS_TASK_SCALE] = "lightgrey",          [SS_TASK_FETCH] = "white",
        [SS_TASK_REDUCE_METRICS] = "palegreen", [SS_TASK_REPORT] = "white",
        [SS_TASK_REDUCE_SCATTER] = "palegreen", [SS_TASK_GATHER] = "palegreen",
        [SS_TASK_REDUCE_FOUND] = "palegreen",   [SS_TASK_ADD] = "khaki",
        [SS_TASK_SYNC] = "palegreen",           [SS_TASK_SQUARES] = "lightgrey",
        [SS_TASK_REDUCE_SQUARES] = "palegreen", [SS_TASK_SUM] = "lightsalmon",
    };
    size_t most = 0;
    for (int i = 0; i < plan->train.count; i++)
        most += (size_t)plan->train.task[i].naccess;
    struct dot_data *data = calloc(most + 1, sizeof *data);
    if (!data)
        return ss_fail_memory("DOT edges", most * sizeof *data);
    int ndata = 0;
    fprintf(out, "digraph \"%s\" {\n  node [shape=box, style=filled];\n",
            ss_graph_name(plan->graph));
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        fprintf(out, "  t%d [label=\"%d %s\", fillcolor=%s];\n", i, i, t->name, colour[t->kind]);
        for (int a = 0; a < t->naccess; a++) {
            struct dot_data *d = find_data(data, &ndata, &t->access[a]);
            if (t->access[a].mode == SS_READ) {
                dot_edge(out, d->writer, i);
                if (d->nreaders < (int)(sizeof d->readers / sizeof *d->readers))
                    d->readers[d->nreaders++] = i;
                continue;
            }
            if (!d->nreaders)
                dot_edge(out, d->writer, i);
            for (int r = 0; r < d->nreaders; r++)
                dot_edge(out, d->readers[r], i);
            d->writer = i;
            d->nreaders = 0;
        }
    }
    fprintf(out, "}\n");
    free(data);
    return finish(out);
}
