/* test_comm_watch.c: the watchdog's decisions on synthetic heartbeats. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_watch.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <stdlib.h>
#include <string.h>

/* Four ranks in step 12; all have just sent a heartbeat and have started collective 8. */
static struct ss_watch_rank ranks[4];
static char text[512];

static void healthy(void)
{
    for (int r = 0; r < 4; r++) {
        ranks[r] = (struct ss_watch_rank){.heartbeat = {.started = 8, .step = 12, .bucket = 2},
                                          .heard_s = 100};
        ranks[r].host[0] = (char)('a' + r);
    }
}

static int verdict(double now)
{
    ranks[0].heard_s = now;
    return ss_watch_verdict(ranks, 4, now, 30, text, sizeof text);
}

START_TEST(watch_nothing)
{
    healthy();
    ck_assert_int_eq(verdict(100.4), 0);
    ranks[1].heartbeat.waiting_seq = 8;
    ranks[1].heartbeat.waited_s = 29;
    ck_assert_int_eq(verdict(100.4), 0);
    ck_assert_int_eq(verdict(129), 0); /* silent, but not for 30 s */
}
END_TEST

START_TEST(watch_silent)
{
    healthy();
    ranks[0].heartbeat.waiting_seq = 8;
    ranks[0].heartbeat.waited_s = 30.1;
    ranks[1].heard_s = ranks[2].heard_s = 130;
    ck_assert_int_eq(verdict(130.4), 1);
    ck_assert_str_eq(text, "step 12, bucket 2: waited 30.1 s for rank 3 (d), whose last "
                           "message was 30.4 s ago; ending all ranks");
    /* No rank waits in a collective. */
    ranks[0].heartbeat.waiting_seq = 0;
    ck_assert_int_eq(verdict(130.4), 1);
    ck_assert_str_eq(text, "waited for rank 3 (d), whose last message was 30.4 s ago; ending "
                           "all ranks");
}
END_TEST

START_TEST(watch_behind)
{
    healthy();
    ranks[1].heartbeat.waiting_seq = 8;
    ranks[1].heartbeat.waited_s = 30.2;
    ranks[2].heartbeat.started = 7;
    ranks[2].heartbeat.bucket = 1;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_str_eq(text, "step 12, bucket 2: rank 1 waited 30.2 s for rank 2 (c), which answers "
                           "but has not started it (it is past step 12, bucket 1); ending all "
                           "ranks");
    /* A blocking call is reported by its name; the rank waited for may be rank 0. */
    strcpy(ranks[1].heartbeat.what, "metrics");
    ranks[1].heartbeat.step = 0;
    ranks[2].heartbeat.started = 8;
    ranks[0].heartbeat.started = 0;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_str_eq(text,
                     "metrics: rank 1 waited 30.2 s for rank 0 (a), which answers but has not "
                     "started it; ending all ranks");
    strcpy(ranks[2].heartbeat.what, "evaluation");
    ranks[2].heartbeat.step = 0;
    ranks[2].heartbeat.started = 7;
    ranks[2].heartbeat.waiting_seq = 7;
    ranks[0].heartbeat.started = 8;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_ptr_nonnull(strstr(text, "has not started it (it is at evaluation); ending"));
    /* A rank that is behind because it waits for another rank is not reported; the other one is. */
    ranks[3].heard_s = 90;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_ptr_nonnull(strstr(text, "waited 30.2 s for rank 3 (d), whose last message was "
                                       "10.4 s ago; ending"));
    healthy();
    ranks[0].heartbeat.waiting_seq = 8;
    ranks[0].heartbeat.waited_s = 31;
    for (int r = 1; r < 4; r++)
        ranks[r].heartbeat.waiting_seq = 8;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_str_eq(text, "step 12, bucket 2: waited 31.0 s for a collective that every rank has "
                           "started and no rank has ended: rank 0 (a), rank 1 (b), rank 2 (c), "
                           "rank 3 (d); the network or its library is stuck; ending all ranks");
}
END_TEST

