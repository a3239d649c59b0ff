/* test_buckets.c: partition of blocks into buckets, order of all-reduces, and the choice by
 * measured times, against steps simulated by hand. */
#include "core/log.h"
#include "graph/bucket_choose.h"
#include "tests/graph/test_graphs.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static void expect_partition(const size_t *bytes, int n, const int *finished,
                             struct ss_bucket_caps caps, const int *expected)
{
    int bucket[8], most = -1;
    int count = ss_bucket_partition(bytes, n, finished, &caps, bucket);
    for (int i = 0; i < n; i++) {
        ck_assert_msg(bucket[i] == expected[i], "caps %g %g %g: block %d in bucket %d, not %d",
                      caps.mb, caps.first_mb, caps.last_mb, i, bucket[i], expected[i]);
        most = bucket[i] > most ? bucket[i] : most;
    }
    ck_assert_int_eq(count, most + 1);
}

START_TEST(partition)
{
    const size_t bytes[] = {MIB, 0, 2 * MIB, 4 * MIB, 8 * MIB};
    const int backwards[] = {4, 3, 2, 1, 0};
    expect_partition(bytes, 5, backwards, (struct ss_bucket_caps){6, 8, 0},
                     (int[]){2, -1, 1, 1, 0});
    expect_partition(bytes, 5, backwards, (struct ss_bucket_caps){6, 12, 0},
                     (int[]){1, -1, 1, 0, 0});
    expect_partition(bytes, 5, backwards, (struct ss_bucket_caps){1, 1, 0},
                     (int[]){3, -1, 2, 1, 0});
    expect_partition(bytes, 5, backwards, (struct ss_bucket_caps){100, 100, 0},
                     (int[]){0, -1, 0, 0, 0});
    /* The last bucket: at least one block, split off from a large one before it. */
    expect_partition(bytes, 5, backwards, (struct ss_bucket_caps){100, 100, 3},
                     (int[]){1, -1, 1, 0, 0});
    expect_partition(bytes, 5, backwards, (struct ss_bucket_caps){100, 100, 0.5},
                     (int[]){1, -1, 0, 0, 0});
    expect_partition(bytes, 5, backwards, (struct ss_bucket_caps){1, 1, 100},
                     (int[]){0, -1, 0, 0, 0});
}
END_TEST

/* Deferred gradients come last, in forward order: those of blocks 1 and 3, of 4 and 2 MiB. */
START_TEST(order_of_finishing)
{
    const size_t bytes[] = {MIB, 4 * MIB, 0, 2 * MIB, 8 * MIB};
    const unsigned char can[] = {0, 1, 0, 1, 1};
    int finished[5];
    ss_bucket_finish(can, 5, 4, finished);
    ck_assert_mem_eq(finished, ((int[]){4, 2, 0, 1, 3}), sizeof finished);
    expect_partition(bytes, 5, finished, (struct ss_bucket_caps){6, 8, 0}, (int[]){1, 1, -1, 2, 0});
    expect_partition(bytes, 5, finished, (struct ss_bucket_caps){100, 100, 2},
                     (int[]){0, 0, -1, 1, 0});
    ss_bucket_finish(can, 5, 3, finished);
    ck_assert_mem_eq(finished, ((int[]){4, 3, 2, 0, 1}), sizeof finished);
    ss_bucket_finish(can, 5, 100, finished);
    ck_assert_mem_eq(finished, ((int[]){2, 0, 1, 3, 4}), sizeof finished);
    for (int none = -1; none < 2; none++) {
        ss_bucket_finish(can, 5, none, finished);
        ck_assert_mem_eq(finished, ((int[]){4, 3, 2, 1, 0}), sizeof finished);
    }
}
END_TEST

START_TEST(default_caps)
{
    struct ss_bucket_caps caps = ss_bucket_default_caps(100 * MIB, 0, 0, 0);
    ck_assert_double_eq(caps.mb, 10);
    ck_assert_double_eq(caps.first_mb, 1);
    ck_assert_double_eq(caps.last_mb, 0);
    ck_assert_double_eq(ss_bucket_default_caps(1000 * MIB, 0, 0, 0).mb, 25);
    caps = ss_bucket_default_caps(MIB, 0, 0, 0);
    ck_assert_double_eq(caps.mb, 0.25);
    ck_assert_double_eq(caps.first_mb, 0.25);
    caps = ss_bucket_default_caps(MIB, 3, 2, 1);
    ck_assert_double_eq(caps.mb, 3);
    ck_assert_double_eq(caps.first_mb, 2);
    ck_assert_double_eq(caps.last_mb, 1);
}
END_TEST

