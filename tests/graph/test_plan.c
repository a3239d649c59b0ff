/* test_plan.c: the step plan: recorded dumps, and invariants of the plan of any model.
 *
 * SS_UPDATE_GOLDEN=1 rewrites tests/graph/plan/NAME.golden instead of comparing with it. */
#include "core/log.h"
#include "graph/lower_internal.h"
#include "graph/plan.h"
#include "graphs/models.h"
#include "tests/golden.h"
#include "tests/graph/freeze.h"
#include "tests/graph/test_graphs.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ss_plan_options defaults = {.batch = 32,
                                                .channel_block = 16,
                                                .bucket_mb = 25,
                                                .first_bucket_mb = 1,
                                                .slices = 8,
                                                .states = 1};

static void quiet(void)
{
    ss_log_set_quiet(1);
}

static struct ss_graph *build_model(const char *name, const char *width, int side)
{
    struct ss_model_options options = {width, -1, 100, 3, side, side};
    struct ss_graph *g;
    ck_assert_int_eq(ss_model_build(name, &options, &g), SS_OK);
    return g;
}

/* Returns the index of a test graph. */
static int index_of(const char *name)
{
    int which = 0;
    while (strcmp(test_graphs[which].name, name))
        which++;
    return which;
}

/* Recorded dumps. */

static const struct {
    const char *name, *model, *width;
    int side;
    double bucket_mb, first_bucket_mb;
    enum ss_status (*print)(const struct ss_plan *plan, FILE *out);
    int device;
    enum ss_dtype dtype;
} recorded[] = {
    {"narrow.table", "wideresnet", "8,16,24,32", 32, 25, 1, ss_plan_print_table, 0, SS_DTYPE_F32},
    {"narrow.dot", "wideresnet", "8,16,24,32", 32, 25, 1, ss_plan_print_dot, 0, SS_DTYPE_F32},
    {"narrow-buckets.table", "wideresnet", "8,16,24,32", 32, 0.05, 0.01, ss_plan_print_table, 0,
     SS_DTYPE_F32},
    {"narrow-buckets.dot", "wideresnet", "8,16,24,32", 32, 0.05, 0.01, ss_plan_print_dot, 0,
     SS_DTYPE_F32},
    {"full.table", "wideresnet", "16,160,320,640", 32, 25, 1, ss_plan_print_table, 0, SS_DTYPE_F32},
    {"full-buckets.table", "wideresnet", "16,160,320,640", 32, 8, 0.25, ss_plan_print_table, 0,
     SS_DTYPE_F32},
    {"full-gpu-fp16.table", "wideresnet", "16,160,320,640", 32, 8, 0.25, ss_plan_print_table, 1,
     SS_DTYPE_F16},
    {"narrow-gpu-bf16.table", "wideresnet", "8,16,24,32", 32, 0.05, 0.01, ss_plan_print_table, 1,
     SS_DTYPE_BF16},
    {"narrow-gpu-fp16.dot", "wideresnet", "8,16,24,32", 32, 0.05, 0.01, ss_plan_print_dot, 1,
     SS_DTYPE_F16},
    {"narrow-deferred.table", "wideresnet", "8,16,24,32", 32, 0.05, 0.01, ss_plan_print_table, 0,
     SS_DTYPE_F32},
    {"resnet50.table", "resnet50", NULL, 64, 25, 1, ss_plan_print_table, 0, SS_DTYPE_F32},
    {"resnet50-gpu-fp16.table", "resnet50", NULL, 224, 25, 1, ss_plan_print_table, 1, SS_DTYPE_F16},
    {"vgg11_bn.table", "vgg11_bn", NULL, 64, 25, 1, ss_plan_print_table, 0, SS_DTYPE_F32},
    {"vgg11_bn-gpu-bf16.table", "vgg11_bn", NULL, 224, 25, 1, ss_plan_print_table, 1,
     SS_DTYPE_BF16},
    /* Models of test_graphs.h: side 0. */
    {"dense.table", "dense", NULL, 0, 25, 1, ss_plan_print_table, 0, SS_DTYPE_F32},
    {"branches-gpu-fp16.table", "branches", NULL, 0, 25, 1, ss_plan_print_table, 1, SS_DTYPE_F16},
};

/* Sets the options of a run on a GPU. */
static void on_device(struct ss_plan_options *o, enum ss_dtype dtype)
{
    o->device = 1;
    o->dtype = dtype;
    o->channel_block = 0;
    o->input_block = dtype == SS_DTYPE_F32 ? 4 : 8;
    o->loss_scaling = dtype == SS_DTYPE_F16;
}