/* All ranks have started it, but at the deadline some ranks' GPUs have not reached it. */
START_TEST(watch_not_reached)
{
    healthy();
    for (int r = 0; r < 4; r++) {
        ranks[r].heartbeat.waiting_seq = 8;
        ranks[r].heartbeat.waited_s = 30.1;
    }
    ranks[2].heartbeat.not_reached = 1;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_str_eq(text, "step 12, bucket 2: waited 30.1 s for rank 2 (c), whose GPU has not "
                           "reached it; ending all ranks");
    ranks[0].heartbeat.not_reached = 1;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_ptr_nonnull(strstr(text, "for rank 0 (a), whose GPU has not reached it; rank 2 (c)"));
    /* not_reached refers to rank 2's own collective 9, not to the others' collective 8. */
    ranks[0].heartbeat.not_reached = 0;
    ranks[2].heartbeat.waiting_seq = 9;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_ptr_null(strstr(text, "GPU"));
    ck_assert_ptr_nonnull(strstr(text, "and rank 2 (c) has ended, but not rank 0 (a), rank 1"));
}
END_TEST

/* Some ranks have ended a collective in which others wait. */
START_TEST(watch_ended_elsewhere)
{
    healthy();
    ranks[1].heartbeat.waiting_seq = ranks[2].heartbeat.waiting_seq = 8;
    ranks[1].heartbeat.waited_s = ranks[2].heartbeat.waited_s = 30.1;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_str_eq(text,
                     "step 12, bucket 2: rank 1 waited 30.1 s for a collective that every "
                     "rank has started and rank 0 (a), rank 3 (d) have ended, but not rank 1 "
                     "(b), rank 2 (c); the network or its library is stuck; ending all ranks");
    /* Rank 0 already waits in the next collective; the previous one is reported. */
    ranks[0].heartbeat.waiting_seq = ranks[0].heartbeat.started = ranks[1].heartbeat.started = 9;
    ranks[2].heartbeat.started = ranks[3].heartbeat.started = 9;
    ranks[0].heartbeat.waited_s = 30.05;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_ptr_nonnull(strstr(text, "rank 1 waited 30.1 s for a collective that every rank has "
                                       "started and rank 0 (a), rank 3 (d) have ended"));
    /* A rank that is behind is reported first. */
    ranks[3].heartbeat.started = 7;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_ptr_nonnull(strstr(text, "for rank 3 (d), which answers but has not started it"));
    ck_assert_ptr_null(strstr(text, "ended"));
}
END_TEST

/* Messages between ranks 1 and 3 are lost; ranks 0 and 2 wait for their halves of the result. */
START_TEST(watch_missing)
{
    healthy();
    for (int r = 0; r < 4; r++) {
        ranks[r].heartbeat.waiting_seq = 8;
        ranks[r].heartbeat.waited_s = 30.1;
        ranks[r].heartbeat.half = 2;
        ranks[r].heartbeat.missing = 1;
    }
    ranks[1].heartbeat.half = ranks[3].heartbeat.half = 1;
    ranks[1].heartbeat.missing = 3;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_str_eq(text,
                     "step 12, bucket 2: waited 30.1 s for a collective that every rank has "
                     "started; rank 1 (b) has not received data of rank 3 (d); rank 3 (d) has "
                     "not received data of rank 1 (b); the network or its library is stuck; "
                     "ending all ranks");
    /* Ranks in another collective are not considered, and invalid ranks are ignored. */
    ranks[1].heartbeat.waiting_seq = 0;
    ranks[3].heartbeat.missing = 4;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_ptr_null(strstr(text, "received"));
    ranks[3].heartbeat.waiting_seq = 9;
    ck_assert_int_eq(verdict(100.4), 1);
    ck_assert_ptr_nonnull(strstr(text, "rank 0 (a) has not received data of rank 1 (b); rank 2"));
}
END_TEST

START_TEST(watch_died)
{
    struct ss_heartbeat own = {
        .started = 8, .waiting_seq = 8, .waited_s = 0.12, .step = 12, .bucket = 3};
    ss_watch_died(1, "b", 4711, &own, text, sizeof text);
    ck_assert_str_eq(text,
                     "step 12, bucket 3: waited 0.1 s for rank 1 (b), which has died (process "
                     "4711); ending all ranks");
    own.waiting_seq = 0;
    ss_watch_died(1, "b", 4711, &own, text, sizeof text);
    ck_assert_str_eq(text, "after step 12, bucket 3: lost rank 1 (b), which has died (process "
                           "4711); ending all ranks");
    own.started = 0;
    ss_watch_died(1, "b", 4711, &own, text, sizeof text);
    ck_assert_str_eq(text, "lost rank 1 (b), which has died (process 4711); ending all ranks");
}
END_TEST

