/* test_segments.c: invariants of the segments of any model's step, and their number. */
#include "core/log.h"
#include "graph/segments.h"
#include "graphs/models.h"
#include "tests/graph/test_graphs.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {"wideresnet", "resnet50", "resnext50_32x4d", "vgg11_bn"};
enum { BUILT_IN = sizeof models / sizeof *models };

static struct ss_graph *build(int i)
{
    const struct ss_model_options options = {NULL, -1, 100, 3, 64, 64};
    struct ss_graph *g;
    if (i >= BUILT_IN)
        return make_test_graph(i - BUILT_IN);
    ck_assert_int_eq(ss_model_build(models[i], &options, &g), SS_OK);
    return g;
}

static struct ss_plan_options on_gpu(enum ss_dtype dtype)
{
    return (struct ss_plan_options){.batch = 32,
                                    .slices = 8,
                                    .states = 1,
                                    .dtype = dtype,
                                    .device = 1,
                                    .input_block = dtype == SS_DTYPE_F32 ? 4 : 8,
                                    .loss_scaling = dtype == SS_DTYPE_F16};
}

/* Returns the position at which task i is submitted. */
static int place(const struct ss_segments *s, int i)
{
    return s->of[i] < 0 ? i : s->member[s->at[s->of[i]].first];
}

/* Tasks that access the same data are submitted in the list's order, because StarPU derives
 * dependencies from it. */
static void check_order(const struct ss_plan *plan, const struct ss_segments *s)
{
    enum { SPACES = SS_SPACE_KEYS + 1, INDICES = 4096 };
    static int touched[SPACES][INDICES], written[SPACES][INDICES]; /* the last position + 1 */
    memset(touched, 0, sizeof touched);
    memset(written, 0, sizeof written);
    for (int i = 0; i < plan->train.count; i++) {
        const struct ss_plan_task *t = &plan->train.task[i];
        const int here = place(s, i) + 1;
        for (int k = 0; k < t->naccess; k++) {
            const struct ss_access *a = &t->access[k];
            ck_assert_int_lt(a->index, INDICES);
            int *all = &touched[a->space][a->index], *writers = &written[a->space][a->index];
            const int before = a->mode & SS_WRITE ? *all : *writers;
            ck_assert_msg(before <= here, "%s precedes a task that it depends on", t->name);
            *all = *all > here ? *all : here;
            if (a->mode & SS_WRITE)
                *writers = *writers > here ? *writers : here;
        }
    }
}

static int mode_of(const struct ss_access *access, int n, enum ss_space space, int index)
{
    for (int i = 0; i < n; i++)
        if (access[i].space == space && access[i].index == index)
            return access[i].mode;
    return 0;
}

/* Each task is in one segment, in order, and a segment accesses what its members access. */
static void check_members(const struct ss_plan *plan, const struct ss_segments *s)
{
    int members = 0;
    for (int n = 0; n < s->count; n++) {
        const struct ss_segment *seg = &s->at[n];
        ck_assert_int_eq(seg->first, members);
        ck_assert_int_ge(seg->count, 1);
        for (int k = 0; k < seg->count; k++) {
            const int i = s->member[members++];
            const struct ss_plan_task *t = &plan->train.task[i];
            ck_assert_int_eq(s->of[i], n);
            ck_assert(k == 0 || i > s->member[members - 2]);
            for (int a = 0; a < t->naccess; a++) {
                const int mode =
                    mode_of(seg->access, seg->naccess, t->access[a].space, t->access[a].index);
                ck_assert_int_eq(mode & t->access[a].mode, t->access[a].mode);
            }
        }
        for (int a = 0; a < seg->naccess; a++)
            for (int b = 0; b < a; b++)
                ck_assert(seg->access[a].space != seg->access[b].space ||
                          seg->access[a].index != seg->access[b].index);
    }
    for (int i = 0; i < plan->train.count; i++)
        members -= ss_segments_take(plan->train.task[i].kind);
    ck_assert_int_eq(members, 0);
}

static int last_member(const struct ss_segments *s, int i)
{
    const struct ss_segment *seg = &s->at[s->of[i]];
    return s->member[seg->first + seg->count - 1];
}

/* Segments do not delay other tasks: they end at tasks for which others wait, and begin at tasks
 * that wait for others. */