static double play_deferred(const struct ss_bucket_costs *c, int deferred, const int *bucket, int n,
                            const int *order, int *used)
{
    double step_s;
    ck_assert_int_eq(ss_bucket_play(c, deferred, bucket, n, order, used, &step_s), SS_OK);
    return step_s;
}

static double play(const struct ss_bucket_costs *c, const int *bucket, int n, const int *order,
                   int *used)
{
    return play_deferred(c, 0, bucket, n, order, used);
}

static const double no_weights[64];

static const struct ss_bucket_costs two_equal_blocks = {
    .nblocks = 2,
    .bytes = (const size_t[]){MIB, MIB},
    .forward_s = (const double[]){1, 1},
    .backward_s = (const double[]){2, 2},
    .weights_s = no_weights,
    .sum_s_per_byte = 3. / (double)MIB,
};

/* Two blocks of 1 MiB: backward ends at 2 and 4, the all-reduces at 5 and 8, forward waits until
 * 8, and the next backward ends at 14. */
START_TEST(two_blocks)
{
    struct ss_bucket_costs c = two_equal_blocks;
    int used[2];
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, (int[]){0, 1}, used), 10, 1e-9);
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, NULL, used), 10, 1e-9);
    ck_assert(used[0] == 0 && used[1] == 1);
    /* Reverse order: 4 to 7, 7 to 10; forward of block 0 from 7, of block 1 from 10. */
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, (int[]){1, 0}, used), 11, 1e-9);
    /* One bucket: 4 to 10. */
    ck_assert_double_eq_tol(play(&c, (int[]){0, 0}, 1, NULL, used), 12, 1e-9);
    c.sum_s = 0.25;
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, NULL, used), 10.5, 1e-9);
    ck_assert_double_eq_tol(play(&c, (int[]){0, 0}, 1, NULL, used), 12.25, 1e-9);
    /* A bucket's update takes 0.5, between the end of its all-reduce and the block's forward. */
    c.update_s_per_byte = 0.5 / (double)MIB;
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, NULL, used), 11, 1e-9);
    /* No communication: computation only. */
    c.sum_s = c.sum_s_per_byte = 0;
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, NULL, used), 7, 1e-9);
}
END_TEST

/* The same with updates of 0.5 beside the worker, in the order of the all-reduces: from 5 and 8
 * in the first case, and forward waits until 8.5. */
START_TEST(updates_beside)
{
    struct ss_bucket_costs c = two_equal_blocks;
    c.update_s_per_byte = 0.5 / (double)MIB;
    c.updates_beside = 1;
    int used[2];
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, NULL, used), 10.5, 1e-9);
    ck_assert(used[0] == 0 && used[1] == 1);
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, (int[]){1, 0}, used), 11.5, 1e-9);
    ck_assert_double_eq_tol(play(&c, (int[]){0, 0}, 1, NULL, used), 13, 1e-9);
    /* After the last all-reduce: the first block's update from 8, the other's during the first
     * block's forward. */
    c.updates_last = 1;
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, NULL, used), 10.5, 1e-9);
    /* One after the other: if all-reduces take no time, updates end at 2.5 and 4.5, or at 6
     * and 10. */
    c.updates_last = 0;
    c.sum_s_per_byte = 0;
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, NULL, used), 6.5, 1e-9);
    c.update_s_per_byte = 4 / (double)MIB;
    ck_assert_double_eq_tol(play(&c, (int[]){1, 0}, 2, NULL, used), 12, 1e-9);
    struct ss_bucket_choice choice;
    ck_assert_int_eq(ss_bucket_choose(&c, &choice), SS_OK);
    ck_assert_double_eq_tol(choice.exposed_s, choice.step_s - 6, 1e-9); /* without updates */
}
END_TEST

/* Half of each block's backward is its weight gradient, and an all-reduce takes 1.5. Without
 * deferral, gradients are ready at 2 and 4 and reduced at 3.5 and 5.5, when forward starts. With
 * both deferred, they are ready at 3 and 4, the first block's first, and reduced at 4.5 and 6:
 * the first block's forward ends at 5.5, the other's at 7. */