START_TEST(dumps)
{
    char file[256], *text = NULL;
    size_t bytes = 0;
    snprintf(file, sizeof file, "graph/plan/%s.golden", recorded[_i].name);
    struct ss_plan_options options = defaults;
    options.bucket_mb = recorded[_i].bucket_mb;
    options.first_bucket_mb = recorded[_i].first_bucket_mb;
    options.defer_weight_grads = strstr(recorded[_i].name, "deferred") ? 12 : 0;
    if (recorded[_i].device)
        on_device(&options, recorded[_i].dtype);
    struct ss_graph *g =
        recorded[_i].side ? build_model(recorded[_i].model, recorded[_i].width, recorded[_i].side)
                          : make_test_graph(index_of(recorded[_i].model));
    struct ss_plan *plan;
    ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
    FILE *f = open_memstream(&text, &bytes);
    ck_assert_int_eq(recorded[_i].print(plan, f), SS_OK);
    fclose(f);
    golden(file, text);
    free(text);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

/* A full disk is reported when the plan is printed, not lost in a buffer. */
START_TEST(print_fails)
{
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        return;
    struct ss_graph *g = make_test_graph(0);
    struct ss_plan *plan;
    ck_assert_int_eq(ss_plan_lower(g, &defaults, &plan), SS_OK);
    ck_assert_int_eq(ss_plan_print_table(plan, full), SS_ERR_IO);
    clearerr(full);
    ck_assert_int_eq(ss_plan_print_dot(plan, full), SS_ERR_IO);
    fclose(full);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

/* Invariants of any plan. */

static const char *model; /* for messages */

static int runs(const struct ss_block *b, const char *operation)
{
    return !strcmp(b->cls->operation, operation);
}

/* A view is inside its tensor, aligned as the kernels require, during the tensor's lifetime. */
static void check_part(const struct ss_plan *plan, const struct ss_plan_tensor *p, int task)
{
    const struct ss_plan_tensor *whole = &plan->tensor[p->of];
    const int device = plan->options.device,
              unit = device ? 16 / (int)ss_dtype_bytes(plan->options.dtype)
                            : plan->options.channel_block;
    ck_assert_int_lt(whole->of, 0);
    ck_assert_int_eq(p->buffer, whole->buffer);
    ck_assert(whole->first <= task && task <= whole->last);
    ck_assert(p->n == whole->n && p->h == whole->h && p->w == whole->w);
    ck_assert_int_le(p->at + p->c, whole->c);
    ck_assert_int_eq(p->at % unit, 0);
    if (device || p->at + p->c < whole->c)
        ck_assert_int_eq(p->c % unit, 0);
    if (device)
        ck_assert_int_eq(whole->c % unit, 0);
    ck_assert_int_eq(p->block, device ? p->c : whole->block);
}

/* Each tensor is written first, accessed only within its lifetime, and fits into its buffer. */
static void check_tensors(const struct ss_plan *plan, const struct ss_task_list *list, int *seen)
{
    for (int i = 0; i < list->count; i++) {
        const struct ss_plan_task *t = &list->task[i];
        ck_assert_int_le(t->naccess, SS_PLAN_MAX_ACCESSES);
        for (int r = 0; r < SS_ROLE_COUNT; r++) {
            if (t->tensor[r] < 0)
                continue;
            const struct ss_plan_tensor *p = &plan->tensor[t->tensor[r]];
            const struct ss_access *a = &t->access[t->role[r]];
            ck_assert_int_ge(t->role[r], 0);
            ck_assert_int_eq(a->space, SS_SPACE_BUFFER);
            ck_assert_int_eq(a->index, p->buffer);
            ck_assert_msg(p->first <= i && i <= p->last, "%s: task %d (%s) touches %s(%d-%d)",
                          model, i, t->name, p->name, p->first, p->last);
            ck_assert_uint_ge(plan->buffer_bytes[p->buffer], t->at[r] + p->bytes);
            ck_assert_uint_gt(p->bytes, 0);
            if (p->of >= 0)
                check_part(plan, p, i);
            ck_assert(t->kind != SS_TASK_SUM || p->of < 0); /* it sums no views */
            if (p->first == i && (p->of < 0 || plan->tensor[p->of].first == i))
                ck_assert_msg(a->mode == SS_WRITE, "%s: task %d (%s) reads %s, which is unwritten",
                              model, i, t->name, p->name);
            if (seen)
                seen[t->tensor[r]] = 1;
        }
    }
}

static void check_sharing(const struct ss_plan *plan, const int *in_training)
{
    for (int i = 0; i < plan->ntensors; i++)
        for (int j = 0; j < i; j++) {
            const struct ss_plan_tensor *a = &plan->tensor[i], *b = &plan->tensor[j];
            if (a->buffer != b->buffer || in_training[i] != in_training[j] || a->of >= 0 ||
                b->of >= 0)
                continue;
            ck_assert_msg(a->first > b->last || b->first > a->last,
                          "%s: %s(%d-%d) and %s(%d-%d) share buffer %d", model, a->name, a->first,
                          a->last, b->name, b->first, b->last, a->buffer);
        }
    ck_assert_uint_le(ss_plan_buffer_bytes(plan), ss_plan_tensor_bytes(plan));
    for (int i = 0; i < plan->ntensors; i++) {
        /* No task accesses an intermediate one of nested views. */
        ck_assert(plan->tensor[i].first >= 0 || plan->tensor[i].of >= 0);
        ck_assert_int_ge(plan->tensor[i].buffer, 0);
        ck_assert_int_lt(plan->tensor[i].buffer, plan->nbuffers);
    }
}

/* StarPU does not support the same handle twice in one task. */
static void check_accesses(const struct ss_task_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const struct ss_plan_task *t = &list->task[i];
        for (int a = 0; a < t->naccess; a++) {
            ck_assert_int_ge(t->access[a].index, 0);
            for (int b = 0; b < a; b++)
                ck_assert_msg(t->access[a].space != t->access[b].space ||
                                  t->access[a].index != t->access[b].index,
                              "%s: task %d (%s) has the same data as accesses %d and %d", model, i,
                              t->name, b, a);
        }
    }
}

static int makes_weights(const struct ss_plan *plan, int block)
{
    const int conv = plan->block[block].layer[SS_PLACE_HEAD];
    if (!runs(&plan->block[block], "conv_bn_act") ||
        !ss_graph_value(plan->graph, plan->block[block].y)->graded)
        return 0;
    for (int i = 0; i < ss_graph_params(plan->graph); i++) {
        const struct ss_param *p = ss_graph_param(plan->graph, i);
        if (p->layer == conv && p->trainable && !p->frozen)
            return 1;
    }
    return 0;
}

static int puts_off(const struct ss_plan *plan, int block)
{
    return makes_weights(plan, block) && block < plan->options.defer_weight_grads;
}

/* Returns the position of a block's gradients in backward: from the last block to the first, then
 * deferred ones. */
static int turn_of(const struct ss_plan *plan, int block)
{
    return puts_off(plan, block) ? plan->nblocks + block : plan->nblocks - 1 - block;
}

/* Every trainable parameter is in exactly one bucket, in the order in which backward computes
 * gradients; frozen parameters follow all others. */
static void check_bucket_content(const struct ss_plan *plan)
{
    int params = ss_graph_params(plan->graph), listed = 0, turn = 0;
    int *times = calloc((size_t)params, sizeof *times);
    ck_assert_int_eq(plan->nparams, params);
    for (int i = 0; i < plan->nparams; i++) {
        const struct ss_plan_param *p = &plan->param[i];
        const struct ss_param *source = ss_graph_param(plan->graph, p->graph_param);
        times[p->graph_param]++;
        ck_assert_int_eq(p->elements, ss_param_elements(source));
        ck_assert_int_eq(p->bucket >= 0, source->trainable);
        const struct ss_block *b = &plan->block[p->block];
        ck_assert_int_eq(p->bucket, source->trainable ? b->bucket : -1);
        int places = 0;
        for (int place = 0; place < SS_PLACES; place++)
            places += b->layer[place] == source->layer;
        ck_assert_msg(places == 1, "%s: %s in block %s", model, source->name, b->name);
    }
    for (int i = 0; i < params; i++)
        ck_assert_msg(times[i] == 1, "%s: %s is listed %d times", model,
                      ss_graph_param(plan->graph, i)->name, times[i]);
    free(times);
    for (int k = 0; k < plan->nbuckets; k++) {
        const struct ss_bucket *b = &plan->bucket[k];
        size_t bytes = 0;
        int first_block = plan->param[b->first_param].block;
        ck_assert_int_eq(b->first_param, listed);
        ck_assert_int_gt(b->nparams, 0);
        for (int i = b->first_param; i < b->first_param + b->nparams; i++, listed++) {
            ck_assert_int_eq(plan->param[i].bucket, k);
            ck_assert(!ss_graph_param(plan->graph, plan->param[i].graph_param)->frozen);
            ck_assert_int_ge(turn_of(plan, plan->param[i].block), turn);
            turn = turn_of(plan, plan->param[i].block);
            bytes += (size_t)plan->param[i].elements * sizeof(float);
        }
        ck_assert_uint_eq(bytes, b->bytes);
        double cap = k ? plan->options.bucket_mb : plan->options.first_bucket_mb;
        ck_assert_msg((double)bytes <= cap * 1048576 || turn == turn_of(plan, first_block),
                      "%s: bucket %d of several blocks has %zu bytes, its cap is %g MB", model, k,
                      bytes, cap);
    }
    for (int k = 0; k < plan->nbuckets + plan->nfrozen; k++) {
        const struct ss_bucket *b = &plan->bucket[k];
        ck_assert(k < plan->nbuckets || (b->nparams == 0 && b->nfrozen > 0));
        for (int i = b->first_frozen; i < b->first_frozen + b->nfrozen; i++, listed++) {
            ck_assert_int_eq(i, listed);
            ck_assert_int_eq(plan->param[i].bucket, k);
            ck_assert(ss_graph_param(plan->graph, plan->param[i].graph_param)->frozen);
        }
    }
    for (int i = listed; i < plan->nparams; i++)
        ck_assert_int_eq(plan->param[i].bucket, -1);
}

static int mode_of(const struct ss_plan_task *t, enum ss_space space, int index)
{
    for (int a = 0; a < t->naccess; a++)
        if (t->access[a].space == space && t->access[a].index == index)
            return t->access[a].mode;
    return 0;
}

/* Gradients are complete, then reduced, then used; no task reads parameters after their update. */
static void check_bucket_order(const struct ss_plan *plan)
{
    const struct ss_task_list *list = &plan->train;
    int before = -1;
    for (int k = 0; k < plan->nbuckets; k++) {
        int reduce = -1, update = -1, last_writer = -1, last_reader = -1, writers = 0;
        for (int i = 0; i < list->count; i++) {
            const struct ss_plan_task *t = &list->task[i];
            if (ss_task_sums_bucket(t->kind) && t->bucket == k) {
                ck_assert_int_eq(t->kind == SS_TASK_REDUCE_SCATTER, plan->options.shards > 1);
                ck_assert_int_lt(reduce, 0);
                reduce = i;
            }
            if (t->kind == SS_TASK_UPDATE && t->bucket == k) {
                ck_assert_int_lt(update, 0);
                update = i;
            }
            if (t->kind == SS_TASK_BACKWARD && mode_of(t, SS_SPACE_GRADS, k) & SS_WRITE) {
                last_writer = i;
                writers++;
            }
            if ((t->kind == SS_TASK_FORWARD || t->kind == SS_TASK_BACKWARD) &&
                mode_of(t, SS_SPACE_PARAMS, k))
                last_reader = i;
        }
        ck_assert_msg(last_writer >= 0 && last_writer < reduce && reduce < update &&
                          last_reader < update,
                      "%s: bucket %d: written by %d, read by %d, reduced by %d, updated by %d",
                      model, k, last_writer, last_reader, reduce, update);
        ck_assert_int_eq(plan->bucket[k].ready_task, last_writer);
        /* As soon as it is complete, and in bucket order, which is the same on all ranks. */
        if (!plan->options.no_overlap)
            ck_assert_int_eq(reduce, last_writer + 1);
        ck_assert_int_gt(reduce, before);
        before = reduce;
        int blocks = 0;
        for (int b = 0; b < plan->nblocks; b++) {
            int shortcut = plan->block[b].shortcut;
            blocks +=
                plan->block[b].bucket == k || (shortcut >= 0 && plan->block[shortcut].bucket == k);
            if (plan->block[b].bucket == k && makes_weights(plan, b))
                blocks += plan->options.defer_weight_grads < 0 || puts_off(plan, b);
        }
        ck_assert_int_eq(writers, blocks);
        ck_assert_int_eq(mode_of(&list->task[reduce], SS_SPACE_GRADS, k), SS_READ_WRITE);
        ck_assert_int_eq(mode_of(&list->task[reduce], SS_SPACE_TOKEN, 0), SS_READ_WRITE);
        ck_assert_int_eq(mode_of(&list->task[update], SS_SPACE_GRADS, k), SS_READ);
        ck_assert_int_eq(mode_of(&list->task[update], SS_SPACE_PARAMS, k), SS_READ_WRITE);
        for (int s = 0; s < plan->nbuckets * plan->options.states; s++)
            ck_assert_int_eq(mode_of(&list->task[update], SS_SPACE_STATE, s),
                             s / plan->options.states == k ? SS_READ_WRITE : 0);
        /* Only collectives wait for other ranks. */
        for (int i = 0; i < list->count; i++)
            ck_assert(!mode_of(&list->task[i], SS_SPACE_TOKEN, 0) ||
                      ss_task_sums_bucket(list->task[i].kind) ||
                      list->task[i].kind == SS_TASK_REDUCE_METRICS ||
                      list->task[i].kind == SS_TASK_REDUCE_FOUND ||
                      list->task[i].kind == SS_TASK_REDUCE_SQUARES ||
                      list->task[i].kind == SS_TASK_GATHER ||
                      (plan->options.no_overlap && plan->options.shards > 1 &&
                       list->task[i].kind == SS_TASK_FORWARD) ||
                      (plan->options.no_overlap && list->task[i].kind == SS_TASK_BACKWARD));
    }
}

/* Returns the first block that needs bucket k. */
static int first_block_of(const struct ss_plan *plan, int k)
{
    int b = 0;
    while (plan->block[b].bucket != k)
        b++;
    return b;
}

/* With shards, every bucket's weights are gathered after its update and after all reductions, so
 * that no reduction waits for it; those that the next forward pass needs first come first. */
static void check_gathers(const struct ss_plan *plan)
{
    const struct ss_task_list *list = &plan->train;
    const int nbuckets = plan->options.shards > 1 ? plan->nbuckets : 0;
    int before = -1;
    for (int i = 0; i < list->count; i++)
        ck_assert(list->task[i].kind != SS_TASK_GATHER || i >= list->count - nbuckets);
    for (int i = 0; i < nbuckets; i++) {
        const struct ss_plan_task *t = &list->task[list->count - nbuckets + i];
        const int k = t->bucket;
        ck_assert_int_eq(t->kind, SS_TASK_GATHER);
        ck_assert_int_gt(first_block_of(plan, k), before);
        before = first_block_of(plan, k);
        ck_assert_int_eq(t->naccess, 2);
        ck_assert_int_eq(mode_of(t, SS_SPACE_PARAMS, k), SS_READ_WRITE);
        ck_assert_int_eq(mode_of(t, SS_SPACE_TOKEN, 0), SS_READ_WRITE);
    }
    /* Without overlap, the next step waits for all of them. */
    for (int i = 0; i < list->count; i++)
        if (list->task[i].kind == SS_TASK_FORWARD && list->task[i].role[SS_ROLE_Y] >= 0)
            ck_assert_int_eq(mode_of(&list->task[i], SS_SPACE_TOKEN, 0),
                             nbuckets && plan->options.no_overlap ? SS_READ : 0);
}

/* Returns before[i * n + j]: task i depends on task j through their accesses. Free with free(). */
static char *find_order(const struct ss_task_list *list)
{
    size_t n = (size_t)list->count;
    char *before = calloc(n * n, 1);
    ck_assert_ptr_nonnull(before);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j-- > 0;) {
            const struct ss_plan_task *a = &list->task[i], *b = &list->task[j];
            if (before[i * n + j]) /* so are all dependencies of j */
                continue;
            for (int k = 0; k < a->naccess && !before[i * n + j]; k++) {
                int theirs = mode_of(b, a->access[k].space, a->access[k].index);
                before[i * n + j] =
                    (a->access[k].mode & SS_WRITE) ? theirs != 0 : theirs & SS_WRITE;
            }
            for (size_t k = 0; before[i * n + j] && k < j; k++)
                before[i * n + k] |= before[j * n + k];
        }
    return before;
}

/* Without overlap, no collective starts before all of backward has ended; with it, the first one
 * does if there are several buckets. */
