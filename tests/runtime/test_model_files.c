/* test_model_files.c: waiting for another process that measures StarPU's buses. */
#include "runtime/model_files.h"
#include "tests/data_common.h"

#include <fcntl.h>
#include <starpu.h>
#include <sys/file.h>
#include <sys/wait.h>

static void hold_lock(void)
{
    int fd = open(in_folder("bus/kind.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX))
        _exit(1);
    write_file("begun", "", 0);
    while (access(in_folder("go"), F_OK))
        usleep(1000);
    write_file("bus/kind.config", "1\n", 2);
}

/* Start-up waits for another process's measurement. */
START_TEST(waits)
{
    make_folder();
    ck_assert_int_eq(setenv("STARPU_PERF_MODEL_DIR", folder, 1), 0);
    ck_assert_int_eq(setenv("STARPU_SCHED", "dmda", 1), 0);
    ck_assert_int_eq(setenv("STARPU_HOSTNAME", "kind", 1), 0);
    ck_assert_int_eq(ss_model_files_choose(), SS_OK);
    pid_t holder = fork(), waiter;
    struct starpu_conf conf;
    ck_assert_int_ge(holder, 0);
    if (holder == 0) {
        hold_lock();
        _exit(0);
    }
    while (access(in_folder("begun"), F_OK))
        usleep(1000);
    waiter = fork();
    ck_assert_int_ge(waiter, 0);
    if (waiter == 0)
        _exit(ss_model_files_begin(&conf) != SS_OK || access(in_folder("bus/kind.config"), F_OK));
    write_file("go", "", 0);
    int code[2] = {1, 1};
    ck_assert_int_eq(waitpid(holder, &code[0], 0), holder);
    ck_assert_int_eq(waitpid(waiter, &code[1], 0), waiter);
    ck_assert_int_eq(code[0], 0);
    ck_assert_int_eq(code[1], 0);
    remove_folder();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_files");
    TCase *t = tcase_create("files");
    suite_add_tcase(suite, t);
    tcase_add_test(t, waits);
    return run_suite(suite);
}