START_TEST(weights_deferred)
{
    struct ss_bucket_costs c = two_equal_blocks;
    c.weights_s = (const double[]){1, 1};
    c.sum_s_per_byte = 1.5 / (double)MIB;
    int used[2];
    ck_assert_double_eq_tol(play_deferred(&c, 0, (int[]){1, 0}, 2, NULL, used), 7.5, 1e-9);
    ck_assert_double_eq_tol(play_deferred(&c, 1, (int[]){1, 0}, 2, NULL, used), 7.5, 1e-9);
    ck_assert_double_eq_tol(play_deferred(&c, 2, (int[]){0, 1}, 2, NULL, used), 7, 1e-9);
    ck_assert(used[0] == 0 && used[1] == 1);
    ck_assert_double_eq_tol(play_deferred(&c, 99, (int[]){0, 1}, 2, (int[]){1, 0}, NULL), 9, 1e-9);
    struct ss_bucket_choice choice;
    ck_assert_int_eq(ss_bucket_choose(&c, &choice), SS_OK);
    ck_assert_int_eq(choice.deferred, 2);
    ck_assert_int_eq(choice.buckets, 2);
    ck_assert_double_eq_tol(choice.step_s, 7, 1e-9);
    for (int given = -1; given < 2; given++) {
        c.deferred = &given;
        ck_assert_int_eq(ss_bucket_choose(&c, &choice), SS_OK);
        ck_assert_int_eq(choice.deferred, given);
        ck_assert_double_eq_tol(choice.step_s, 7.5, 1e-9);
    }
    c.deferred = NULL;
    /* Updates of 0.5, the first block's first: 4.5 to 5, 6 to 6.5; forward 5 to 6, 6.5 to 7.5. */
    c.update_s_per_byte = 0.5 / (double)MIB;
    ck_assert_double_eq_tol(play_deferred(&c, 2, (int[]){0, 1}, 2, NULL, used), 7.5, 1e-9);
    /* Only after the last all-reduce, at 6: updates end at 6.5 and 7. Forward starts at 7, or at
     * 6.5 with updates beside the worker. */
    c.updates_last = 1;
    ck_assert_double_eq_tol(play_deferred(&c, 2, (int[]){0, 1}, 2, NULL, used), 9, 1e-9);
    c.updates_beside = 1;
    ck_assert_double_eq_tol(play_deferred(&c, 2, (int[]){0, 1}, 2, NULL, used), 8.5, 1e-9);
    /* If all-reduces are hidden without deferral, no gradient is deferred. */
    c = two_equal_blocks;
    c.weights_s = (const double[]){1, 1};
    c.sum_s_per_byte = 1e-3 / (double)MIB;
    ck_assert_int_eq(ss_bucket_choose(&c, &choice), SS_OK);
    ck_assert_int_eq(choice.deferred, 0);
}
END_TEST

/* Half of each block's backward is its weight gradient, and an all-reduce takes 1, as a forward.
 * With two of three blocks deferred, gradients are ready at 5, 6 and 2, all-reduces end at 6, 7
 * and 3, and nothing waits: each next forward starts when its all-reduce ends. With all-reduces
 * of 1.05, forward would wait, but not with three blocks deferred. */
START_TEST(deferred_with_slack)
{
    const size_t bytes[] = {MIB, MIB, MIB};
    const double one[] = {1, 1, 1}, two[] = {2, 2, 2};
    struct ss_bucket_costs c = {.nblocks = 3,
                                .bytes = bytes,
                                .forward_s = one,
                                .backward_s = two,
                                .weights_s = one,
                                .sum_s_per_byte = 1. / (double)MIB};
    struct ss_bucket_choice choice;
    int used[3];
    ck_assert_double_eq_tol(play_deferred(&c, 2, (int[]){1, 2, 0}, 3, NULL, used), 9, 1e-9);
    ck_assert_int_eq(ss_bucket_choose(&c, &choice), SS_OK);
    ck_assert_int_eq(choice.deferred, 3);
    ck_assert_double_eq_tol(choice.step_s, 9, 1e-9);
}
END_TEST

/* A small block precedes two large ones. If it is reduced early, the next forward starts early.
 * Ready at 1, 2, 3. Plain order: all-reduces end at 5, 9, 10; with the small block before the
 * middle one: at 5, 6, 10. */