/* Contents of a heartbeat during and after a collective. */
START_TEST(watch_describe)
{
    struct ss_watch_last last = {0};
    struct ss_comm_request bucket = {.tag = {12, 3}, .count = 5},
                           named = {.what = "evaluation", .kind = SS_COMM_MAX_U64};
    ss_watch_note(&last, &bucket);
    struct ss_heartbeat heartbeat = ss_watch_describe(3, &last, &bucket, 3, 1.5);
    ck_assert_uint_eq(heartbeat.waiting_seq, 3);
    ck_assert_uint_eq(heartbeat.step, 12);
    ck_assert_int_eq(heartbeat.bucket, 3);
    ck_assert_str_eq(heartbeat.what, "");
    ss_watch_note(&last, &named);
    heartbeat = ss_watch_describe(4, &last, &bucket, 3, 1.5);
    ck_assert_str_eq(heartbeat.what, ""); /* the bucket was started first */
    heartbeat = ss_watch_describe(4, &last, NULL, 0, 0);
    ck_assert_uint_eq(heartbeat.waiting_seq, 0);
    ck_assert_str_eq(heartbeat.what, "evaluation");
}
END_TEST

START_TEST(watch_short_buffer)
{
    healthy();
    ranks[0].heartbeat.waiting_seq = 8;
    ranks[0].heartbeat.waited_s = 31;
    for (size_t capacity = 1; capacity < 64; capacity++) {
        memset(text, '#', sizeof text);
        ck_assert_int_eq(ss_watch_verdict(ranks, 4, 100.4, 30, text, capacity), 1);
        ck_assert_uint_lt(strlen(text), capacity);
        ck_assert_int_eq(text[capacity], '#');
    }
}
END_TEST

START_TEST(watch_root)
{
    struct ss_watch_rank root = {.heartbeat = {.started = 8}, .heard_s = 100, .host = "a"};
    struct ss_heartbeat own = {
        .started = 8, .waiting_seq = 8, .waited_s = 30.5, .step = 12, .bucket = 2};
    /* Rank 0 is alive and should report first. */
    ck_assert_int_eq(ss_watch_root_verdict(&root, &own, 1, 100.5, 30, text, sizeof text), 0);
    ck_assert_int_eq(ss_watch_root_verdict(&root, &own, 1, 130.5, 30, text, sizeof text), 0);
    ck_assert_int_eq(ss_watch_root_verdict(&root, &own, 1, 131.5, 30, text, sizeof text), 1);
    ck_assert_str_eq(text, "step 12, bucket 2: waited 30.5 s for rank 0 (a), whose last "
                           "message was 31.5 s ago; ending all ranks");
    own.waited_s = 40;
    ck_assert_int_eq(ss_watch_root_verdict(&root, &own, 1, 100.5, 30, text, sizeof text), 1);
    ck_assert_ptr_nonnull(strstr(text, "which still answers, has not reported; ending"));
    own.half = 1;
    own.missing = 3;
    ck_assert_int_eq(ss_watch_root_verdict(&root, &own, 1, 100.5, 30, text, sizeof text), 1);
    ck_assert_ptr_nonnull(strstr(text, "has not reported; data of rank 3 has not arrived; ending"));
    own.half = 0;
    root.heartbeat.waiting_seq = 8;
    root.heartbeat.not_reached = 1;
    ck_assert_int_eq(ss_watch_root_verdict(&root, &own, 1, 100.5, 30, text, sizeof text), 1);
    ck_assert_ptr_nonnull(strstr(text, "waited 40.0 s for rank 0 (a), whose GPU has not reached"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm_watch");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, watch_nothing);
    tcase_add_test(tc, watch_silent);
    tcase_add_test(tc, watch_behind);
    tcase_add_test(tc, watch_not_reached);
    tcase_add_test(tc, watch_ended_elsewhere);
    tcase_add_test(tc, watch_missing);
    tcase_add_test(tc, watch_died);
    tcase_add_test(tc, watch_describe);
    tcase_add_test(tc, watch_short_buffer);
    tcase_add_test(tc, watch_root);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
