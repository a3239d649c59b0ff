/* test_trace_times.c: analysis of traces with hand-computed results, and invariants of any trace.
 * All times are in ns. */
#include "tests/trace/trace_common.h"
#include "apps/trace/export.h"
#include "apps/trace/interval.h"
#include "apps/trace/verdict.h"

#include <math.h>

/* --- Intervals */

static void check_list(const struct ss_intervals *list, int n, const int64_t *want)
{
    ck_assert_uint_eq(list->count, (size_t)n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(list->at[i].begin, want[2 * i]);
        ck_assert_int_eq(list->at[i].end, want[2 * i + 1]);
    }
}

START_TEST(intervals)
{
    struct ss_intervals a = {0}, b = {0}, both = {0}, rest = {0};
    const int64_t of_a[] = {30, 40, 0, 10, 5, 20, 20, 25, 50, 50, 60, 100};
    const int64_t of_b[] = {8, 35, 70, 71, 72, 80, 90, 120};
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(ss_intervals_add(&a, of_a[2 * i], of_a[2 * i + 1]), SS_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ss_intervals_add(&b, of_b[2 * i], of_b[2 * i + 1]), SS_OK);
    ss_intervals_merge(&a);
    ss_intervals_merge(&b);
    check_list(&a, 3, (const int64_t[]){0, 25, 30, 40, 60, 100});
    ck_assert_int_eq(ss_intervals_length(&a), 75);
    ck_assert_int_eq(ss_intervals_intersect(&a, &b, &both), SS_OK);
    check_list(&both, 5, (const int64_t[]){8, 25, 30, 35, 70, 71, 72, 80, 90, 100});
    ck_assert_int_eq(ss_intervals_subtract(&a, &b, &rest), SS_OK);
    check_list(&rest, 5, (const int64_t[]){0, 8, 35, 40, 60, 70, 71, 72, 80, 90});
    ck_assert_int_eq(ss_intervals_length_in(&a, 20, 35), 10);
    ck_assert_int_eq(ss_intervals_length_in(&a, 25, 30), 0);
    ck_assert_int_eq(ss_intervals_length_in(&a, -5, 500), 75);
    ss_intervals_free(&a);
    ss_intervals_free(&b);
    ss_intervals_free(&both);
    ss_intervals_free(&rest);
}
END_TEST

/* Dependencies of the plan in trace_common.h, with two slots. */
START_TEST(edges)
{
    static const struct {
        int task, n;
        struct ss_depend_edge want[5];
    } want[] = {
        {LOAD, 1, {{FWD, 2}}}, /* the slot's last reader, two steps before */
        {FWD, 5, {{LOAD, 0}, {UPDATE_0, 1}, {UPDATE_1, 1}, {BWD_A, 1}, {BWD_B, 1}}},
        {BWD_B, 2, {{FWD, 0}, {UPDATE_0, 1}}},
        {SUM_0, 2, {{BWD_B, 0}, {SUM_1, 1}}},
        {BWD_A, 2, {{FWD, 0}, {UPDATE_1, 1}}},
        {SUM_1, 2, {{BWD_A, 0}, {SUM_0, 0}}},
        {UPDATE_0, 2, {{SUM_0, 0}, {FWD, 0}}},
        {UPDATE_1, 2, {{SUM_1, 0}, {FWD, 0}}},
    };
    struct ss_depend *d;
    write_four_steps(0, 4);
    struct ss_trace_rank *r = read_trace(0);
    ck_assert_int_eq(ss_depend_create(r, &d), SS_OK);
    for (int t = 0; t < TASKS; t++) {
        size_t from = d->edge_from[t];
        ck_assert_uint_eq(d->edge_from[t + 1] - from, (size_t)want[t].n);
        for (int i = 0; i < want[t].n; i++) {
            ck_assert_msg(d->edge.at[from + (size_t)i].task == want[t].want[i].task &&
                              d->edge.at[from + (size_t)i].back == want[t].want[i].back,
                          "task %d, edge %d: %d of %d steps ago", t, i,
                          d->edge.at[from + (size_t)i].task, d->edge.at[from + (size_t)i].back);
        }
    }
    ss_depend_destroy(d);
    ss_trace_free(r);
}
END_TEST

