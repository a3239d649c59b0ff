/* test_backoff.c: sleep times of a communication thread without progress, on a simulated clock. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/backoff.h"
#include "tests/run_suite.h"

#include "tests/assert.h"

enum { MS = 1000000 };

/* Simulate a wait of `ns` without progress. Returns the number of polls. */
static int wait_for(struct ss_backoff *pause, uint64_t *now, uint64_t ns, uint64_t usual)
{
    const uint64_t begin = *now;
    int looks = 0;
    while (*now - begin < ns) {
        const uint64_t part = (*now - pause->since_ns) / SS_BACKOFF_PART;
        const uint64_t sleep = ss_backoff_next(pause, *now, usual);
        ck_assert_uint_ge(sleep, SS_BACKOFF_LEAST_NS);
        ck_assert_uint_le(sleep, part > usual ? part : usual);
        ck_assert_uint_le(sleep, SS_BACKOFF_MOST_NS);
        *now += sleep;
        looks++;
    }
    return looks;
}

START_TEST(pause_looks)
{
    struct ss_backoff pause = {0};
    uint64_t now = 5 * MS;
    ss_backoff_progressed(&pause, now);
    ck_assert_uint_eq(ss_backoff_next(&pause, now, SS_BACKOFF_USUAL_NS), SS_BACKOFF_LEAST_NS);
    /* Early events are detected early; a wait of one second costs about 1000 polls. */
    ck_assert_int_ge(wait_for(&pause, &now, MS, SS_BACKOFF_USUAL_NS), 6);
    ck_assert_int_le(wait_for(&pause, &now, 1000 * MS, SS_BACKOFF_USUAL_NS), 1200);
    ck_assert_int_le(wait_for(&pause, &now, 1000 * MS, SS_BACKOFF_USUAL_NS), 1000);
    /* A restart costs few polls. */
    ss_backoff_restart(&pause);
    ck_assert_uint_eq(ss_backoff_next(&pause, now, SS_BACKOFF_USUAL_NS), SS_BACKOFF_LEAST_NS);
    ck_assert_int_le(wait_for(&pause, &now, 100 * MS, SS_BACKOFF_USUAL_NS), 60);
    /* After progress the sleeps are short again. */
    ss_backoff_progressed(&pause, now);
    ck_assert_uint_eq(ss_backoff_next(&pause, now, SS_BACKOFF_USUAL_NS), SS_BACKOFF_LEAST_NS);
    ck_assert_uint_eq(ss_backoff_next(&pause, now, SS_BACKOFF_USUAL_NS), 2 * SS_BACKOFF_LEAST_NS);
}
END_TEST

/* The caller may request shorter sleeps for short waits. */
START_TEST(pause_usual)
{
    struct ss_backoff pause = {0};
    uint64_t now = 0;
    ck_assert_int_ge(wait_for(&pause, &now, 3 * MS / 2, 50000), 30);
    ck_assert_int_le(wait_for(&pause, &now, 1000 * MS, 50000), 1300);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backoff");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, pause_looks);
    tcase_add_test(tc, pause_usual);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
