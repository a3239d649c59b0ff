/* test_exec_lacks.c: a rank's placement, and executors that are made, given initial values and destroyed, at each place
 * where that may lack memory (tests/faults/lacks.h); on CPUs. */
#include "tests/faults/lacks.h"
#include "tests/runtime/exec_common.h"

static enum ss_status make_and_destroy(void *options)
{
    const struct ss_exec_options *o = options;
    struct ss_exec *exec;
    SS_TRY(ss_exec_create(o, &exec));
    const enum ss_status status = ss_model_init(exec, o->plan, 3);
    ss_exec_destroy(exec);
    return status;
}

static enum ss_status place(void *arg)
{
    struct ss_placement p;
    return ss_placement_decide_gpu(arg, 0, "", &p);
}

START_TEST(placements)
{
    lacks_each(place, comm, 0);
}
END_TEST

START_TEST(executors)
{
    struct bound b;
    struct setting s = usual;
    s.which = _i;
    s.momentum = 0.9f;
    s.ema_decay = 0.5;
    s.clip = 1;
    bind_plan(&b, &s, start_runtime(1, 1));
    lacks_each(make_and_destroy, &b.options, 0);
    unbind(&b);
    ss_runtime_stop(b.runtime);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, placements);
    tcase_add_loop_test(t, executors, 0, TEST_GRAPHS);
}

int main(void)
{
    return run_tests("exec_lacks", add_tests);
}