/* Expected values of the four steps. A window begins with FWD.
 * 1  Window 100-570. Compute 100-360, 420-440, 505-525: 300. The collectives 310-410 and 380-500
 *    overlap each other: 190. Overlap with compute 310-360, 420-440: 70. Gaps: 360-420, update 0
 *    ready when its all-reduce ended at 410: communication 50, runtime 10. 440-505, update 1, its
 *    all-reduce ended at 500: communication 60, runtime 5. 525-570, next FWD submitted at 480,
 *    its input loaded at 560: input 35, runtime 10.
 * 2  Window 570-1100. Compute 570-770, 790-850, 905-925, 960-980: 300. Collectives 860-960,
 *    overlap 905-925. Gaps: 770-790, BWD A ready at 780, its last predecessor FWD: dependency 10,
 *    runtime 10. 850-905: communication 50, runtime 5. 925-960: communication 35. 980-1100, not
 *    submitted until 1000: nothing 20; load ended at 1080: input 80, runtime 20.
 * 3  Window 1100-1450, all compute; collectives 1310-1390, 1410-1420, all overlapped.
 * 4  Window 1450-1660, up to its last task's end. Compute 1450-1540, 1640-1660: 110. Collectives
 *    1540-1640, no overlap. Gap 1540-1640, update 0's all-reduce ended at 1600: communication 60,
 *    runtime 40. */
static const struct ss_step_times four[] = {
    {.begin = 100,
     .end = 570,
     .compute = 300,
     .comm = 190,
     .overlap = 70,
     .idle = {35, 110, 0, 25, 0},
     .load = 80},
    {.begin = 570,
     .end = 1100,
     .compute = 300,
     .comm = 100,
     .overlap = 20,
     .idle = {80, 85, 10, 35, 20},
     .load = 80},
    {.begin = 1100, .end = 1450, .compute = 350, .comm = 90, .overlap = 90, .load = 70},
    {.begin = 1450,
     .end = 1660,
     .compute = 110,
     .comm = 100,
     .idle = {0, 60, 0, 40, 0},
     .load = 20},
};

static void check_step(const struct ss_step_times *s, const struct ss_step_times *want)
{
    ck_assert_int_eq(s->begin, want->begin);
    ck_assert_int_eq(s->end, want->end);
    ck_assert_int_eq(s->compute, want->compute);
    ck_assert_int_eq(s->comm, want->comm);
    ck_assert_int_eq(s->overlap, want->overlap);
    ck_assert_int_eq(s->exposed, want->comm - want->overlap);
    for (int k = 0; k < SS_IDLE_KINDS; k++)
        ck_assert_msg(s->idle[k] == want->idle[k], "step %d: idle for %s %d, not %d", (int)s->step,
                      ss_idle_name((enum ss_idle)k), (int)s->idle[k], (int)want->idle[k]);
    ck_assert_int_eq(s->load, want->load);
}

START_TEST(four_steps)
{
    write_four_steps(0, 4);
    struct ss_rank_times *r = analyse_trace(0);
    ck_assert_uint_eq(r->step.count, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(r->step.at[i].step, i + 1);
        check_step(&r->step.at[i], &four[i]);
    }
    ck_assert_int_eq(r->window, 1560);
    ck_assert_int_eq(r->steps_broken, 0);
    ck_assert_int_eq(r->loaders, 1);
    /* Within the windows: all compute tasks, and the loads of steps 2 to 4. */
    ck_assert_uint_eq(r->worker.count, 2);
    ck_assert_int_eq(r->worker.at[0].busy, 1060);
    ck_assert_int_eq(r->worker.at[1].busy, 170);
    ck_assert_int_eq(r->worker.at[1].load, 170);
    ck_assert_int_eq(r->worker.at[0].step_busy[0], 300);
    ck_assert_int_eq(r->worker.at[1].step_busy[0], 80);
    ck_assert_uint_eq(r->memory.count, 3);
    ss_rank_times_free(r);
}
END_TEST

/* Critical paths, from the end backward. Step 4, the last: update 1 ran directly after update 0,
 * which waited for all-reduce 0 until 1600. That was ready when BWD B ended at 1520 and began at
 * 1530. Step 2: the next step's FWD began at 1100, its input was loaded at 1080. The load was
 * submitted at 1000 and began at 1010: an all-reduce that the service worker had started before did
 * not delay it, and the preceding load ended before the window. Step 3: the next step's FWD and all
 * earlier tasks waited only for the compute worker. */