static void check_overlap(const struct ss_plan *plan, const struct ss_segments *s)
{
    const struct ss_task_list *list = &plan->train;
    for (int i = 0; i < list->count; i++) {
        const struct ss_plan_task *t = &list->task[i];
        if (s->of[i] >= 0 && mode_of(t->access, t->naccess, SS_SPACE_METRICS, 0))
            ck_assert_msg(last_member(s, i) == i, "%s: its metrics are delayed", t->name);
        if (s->of[i] < 0 || !plan->options.device_sums)
            continue;
        for (int k = 0; k < plan->nbuckets; k++) {
            const int ready = plan->bucket[k].ready_task;
            if (mode_of(t->access, t->naccess, SS_SPACE_PARAMS, k) && i < ready &&
                t->kind == SS_TASK_FORWARD && t->micro == 0) {
                int first = 1;
                for (int b = 0; b < i; b++)
                    first &=
                        !mode_of(list->task[b].access, list->task[b].naccess, SS_SPACE_PARAMS, k);
                ck_assert_msg(!first || place(s, i) == i, "%s: earlier tasks wait for its weights",
                              t->name);
            }
        }
    }
    for (int k = 0; k < plan->nbuckets && plan->options.device_sums; k++) {
        const int ready = plan->bucket[k].ready_task;
        if (s->of[ready] >= 0)
            ck_assert_msg(last_member(s, ready) == ready, "bucket %d is delayed by %s", k,
                          list->task[last_member(s, ready)].name);
    }
}

static void check(struct ss_graph *g, const struct ss_plan_options *options)
{
    struct ss_plan *plan;
    struct ss_segments s;
    ck_assert_int_eq(ss_plan_lower(g, options, &plan), SS_OK);
    ck_assert_int_eq(ss_segments_find(plan, &s), SS_OK);
    check_members(plan, &s);
    check_order(plan, &s);
    check_overlap(plan, &s);
    ss_segments_free(&s);
    ss_plan_destroy(plan);
}

START_TEST(invariants)
{
    struct ss_graph *g = build(_i);
    for (unsigned bits = 0; bits < 64; bits++) {
        struct ss_plan_options o = on_gpu(bits & 1 ? SS_DTYPE_F16 : SS_DTYPE_BF16);
        o.device_sums = (bits & 2) != 0;
        o.accumulate = bits & 4 ? 3 : 1;
        o.clipping = (bits & 8) != 0;
        o.defer_weight_grads = bits & 8 ? 5 : 0;
        o.bucket_mb = bits & 16 ? 0.01 : 0;
        o.sync_stats = bits & 32 && o.device_sums ? 2 : 0;
        o.shards = bits & 32 && bits & 4 && o.device_sums ? 2 : 0;
        check(g, &o);
    }
    ss_graph_destroy(g);
}
END_TEST

static int count(const char *model, int sums, int accumulate)
{
    const struct ss_model_options images = {NULL, -1, 100, 3, 32, 32};
    struct ss_plan_options o = on_gpu(SS_DTYPE_BF16);
    struct ss_graph *g;
    struct ss_plan *plan;
    struct ss_segments s;
    o.device_sums = sums;
    o.accumulate = accumulate;
    ck_assert_int_eq(ss_model_build(model, &images, &g), SS_OK);
    ck_assert_int_eq(ss_plan_lower(g, &o, &plan), SS_OK);
    ck_assert_int_eq(ss_segments_find(plan, &s), SS_OK);
    const int n = s.count, buckets = plan->nbuckets;
    ss_segments_free(&s);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
    return sums ? n - 2 * buckets : n;
}

/* One rank: one segment for forward and one for backward. Otherwise about one of each per bucket:
 * a junction computes gradients of two buckets. */
START_TEST(counts)
{
    ck_assert_int_eq(count("wideresnet", 0, 1), 2);
    ck_assert_int_eq(count("resnet50", 0, 1), 2);
    ck_assert_int_eq(count("vgg11_bn", 0, 1), 2);
    ck_assert_int_le(abs(count("wideresnet", 1, 1)), 2);
    ck_assert_int_le(abs(count("resnet50", 1, 1)), 6);
}
END_TEST

int main(void)
{
    ss_log_set_quiet(1);
    TCase *t = tcase_create("segments");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, invariants, 0, BUILT_IN + TEST_GRAPHS);
    tcase_add_test(t, counts);
    Suite *s = suite_create("segments");
    suite_add_tcase(s, t);
    return run_suite(s);
}