static void check_overlap(const struct ss_plan *plan)
{
    const struct ss_task_list *list = &plan->train;
    size_t n = (size_t)list->count;
    char *before = find_order(list);
    for (size_t i = 0; i < n; i++) {
        const struct ss_plan_task *t = &list->task[i];
        size_t early = 0;
        if (!ss_task_sums_bucket(t->kind) && t->kind != SS_TASK_REDUCE_METRICS)
            continue;
        for (size_t j = 0; j < n; j++)
            early += list->task[j].kind == SS_TASK_BACKWARD && !before[i * n + j];
        ck_assert_msg(!plan->options.no_overlap || early == 0,
                      "%s: %s may start before %zu backward tasks", model, t->name, early);
        if (!plan->options.no_overlap && t->bucket == 0)
            ck_assert_msg(early > 0 || plan->nbuckets == 1 || ss_plan_frozen(plan),
                          "%s: %s waits for all of backward", model, t->name);
    }
    free(before);
}

static int turn_of_task(const struct ss_plan *plan, const struct ss_plan_task *t)
{
    return t->part == SS_PART_WEIGHTS ? turn_of(plan, t->block) : plan->nblocks - 1 - t->block;
}

/* Collectives first, then reports, backward, updates, forward, loads. Within a kind: buckets in
 * order; backward from the end, deferred gradients from the start; the updates that the next
 * forward needs first; forward from the start. */
static void check_priorities(const struct ss_plan *plan)
{
    static const int rank[] = {
        [SS_TASK_LOAD] = 0,      [SS_TASK_UPLOAD] = 1,         [SS_TASK_FORWARD] = 2,
        [SS_TASK_CONVERT] = 3,   [SS_TASK_SCALE] = 4,          [SS_TASK_UPDATE] = 5,
        [SS_TASK_CHECK] = 5,     [SS_TASK_BACKWARD] = 6,       [SS_TASK_REPORT] = 7,
        [SS_TASK_ALLREDUCE] = 8, [SS_TASK_REDUCE_METRICS] = 8, [SS_TASK_FETCH] = 8,
        [SS_TASK_GATHER] = 8,    [SS_TASK_REDUCE_SCATTER] = 8, [SS_TASK_REDUCE_FOUND] = 8,
        [SS_TASK_SYNC] = 8,      [SS_TASK_SQUARES] = 5,        [SS_TASK_REDUCE_SQUARES] = 8,
        [SS_TASK_SUM] = 6,
    };
    for (int i = 0; i < plan->train.count; i++)
        for (int j = 0; j < plan->train.count; j++) {
            const struct ss_plan_task *a = &plan->train.task[i], *b = &plan->train.task[j];
            int higher = rank[a->kind] > rank[b->kind];
            if (a->kind == b->kind && a->kind == SS_TASK_FORWARD)
                higher = a->block < b->block;
            if (a->kind == b->kind && a->kind == SS_TASK_BACKWARD)
                higher = turn_of_task(plan, a) < turn_of_task(plan, b);
            if (a->kind == b->kind && ss_task_sums_bucket(a->kind))
                higher = a->bucket < b->bucket;
            higher |= ss_task_sums_bucket(a->kind) && b->kind == SS_TASK_GATHER;
            if (a->kind == b->kind && (a->kind == SS_TASK_UPDATE || a->kind == SS_TASK_GATHER))
                higher = first_block_of(plan, a->bucket) < first_block_of(plan, b->bucket);
            ck_assert_msg(!higher || a->priority > b->priority, "%s: %s has priority %d, %s has %d",
                          model, a->name, a->priority, b->name, b->priority);
        }
}

/* Every block has one forward task and, except the loss and blocks without a gradient, one
 * backward task. Concatenations without copies have no tasks. */
static void check_coverage(const struct ss_plan *plan)
{
    int *forward = calloc((size_t)plan->nblocks, sizeof *forward);
    int *backward = calloc((size_t)plan->nblocks, sizeof *backward);
    int *eval = calloc((size_t)plan->nblocks, sizeof *eval);
    int at_forward = -1, at_backward = -1;
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        if (t->kind == SS_TASK_FORWARD) {
            forward[t->block]++;
            ck_assert_int_gt(t->block, at_forward);
            at_forward = t->block;
        } else if (t->kind == SS_TASK_BACKWARD) {
            backward[t->block] += t->part != SS_PART_WEIGHTS;
            ck_assert_int_ge(turn_of_task(plan, t), at_backward + (t->part != SS_PART_WEIGHTS));
            at_backward = turn_of_task(plan, t);
        }
    }
    for (int i = 0; i < plan->eval.count; i++) {
        const struct ss_plan_task *t = &plan->eval.task[i];
        int input = t->kind == SS_TASK_LOAD || t->kind == SS_TASK_UPLOAD;
        ck_assert(t->kind == SS_TASK_FORWARD || t->kind == SS_TASK_CONVERT || input);
        if (t->kind == SS_TASK_FORWARD)
            eval[t->block]++;
        /* Evaluation changes no parameters and no running statistics. */
        for (int a = 0; a < t->naccess; a++)
            ck_assert(t->access[a].mode == SS_READ || t->access[a].space == SS_SPACE_BUFFER ||
                      t->access[a].space == SS_SPACE_METRICS || input);
    }
    for (int b = 0; b < plan->nblocks; b++) {
        const int tasks = ss_lower_has_tasks(plan, &plan->block[b]);
        ck_assert_int_eq(forward[b], tasks);
        ck_assert_int_eq(eval[b], tasks);
        ck_assert_int_eq(backward[b], tasks && !runs(&plan->block[b], "loss") &&
                                          ss_graph_value(plan->graph, plan->block[b].y)->graded);
    }
    ck_assert(runs(&plan->block[plan->nblocks - 1], "loss"));
    free(forward);
    free(backward);
    free(eval);
}

static int find_task(const struct ss_task_list *list, enum ss_task_kind kind, int bucket)
{
    for (int i = 0; i < list->count; i++)
        if (list->task[i].kind == kind && list->task[i].bucket == bucket)
            return i;
    return -1;
}

/* A GPU's step: the whole slot is uploaded once, the host reads fetched metrics only. */
static void check_device(const struct ss_plan *plan)
{
    const struct ss_task_list *lists[] = {&plan->train, &plan->eval};
    for (int l = 0; l < 2; l++) {
        int upload = find_task(lists[l], SS_TASK_UPLOAD, -1);
        int convert = find_task(lists[l], SS_TASK_CONVERT, -1);
        ck_assert_int_eq(upload, plan->options.slices);
        ck_assert_int_eq(convert, upload + 1);
        for (int s = 0; s < plan->options.slices; s++) {
            ck_assert_int_eq(mode_of(&lists[l]->task[upload], SS_SPACE_IMAGES, s), SS_READ);
            ck_assert_int_eq(mode_of(&lists[l]->task[upload], SS_SPACE_LABELS, s), SS_READ);
        }
        for (int i = convert; i < lists[l]->count; i++)
            for (int a = 0; a < lists[l]->task[i].naccess; a++)
                ck_assert(lists[l]->task[i].access[a].space != SS_SPACE_IMAGES &&
                          lists[l]->task[i].access[a].space != SS_SPACE_LABELS);
    }
    /* After an addition, backward reads a mask of one bit per element that forward stored,
     * instead of y; after a pool, it reads y. */
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        const struct ss_block *b = t->block >= 0 ? &plan->block[t->block] : NULL;
        if (!b || b->layer[SS_PLACE_OUT] < 0 || t->part == SS_PART_WEIGHTS)
            continue;
        const int pool = b->layer[SS_PLACE_POOL] >= 0;
        const struct ss_plan_tensor *mask = &plan->tensor[t->tensor[SS_ROLE_WORKSPACE]];
        ck_assert_int_ge(t->tensor[SS_ROLE_WORKSPACE], 0);
        ck_assert(pool || strstr(mask->name, ".mask"));
        if (t->kind == SS_TASK_BACKWARD) {
            ck_assert_int_eq(t->role[SS_ROLE_Y] >= 0, pool);
            continue;
        }
        const struct ss_plan_tensor *y = &plan->tensor[t->tensor[SS_ROLE_Y]];
        const size_t each = ss_dtype_bytes(plan->options.dtype);
        if (!pool && (size_t)y->c * each % 16 == 0)
            ck_assert_uint_eq(mask->bytes, y->bytes / 16);
    }
    /* Pools without overlap are fused into convolutions; a residual then has its own gradient. */
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        const struct ss_block *b = t->block >= 0 ? &plan->block[t->block] : NULL;
        if (!b || b->layer[SS_PLACE_POOL] < 0 || t->part == SS_PART_WEIGHTS)
            continue;
        int pool = ss_graph_layer(plan->graph, b->layer[SS_PLACE_POOL])->kernel[0];
        const struct ss_plan_tensor *z = &plan->tensor[t->tensor[SS_ROLE_Z]];
        ck_assert_int_ge(t->role[SS_ROLE_WORKSPACE], 0);
        if (t->kind == SS_TASK_FORWARD) {
            const struct ss_plan_tensor *y = &plan->tensor[t->tensor[SS_ROLE_Y]];
            ck_assert_int_eq(y->h, z->h / pool);
            ck_assert_int_eq(y->w, z->w / pool);
        } else {
            ck_assert_int_eq(t->role[SS_ROLE_DS] >= 0, b->residual >= 0);
            ck_assert(b->residual < 0 || plan->tensor[t->tensor[SS_ROLE_DS]].h == z->h);
        }
    }
    int fetch = find_task(&plan->train, SS_TASK_FETCH, -1);
    ck_assert_int_gt(fetch, 0);
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        int host = t->kind == SS_TASK_REPORT ||
                   (t->kind == SS_TASK_REDUCE_METRICS && !plan->options.device_sums);
        ck_assert(!host || (i > fetch && mode_of(t, SS_SPACE_FETCHED, 0) &&
                            !mode_of(t, SS_SPACE_METRICS, 0)));
    }
}

/* A block's end is delegated to the addition that reads it, which reads the end's parameters and
 * writes their gradients. The block stores the input of the end. */