static const struct ss_path_part path_4[] = {
    {4, 1650, 1660, UPDATE_1, 0},     {4, 1640, 1650, UPDATE_0, 0},
    {4, 1600, 1640, SS_PATH_WAIT, 0}, {4, 1530, 1600, SUM_0, 1},
    {4, 1520, 1530, SS_PATH_WAIT, 1}, {4, 1500, 1520, BWD_B, 0},
    {4, 1450, 1500, FWD, 0},
};
static const struct ss_path_part path_2[] = {
    {3, 1080, 1100, SS_PATH_WAIT, 0},
    {3, 1010, 1080, LOAD, 1},
    {3, 1000, 1010, SS_PATH_WAIT, 1},
    {3, 570, 1000, SS_PATH_SUBMIT, 1},
};
static const struct ss_path_part path_3[] = {
    {3, 1430, 1450, UPDATE_1, 0}, {3, 1400, 1430, UPDATE_0, 0}, {3, 1300, 1400, BWD_A, 0},
    {3, 1200, 1300, BWD_B, 0},    {3, 1100, 1200, FWD, 0},
};

static void check_path(const struct ss_rank_times *r, int step, const struct ss_path_part *want,
                       size_t n)
{
    const struct ss_step_times *s = &r->step.at[step - 1];
    ck_assert_uint_eq(s->path_count, n);
    for (size_t i = 0; i < n; i++) {
        const struct ss_path_part *p = &r->path.part.at[s->path_from + i];
        ck_assert_int_eq(p->begin, want[i].begin);
        ck_assert_int_eq(p->end, want[i].end);
        ck_assert_int_eq(p->task, want[i].task);
        ck_assert_int_eq(p->step, want[i].step);
    }
}

START_TEST(critical_path)
{
    write_four_steps(0, 4);
    struct ss_rank_times *r = analyse_trace(0);
    check_path(r, 4, path_4, sizeof path_4 / sizeof *path_4);
    check_path(r, 2, path_2, sizeof path_2 / sizeof *path_2);
    check_path(r, 3, path_3, sizeof path_3 / sizeof *path_3);
    const int64_t *kind = r->step.at[3].path_kind;
    ck_assert_int_eq(kind[SS_TASK_UPDATE], 20);
    ck_assert_int_eq(kind[SS_TASK_ALLREDUCE], 70);
    ck_assert_int_eq(kind[SS_TASK_BACKWARD], 20);
    ck_assert_int_eq(kind[SS_TASK_FORWARD], 50);
    ck_assert_int_eq(kind[SS_PATH_WAITING], 50);
    ck_assert_int_eq(r->step.at[1].path_kind[SS_TASK_LOAD], 70);
    ck_assert_int_eq(r->step.at[1].path_kind[SS_PATH_WAITING], 30);
    ck_assert_int_eq(r->step.at[1].path_kind[SS_PATH_UNSUBMITTED], 430);
    ss_rank_times_free(r);
}
END_TEST

/* Bucket 0: gradients complete at 300, 770, 1300, 1520; delays 10, 90, 10, 20; durations 100, 40,
 * 80, 60. 7000 bytes in 70 ns are 100 GB/s, or 150 GB/s bus bandwidth with 4 ranks. */
START_TEST(buckets)
{
    struct ss_run_times *run;
    write_four_steps(0, 4);
    struct ss_rank_times *r = analyse_trace(0);
    ck_assert_int_eq(ss_analyse_run(&r, 1, &run), SS_OK);
    ck_assert_uint_eq(run->nbuckets, 2);
    const struct ss_bucket_times *b = &run->bucket[0];
    ck_assert_uint_eq(b->delay.count, 4);
    ck_assert_double_eq_tol(b->delay.mean, 32.5, 1e-9);
    ck_assert_double_eq_tol(b->delay.median, 15, 1e-9);
    ck_assert_double_eq_tol(b->delay.max, 90, 1e-9);
    ck_assert_double_eq_tol(b->duration.mean, 70, 1e-9);
    ck_assert_double_eq_tol(b->duration.median, 70, 1e-9);
    ck_assert_double_eq_tol(b->duration.max, 100, 1e-9);
    ck_assert_double_eq_tol(b->algorithm_bw, 100, 1e-9);
    ck_assert_double_eq_tol(b->bus_bw, 150, 1e-9);
    ck_assert_uint_eq(b->skew.count, 0); /* a single rank */
    ck_assert_double_eq_tol(run->of_rank[0].delay.mean, 32.5, 1e-9);
    ss_run_times_free(run);
    ss_rank_times_free(r);
}
END_TEST

