/* test_input_stats.c: wait times by the order of events. Sleeps give lower bounds only. */
#include "core/clock.h"
#include "runtime/input_stats.h"
#include "tests/data_common.h"

#include "tests/assert.h"
#include <unistd.h>

enum { SLOTS = 2, PAUSE_US = 20000 };
#define PAUSE_S (1e-6 * PAUSE_US)

static struct ss_input_stats feed;
static struct ss_plan plan;
static int micro, absent; /* of the ending task */
static struct ss_run run;
static uint64_t submitted_ns[SLOTS];

static void open_input_stats(void)
{
    feed = (struct ss_input_stats){0};
    micro = 0;
    if (!plan.options.accumulate)
        plan.options.accumulate = 1;
    ck_assert_int_eq(ss_input_stats_open(&feed, &plan, SLOTS, NULL), SS_OK);
}

static void submitted(uint64_t step)
{
    feed.hooks.step_begins(feed.hooks.arg, step);
    submitted_ns[step % SLOTS] = ss_now_ns();
}

/* Report the end of a training task that began at begin_ns. */
static void ended(enum ss_task_kind kind, uint64_t step, uint64_t begin_ns)
{
    struct ss_plan_task task = {.kind = kind, .micro = micro};
    struct ss_bound_task bound = {.plan = &task, .run = &run, .training = 1};
    struct ss_step_args args = {.task = &bound,
                                .step = step,
                                .absent = absent,
                                .times = {.begin = begin_ns, .end = ss_now_ns()}};
    ck_assert(ss_hooks_want_end(&feed.hooks, &args));
    feed.hooks.task_ends(feed.hooks.arg, &args);
}

static void loaded(uint64_t step, uint64_t begin_ns, int images)
{
    plan.slice_begin[1] = plan.options.batch = images;
    ended(SS_TASK_LOAD, step, begin_ns);
}

static void computed(uint64_t step)
{
    ended(SS_TASK_UPDATE, step, ss_now_ns());
}

static void reported(uint64_t step)
{
    struct ss_bound_task bound = {.run = &run, .training = 1};
    struct ss_step_args args = {
        .task = &bound, .step = step, .submitted_ns = submitted_ns[step % SLOTS]};
    ck_assert_int_eq(feed.hooks.step_ends(feed.hooks.arg, &args), SS_OK);
}

static void close_input_stats(void)
{
    ss_input_stats_close(&feed);
}

static double waited(void)
{
    return ss_input_stats_totals(&feed).wait_s;
}

/* The first step waits from its submission. */
START_TEST(first_step)
{
    submitted(1);
    usleep(PAUSE_US);
    uint64_t begin = ss_now_ns();
    loaded(1, begin, 3);
    reported(1);
    ck_assert_double_ge(waited(), PAUSE_S);
}
END_TEST

/* Input loaded while the previous step was computed: no wait, for any load time. */
START_TEST(loaded_ahead)
{
    submitted(1);
    submitted(2);
    loaded(1, ss_now_ns(), 1);
    reported(1);
    double before = waited();
    loaded(2, ss_now_ns(), 1);
    usleep(PAUSE_US);
    computed(1);
    usleep(PAUSE_US);
    reported(2);
    ck_assert(waited() == before);
}
END_TEST

/* The last of several slices and the last of several updates count. */
START_TEST(loaded_late)
{
    submitted(1);
    submitted(2);
    loaded(1, ss_now_ns(), 1);
    reported(1);
    loaded(2, ss_now_ns(), 1);
    computed(1);
    uint64_t half = ss_now_ns();
    usleep(PAUSE_US);
    uint64_t between = ss_now_ns();
    computed(1);
    usleep(PAUSE_US);
    loaded(2, ss_now_ns(), 1);
    double most = 1e-9 * (double)(ss_now_ns() - half), before = waited();
    reported(2);
    double got = waited() - before;
    ck_assert_double_ge(got, PAUSE_S);
    ck_assert_double_le(got, most - 1e-9 * (double)(between - half) + 1e-9);
}
END_TEST

/* After a break between epochs, the wait starts at the step's own submission. */
START_TEST(after_a_pause)
{
    submitted(1);
    loaded(1, ss_now_ns(), 1);
    reported(1);
    computed(1);
    usleep(PAUSE_US);
    uint64_t begin = ss_now_ns();
    submitted(2);
    loaded(2, ss_now_ns(), 1);
    double most = 1e-9 * (double)(ss_now_ns() - begin), before = waited();
    reported(2);
    ck_assert_double_le(waited() - before, most);
}
END_TEST

/* Images and busy time are summed over slices, and over more steps than the ring holds. */
START_TEST(totals)
{
    enum { STEPS = 100 };
    double busy = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        submitted(step);
        for (int slice = 0; slice < 2; slice++) {
            uint64_t begin = ss_now_ns() - 1000000;
            loaded(step, begin, 5);
            busy += 1e-3;
        }
        reported(step);
        computed(step);
    }
    absent = 2;
    loaded(STEPS + 1, ss_now_ns(), 5);
    absent = 7; /* including those of another slice */
    loaded(STEPS + 1, ss_now_ns(), 5);
    absent = 0;
    struct ss_input_totals t = ss_input_stats_totals(&feed);
    ck_assert(t.images == 10 * STEPS + 3);
    ck_assert_double_ge(t.busy_s, busy - 1e-6);
}
END_TEST

/* Micro-batch 1 is loaded while 0 is computed: no wait. The step waits for micro-batch 2. */
START_TEST(micro_batches)
{
    close_input_stats();
    plan.options.accumulate = 3;
    open_input_stats();
    submitted(1);
    loaded(1, ss_now_ns(), 1);
    usleep(PAUSE_US);
    micro = 1;
    loaded(1, ss_now_ns(), 1);
    micro = 0;
    ended(SS_TASK_ADD, 1, ss_now_ns());
    micro = 1;
    ended(SS_TASK_ADD, 1, ss_now_ns());
    usleep(PAUSE_US);
    micro = 2;
    uint64_t begin = ss_now_ns();
    usleep(PAUSE_US);
    loaded(1, begin, 1);
    double most = 1e-9 * (double)(ss_now_ns() - submitted_ns[1]) - PAUSE_S;
    reported(1);
    plan.options.accumulate = 1;
    ck_assert_double_ge(waited(), 2 * PAUSE_S);
    ck_assert_double_le(waited(), most);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feed");
    TCase *t = tcase_create("feed");
    tcase_add_checked_fixture(t, open_input_stats, close_input_stats);
    tcase_add_test(t, first_step);
    tcase_add_test(t, loaded_ahead);
    tcase_add_test(t, loaded_late);
    tcase_add_test(t, after_a_pause);
    tcase_add_test(t, totals);
    tcase_add_test(t, micro_batches);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
