/* test_stop.c: signals that ask a run to end, at moments that clock_gettime() below chooses. */
#include "tests/data_common.h"
#include "train/stop.h"

#include "tests/assert.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long moved_s; /* how far the clock was put forward */
static atomic_int meeting;  /* the next reading of the clock is overtaken by another thread's */
static atomic_int arrived;
static pthread_t other;

/* The library's, too. */
int clock_gettime(clockid_t id, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, id, now);
    now->tv_sec += atomic_load(&moved_s);
    if (atomic_exchange(&meeting, 0)) {
        pthread_kill(other, SIGTERM);
        while (!atomic_load(&arrived))
            usleep(1000);
    }
    return rc;
}

static void *take_signal(void *unused)
{
    sigset_t none;
    (void)unused;
    sigemptyset(&none);
    sigsuspend(&none);
    atomic_store(&arrived, 1);
    return NULL;
}

static int asked(const struct ss_run *run)
{
    return run->stop && atomic_load(run->stop);
}

/* A launcher and a batch system send one each, two threads take them: the one whose handler began
 * later is done first. */
START_TEST(two_at_once)
{
    struct ss_run run = {0};
    sigset_t term, before;
    ss_stop_catch(&run);
    ck_assert(!asked(&run));
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &before);
    ck_assert_int_eq(pthread_create(&other, NULL, take_signal, NULL), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    atomic_store(&meeting, 1);
    raise(SIGTERM);
    pthread_join(other, NULL);
    ck_assert(asked(&run));
    ck_assert_int_eq(atomic_load(&meeting), 0);
}
END_TEST

START_TEST(within_a_second)
{
    struct ss_run run = {0};
    ss_stop_catch(&run);
    raise(SIGINT);
    raise(SIGINT);
    ck_assert(asked(&run));
    raise(SIGTERM);
}
END_TEST

START_TEST(later)
{
    struct ss_run run = {0};
    ss_stop_catch(&run);
    raise(SIGUSR1);
    ck_assert(asked(&run));
    atomic_store(&moved_s, 2);
    raise(SIGUSR1);
}
END_TEST

/* As nohup and a shell's & start a program; a batch system's notice is taken all the same. */
START_TEST(ignored)
{
    struct ss_run run = {0};
    for (int i = 0; i < SS_STOP_SIGNALS; i++)
        signal(ss_stop_signals[i], SIG_IGN);
    ss_stop_catch(&run);
    raise(SIGINT);
    raise(SIGHUP);
    ck_assert(!asked(&run));
    raise(_i ? SIGTERM : SIGUSR1);
    ck_assert(asked(&run));
}
END_TEST

START_TEST(terminal_closed)
{
    struct ss_run run = {0};
    ss_stop_catch(&run);
    raise(SIGHUP);
    ck_assert(asked(&run));
}
END_TEST

/* A signal that comes late meets a run that has been freed. */
START_TEST(after_the_run)
{
    struct ss_run *run = calloc(1, sizeof *run);
    ss_stop_catch(run);
    free(run);
    raise(SIGTERM);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stop");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, two_at_once);
    tcase_add_test(tc, within_a_second);
    tcase_add_test_raise_signal(tc, later, SIGUSR1);
    tcase_add_loop_test(tc, ignored, 0, 2);
    tcase_add_test(tc, terminal_closed);
    tcase_add_test(tc, after_the_run);
    tcase_set_timeout(tc, 240);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