/* Two ranks. Rank 1's times are one second behind rank 0's, 400000 ns of it by its later epoch, and
 * lose 1000 ns in 10000. Bucket 0: rank 0 communicates at 1000-2000 after one second, rank 1 at
 * 1000-1500 on its own clock, 1100-1650 on rank 0's. So rank 0 waits for 100 of 1000. Bucket 1:
 * rank 0 arrives 50 after rank 1, which finishes 30 after its own arrival, so that waited at most
 * 30. */
static struct ss_rank_times *one_of_two(int rank, const char *marks)
{
    write_head(rank, 2, "cpu");
    if (rank)
        say("{\"clock\":\"begin\",\"at\":0,\"offset_ns\":999600000,\"error_ns\":20}\n"
            "{\"clock\":\"end\",\"at\":10000,\"offset_ns\":999601000,\"error_ns\":40}\n");
    say("%s{\"end\":true,\"lost\":0}\n", marks);
    return analyse_trace(rank);
}

START_TEST(two_ranks)
{
    struct ss_run_times *run;
    struct ss_rank_times *r[] = {
        one_of_two(0, "[\"c\",1,0,1000001000,1000002000]\n[\"c\",1,1,1000003350,1000003400]\n"),
        one_of_two(1, "[\"c\",1,0,1000,1500]\n[\"c\",1,1,3000,3028]\n")};
    ck_assert_int_eq(ss_analyse_run(r, 2, &run), SS_OK);
    ck_assert_int_eq(run->clock_error, 40);
    ck_assert_double_eq_tol(run->bucket[0].skew.mean, 100, 1.1);
    ck_assert_double_eq_tol(run->bucket[0].waiting, 100.0 / 1550, 1e-3);
    /* 3000 is 1000000000 + 3000 + 300 = 3300 on rank 0's clock, 3028 is 3330. */
    ck_assert_double_eq_tol(run->bucket[1].skew.mean, 50, 1.1);
    ck_assert_double_eq_tol(run->bucket[1].waiting, 30.0 / 80, 0.02);
    ck_assert_int_le(llabs(run->straggler[0].waited_ns - 100), 1);
    ck_assert_int_le(llabs(run->straggler[1].caused_ns - 100), 1);
    ck_assert_int_le(llabs(run->straggler[1].waited_ns - 30), 2);
    ck_assert_uint_eq(run->step.count, 1);
    ck_assert_int_eq(run->step.at[0].rank, 1);
    ck_assert_int_eq(run->straggler[1].steps, 1);
    ck_assert_int_eq(run->straggler[0].steps, 0);
    ss_run_times_free(run);
    ss_rank_times_free(r[0]);
    ss_rank_times_free(r[1]);
}
END_TEST

/* Ranks of different runs. */
START_TEST(mixed_runs)
{
    struct ss_run_times *run;
    struct ss_rank_times *r[2];
    r[0] = one_of_two(0, "");
    write_head(1, 2, "cpu");
    say("{\"bucket\":2,\"bytes\":2000,\"wire_bytes\":1000}\n");
    r[1] = analyse_trace(1);
    ck_assert_int_eq(ss_analyse_run(r, 2, &run), SS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "number of buckets"));
    ss_rank_times_free(r[0]);
    ss_rank_times_free(r[1]);
}
END_TEST

/* Update 0 runs on the service worker, and the next step's load on the compute worker. Compute
 * 100-360 and 525-545; collectives 310-500, overlapped until 360. Gap 360-525, update 1's
 * all-reduce ended at 500: communication 140; the load at 520: input 20; runtime 5. The second step
 * has only its load. */
