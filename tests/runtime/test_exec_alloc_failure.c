/* test_exec_alloc_failure.c: placement of a rank, and creation, initialization and destruction of
 * executors on CPUs, with a failure of each allocation (tests/meta/faults/alloc_failure.h). */
#include "core/folder.h"
#include "runtime/placement.h"
#include "tests/data_common.h"
#include "tests/meta/faults/alloc_failure.h"
#include "tests/runtime/exec_common.h"
#include "tests/words.h"

#include <fcntl.h>

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
    fails_each_allocation(place, comm, 0);
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
    fails_each_allocation(make_and_destroy, &b.options, 0);
    unbind(&b);
    ss_runtime_stop(b.runtime);
}
END_TEST

#define SMALL                                                                                      \
    "starstep train --data-dir data --width 2,2,2,2 --batch-size 8 --threads 1 --workers 1 "

/* Whole commands free all memory. Leak detectors cannot check this with StarPU and hwloc. */
START_TEST(runs)
{
    static const char *const commands[] = {
        "starstep data make cifar100 --out data --train 16 --test 8",
        SMALL
        "--epochs 1 --checkpoint-dir run --log-json log.json --tensorboard scalars --trace trace "
        "--ema-decay 0.9 --best loss",
        SMALL "--epochs 2 --checkpoint-dir run --ema-decay 0.9 --best loss --resume auto",
        SMALL "--epochs 1 --accumulate 2 --optimizer lars --random-erasing 0.5 --mixup 0.2 "
              "--label-smoothing 0.1 --clip-norm 1 --schedule cosine",
        SMALL "--check",
        "starstep eval --data-dir data --init run --threads 1 --workers 1",
        "starstep data make tinyimagenet --out images --train 4 --val 2 --classes 2",
        "starstep train --data-dir images --model resnet18 --width 2,2,2,2 --image-size 32 "
        "--batch-size 2 "
        "--threads 1 "
        "--workers 1 --epochs 1 --cache packs --checkpoint-dir seen",
        "starstep predict --images images/val/images --init seen --out out.csv --threads 1 "
        "--workers 1",
        "starstep info --threads 1 --workers 1",
        "starstep doctor --device cpu --seconds 1",
    };
    make_folder();
    const int here = open(".", O_RDONLY), out = dup(STDOUT_FILENO);
    ck_assert(here >= 0 && out >= 0);
    ck_assert_int_eq(chdir(in_folder("")), 0);
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout));
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const long before = leak_counter_blocks();
        ck_assert_msg(run_here(commands[i]) == 0, "%s: %s", commands[i], ss_log_last_error());
        ck_assert_msg(leak_counter_blocks() == before, "%s: %ld blocks leaked", commands[i],
                      leak_counter_blocks() - before);
        if (strstr(commands[i], "--trace"))
            ss_folder_remove("trace");
    }
    ck_assert_msg(access("trace", F_OK) != 0,
                  "a run without --trace writes to the previous run's folder");
    dup2(out, STDOUT_FILENO);
    ck_assert_int_eq(fchdir(here), 0);
    close(here);
    close(out);
    remove_folder();
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, runs);
    tcase_add_test(t, placements);
    tcase_add_loop_test(t, executors, 0, TEST_GRAPHS);
}

int main(void)
{
    return run_tests("exec_lacks", add_tests, NULL);
}
