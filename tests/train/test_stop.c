/* test_stop.c: stop signals, at times controlled by the clock_gettime() below. */
#include "tests/data_common.h"
#include "train/stop.h"

#include "tests/assert.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long moved_s; /* offset of the clock */
static atomic_int meeting;  /* a signal to another thread is handled during the next clock read */
static atomic_int arrived;
static pthread_t other;

/* Replaces the C library's function, for libstarstep, too. */
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

/* The launcher and the batch system each send a signal, handled by two threads; the handler that
 * starts later finishes first. */
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

/* Ignored signals, as with nohup and the shell's &, stay ignored; the signals of a batch system are
 * handled nevertheless. */
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

/* A late signal after the run was freed. */
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