START_TEST(shared_workers)
{
    static const struct ss_step_times want = {.begin = 100,
                                              .end = 545,
                                              .compute = 280,
                                              .comm = 190,
                                              .overlap = 50,
                                              .idle = {20, 140, 0, 5, 0},
                                              .load = 80};
    write_head(0, 4, "cpu");
    say("[\"s\",1,0,600]\n[\"s\",2,390,700]\n");
    write_task(1, LOAD, 1, 10, 10, 90);
    write_task(1, FWD, 0, 90, 100, 200);
    write_task(1, BWD_B, 0, 200, 200, 300);
    write_task(1, BWD_A, 0, 300, 300, 360);
    write_task(1, SUM_0, 1, 300, 305, 410);
    write_task(1, SUM_1, 1, 360, 370, 500);
    write_task(1, UPDATE_0, 1, 410, 420, 440);
    write_task(2, LOAD, 0, 400, 430, 520);
    write_task(1, UPDATE_1, 0, 500, 525, 545);
    say("[\"c\",1,0,310,410]\n[\"c\",1,1,380,500]\n");
    struct ss_rank_times *r = analyse_trace(0);
    ck_assert_uint_eq(r->step.count, 1);
    ck_assert_int_eq(r->steps_broken, 1);
    check_step(&r->step.at[0], &want);
    ss_rank_times_free(r);
}
END_TEST

/* On a GPU the device times count. Window 100-480; compute 100-300, 310-350, 410-420, 470-480: 260.
 * All-reduces on the comm lane 300-450, overlapped for 40 + 10; the host's "c" event of one of them
 * covers only enqueuing and is ignored. Gaps: 300-310, before BWD A, whose predecessors had ended
 * by 300: runtime 10. 350-410, update 0's all-reduce ended at 400: communication 50, runtime 10.
 * 420-470, the other all-reduce ended at 450: communication 30, runtime 20. Updates may be on a
 * lane of their own, which counts as compute too. */
START_TEST(gpu_marks)
{
    static const char *const lanes[] = {"compute", "update"};
    static const struct ss_step_times want = {.begin = 100,
                                              .end = 480,
                                              .compute = 260,
                                              .comm = 150,
                                              .overlap = 50,
                                              .idle = {0, 80, 0, 40, 0},
                                              .load = 20};
    write_head(0, 2, "cuda");
    say("[\"s\",1,0,500]\n");
    write_task(1, LOAD, 2, 1, 1, 21);
    for (int t = FWD; t < UPDATE_1; t++)
        write_task(1, t, t == SUM_0 || t == SUM_1, 30 + t, 30 + t, 31 + t);
    write_task(1, UPDATE_1, 0, 460, 461, 462); /* enqueued late: counts as runtime */
    say("[\"g\",1,1,\"compute\",100,200]\n[\"g\",1,2,\"compute\",200,300]\n"
        "[\"g\",1,3,\"comm\",300,400]\n[\"g\",1,4,\"compute\",310,350]\n"
        "[\"g\",1,5,\"comm\",400,450]\n[\"c\",1,0,0,1000]\n");
    say("[\"g\",1,6,\"%s\",410,420]\n[\"g\",1,7,\"%s\",470,480]\n", lanes[_i], lanes[_i]);
    struct ss_rank_times *r = analyse_trace(0);
    ck_assert_uint_eq(r->step.count, 1);
    check_step(&r->step.at[0], &want);
    ck_assert_uint_eq(r->sum.count, 2);
    ck_assert_int_eq(r->sum.at[0].delay, 0);
    ck_assert_int_eq(r->sum.at[1].delay, 50); /* BWD A ended at 350 */
    /* update 1: 10, waiting: 20, all-reduces: 50 + 100, BWD B and FWD: 200 */
    ck_assert_int_eq(r->step.at[0].path_kind[SS_TASK_BACKWARD], 100);
    ck_assert_int_eq(r->step.at[0].path_kind[SS_TASK_ALLREDUCE], 150);
    ck_assert_int_eq(r->step.at[0].path_kind[SS_PATH_WAITING], 20);
    ck_assert_uint_eq(r->worker.count, 6 + (size_t)_i); /* three workers and the lanes in use */
    ck_assert_str_eq(r->worker.at[4].name, "comm lane");
    ck_assert_int_eq(r->worker.at[4].busy, 150);
    if (_i) {
        ck_assert_str_eq(r->worker.at[6].name, "update lane");
        ck_assert_int_eq(r->worker.at[6].busy, 20);
    }
    ss_rank_times_free(r);
}
END_TEST