static void check_shortcuts(const struct ss_plan *plan)
{
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        const struct ss_block *b = t->block >= 0 ? &plan->block[t->block] : NULL;
        if (!b || (t->kind != SS_TASK_FORWARD && t->kind != SS_TASK_BACKWARD) ||
            t->part == SS_PART_WEIGHTS)
            continue;
        if (b->left_to >= 0)
            ck_assert_int_lt(t->role[SS_ROLE_Z], 0);
        ck_assert(b->left_to < 0 || (plan->block[b->left_to].shortcut == t->block &&
                                     plan->block[b->left_to].residual == b->y));
        ck_assert_int_eq(b->shortcut >= 0 && t->kind == SS_TASK_FORWARD,
                         t->role[SS_ROLE_SHORTCUT_PARAMS] >= 0 && t->kind == SS_TASK_FORWARD);
        ck_assert_int_eq(b->shortcut >= 0 && t->kind == SS_TASK_BACKWARD,
                         t->role[SS_ROLE_SHORTCUT_GRADS] >= 0);
        if (b->shortcut < 0)
            continue;
        const struct ss_block *from = &plan->block[b->shortcut];
        int norm = from->last == SS_PLACE_NORM, forward = t->kind == SS_TASK_FORWARD;
        ck_assert(plan->options.device && from->left_to == t->block);
        ck_assert_int_eq(t->role[SS_ROLE_SHORTCUT_SAVED] >= 0, norm);
        ck_assert(mode_of(t, forward ? SS_SPACE_PARAMS : SS_SPACE_GRADS, from->bucket) & SS_READ);
        ck_assert_int_eq(t->role[SS_ROLE_RESIDUAL] >= 0, norm || forward);
        if (norm) /* overwritten by its gradient */
            ck_assert_int_eq(t->access[t->role[SS_ROLE_RESIDUAL]].mode,
                             forward ? SS_READ : SS_READ_WRITE);
    }
}

/* With all-reduces on the device, separate tasks check the gradients; otherwise every task that
 * computes gradients checks them. Updates come after all checks and before the new scale; the
 * loss reads the scale. */
static void check_scaling(const struct ss_plan *plan)
{
    const struct ss_task_list *list = &plan->train;
    const int sums = plan->options.device_sums;
    const int shards = plan->options.shards > 1;
    int scale = find_task(list, SS_TASK_SCALE, -1), last_check = -1;
    int found = find_task(list, SS_TASK_REDUCE_FOUND, -1);
    ck_assert_int_eq(scale, list->count - 1 - (shards ? plan->nbuckets : 0));
    ck_assert_int_eq(found >= 0, shards);
    if (shards)
        ck_assert_int_eq(mode_of(&list->task[found], SS_SPACE_SCALER, 0), SS_READ_WRITE);
    ck_assert_int_eq(mode_of(&list->task[scale], SS_SPACE_SCALER, 0), SS_READ_WRITE);
    for (int k = 0; k < plan->nbuckets; k++) {
        int check = find_task(list, SS_TASK_CHECK, k);
        const enum ss_task_kind sum = shards ? SS_TASK_REDUCE_SCATTER : SS_TASK_ALLREDUCE;
        ck_assert_int_eq(check, sums ? find_task(list, sum, k) + 1 + plan->options.clipping : -1);
        if (!sums)
            continue;
        ck_assert(!shards || check < found);
        ck_assert_int_eq(mode_of(&list->task[check], SS_SPACE_GRADS, k), SS_READ);
        ck_assert_int_eq(mode_of(&list->task[check], SS_SPACE_SCALER, 0), SS_READ_WRITE);
        last_check = check > last_check ? check : last_check;
    }
    for (int i = 0; i < list->count; i++) {
        const struct ss_plan_task *t = &list->task[i];
        int loss = t->kind == SS_TASK_FORWARD && runs(&plan->block[t->block], "loss");
        if (t->kind == SS_TASK_BACKWARD) {
            int looks = !sums && t->role[SS_ROLE_GRADS] >= 0 &&
                        t->access[t->role[SS_ROLE_GRADS]].index < plan->nbuckets;
            ck_assert_int_eq(mode_of(t, SS_SPACE_SCALER, 0), looks ? SS_READ_WRITE : 0);
            last_check = looks ? i : last_check;
        }
        if (t->kind == SS_TASK_UPDATE)
            ck_assert(i > last_check && i > found);
        if (t->kind == SS_TASK_UPDATE || loss)
            ck_assert_int_eq(mode_of(t, SS_SPACE_SCALER, 0), SS_READ);
    }
}

/* Squares of each bucket's reduced gradients, the first written and the others added; with
 * shards, their all-reduce follows the last of them; then the updates, which read them. */
static void check_clipping(const struct ss_plan *plan)
{
    const struct ss_task_list *list = &plan->train;
    const int shards = plan->options.shards > 1, clipping = plan->options.clipping,
              all = find_task(list, SS_TASK_REDUCE_SQUARES, -1);
    int last = -1;
    ck_assert_int_eq(all >= 0, shards && clipping);
    for (int i = 0; i < plan->nbuckets; i++) {
        const int k = plan->sum_order[i], squares = find_task(list, SS_TASK_SQUARES, k);
        ck_assert_int_eq(squares >= 0, clipping);
        if (!clipping)
            continue;
        ck_assert_int_eq(
            squares, find_task(list, shards ? SS_TASK_REDUCE_SCATTER : SS_TASK_ALLREDUCE, k) + 1);
        ck_assert_int_eq(mode_of(&list->task[squares], SS_SPACE_GRADS, k), SS_READ);
        ck_assert_int_eq(mode_of(&list->task[squares], SS_SPACE_SQUARES, 0),
                         i ? SS_READ_WRITE : SS_WRITE);
        ck_assert_int_gt(squares, last);
        last = squares;
    }
    if (all >= 0) {
        ck_assert_int_gt(all, last);
        ck_assert_int_eq(list->task[all].naccess, 2);
        ck_assert_int_eq(mode_of(&list->task[all], SS_SPACE_SQUARES, 0), SS_READ_WRITE);
        last = all;
    }
    for (int i = 0; i < list->count; i++) {
        if (list->task[i].kind != SS_TASK_UPDATE)
            continue;
        ck_assert_int_eq(mode_of(&list->task[i], SS_SPACE_SQUARES, 0), clipping ? SS_READ : 0);
        ck_assert(!clipping || i > last);
    }
}

/* Slices cover the batch without gaps. */
static void check_slices(const struct ss_plan *plan)
{
    int slices = plan->options.slices, loads = 0;
    ck_assert_int_eq(plan->slice_begin[0], 0);
    ck_assert_int_eq(plan->slice_begin[slices], plan->options.batch);
    for (int s = 0; s < slices; s++)
        ck_assert_int_gt(plan->slice_begin[s + 1], plan->slice_begin[s]);
    for (int i = 0; i < plan->train.count; i++)
        loads += plan->train.task[i].kind == SS_TASK_LOAD;
    ck_assert_int_eq(loads, slices);
}

/* Indices of a block's tasks in the training step, by part; -1: none. */
struct parts {
    int task[SS_PART_WEIGHTS + 1], sync;
};

static struct parts parts_of(const struct ss_task_list *list, enum ss_task_kind kind, int block)
{
    struct parts p = {{-1, -1, -1, -1, -1}, -1};
    for (int i = 0; i < list->count; i++) {
        const struct ss_plan_task *t = &list->task[i];
        if (t->block != block)
            continue;
        if (t->kind == kind) {
            ck_assert_int_eq(p.task[t->part], -1);
            p.task[t->part] = i;
        } else if (t->kind == SS_TASK_SYNC && p.task[SS_PART_SUMS] >= 0 && p.sync < 0) {
            p.sync = i;
        }
    }
    return p;
}

static int written_since(const struct ss_plan *plan, int tensor, int from, int to)
{
    const struct ss_plan_tensor *p = &plan->tensor[tensor];
    for (int i = from + 1; i < to; i++)
        for (int r = 0; r < SS_ROLE_COUNT; r++) {
            const struct ss_plan_task *t = &plan->train.task[i];
            const int other = t->tensor[r];
            if (other < 0 || !(t->access[t->role[r]].mode & SS_WRITE))
                continue;
            const struct ss_plan_tensor *q = &plan->tensor[other];
            const int one = (p->of < 0 ? tensor : p->of) == (q->of < 0 ? other : q->of),
                      apart = p->of >= 0 && q->of >= 0 &&
                              (q->at + q->c <= p->at || p->at + p->c <= q->at);
            if (one && !apart)
                return 1;
        }
    return 0;
}

/* Separate weight gradient tasks: of the right blocks, after the rest of their block's backward
 * or after all of backward. They read what the block has read and computed. */
static void check_weights(const struct ss_plan *plan)
{
    for (int b = 0; b < plan->nblocks; b++) {
        const struct parts p = parts_of(&plan->train, SS_TASK_BACKWARD, b);
        const int weights = p.task[SS_PART_WEIGHTS],
                  synced = plan->options.sync_stats > 1 && plan->block[b].layer[SS_PLACE_NORM] >= 0,
                  data = p.task[synced ? SS_PART_APPLY : SS_PART_DATA];
        const int apart = plan->options.defer_weight_grads < 0 || synced || puts_off(plan, b);
        ck_assert_int_eq(weights >= 0, apart && makes_weights(plan, b));
        if (weights < 0)
            continue;
        const struct ss_plan_task *t = &plan->train.task[weights];
        const int x = t->tensor[SS_ROLE_X],
                  forward = parts_of(&plan->train, SS_TASK_FORWARD, b)
                                .task[synced ? SS_PART_SUMS : SS_PART_WHOLE];
        const enum ss_role_kind role = t->tensor[SS_ROLE_Z] >= 0 ? SS_ROLE_Z : SS_ROLE_DS;
        ck_assert_int_eq(x, plan->train.task[forward].tensor[SS_ROLE_X]);
        ck_assert(x < 0 || !written_since(plan, x, forward, weights));
        ck_assert_int_ge(t->tensor[role], 0);
        ck_assert_int_eq(t->tensor[role], plan->train.task[data].tensor[role]);
        ck_assert_msg(!written_since(plan, t->tensor[role], data, weights),
                      "%s: block %d: an input of its weight gradient is overwritten", model, b);
        ck_assert_int_gt(weights, data);
        ck_assert_int_lt(plan->train.task[data].tensor[SS_ROLE_X], 0);
        for (int i = data + 1; i < weights; i++) {
            const struct ss_plan_task *u = &plan->train.task[i];
            ck_assert(synced || puts_off(plan, b) || u->kind == SS_TASK_SUM);
        }
        for (int i = weights; i < plan->train.count && puts_off(plan, b); i++) {
            const struct ss_plan_task *u = &plan->train.task[i];
            ck_assert(u->kind != SS_TASK_BACKWARD || u->part == SS_PART_WEIGHTS);
        }
    }
}

static void check_plan(const struct ss_graph *g, const struct ss_plan_options *options)
{
    struct ss_plan *plan;
    enum ss_status status = ss_plan_lower(g, options, &plan);
    ck_assert_msg(status == SS_OK, "%s: %s", model, ss_log_last_error());
    int *in_training = calloc((size_t)plan->ntensors, sizeof *in_training);
    check_tensors(plan, &plan->train, in_training);
    check_tensors(plan, &plan->eval, NULL);
    check_sharing(plan, in_training);
    free(in_training);
    check_accesses(&plan->train);
    check_accesses(&plan->eval);
    check_bucket_content(plan);
    check_bucket_order(plan);
    check_gathers(plan);
    check_overlap(plan);
    check_priorities(plan);
    check_coverage(plan);
    check_slices(plan);
    check_clipping(plan);
    check_shortcuts(plan);
    check_weights(plan);
    if (options->device)
        check_device(plan);
    if (options->loss_scaling)
        check_scaling(plan);
    ss_plan_destroy(plan);
}

