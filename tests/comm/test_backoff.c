/* test_backoff.c: how long a communication thread sleeps while nothing moves, on a clock of the
 * test's own. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/backoff.h"
#include "tests/run_suite.h"

#include "tests/assert.h"

enum { MS = 1000000 };

/* Wait for so long in which nothing moves; returns how many looks that took. */
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
    /* What comes soon is noticed soon; a second costs hardly more than its thousand sleeps. */
    ck_assert_int_ge(wait_for(&pause, &now, MS, SS_BACKOFF_USUAL_NS), 6);
    ck_assert_int_le(wait_for(&pause, &now, 1000 * MS, SS_BACKOFF_USUAL_NS), 1200);
    ck_assert_int_le(wait_for(&pause, &now, 1000 * MS, SS_BACKOFF_USUAL_NS), 1000);
    /* A doubt costs few looks. */
    ss_backoff_restart(&pause);
    ck_assert_uint_eq(ss_backoff_next(&pause, now, SS_BACKOFF_USUAL_NS), SS_BACKOFF_LEAST_NS);
    ck_assert_int_le(wait_for(&pause, &now, 100 * MS, SS_BACKOFF_USUAL_NS), 60);
    /* Whatever it was: after a move the sleeps are short again. */
    ss_backoff_progressed(&pause, now);
    ck_assert_uint_eq(ss_backoff_next(&pause, now, SS_BACKOFF_USUAL_NS), SS_BACKOFF_LEAST_NS);
    ck_assert_uint_eq(ss_backoff_next(&pause, now, SS_BACKOFF_USUAL_NS), 2 * SS_BACKOFF_LEAST_NS);
}
END_TEST

/* Who is in more of a hurry may say so, in a short wait. */
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
