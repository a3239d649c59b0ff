/* The loader's figures: who waited for whom, by order of events. Sleeps only make lower bounds. */
#include <check.h>
#include <unistd.h>

#include "codelets/feed.h"
#include "core/clock.h"
#include "tests/data_common.h"

enum { SLOTS = 2, PAUSE_US = 20000 };
#define PAUSE_S (1e-6 * PAUSE_US)

static struct ss_feed feed;

static void open_feed(void)
{
    feed = (struct ss_feed){0};
    ck_assert_int_eq(ss_feed_open(&feed, SLOTS, NULL), SS_OK);
}

static void close_feed(void)
{
    ss_feed_close(&feed);
}

static double waited(void)
{
    return ss_feed_totals(&feed).wait_s;
}

/* The first step waits from its submission on. */
START_TEST(first_step)
{
    ss_feed_submitted(&feed, 1);
    usleep(PAUSE_US);
    uint64_t begin = ss_now_ns();
    ss_feed_loaded(&feed, 1, begin, 3);
    ck_assert_int_eq(ss_feed_reported(&feed, 1), SS_OK);
    ck_assert_double_ge(waited(), PAUSE_S);
}
END_TEST

/* Loaded while the step before it was computed: nobody waits, however long that took. */
START_TEST(loaded_ahead)
{
    ss_feed_submitted(&feed, 1);
    ss_feed_submitted(&feed, 2);
    ss_feed_loaded(&feed, 1, ss_now_ns(), 1);
    ck_assert_int_eq(ss_feed_reported(&feed, 1), SS_OK);
    double before = waited();
    ss_feed_loaded(&feed, 2, ss_now_ns(), 1);
    usleep(PAUSE_US);
    ck_assert_int_eq(ss_feed_computed(&feed, 1, NULL), SS_OK);
    usleep(PAUSE_US);
    ck_assert_int_eq(ss_feed_reported(&feed, 2), SS_OK);
    ck_assert(waited() == before);
}
END_TEST

/* Of several slices the last one counts, of several updates too. */
START_TEST(loaded_late)
{
    ss_feed_submitted(&feed, 1);
    ss_feed_submitted(&feed, 2);
    ss_feed_loaded(&feed, 1, ss_now_ns(), 1);
    ck_assert_int_eq(ss_feed_reported(&feed, 1), SS_OK);
    ss_feed_loaded(&feed, 2, ss_now_ns(), 1);
    ck_assert_int_eq(ss_feed_computed(&feed, 1, NULL), SS_OK);
    uint64_t half = ss_now_ns();
    usleep(PAUSE_US);
    uint64_t computed = ss_now_ns();
    ck_assert_int_eq(ss_feed_computed(&feed, 1, NULL), SS_OK);
    usleep(PAUSE_US);
    ss_feed_loaded(&feed, 2, ss_now_ns(), 1);
    double most = 1e-9 * (double)(ss_now_ns() - half), before = waited();
    ck_assert_int_eq(ss_feed_reported(&feed, 2), SS_OK);
    double got = waited() - before;
    ck_assert_double_ge(got, PAUSE_S);
    ck_assert_double_le(got, most - 1e-9 * (double)(computed - half) + 1e-9);
}
END_TEST

/* After a pause between epochs the step's own submission counts. */
START_TEST(after_a_pause)
{
    ss_feed_submitted(&feed, 1);
    ss_feed_loaded(&feed, 1, ss_now_ns(), 1);
    ck_assert_int_eq(ss_feed_reported(&feed, 1), SS_OK);
    ck_assert_int_eq(ss_feed_computed(&feed, 1, NULL), SS_OK);
    usleep(PAUSE_US);
    uint64_t begin = ss_now_ns();
    ss_feed_submitted(&feed, 2);
    ss_feed_loaded(&feed, 2, ss_now_ns(), 1);
    double most = 1e-9 * (double)(ss_now_ns() - begin), before = waited();
    ck_assert_int_eq(ss_feed_reported(&feed, 2), SS_OK);
    ck_assert_double_le(waited() - before, most);
}
END_TEST

/* Images and busy time add up over slices and over far more steps than are kept. */
START_TEST(totals)
{
    enum { STEPS = 100 };
    double busy = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        ss_feed_submitted(&feed, step);
        for (int slice = 0; slice < 2; slice++) {
            uint64_t begin = ss_now_ns() - 1000000;
            ss_feed_loaded(&feed, step, begin, 5);
            busy += 1e-3;
        }
        ck_assert_int_eq(ss_feed_reported(&feed, step), SS_OK);
        ck_assert_int_eq(ss_feed_computed(&feed, step, NULL), SS_OK);
    }
    struct ss_feed_totals t = ss_feed_totals(&feed);
    ck_assert(t.images == 10 * STEPS);
    ck_assert_double_ge(t.busy_s, busy - 1e-6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feed");
    TCase *t = tcase_create("feed");
    tcase_add_checked_fixture(t, open_feed, close_feed);
    tcase_add_test(t, first_step);
    tcase_add_test(t, loaded_ahead);
    tcase_add_test(t, loaded_late);
    tcase_add_test(t, after_a_pause);
    tcase_add_test(t, totals);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