static void check_with_options(const struct ss_graph *g)
{
    static const double caps[][2] = {{25, 1}, {1e-6, 1e-6}, {0.01, 1e-3}, {1e-3, 0.01}, {1e6, 1e6}};
    static const int blocks[] = {0, 8, 16}, batches[] = {1, 2, 33},
                     deferrals[] = {-1, 3, 8, 1 << 16};
    model = ss_graph_name(g);
    for (int c = 0; c < 5; c++)
        for (int b = 0; b < 3; b++) {
            struct ss_plan_options options = {.batch = batches[b],
                                              .channel_block = blocks[b],
                                              .bucket_mb = caps[c][0],
                                              .first_bucket_mb = caps[c][1],
                                              .slices = batches[b] < 3 ? batches[b] : 3,
                                              .clipping = b == 2 || c == 3,
                                              .states = b};
            check_plan(g, &options);
            options.no_overlap = 1;
            check_plan(g, &options);
            options.shards = 2 + b;
            check_plan(g, &options);
            options.no_overlap = 0;
            options.defer_weight_grads = deferrals[(c + b) % 4];
            check_plan(g, &options);
            options.shards = 1;
            check_plan(g, &options);
            options.defer_weight_grads = 0;
            on_device(&options, (enum ss_dtype)b); /* each format once */
            check_plan(g, &options);
            options.no_overlap = 1;
            check_plan(g, &options);
            options.device_sums = 1;
            check_plan(g, &options);
            options.defer_weight_grads = deferrals[(c + b) % 4];
            check_plan(g, &options);
            options.no_overlap = 0;
            check_plan(g, &options);
            options.shards = 2;
            check_plan(g, &options);
        }
}

/* A block with NORM is split into sums, their all-reduce and the rest; others are whole. */
static void check_parts(const struct ss_plan *plan, const char *order)
{
    const struct ss_task_list *list = &plan->train;
    const size_t n = (size_t)list->count;
    int syncs = 0, blocks = 0;
    for (int b = 0; b < plan->nblocks; b++) {
        const struct ss_block *block = &plan->block[b];
        const int norm = block->layer[SS_PLACE_NORM];
        blocks += norm >= 0;
        ck_assert_int_eq(block->left_to, -1);
        ck_assert(norm < 0 || block->layer[SS_PLACE_POOL] < 0);
        for (int backward = 0; backward < 2 && block->y >= 0; backward++) {
            const struct parts p = parts_of(list, backward ? SS_TASK_BACKWARD : SS_TASK_FORWARD, b);
            if (norm < 0) {
                const int whole = !backward || !puts_off(plan, b);
                ck_assert(p.task[whole ? SS_PART_WHOLE : SS_PART_DATA] >= 0 &&
                          p.task[SS_PART_SUMS] < 0);
                continue;
            }
            const int sums = p.task[SS_PART_SUMS], apply = p.task[SS_PART_APPLY],
                      weights = p.task[SS_PART_WEIGHTS];
            ck_assert(p.task[SS_PART_WHOLE] < 0 && sums >= 0 && sums < p.sync && p.sync < apply);
            ck_assert(order[(size_t)p.sync * n + (size_t)sums]);
            ck_assert(order[(size_t)apply * n + (size_t)p.sync]);
            ck_assert_int_eq(
                list->task[p.sync].sums,
                2 * ss_graph_value(plan->graph, ss_graph_layer(plan->graph, norm)->output)->c);
            /* The weight gradient comes last, and before its bucket is reduced. */
            ck_assert_int_eq(weights >= 0, backward && block->layer[SS_PLACE_HEAD] >= 0);
            for (int i = 0; i < weights; i++)
                ck_assert(list->task[i].kind != SS_TASK_ALLREDUCE ||
                          list->task[i].bucket != block->bucket);
            if (weights >= 0)
                ck_assert(order[(size_t)weights * n + (size_t)apply]);
        }
    }
    for (int i = 0; i < list->count; i++)
        syncs += list->task[i].kind == SS_TASK_SYNC;
    ck_assert_int_eq(syncs, 2 * blocks);
}

/* All-reduces of statistics have an order of their own and wait for no bucket. While one is in
 * progress, weight gradients of following blocks can be computed; their priority is lower than
 * that of the task before the all-reduce. */
static void check_syncs(const struct ss_plan *plan, const char *order)
{
    const struct ss_task_list *list = &plan->train;
    const size_t n = (size_t)list->count;
    int before = -1, meanwhile = 0, syncs = 0;
    for (int i = 0; i < list->count; i++) {
        const struct ss_plan_task *t = &list->task[i];
        ck_assert_int_eq(mode_of(t, SS_SPACE_SYNC, 0), t->kind == SS_TASK_SYNC ? SS_READ_WRITE : 0);
        if (t->kind != SS_TASK_SYNC)
            continue;
        const int backward = list->task[i - 1].kind == SS_TASK_BACKWARD;
        ck_assert(before < 0 || order[(size_t)i * n + (size_t)before]);
        before = i;
        syncs++;
        for (size_t j = 0; j < n; j++) {
            const struct ss_plan_task *other = &list->task[j];
            ck_assert(!order[(size_t)i * n + j] || other->kind != SS_TASK_ALLREDUCE);
            if (!backward || other->kind != SS_TASK_BACKWARD || other->part != SS_PART_WEIGHTS ||
                other->block <= t->block || order[(size_t)i * n + j] || (int)j < i)
                continue;
            meanwhile++;
            ck_assert_int_lt(other->priority, list->task[i - 1].priority);
        }
    }
    if (syncs > 4 && plan->nbuckets == 1)
        ck_assert_int_gt(meanwhile, 0);
}

static void check_synced(const struct ss_graph *g, const struct ss_plan_options *options)
{
    struct ss_plan *plan;
    ck_assert_int_eq(ss_plan_lower(g, options, &plan), SS_OK);
    int *in_training = calloc((size_t)plan->ntensors, sizeof *in_training);
    check_tensors(plan, &plan->train, in_training);
    check_tensors(plan, &plan->eval, NULL);
    check_sharing(plan, in_training);
    free(in_training);
    check_accesses(&plan->train);
    check_bucket_content(plan);
    check_overlap(plan);
    check_slices(plan);
    char *order = find_order(&plan->train);
    check_parts(plan, order);
    check_weights(plan);
    check_syncs(plan, order);
    free(order);
    for (int i = 0; i < plan->eval.count; i++)
        ck_assert(plan->eval.task[i].kind != SS_TASK_SYNC &&
                  plan->eval.task[i].part == SS_PART_WHOLE);
    ss_plan_destroy(plan);
}

/* Checks the number of delegated block ends, with NORM and with a bias. */
static void check_left(const struct ss_graph *g, int norms, int biases)
{
    struct ss_plan *plan;
    struct ss_plan_options options = {
        .batch = 2, .bucket_mb = 1, .first_bucket_mb = 1, .slices = 1};
    for (int device = 0; device < 2; device++) {
        if (device)
            on_device(&options, SS_DTYPE_F16);
        ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
        int left[2] = {0};
        for (int b = 0; b < plan->nblocks; b++)
            if (plan->block[b].left_to >= 0)
                left[plan->block[b].last == SS_PLACE_NORM]++;
        ck_assert_int_eq(left[1], device ? norms : 0);
        ck_assert_int_eq(left[0], device ? biases : 0);
        ss_plan_destroy(plan);
    }
}

/* Shortcuts of convolution and BatchNorm, or with a bias; some cannot be delegated to the
 * addition. */
