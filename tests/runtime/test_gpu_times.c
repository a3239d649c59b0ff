/* test_gpu_times.c: times of tasks on a simulated GPU. Reported times keep the order of the
 * stream for any error in reading the GPU's clock. */
#include "codelets/lane.h"
#include "core/clock.h"
#include "runtime/gpu_times.h"

#include "tests/run_suite.h"
#include <stdlib.h>
#include <unistd.h>

enum { TASKS = 4, SLOTS = 2, STEPS = 20, PAUSE_US = 2000 };

struct CUevent_st {
    uint64_t ticks; /* 1024 per millisecond: a float holds times up to 16 s exactly */
};

static int slow; /* reading the clock takes PAUSE_US longer, after the reference event */
static struct {
    uint64_t begin, end;
    int told;
} ran[STEPS + 1][TASKS];

static enum ss_status make_stream(struct ss_device *gpu, int priority, ss_stream *out)
{
    (void)gpu;
    (void)priority;
    *out = NULL;
    return SS_OK;
}

static void drop_stream(ss_stream stream)
{
    (void)stream;
}

static enum ss_status make_event(struct ss_device *gpu, int timing, ss_event *out)
{
    (void)gpu;
    ck_assert_int_eq(timing, 1);
    *out = calloc(1, sizeof **out);
    return *out ? SS_OK : SS_ERR_MEMORY;
}

static void drop_event(ss_event event)
{
    free(event);
}

/* This GPU's clock is the host's. */
static enum ss_status record(ss_event event, ss_stream stream)
{
    (void)stream;
    event->ticks = ss_now_ns() * 16 / 15625;
    return SS_OK;
}

static enum ss_status finish(ss_event event)
{
    (void)event;
    if (slow)
        usleep(PAUSE_US);
    return SS_OK;
}

static enum ss_status elapsed(struct ss_device *gpu, ss_event begin, ss_event end, float *ms)
{
    (void)gpu;
    *ms = (float)(int64_t)(end->ticks - begin->ticks) / 1024;
    return SS_OK;
}

static void on_span(void *arg, uint64_t step, size_t index, int lane, uint64_t begin_ns,
                    uint64_t end_ns)
{
    (void)arg;
    ck_assert_int_eq(lane, SS_LANE_COMPUTE);
    ran[step][index].begin = begin_ns;
    ran[step][index].end = end_ns;
    ran[step][index].told++;
}

static void enqueue(const struct ss_hooks *h, uint64_t step, int task)
{
    struct ss_bound_task bound = {.index = task, .training = 1};
    const struct ss_step_args args = {.task = &bound, .step = step};
    ck_assert_int_eq(h->enqueue_begins(h->arg, &args, SS_LANE_COMPUTE, NULL), SS_OK);
    ck_assert_int_eq(h->enqueue_ends(h->arg, &args, NULL), SS_OK);
}

/* Times are rounded to nanoseconds. */
static void check_next(uint64_t step, int task)
{
    static uint64_t last;
    ck_assert_int_eq(ran[step][task].told, 1);
    ck_assert_uint_ge(ran[step][task].end, ran[step][task].begin);
    ck_assert_msg(ran[step][task].begin + 100 >= last, "task %d of step %d is %d ns early", task,
                  (int)step, (int)(last - ran[step][task].begin));
    last = ran[step][task].end;
}

/* Clock reads of the first step, and for _i == 1 of every third step, are slow. The last task of a
 * step is enqueued after the first task of the next step. */
START_TEST(keeps_order)
{
    const struct ss_kernels kernels = {.stream_create = make_stream,
                                       .stream_destroy = drop_stream,
                                       .event_create = make_event,
                                       .event_destroy = drop_event,
                                       .record = record,
                                       .finish = finish,
                                       .elapsed = elapsed};
    const struct ss_lanes lanes = {.kernels = &kernels};
    const struct ss_gpu_times_listener listener = {.ran = on_span};
    struct ss_gpu_times *times;
    ck_assert_int_eq(ss_gpu_times_open(&lanes, TASKS, SLOTS, 1, STEPS, listener, &times), SS_OK);
    const struct ss_hooks *h = ss_gpu_times_hooks(times);
    for (uint64_t step = 1; step <= STEPS; step++) {
        slow = step == 1 || (_i && step % 3 == 0);
        for (int task = 0; task < TASKS - 1; task++) {
            enqueue(h, step, task);
            if (task == 0 && step > 1)
                enqueue(h, step - 1, TASKS - 1);
        }
    }
    ck_assert_int_eq(ss_gpu_times_close(times, 1), SS_OK);
    for (uint64_t step = 1; step <= STEPS; step++)
        for (int task = 0; task < TASKS - 1; task++) {
            check_next(step, task);
            if (task == 0 && step > 1)
                check_next(step - 1, TASKS - 1);
        }
    ck_assert_int_eq(ran[STEPS][TASKS - 1].told, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_times");
    TCase *tc = tcase_create("order");
    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, keeps_order, 0, 2);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