/* An export of some steps has no slices of others on any track. */
START_TEST(exported_steps)
{
    write_head(0, 1, "cuda");
    for (int step = 1; step <= 3; step++) {
        const long at = 1000L * step;
        say("[\"s\",%d,%ld,%ld]\n", step, at, at + 500);
        for (int t = LOAD; t <= UPDATE_1; t++)
            write_task(step, t, t == LOAD ? 2 : t == SUM_0 || t == SUM_1, at + t, at + t,
                       at + t + 1);
        say("[\"g\",%d,1,\"compute\",%ld,%ld]\n[\"g\",%d,3,\"comm\",%ld,%ld]\n", step, at + 100,
            at + 200, step, at + 200, at + 300);
        say("[\"c\",%d,1,%ld,%ld]\n", step, at + 210, at + 310);
    }
    save_trace(0);
    const int64_t some[][2] = {{2, 2}, {2, 3}, {1, 2}, {2, 0}, {1, 0}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const int64_t first = some[i][0], last = some[i][1] ? some[i][1] : 3;
        struct ss_export *e;
        size_t lanes = 0;
        ck_assert_msg(ss_export_load(folder, first, some[i][1], &e) == SS_OK, "%s",
                      ss_log_last_error());
        const struct ss_export_rank *r = &e->rank[0];
        for (size_t k = 0; k < r->slice.count; k++) {
            const struct ss_export_slice *s = &r->slice.at[k];
            ck_assert(s->step >= first && s->step <= last);
            lanes += !strncmp(r->track.at[s->track].name, "GPU ", 4);
        }
        /* On workers all tasks but the all-reduces, which are on the lane and on their track. */
        ck_assert_uint_eq(lanes, 2 * (size_t)(last - first + 1));
        ck_assert_uint_eq(r->slice.count, (6 + 2 + 1) * (size_t)(last - first + 1));
        ss_export_free(e);
    }
}
END_TEST

/* Verdict and advice for a step of 100 us on each of two ranks; times in ns. */
static const struct {
    int64_t compute, comm, exposed, idle[SS_IDLE_KINDS];
    int64_t waited[2]; /* time that others wait for rank 0, rank 1 */
    int cuda, no_overlap;
    const char *bound, *says;
} judged[] = {
    {90000, 50000, 5000, {0, 5000, 0, 5000, 0}, {0}, 0, 0, "compute", "more cores or ranks"},
    {90000, 50000, 5000, {0, 5000, 0, 5000, 0}, {0}, 1, 0, "compute", "--precision bf16"},
    {70000, 50000, 5000, {0, 9900, 9000, 9000, 2100}, {0}, 1, 0, "compute", "--precision bf16"},
    {89000, 50000, 5000, {0, 10000, 0, 1000, 0}, {0}, 1, 0, "communication", "--bucket-mb auto"},
    {50000, 50000, 45000, {0, 50000, 0, 0, 0}, {0}, 0, 1, "communication", "without --no-overlap"},
    {50000,
     50000,
     45000,
     {0, 50000, 0, 0, 0},
     {0, 20000},
     0,
     0,
     "communication",
     "--bucket-mb auto"},
    {50000,
     50000,
     45000,
     {0, 50000, 0, 0, 0},
     {9000, 25000},
     0,
     0,
     "communication",
     "find out why rank 1 on far is slow: it computes for 0.050 ms per step, the others for 0.050"},
    {50000, 0, 0, {30000, 0, 10000, 10000, 0}, {0}, 0, 0, "input", "--workers"},
    {50000, 0, 0, {0, 0, 30000, 10000, 10000}, {0}, 0, 0, "dependency", "trace export"},
    {50000, 0, 0, {0, 0, 0, 40000, 10000}, {0}, 1, 0, "runtime", "--gpu-graphs on"},
    {50000, 0, 0, {0, 0, 0, 40000, 10000}, {0}, 0, 0, "runtime", "--threads"},
    {50000, 0, 0, {0, 0, 0, 10000, 40000}, {0}, 0, 0, "nothing", "--slots"},
};

static const struct {
    const char *bound, *meanwhile;
} said[] = {
    {"input", "waiting for input"},
    {"communication", "waiting for communication"},
    {"dependency", "waiting for other tasks"},
    {"runtime", "waiting for a worker to start the next task"},
    {"nothing", "no task to run"},
};