START_TEST(shortcuts)
{
    static const struct {
        int norm, act, drop, twice, left;
    } cases[] = {{1, 0, 0, 0, 1}, {1, 1, 0, 0, 0}, {1, 0, 1, 0, 0}, {1, 0, 0, 1, 0},
                 {0, 0, 0, 0, 1}, {0, 1, 0, 0, 1}, {0, 1, 1, 0, 1}, {0, 2, 0, 0, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct ss_graph *g = ss_graph_create("shortcut");
        ss_value in = ss_input(g, 3, TEST_SIDE, TEST_SIDE);
        ss_value x = conv_bn(g, in, "a", "a_bn", 8, 3, 1);
        x = cases[k].act == 2 ? ss_gelu(g, x, 0) : cases[k].act ? ss_relu(g, x) : x;
        x = ss_dropout(g, x, cases[k].drop ? 0.5f : 0);
        ss_value r = ss_conv2d(g, in, "b", 8, 1, 1, 0, !cases[k].norm);
        if (cases[k].norm)
            r = ss_batchnorm2d(g, r, "b_bn");
        x = ss_relu(g, ss_add(g, x, r));
        if (cases[k].twice)
            x = ss_add(g, ss_conv2d(g, x, "c", 8, 1, 1, 0, 0), r);
        x = ss_avgpool2d(g, x, TEST_SIDE, TEST_SIDE);
        ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", TEST_CLASSES));
        ck_assert_int_eq(ss_graph_finish(g), SS_OK);
        check_left(g, cases[k].left * cases[k].norm, cases[k].left * !cases[k].norm);
        check_with_options(g);
        ss_graph_destroy(g);
    }
    struct ss_graph *g = build_model("resnet50", "8,8,16,16", 64);
    check_left(g, 4, 0);
    ss_graph_destroy(g);
    g = build_model("wideresnet", "8,16,24,32", 32);
    check_left(g, 0, 3);
    ss_graph_destroy(g);
}
END_TEST

START_TEST(invariants)
{
    struct ss_graph *g = make_test_graph(_i);
    ck_assert_ptr_nonnull(g);
    check_with_options(g);
    ss_graph_destroy(g);
}
END_TEST

static const struct {
    const char *name, *width;
    int side;
} models[] = {
    {"wideresnet", "8,16,24,32", 32}, {"resnet50", "8,12,20,24", 32},
    {"resnet50", "8,8,16,16", 224},   {"vgg11_bn", "8,12,16,20,24,30", 32},
    {"vgg11_bn", "8,8,8,8,8,8", 448},
};

/* With random frozen parameters. */
START_TEST(invariants_frozen)
{
    for (uint32_t seed = 1; seed <= 4; seed++) {
        struct ss_graph *g = freeze_some(make_test_graph(_i), seed);
        check_with_options(g);
        ss_graph_destroy(g);
    }
}
END_TEST

START_TEST(invariants_models)
{
    struct ss_graph *g = build_model(models[_i].name, models[_i].width, models[_i].side);
    check_with_options(g);
    ss_graph_destroy(g);
}
END_TEST

/* Synchronized BatchNorm. */
START_TEST(synced_models)
{
    struct ss_graph *g = build_model(models[_i].name, models[_i].width, models[_i].side);
    model = ss_graph_name(g);
    for (int device = 0; device < 2; device++)
        for (int small = 0; small < 2; small++)
            for (int no_overlap = 0; no_overlap < 2; no_overlap++) {
                struct ss_plan_options options = defaults;
                options.sync_stats = 2 + small;
                options.no_overlap = no_overlap;
                if (small)
                    options.bucket_mb = options.first_bucket_mb = 0.01;
                if (device) {
                    on_device(&options, SS_DTYPE_F16);
                    options.device_sums = 1;
                }
                check_synced(g, &options);
                options.defer_weight_grads = small ? 5 : 1 << 16;
                check_synced(g, &options);
            }
    ss_graph_destroy(g);
}
END_TEST

/* With one rank, the plan is the same as without synchronization. */
START_TEST(one_rank_is_not_synced)
{
    struct ss_graph *g = build_model("resnet50", "8,8,16,16", 64);
    char *text[3];
    for (int ranks = 0; ranks < 3; ranks++) {
        struct ss_plan *plan;
        struct ss_plan_options options = defaults;
        size_t bytes;
        options.sync_stats = ranks;
        ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
        FILE *f = open_memstream(&text[ranks], &bytes);
        ck_assert_int_eq(ss_plan_print_table(plan, f), SS_OK);
        fclose(f);
        ss_plan_destroy(plan);
    }
    ck_assert_str_eq(text[0], text[1]);
    ck_assert_ptr_null(strstr(text[0], "BatchNorm statistics"));
    ck_assert_ptr_nonnull(strstr(text[2], "over 2 ranks: 106 all-reduces per step"));
    for (int ranks = 0; ranks < 3; ranks++)
        free(text[ranks]);
    ss_graph_destroy(g);
}
END_TEST

static int count_blocks(const struct ss_plan *plan, const char *operation)
{
    int n = 0;
    for (int i = 0; i < plan->nblocks; i++)
        n += runs(&plan->block[i], operation);
    return n;
}

/* Checks that the block has layers at these places, in the order of the graph. */
static void expect_places(const struct ss_plan *plan, const struct ss_block *b, unsigned places)
{
    unsigned taken = 0;
    int before = -1;
    for (int p = 0; p < SS_PLACES; p++)
        if (b->layer[p] >= 0) {
            taken |= 1u << p;
            ck_assert_int_gt(b->layer[p], before);
            before = b->layer[p];
        }
    ck_assert_int_eq(b->layer[b->last], before);
    ck_assert_msg(taken == places, "%s: %s has places %x", ss_graph_name(plan->graph), b->name,
                  taken);
}

static const struct ss_block *find_block(const struct ss_plan *plan, const char *name)
{
    for (int i = 0; i < plan->nblocks; i++)
        if (!strcmp(plan->block[i].name, name))
            return &plan->block[i];
    ck_abort_msg("no block %s", name);
    return NULL;
}

static struct ss_plan *lower_test_graph(int which, struct ss_graph **g)
{
    struct ss_plan *plan;
    *g = make_test_graph(which);
    ck_assert_int_eq(ss_plan_lower(*g, &defaults, &plan), SS_OK);
    return plan;
}

/* A ResNet block has two tasks, which include its addition and both ReLUs. */
START_TEST(fusion)
{
    struct ss_graph *g;
    struct ss_plan *plan = lower_test_graph(0, &g);
    ck_assert_int_eq(count_blocks(plan, "conv_bn_act"), 6);
    ck_assert_int_eq(count_blocks(plan, "act"), 0);
    const struct ss_block *b = find_block(plan, "conv2"), *down = find_block(plan, "down");
    expect_places(plan, b, SS_AT(HEAD) | SS_AT(NORM) | SS_AT(ADD) | SS_AT(OUT));
    ck_assert_int_eq(b->residual, down->y);
    ck_assert(down < b); /* the residual is computed first */
    b = find_block(plan, "conv4");
    expect_places(plan, b, SS_AT(HEAD) | SS_AT(NORM) | SS_AT(ADD) | SS_AT(OUT));
    ck_assert_int_eq(b->residual, find_block(plan, "conv2")->y);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);

    plan = lower_test_graph(1, &g);
    b = find_block(plan, "conv2");
    expect_places(plan, b, SS_AT(HEAD) | SS_AT(ACT) | SS_AT(DROP));
    ck_assert_int_lt(b->residual, 0);
    ck_assert_int_eq(count_blocks(plan, "linear"), 3);
    ck_assert_int_eq(count_blocks(plan, "maxpool"), 1);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);

    /* A shuffle that is the only reader of a concatenation becomes its channel order. */
    plan = lower_test_graph(index_of("join"), &g);
    ck_assert_int_eq(count_blocks(plan, "shuffle"), 0);
    ck_assert_int_eq(count_blocks(plan, "concat"), 2);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

/* ResNet-50 has 53 convolutions with all fused layers, one pool with overlap, the mean, the
 * classifier and the loss, on every device. */
START_TEST(fusion_of_resnet50)
{
    struct ss_graph *g = build_model("resnet50", NULL, 224);
    for (int device = 0; device < 2; device++) {
        struct ss_plan_options options = defaults;
        struct ss_plan *plan;
        if (device)
            on_device(&options, SS_DTYPE_F16);
        ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
        ck_assert_int_eq(plan->nblocks, 57);
        ck_assert_int_eq(count_blocks(plan, "conv_bn_act"), 53);
        ck_assert_int_eq(count_blocks(plan, "maxpool"), 1);
        ck_assert_int_eq(count_blocks(plan, "avgpool"), 1);
        int added = 0;
        for (int i = 0; i < plan->nblocks; i++) {
            const struct ss_block *b = &plan->block[i];
            if (!runs(b, "conv_bn_act"))
                continue;
            int last = b->residual >= 0, shortcut = strstr(b->name, "downsample") != NULL;
            expect_places(plan, b,
                          SS_AT(HEAD) | SS_AT(NORM) |
                              (last       ? SS_AT(ADD) | SS_AT(OUT)
                               : shortcut ? 0
                                          : SS_AT(ACT)));
            added += last;
        }
        ck_assert_int_eq(added, 16);
        ss_plan_destroy(plan);
    }
    ss_graph_destroy(g);
}
END_TEST

START_TEST(options_refused)
{
    static const struct {
        struct ss_plan_options options;
        const char *message;
    } bad[] = {
        {{.batch = 0, .channel_block = 16, .bucket_mb = 25, .first_bucket_mb = 1, .slices = 1},
         "batch size per rank is 0"},
        {{.batch = -1, .channel_block = 16, .bucket_mb = 25, .first_bucket_mb = 1, .slices = 1},
         "batch size per rank is -1"},
        {{.batch = 32, .channel_block = 16, .bucket_mb = -2, .first_bucket_mb = 1, .slices = 1},
         "--bucket-mb -2"},
        {{.batch = 32, .channel_block = 16, .bucket_mb = 25, .first_bucket_mb = -1, .slices = 1},
         "--first-bucket-mb -1"},
        {{.batch = 32, .channel_block = 16, .bucket_mb = 25, .first_bucket_mb = 1, .slices = 0},
         "0 slices"},
        {{.batch = 32,
          .channel_block = 16,
          .bucket_mb = 25,
          .first_bucket_mb = 1,
          .slices = SS_PLAN_MAX_SLICES + 1},
         "slices"},
        {{.batch = 4, .channel_block = 16, .bucket_mb = 25, .first_bucket_mb = 1, .slices = 5},
         "a batch of 4 cannot be loaded in 5 slices"},
        {{.batch = 4, .bucket_mb = 25, .first_bucket_mb = 1, .slices = 1, .states = -1},
         "-1 optimizer states"},
        {{.batch = 4,
          .bucket_mb = 25,
          .first_bucket_mb = 1,
          .slices = 1,
          .states = SS_PLAN_MAX_STATES + 1},
         "optimizer states"},
        {{.batch = 4, .bucket_mb = 1, .first_bucket_mb = 1, .slices = 1, .device = 1},
         "input_block of a device must be at least 1"},
        {{.batch = 4, .bucket_mb = 1, .first_bucket_mb = 1, .slices = 1, .defer_weight_grads = -2},
         "cannot defer the weight gradients of -2 blocks"},
        {{.batch = 4,
          .bucket_mb = 1,
          .first_bucket_mb = 1,
          .slices = 1,
          .grad_dtype = (enum ss_dtype)(SS_DTYPE_BF16 + 1)},
         "cannot be sent in number format 3"},
        {{.batch = 4, .bucket_mb = 1, .slices = 1, .accumulate = -1},
         "a step cannot have -1 micro-batches"},
        {{.batch = 4, .bucket_mb = 1, .slices = 1, .sync_stats = -1},
         "cannot synchronize BatchNorm statistics over -1 ranks"},
        {{.batch = 4, .bucket_mb = 1, .last_bucket_mb = -3, .slices = 1}, "--last-bucket-mb -3"},
        {{.batch = 4, .bucket_mb = 1, .slices = 1, .shards = -1}, "optimizer over -1 ranks"},
        {{.batch = 4, .bucket_mb = 1, .slices = 1, .shards = 2, .device = 1, .input_block = 1},
         "cannot shard the optimizer over 2 ranks: GPUs require all-reduces on the device"},
    };
    struct ss_graph *g = make_test_graph(0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ss_plan *plan = NULL;
        ck_assert_int_eq(ss_plan_lower(g, &bad[i].options, &plan), SS_ERR_INVALID);
        ck_assert_ptr_null(plan);
        ck_assert_msg(strstr(ss_log_last_error(), bad[i].message) != NULL,
                      "\"%s\" does not contain \"%s\"", ss_log_last_error(), bad[i].message);
    }
    struct ss_plan_options nan = defaults;
    struct ss_plan *plan = NULL;
    nan.bucket_mb = atof("nan");
    ck_assert_int_eq(ss_plan_lower(g, &nan, &plan), SS_ERR_INVALID);
    ss_graph_destroy(g);
}
END_TEST

/* Valid graphs that cannot be lowered. */
static void nothing_to_train(struct ss_graph *g)
{
    ss_value x = ss_input(g, 3, 8, 8);
    ss_softmax_cross_entropy(g, x);
}