START_TEST(order_of_sums)
{
    const size_t bytes[] = {MIB, 4 * MIB, 4 * MIB};
    const double passes[] = {1, 1, 1};
    const int bucket[] = {2, 1, 0};
    struct ss_bucket_costs c = {.nblocks = 3,
                                .bytes = bytes,
                                .forward_s = passes,
                                .backward_s = passes,
                                .weights_s = no_weights,
                                .sum_s_per_byte = 1. / (double)MIB};
    int used[3];
    ck_assert_double_eq_tol(play(&c, bucket, 3, (int[]){0, 1, 2}, used), 13, 1e-9);
    ck_assert_double_eq_tol(play(&c, bucket, 3, NULL, used), 12, 1e-9);
    ck_assert(used[0] == 0 && used[1] == 2 && used[2] == 1);
    ck_assert_double_eq_tol(play(&c, bucket, 3, used, NULL), 12, 1e-9);
    struct ss_bucket_choice choice;
    ck_assert_int_eq(ss_bucket_choose(&c, &choice), SS_OK);
    ck_assert_double_le(choice.step_s, 12 * 1.005);
    ck_assert_double_eq_tol(choice.exposed_s, choice.step_s - 6, 1e-9);
    /* Loss scaling: no update before the last all-reduce, so the order does not matter. */
    c.updates_last = 1;
    ck_assert_double_eq_tol(play(&c, bucket, 3, NULL, used), 13, 1e-9);
    c.updates_last = 0;
    c.no_overlap = 1;
    ck_assert_double_eq_tol(play(&c, bucket, 3, (int[]){0, 1, 2}, used), 15, 1e-9);
}
END_TEST

/* Returns the next random number in [0, 1). */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (double)(1u << 24);
}

/* Checks that a choice gives the simulated step time when its caps are read back from text, and
 * that common sizes are not better. */
static void check_choice(const struct ss_bucket_costs *c, const struct ss_bucket_choice *choice)
{
    int bucket[64], order[64], n = 0;
    char text[32];
    struct ss_bucket_caps caps = choice->caps;
    double *cap[] = {&caps.mb, &caps.first_mb, &caps.last_mb};
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%.6g", *cap[i]);
        *cap[i] = atof(text);
    }
    unsigned char can[64];
    int finished[64];
    for (int i = 0; i < c->nblocks; i++)
        can[i] = c->weights_s[i] > 0;
    ss_bucket_finish(can, c->nblocks, choice->deferred, finished);
    ck_assert_int_eq(ss_bucket_partition(c->bytes, c->nblocks, finished, &caps, bucket),
                     choice->buckets);
    for (const char *at = choice->order; *at; at += strcspn(at, ","), at += *at == ',')
        order[n++] = atoi(at);
    for (int k = 0; !*choice->order && k < choice->buckets; k++)
        order[n++] = k;
    ck_assert_int_eq(n, choice->buckets);
    ck_assert_double_eq_tol(play_deferred(c, choice->deferred, bucket, n, order, NULL),
                            choice->step_s, 1e-9);
    static const double usual[] = {1, 5, 25, 100};
    for (int i = 0; i < 4; i++) {
        struct ss_bucket_choice other;
        struct ss_bucket_caps both = {usual[i], usual[i], 0};
        ck_assert_int_eq(ss_bucket_rate(c, &both, &other), SS_OK);
        ck_assert_double_le(choice->step_s, 1.005 * other.step_s);
    }
}

START_TEST(choices)
{
    uint64_t state = (uint64_t)_i;
    size_t bytes[40];
    double forward[40], backward[40], weights[40];
    struct ss_bucket_costs c = {.nblocks = 5 + _i, /* up to 40 */
                                .bytes = bytes,
                                .forward_s = forward,
                                .backward_s = backward,
                                .weights_s = weights,
                                .sum_s = 1e-3 * draw(&state),
                                .sum_s_per_byte = 1e-8 * draw(&state),
                                .update_s_per_byte = 1e-11,
                                .updates_last = _i % 5 == 0,
                                .updates_beside = _i % 3 == 0,
                                .no_overlap = _i % 7 == 0};
    for (int i = 0; i < c.nblocks; i++) {
        bytes[i] = draw(&state) < 0.2 ? 0 : (size_t)(4e6 * draw(&state) * (double)i / 20) + 4;
        forward[i] = 1e-2 * draw(&state);
        backward[i] = 2 * forward[i];
        weights[i] = _i % 4 && draw(&state) < 0.7 ? forward[i] : 0;
    }
    struct ss_bucket_choice choice;
    ck_assert_int_eq(ss_bucket_choose(&c, &choice), SS_OK);
    ck_assert(_i % 4 || choice.deferred == 0);
    check_choice(&c, &choice);
}
END_TEST

/* If all-reduces cost latency only, one bucket is best. */
START_TEST(latency_only)
{
    const size_t bytes[] = {MIB, 4 * MIB, 4 * MIB};
    const double passes[] = {1, 1, 1};
    struct ss_bucket_costs c = {.nblocks = 3,
                                .bytes = bytes,
                                .forward_s = passes,
                                .backward_s = passes,
                                .weights_s = no_weights,
                                .sum_s = 5};
    struct ss_bucket_choice choice;
    ck_assert_int_eq(ss_bucket_choose(&c, &choice), SS_OK);
    ck_assert_int_eq(choice.buckets, 1);
    ck_assert_double_eq_tol(choice.step_s, 11, 1e-9);
}
END_TEST