START_TEST(verdicts)
{
    struct ss_step_times step = {.end = 100000,
                                 .compute = judged[_i].compute,
                                 .comm = judged[_i].comm,
                                 .exposed = judged[_i].exposed};
    struct ss_rank_times rank[2] = {{.rank = 0, .host = "near"}, {.rank = 1, .host = "far"}};
    struct ss_straggling straggling[2] = {{0}};
    struct ss_straggler one_step;
    memcpy(step.idle, judged[_i].idle, sizeof step.idle);
    for (int r = 0; r < 2; r++) {
        rank[r].cuda = judged[_i].cuda;
        rank[r].overlap = !judged[_i].no_overlap;
        rank[r].step.at = &step;
        rank[r].step.count = 1;
        straggling[r].caused_ns = judged[_i].waited[r];
    }
    struct ss_run_times run = {.ranks = 2,
                               .count = 2,
                               .rank = (struct ss_rank_times *[]){&rank[0], &rank[1]},
                               .straggler = straggling,
                               .step = {.at = &one_step, .count = 1}};
    const struct ss_trace_verdict v = ss_trace_judge(&run);
    ck_assert_int_eq(v.steps, 2);
    ck_assert_str_eq(v.bound, judged[_i].bound);
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (!strcmp(v.bound, said[i].bound))
            ck_assert_str_eq(v.meanwhile, said[i].meanwhile);
    ck_assert_msg(strstr(v.advice, judged[_i].says) != NULL, "\"%s\" does not contain \"%s\"",
                  v.advice, judged[_i].says);
    ck_assert_double_eq_tol(v.step_ms, 0.1, 1e-12);
    ck_assert_double_eq_tol(v.computing, 1e-5 * (double)judged[_i].compute, 1e-12);
    ck_assert_double_eq_tol(v.exposed_ms, 1e-6 * (double)judged[_i].exposed, 1e-12);
    ck_assert_int_eq(v.last, judged[_i].waited[1] ? 1 : -1);
    ck_assert_double_eq_tol(v.for_last_ms, 1e-6 * (double)judged[_i].waited[1], 1e-12);
    run.count = 0;
    ck_assert_int_eq(ss_trace_judge(&run).steps, 0);
}
END_TEST

/* Steps 1 and 3 without step 2: the first ends with its own last task. A collective that began
 * before its gradients were complete has no delay. */
START_TEST(hole)
{
    write_head(0, 2, "cpu");
    for (int step = 1; step <= 3; step += 2)
        for (int t = FWD; t < TASKS; t++)
            write_task(step, t, t == SUM_0 || t == SUM_1, 0, 1000 * step + 10 * t,
                       1000 * step + 10 * t + 10);
    say("[\"c\",1,0,1029,1040]\n[\"c\",3,0,3030,3040]\n");
    struct ss_rank_times *r = analyse_trace(0);
    ck_assert_uint_eq(r->step.count, 2);
    ck_assert_int_eq(r->step.at[0].end, 1080);
    ck_assert_int_eq(r->step.at[1].end, 3080);
    ck_assert_uint_eq(r->sum.count, 2);
    ck_assert_int_eq(r->sum.at[0].has_delay, 0);
    ck_assert_int_eq(r->sum.at[1].has_delay, 1);
    ss_rank_times_free(r);
}
END_TEST

/* A step without one of its compute tasks is excluded; the preceding step still ends where it
 * begins. */
START_TEST(broken_step)
{
    write_head(0, 2, "cpu");
    for (int step = 1; step <= 2; step++)
        for (int t = FWD; t < TASKS - (step == 2); t++)
            if (t != SUM_0 && t != SUM_1)
                write_task(step, t, 0, 0, 1000 * step + 10 * t, 1000 * step + 10 * t + 10);
    struct ss_rank_times *r = analyse_trace(0);
    ck_assert_uint_eq(r->step.count, 1);
    ck_assert_int_eq(r->steps_broken, 1);
    ck_assert_int_eq(r->step.at[0].end, 2010);
    ck_assert_int_eq(r->ended, 0);
    ss_rank_times_free(r);
}
END_TEST

START_TEST(task_twice)
{
    struct ss_rank_times *times;
    const struct ss_analyse_options options = {0};
    write_four_steps(0, 4);
    trace_bytes -= strlen("{\"end\":true,\"lost\":0}\n");
    write_task(3, BWD_A, 0, 1, 2, 3);
    struct ss_trace_rank *r = read_trace(0);
    ck_assert_int_eq(ss_analyse_rank(r, &options, &times), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "task 4 of step 3 ran twice"));
    ss_trace_free(r);
}
END_TEST