/* Layer kinds that cannot begin a block or be fused into one. */
static void append(struct ss_graph *g, const struct ss_layer_class *cls)
{
    ss_value x = ss_conv2d(g, ss_input(g, 3, 8, 8), "c", 6, 3, 1, 1, 0);
    x = ss_graph_add(g, &(struct ss_layer){.cls = cls}, "odd", 1, &x);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", 5));
}
static void no_place(struct ss_graph *g)
{
    static const struct ss_layer_class cls = {.name = "strange"};
    append(g, &cls);
}
static void begins_nothing(struct ss_graph *g)
{
    static const struct ss_layer_class cls = {.name = "strange", .places = SS_AT(OUT)};
    append(g, &cls);
}
static void operation_without_place(struct ss_graph *g)
{
    static const struct ss_layer_class cls = {.name = "strange", .operation = "act"};
    append(g, &cls);
}

static const struct {
    void (*build)(struct ss_graph *g);
    const char *message;
} uncovered[] = {
    {no_place, "layer 2 (odd) of kind strange cannot begin a block"},
    {begins_nothing, "layer 2 (odd) of kind strange cannot begin a block"},
    {operation_without_place, "layer 2 (odd) of kind strange cannot begin a block"},
    {nothing_to_train, "must read a linear layer"},
};

START_TEST(model_refused)
{
    struct ss_plan *plan = NULL;
    struct ss_graph *g = ss_graph_create("test");
    uncovered[_i].build(g);
    enum ss_status status = ss_graph_finish(g);
    if (status == SS_OK)
        status = ss_plan_lower(g, &defaults, &plan);
    ck_assert_int_eq(status, SS_ERR_UNSUPPORTED);
    ck_assert_ptr_null(plan);
    ck_assert_msg(strstr(ss_log_last_error(), uncovered[_i].message) != NULL,
                  "\"%s\" does not contain \"%s\"", ss_log_last_error(), uncovered[_i].message);
    ss_graph_destroy(g);
}
END_TEST

START_TEST(accesses_refused)
{
    struct ss_plan_task t = {.name = "odd"};
    for (int i = 0; i < SS_PLAN_MAX_ACCESSES; i++)
        ck_assert_int_eq(ss_plan_touch(&t, SS_ROLE_X, SS_SPACE_BUFFER, i, SS_READ), SS_OK);
    /* Another role on the same data is accepted; one more access is not. */
    ck_assert_int_eq(ss_plan_touch(&t, SS_ROLE_Y, SS_SPACE_BUFFER, 3, SS_WRITE), SS_OK);
    ck_assert_int_eq(t.access[3].mode, SS_READ_WRITE);
    ck_assert_int_eq(ss_plan_touch(&t, SS_ROLE_Y, SS_SPACE_LOG, 0, SS_READ), SS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "task odd touches more than 24 data"));
    ck_assert_int_eq(t.naccess, SS_PLAN_MAX_ACCESSES);
}
END_TEST

/* A block has one layer at each place: the second normalization begins a new block. */
START_TEST(norm_behind_norm)
{
    struct ss_plan *plan;
    struct ss_graph *g = ss_graph_create("norms");
    ss_value x = ss_maxpool2d(g, ss_conv2d(g, ss_input(g, 3, 8, 8), "c", 6, 3, 1, 1, 0), 2, 2, 0);
    x = ss_batchnorm2d(g, ss_batchnorm2d(g, x, "first"), "second");
    x = ss_relu(g, ss_relu(g, x));
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", 5));
    ck_assert_int_eq(ss_graph_finish(g), SS_OK);
    ck_assert_int_eq(ss_plan_lower(g, &defaults, &plan), SS_OK);
    expect_places(plan, find_block(plan, "first"), SS_AT(NORM));
    expect_places(plan, find_block(plan, "second"), SS_AT(NORM) | SS_AT(ACT));
    expect_places(plan, find_block(plan, "act.6"), SS_AT(ACT));
    ck_assert_int_eq(plan->nblocks, 7);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

START_TEST(pools_on_device)
{
    static const struct {
        const char *name, *width;
        int pools;
    } with[] = {{"wideresnet", "8,16,24,32", 2}, {"vgg11_bn", "8,12,16,20,24,30", 5}};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        struct ss_plan *plan;
        struct ss_plan_options options = defaults;
        struct ss_graph *g = build_model(with[i].name, with[i].width, 32);
        on_device(&options, SS_DTYPE_F16);
        ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
        int fused = 0;
        for (int b = 0; b < plan->nblocks; b++) {
            ck_assert(!runs(&plan->block[b], "maxpool"));
            fused += plan->block[b].layer[SS_PLACE_POOL] >= 0;
        }
        ck_assert_int_eq(fused, with[i].pools);
        ss_plan_destroy(plan);
        ss_graph_destroy(g);
    }
}
END_TEST

/* Several micro-batches: the last one equals a step without accumulation except for its
 * additions; the others have no collectives and no updates. Buffers do not grow. */
START_TEST(micro_batches)
{
    enum { MICROS = 4 };
    static const int once = 1 << SS_TASK_ALLREDUCE | 1 << SS_TASK_CHECK | 1 << SS_TASK_UPDATE |
                            1 << SS_TASK_SCALE | 1 << SS_TASK_REDUCE_METRICS | 1 << SS_TASK_REPORT;
    struct ss_plan *one, *many;
    struct ss_plan_options options = defaults;
    struct ss_graph *g = build_model("wideresnet", "8,16,24,32", 32);
    if (_i)
        on_device(&options, SS_DTYPE_F32);
    ck_assert_int_eq(ss_plan_lower(g, &options, &one), SS_OK);
    options.accumulate = MICROS;
    ck_assert_int_eq(ss_plan_lower(g, &options, &many), SS_OK);
    check_accesses(&many->train);
    ck_assert_uint_eq(ss_plan_buffer_bytes(many), ss_plan_buffer_bytes(one));
    int adds[MICROS] = {0}, micro = 0, at = 0;
    for (int i = 0; i < many->train.count; i++) {
        const struct ss_plan_task *t = &many->train.task[i];
        ck_assert(t->micro == micro || t->micro == ++micro); /* ascending */
        const int last = micro == MICROS - 1;
        ck_assert(last || !(once >> t->kind & 1));
        if (t->kind == SS_TASK_ADD) {
            adds[micro]++;
            ck_assert_int_eq(mode_of(t, SS_SPACE_GRADS, t->bucket), last ? SS_READ_WRITE : SS_READ);
            ck_assert_int_eq(mode_of(t, SS_SPACE_ACCUM, t->bucket), last    ? SS_READ
                                                                    : micro ? SS_READ_WRITE
                                                                            : SS_WRITE);
        } else if (last) {
            ck_assert_str_eq(t->name, one->train.task[at++].name);
        }
    }
    ck_assert_int_eq(at, one->train.count);
    for (int m = 0; m < MICROS; m++)
        ck_assert_int_eq(adds[m], many->nbuckets);
    for (int k = 0; k < many->nbuckets; k++) {
        int add = many->bucket[k].ready_task; /* its all-reduce follows */
        ck_assert_int_eq(many->train.task[add].kind, SS_TASK_ADD);
        ck_assert_int_eq(many->train.task[add + 1].kind, SS_TASK_ALLREDUCE);
    }
    ss_plan_destroy(one);
    ss_plan_destroy(many);
    ss_graph_destroy(g);
}
END_TEST

/* Makes a model of test_graphs, or one with a layer of first_layers. */
static struct ss_graph *make_named_graph(const char *name)
{
    for (int i = 0; i < TEST_GRAPHS; i++)
        if (!strcmp(test_graphs[i].name, name))
            return make_test_graph(i);
    int first = 0;
    while (strcmp(first_layers[first].name, name))
        first++;
    struct ss_graph *g = ss_graph_create(name);
    build_with(g, &first_layers[first], 0);
    ck_assert_int_eq(ss_graph_finish(g), SS_OK);
    return g;
}

/* On a device, layers that support it read padded images, the others plain ones. One conversion
 * makes both, as far as they are read. */
START_TEST(images_on_device)
{
    static const struct {
        const char *name;
        int padded, plain; /* channels */
    } want[] = {{"chain", 8, 0}, {"front", 0, 3},      {"images", 8, 3},  {"conv", 8, 0},
                {"twice", 0, 3}, {"halves", 0, 4},     {"thirds", 0, 6},  {"block", 0, 3},
                {"both", 8, 3},  {"linear_map", 8, 0}, {"shuffle", 8, 0}, {"grey_twice", 8, 0}};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        struct ss_plan *plan = NULL;
        struct ss_plan_options options = defaults;
        struct ss_graph *g = make_named_graph(want[k].name);
        on_device(&options, SS_DTYPE_F16);
        ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
        int converts = 0;
        for (int i = 0; i < plan->train.count; i++) {
            const struct ss_plan_task *t = &plan->train.task[i];
            if (t->kind != SS_TASK_CONVERT)
                continue;
            converts++;
            const int y = t->tensor[SS_ROLE_Y], z = t->tensor[SS_ROLE_Z];
            ck_assert_int_eq(y < 0 ? 0 : plan->tensor[y].block, want[k].padded);
            ck_assert_int_eq(z < 0 ? 0 : plan->tensor[z].block, want[k].plain);
        }
        ck_assert_int_eq(converts, 1);
        ss_plan_destroy(plan);
        ss_graph_destroy(g);
    }
}
END_TEST

/* The gradient of a value with n readers: sums of 4 contributions at a time, each into the first
 * contribution, which then represents all of them; every other contribution is read once. */
START_TEST(many_readers)
{
    int sums = 0, read = 0;
    struct ss_graph *g = make_test_graph(index_of("readers"));
    struct ss_plan *plan = NULL;
    ck_assert_int_eq(ss_plan_lower(g, &defaults, &plan), SS_OK);
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        if (t->kind != SS_TASK_SUM)
            continue;
        sums++;
        read += t->ndy - 1;
        ck_assert_int_eq(t->ndy, SS_PLAN_MAX_DY);
        ck_assert_int_eq(t->tensor[SS_ROLE_DS], t->tensor[SS_ROLE_DY]);
        ck_assert_uint_eq(t->count * sizeof(float), plan->tensor[t->tensor[SS_ROLE_DS]].bytes);
        for (int k = 0; k < t->ndy; k++)
            for (int j = 0; j < k; j++)
                ck_assert_int_ne(t->tensor[SS_ROLE_DY + k], t->tensor[SS_ROLE_DY + j]);
    }
    ck_assert_int_eq(sums, (7 - 2) / 3 + (30 - 2) / 3);
    ck_assert_int_eq(read, 3 * sums);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

static struct ss_plan *lower_named(const char *name, const struct ss_plan_options *options,
                                   struct ss_graph **g)
{
    struct ss_plan *plan = NULL;
    *g = make_test_graph(index_of(name));
    ck_assert_int_eq(ss_plan_lower(*g, options, &plan), SS_OK);
    return plan;
}

/* Inputs of concatenations that are views: a bit mask per concatenation, in the graph's order.
 * Outputs of bare convolutions and pools are copied, and so are inputs that end within a channel
 * block, unless they are last. */