static enum ss_status lower(const char *order, int no_overlap, struct ss_plan **plan)
{
    struct ss_plan_options options = {.batch = 4,
                                      .bucket_mb = 1e-6,
                                      .first_bucket_mb = 1e-6,
                                      .bucket_order = order,
                                      .no_overlap = no_overlap,
                                      .slices = 1};
    struct ss_graph *g = make_test_graph(0);
    *plan = NULL;
    enum ss_status status = ss_plan_lower(g, &options, plan);
    if (status != SS_OK)
        ss_graph_destroy(g);
    return status;
}

static void destroy(struct ss_plan *plan)
{
    struct ss_graph *g = (struct ss_graph *)(uintptr_t)plan->graph;
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}

/* The default size is a tenth of the trained bytes: two of 20 blocks of 1 MiB in a bucket. */
START_TEST(default_size_in_a_plan)
{
    enum { LINEARS = 20 };
    const struct ss_plan_options options = {.batch = 4, .slices = 1};
    struct ss_graph *g = ss_graph_create("linears");
    struct ss_plan *plan;
    ss_value x = ss_input(g, 512, 1, 1);
    for (int i = 0; i < LINEARS; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%d", i);
        x = ss_linear(g, x, name, 512);
    }
    ss_softmax_cross_entropy(g, x);
    ck_assert_int_eq(ss_graph_finish(g), SS_OK);
    ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
    /* The first bucket has at most 1 MiB, PyTorch's default, or one block. */
    for (int k = 0; k < plan->nbuckets; k++)
        ck_assert_int_eq(plan->bucket[k].nparams, k == 0 || k == plan->nbuckets - 1 ? 2 : 4);
    destroy(plan);
}
END_TEST

/* "N-1,...,1,0" and "0,N-1,1,2,...": the plan's all-reduces have that order, each after its
 * gradients. */
START_TEST(order_in_a_plan)
{
    struct ss_plan *plan;
    char backwards[256] = "", front[256] = "0";
    ck_assert_int_eq(lower(NULL, 0, &plan), SS_OK);
    int n = plan->nbuckets;
    ck_assert_int_ge(n, 4);
    destroy(plan);
    sprintf(front + 1, ",%d", n - 1);
    for (int k = n - 1; k >= 0; k--)
        sprintf(backwards + strlen(backwards), k ? "%d," : "%d", k);
    for (int k = 1; k < n - 1; k++)
        sprintf(front + strlen(front), ",%d", k);
    const char *orders[] = {backwards, front};
    for (int i = 0; i < 4; i++) {
        const char *at = orders[i / 2];
        ck_assert_int_eq(lower(at, i % 2, &plan), SS_OK);
        for (int t = 0; t < plan->train.count; t++) {
            const struct ss_plan_task *task = &plan->train.task[t];
            if (task->kind != SS_TASK_ALLREDUCE)
                continue;
            ck_assert_int_eq(task->bucket, atoi(at));
            ck_assert_int_gt(t, plan->bucket[task->bucket].ready_task);
            at += strcspn(at, ",");
            at += *at == ',';
        }
        ck_assert_str_eq(at, "");
        destroy(plan);
    }
}
END_TEST

START_TEST(order_refused)
{
    static const char *const bad[] = {"", "0", "0,0", "0,1", "1,0,", "x", "0;1", "-1", "0,1,2,99"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ss_plan *plan;
        ck_assert_int_eq(lower(bad[i], 0, &plan), SS_ERR_INVALID);
        ck_assert_ptr_null(plan);
        ck_assert(strstr(ss_log_last_error(), "--bucket-order: \"") != NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("buckets");
    TCase *t = tcase_create("buckets");
    tcase_add_test(t, partition);
    tcase_add_test(t, order_of_finishing);
    tcase_add_test(t, default_caps);
    tcase_add_test(t, two_blocks);
    tcase_add_test(t, updates_beside);
    tcase_add_test(t, weights_deferred);
    tcase_add_test(t, deferred_with_slack);
    tcase_add_test(t, order_of_sums);
    tcase_add_loop_test(t, choices, 0, 36);
    tcase_add_test(t, latency_only);
    tcase_add_test(t, default_size_in_a_plan);
    tcase_add_test(t, order_in_a_plan);
    tcase_add_test(t, order_refused);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