/* An all-reduce on a GPU of an unknown bucket. */
START_TEST(strange_bucket)
{
    struct ss_rank_times *times;
    const struct ss_analyse_options options = {0};
    write_head(0, 2, "cuda");
    say("{\"task\":%d,\"name\":\"x\",\"kind\":\"all-reduce\",\"block\":-1,\"bucket\":%d,\"slice\":-"
        "1,"
        "\"access\":[]}\n[\"t\",1,%d,1,1,2,3]\n[\"g\",1,%d,\"comm\",5,6]\n",
        TASKS, _i ? 2 : -1, TASKS, TASKS);
    struct ss_trace_rank *r = read_trace(0);
    ck_assert_int_eq(ss_analyse_rank(r, &options, &times), SS_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "task 8: bucket"));
    ss_trace_free(r);
}
END_TEST

/* --- Invariants */

static uint32_t seed;
static int seed_is_wild;

static long draw(long n)
{
    seed = seed * 1664525 + 1013904223;
    return (long)((seed >> 8) % (uint32_t)n);
}

/* Writes a random schedule, which may violate dependencies: the times must add up nevertheless. */
static void write_random(int steps)
{
    long at = 1000, loaded = 0;
    write_head(0, 3, "cpu");
    for (int step = 1; step <= steps; step++) {
        say("[\"s\",%d,%ld,%ld]\n", step, at - draw(300), at + 500);
        for (int t = 0; t < TASKS; t++) {
            int sum = t == SUM_0 || t == SUM_1, computes = t != LOAD && !sum;
            long begin = computes ? at + (draw(3) ? 0 : draw(40)) : at - draw(100);
            long end = begin + draw(80);
            if (seed_is_wild) { /* no order: tasks precede their dependencies and overlap */
                begin = at - 200 + draw(400);
                end = begin + draw(80);
            }
            if (t == LOAD) {
                begin = begin > loaded ? begin : loaded;
                loaded = end = begin + draw(200);
            }
            write_task(step, t, !computes, begin - draw(50), begin, end);
            if (sum)
                say("[\"c\",%d,%d,%ld,%ld]\n", step, t == SUM_1, begin, end);
            if (computes)
                at = seed_is_wild ? at + 40 : end;
        }
    }
}

START_TEST(invariants)
{
    enum { STEPS = 400 };
    seed = (uint32_t)_i;
    seed_is_wild = _i % 2;
    write_random(STEPS);
    struct ss_rank_times *r = analyse_trace(0);
    ck_assert_uint_eq(r->step.count, STEPS);
    int64_t exposed = 0;
    for (size_t i = 0; i < STEPS; i++) {
        const struct ss_step_times *s = &r->step.at[i];
        int64_t sum = s->compute, path = 0;
        for (int k = 0; k < SS_IDLE_KINDS; k++)
            sum += s->idle[k];
        ck_assert_int_eq(sum, s->end - s->begin);
        ck_assert_int_eq(s->overlap + s->exposed, s->comm);
        ck_assert_int_le(s->overlap, s->compute);
        ck_assert_int_le(s->exposed, s->end - s->begin - s->compute);
        for (size_t k = 0; k < s->path_count; k++) {
            const struct ss_path_part *p = &r->path.part.at[s->path_from + k];
            ck_assert_int_lt(p->begin, p->end);
            ck_assert(k == 0 || p->end == r->path.part.at[s->path_from + k - 1].begin);
            path += p->end - p->begin;
        }
        ck_assert_int_eq(path, s->end - s->begin);
        if (s->end > s->begin)
            ck_assert_int_eq(r->path.part.at[s->path_from + s->path_count - 1].begin, s->begin);
        ck_assert(!i || s->begin >= s[-1].end);
        exposed += s->exposed;
    }
    ck_assert_int_gt(exposed, 0);
    ss_rank_times_free(r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_times");
    TCase *tc = tcase_create("trace");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, intervals);
    tcase_add_test(tc, edges);
    tcase_add_test(tc, four_steps);
    tcase_add_test(tc, critical_path);
    tcase_add_test(tc, buckets);
    tcase_add_test(tc, two_ranks);
    tcase_add_test(tc, mixed_runs);
    tcase_add_test(tc, shared_workers);
    tcase_add_loop_test(tc, gpu_marks, 0, 2);
    tcase_add_test(tc, exported_steps);
    tcase_add_loop_test(tc, verdicts, 0, sizeof judged / sizeof *judged);
    tcase_add_test(tc, hole);
    tcase_add_test(tc, broken_step);
    tcase_add_test(tc, task_twice);
    tcase_add_loop_test(tc, strange_bucket, 0, 2);
    tcase_add_loop_test(tc, invariants, 0, 8);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