START_TEST(parts)
{
    static const struct {
        const char *name;
        int device, channel_block, copy_parts;
        unsigned want[7];
        int adds; /* backward tasks that accumulate into dx */
    } cases[] = {
        {"dense", 0, 16, 0, {1, 1, 1, 0, 1, 1, 1}, 3 + 3},
        {"dense", 0, 8, 0, {1, 1, 1, 0, 1, 1, 1}, 3 + 3},
        {"dense", 1, 0, 0, {1, 1, 1, 0, 1, 1, 0}, 3 + 2},
        {"dense", 0, 0, 0, {0}, 0},
        {"dense", 0, 16, 1, {0}, 0},
        {"dense", 1, 0, 1, {0}, 0},
        {"branches", 0, 16, 0, {8 + 2 + 1, 2 + 1, 4 + 2 + 1, 2, 2 + 1}, 0},
        {"branches", 1, 0, 0, {8 + 2 + 1, 2 + 1, 0, 2, 2 + 1}, 0},
        {"join", 0, 16, 0, {0}, 0},
    };
    struct ss_plan_options options = defaults;
    struct ss_graph *g;
    if (cases[_i].device)
        on_device(&options, SS_DTYPE_F16);
    options.channel_block = cases[_i].channel_block;
    options.copy_parts = cases[_i].copy_parts;
    struct ss_plan *plan = lower_named(cases[_i].name, &options, &g);
    int tasks[64] = {0}, adds = 0, nparts = 0, concats = 0;
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        if (t->block < 0)
            continue;
        tasks[t->block]++;
        adds += t->adds_dx;
        const int dx = t->tensor[SS_ROLE_DX];
        ck_assert(!t->adds_dx || (dx >= 0 && plan->tensor[dx].of >= 0 &&
                                  t->access[t->role[SS_ROLE_DX]].mode == SS_READ_WRITE));
    }
    for (int i = 0; i < plan->nblocks; i++) {
        const struct ss_block *b = &plan->block[i];
        if (!b->cls->concatenates)
            continue;
        const int n = ss_graph_layer(g, b->first_layer)->ninputs;
        ck_assert_msg(b->in_place == cases[_i].want[concats], "concatenation %d of %s: %x", concats,
                      cases[_i].name, b->in_place);
        concats++;
        /* Without copies, there are no tasks. */
        ck_assert_int_eq(tasks[i], b->in_place + 1 == 1u << n ? 0 : 2);
    }
    for (int i = 0; i < plan->ntensors; i++)
        nparts += plan->tensor[i].of >= 0;
    ck_assert_int_eq(adds, cases[_i].adds);
    ck_assert_int_eq(nparts > 0, cases[_i].want[0] > 0);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

/* All 3x3 convolutions with stride 1 can compute their x. */
static int makes_x(const struct ss_plan *plan, int block)
{
    const struct ss_layer *l = ss_graph_layer(plan->graph, plan->block[block].first_layer);
    return l->kernel[0] == 3 && l->stride[0] == 1;
}

/* Blocks whose y is not stored: the reader reads z, or x if no convolution begins the block. That
 * tensor is not overwritten by its gradient before the reader has computed its weight gradient. */
static void check_unstored(const struct ss_plan *plan, const char *names)
{
    char found[256] = "";
    for (int i = 0; i < plan->nblocks; i++) {
        const struct ss_block *b = &plan->block[i];
        if (b->made_by < 0)
            continue;
        snprintf(found + strlen(found), sizeof found - strlen(found), " %s", b->name);
        ck_assert_int_eq(plan->block[b->made_by].makes, i);
        const struct ss_task_list *lists[] = {&plan->train, &plan->eval};
        for (int k = 0; k < 2; k++) {
            int tensor = -1, saved = -1, read = 0, over = 0;
            for (int j = 0; j < lists[k]->count; j++) {
                const struct ss_plan_task *t = &lists[k]->task[j];
                if (t->block == i && t->kind == SS_TASK_FORWARD) {
                    ck_assert_int_lt(t->tensor[SS_ROLE_Y], 0);
                    tensor = t->tensor[b->cls->keeps_z ? SS_ROLE_Z : SS_ROLE_X];
                    saved = t->tensor[SS_ROLE_SAVED];
                }
                if (t->block == b->made_by && t->role[SS_ROLE_X] >= 0) {
                    ck_assert_int_eq(t->tensor[SS_ROLE_X], tensor);
                    ck_assert_int_eq(t->tensor[SS_ROLE_X_SAVED], saved);
                    ck_assert_int_eq(t->access[t->role[SS_ROLE_X_PARAMS]].index, b->bucket);
                    ck_assert(!over);
                    read++;
                }
                over |= t->block == i && t->kind == SS_TASK_BACKWARD;
            }
            ck_assert_int_ge(tensor, 0);
            ck_assert_int_eq(read, k ? 1 : 2);
        }
    }
    ck_assert_str_eq(found, names);
}

START_TEST(unstored)
{
    static const struct {
        int deferred, sync_stats;
        const char *names;
    } cases[] = {
        {0, 0, " pre_bn a c"}, {-1, 0, " pre_bn a c"}, {3, 0, " a c"}, {100, 0, ""}, {0, 2, ""},
        {0, 1, " pre_bn a c"}};
    size_t bytes[2];
    for (int made = 0; made < 2; made++) {
        struct ss_plan_options options = defaults;
        struct ss_graph *g;
        options.defer_weight_grads = cases[_i].deferred;
        options.sync_stats = cases[_i].sync_stats;
        options.makes_x = made ? makes_x : NULL;
        struct ss_plan *plan = lower_named("pre", &options, &g);
        check_unstored(plan, made ? cases[_i].names : "");
        bytes[made] = ss_plan_tensor_bytes(plan);
        ss_plan_destroy(plan);
        ss_graph_destroy(g);
    }
    ck_assert_int_eq(bytes[1] < bytes[0], *cases[_i].names != 0);
}
END_TEST

/* Blocks of a convolution and an addition have no z, and the gradient of y is that of the
 * convolution and of the residual. */
static void check_adding(const struct ss_plan *plan, const char *names)
{
    char found[256] = "";
    for (int i = 0; i < plan->nblocks; i++) {
        const struct ss_block *b = &plan->block[i];
        if (!b->cls->keeps_z || !ss_block_only_adds(b))
            continue;
        snprintf(found + strlen(found), sizeof found - strlen(found), " %s", b->name);
        const struct ss_task_list *lists[] = {&plan->train, &plan->eval};
        for (int k = 0; k < 2; k++)
            for (int j = 0; j < lists[k]->count; j++) {
                const struct ss_plan_task *t = &lists[k]->task[j];
                if (t->block != i)
                    continue;
                const int forward = t->kind == SS_TASK_FORWARD;
                ck_assert_int_lt(t->role[SS_ROLE_Z], 0);
                ck_assert_int_eq(t->role[SS_ROLE_RESIDUAL] >= 0, forward);
                ck_assert_int_eq(t->role[SS_ROLE_Y] >= 0, forward);
                ck_assert_int_eq(t->role[SS_ROLE_DS] >= 0, !forward);
            }
    }
    ck_assert_str_eq(found, names);
}

START_TEST(adds_on_store)
{
    static const struct {
        int deferred;
        const char *names;
    } cases[] = {{0, " b h i"}, {1, ""}, {-1, ""}};
    int tasks[2];
    size_t bytes[2];
    for (int adds = 0; adds < 2; adds++) {
        struct ss_plan_options options = defaults;
        struct ss_graph *g;
        options.defer_weight_grads = cases[_i].deferred;
        options.adds = adds ? makes_x : NULL;
        struct ss_plan *plan = lower_named("pre", &options, &g);
        check_adding(plan, adds ? cases[_i].names : "");
        tasks[adds] = plan->train.count;
        bytes[adds] = ss_plan_tensor_bytes(plan);
        ss_plan_destroy(plan);
        ss_graph_destroy(g);
    }
    ck_assert_int_eq(tasks[0] - tasks[1], *cases[_i].names ? 6 : 0);
    ck_assert_int_eq(bytes[1] < bytes[0], *cases[_i].names != 0);
}
END_TEST

/* An activation after the addition needs a pass over memory, which includes the addition. */
START_TEST(adds_with_activation)
{
    struct ss_plan_options options = defaults;
    struct ss_plan *plan;
    struct ss_graph *g = ss_graph_create("activated");
    ss_value x = ss_conv2d(g, ss_input(g, 3, 8, 8), "a", 16, 3, 1, 1, 0);
    x = ss_relu(g, ss_add(g, ss_conv2d(g, x, "b", 16, 3, 1, 1, 0), x));
    ss_softmax_cross_entropy(g, ss_linear(g, ss_global_avgpool2d(g, x), "fc", 4));
    ck_assert_int_eq(ss_graph_finish(g), SS_OK);
    options.adds = makes_x;
    ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
    check_adding(plan, "");
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

/* Views use one buffer instead of one for each prefix. */
START_TEST(parts_take_less)
{
    size_t bytes[2];
    for (int copy = 0; copy < 2; copy++) {
        struct ss_plan_options options = defaults;
        struct ss_graph *g;
        options.copy_parts = copy;
        struct ss_plan *plan = lower_named("dense", &options, &g);
        bytes[copy] = ss_plan_buffer_bytes(plan);
        ss_plan_destroy(plan);
        ss_graph_destroy(g);
    }
    ck_assert_uint_lt(bytes[0], bytes[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, quiet, NULL);
    tcase_add_loop_test(t, dumps, 0, sizeof recorded / sizeof *recorded);
    tcase_add_test(t, print_fails);
    tcase_add_test(t, shortcuts);
    tcase_add_loop_test(t, invariants, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, invariants_frozen, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, invariants_models, 0, sizeof models / sizeof *models);
    tcase_add_loop_test(t, synced_models, 0, sizeof models / sizeof *models);
    tcase_add_test(t, one_rank_is_not_synced);
    tcase_add_test(t, fusion);
    tcase_add_test(t, fusion_of_resnet50);
    tcase_add_test(t, options_refused);
    tcase_add_test(t, accesses_refused);
    tcase_add_test(t, norm_behind_norm);
    tcase_add_test(t, images_on_device);
    tcase_add_test(t, many_readers);
    tcase_add_loop_test(t, parts, 0, 9);
    tcase_add_test(t, parts_take_less);
    tcase_add_loop_test(t, unstored, 0, 6);
    tcase_add_loop_test(t, adds_on_store, 0, 3);
    tcase_add_test(t, adds_with_activation);
    tcase_add_loop_test(t, micro_batches, 0, 2);
    tcase_add_test(t, pools_on_device);
    tcase_add_loop_test(t, model_refused, 0, sizeof uncovered / sizeof *uncovered);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
