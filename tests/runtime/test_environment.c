/* test_environment.c: the folder for StarPU's files, while other processes start and sweep. */
#include "runtime/environment.h"
#include "tests/data_common.h"

#include <fcntl.h>
#include <sys/wait.h>

enum { SWEEPERS = 2, STARTS = 200 };

/* Each start in a process of its own: one sweeps where it makes its first folder. */
static void sweep_often(void)
{
    for (int i = 0; i < STARTS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int bad = ss_environment_prepare() != SS_OK;
            ss_environment_clean();
            _exit(bad);
        }
        int code = 1;
        if (pid < 0 || waitpid(pid, &code, 0) != pid || code)
            _exit(1);
    }
    _exit(0);
}

START_TEST(while_others_sweep)
{
    pid_t sweeper[SWEEPERS];
    make_folder();
    setenv("TMPDIR", folder, 1);
    for (int i = 0; i < SWEEPERS; i++) {
        sweeper[i] = fork();
        ck_assert_int_ge(sweeper[i], 0);
        if (sweeper[i] == 0)
            sweep_often();
    }
    for (int ended = 0; ended < SWEEPERS;) {
        char file[512];
        int code;
        ck_assert_int_eq(ss_environment_prepare(), SS_OK);
        snprintf(file, sizeof file, "%s/file", ss_environment_folder());
        ck_assert_int_eq(strncmp(file, folder, strlen(folder)), 0);
        int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        ck_assert_msg(fd >= 0, "%s: %m", file);
        close(fd);
        ss_environment_clean();
        if (waitpid(sweeper[ended], &code, WNOHANG) == sweeper[ended]) {
            ck_assert_int_eq(code, 0);
            ended++;
        }
    }
    ck_assert_int_eq(rmdir(folder), 0); /* nothing is left */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("environment");
    TCase *folders = tcase_create("folders");
    tcase_set_timeout(folders, 0);
    tcase_add_test(folders, while_others_sweep);
    suite_add_tcase(suite, folders);
    return run_suite(suite);
}
