/* test_comm_loss.c: detection of the next rank's death, and the timeout of calls that may hang. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/call_timeout.h"
#include "comm/peer_death.h"
#include "comm/stopped_ranks.h"
#include "core/log.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void quiet(void)
{
    ss_log_set_quiet(1);
}

/* Start a process that acts as the next rank: it sends its card and waits to be killed. */
static pid_t start_next_rank(struct ss_peer_death_card *card)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct ss_peer_death own;
        ss_peer_death_describe(&own, 5, 0, card);
        if (write(ends[1], card, sizeof *card) != sizeof *card)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(ends[0], card, sizeof *card), sizeof *card);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static int died_within(struct ss_peer_death *n, int ms)
{
    struct pollfd fd = {.fd = n->fd, .events = POLLIN};
    ck_assert_int_ge(n->fd, 0);
    return poll(&fd, 1, ms) == 1;
}

/* 0: it dies; 1: it dies after the end of the run has begun; 2 to 5: it must not be watched. */
START_TEST(neighbour)
{
    struct ss_peer_death n;
    struct ss_peer_death_card own, next;
    ss_peer_death_describe(&n, 4, 1, &own);
    pid_t pid = start_next_rank(&next);
    ck_assert_int_eq(next.pid, pid);
    ck_assert_uint_ne(next.since, 0);
    next.boot[0] ^= _i == 2;
    next.space_no += _i == 3;
    next.since += _i == 4; /* the process id has been reused */
    own.board = _i == 5 ? -1 : own.board;
    ss_peer_death_open(&n, &own, &own, &next);
    ck_assert_int_eq(n.rank, 5);
    int watched = n.fd >= 0;
    if (_i == 0 && !watched)
        puts("not tested: this kernel has no pidfd_open");
    ck_assert(_i < 2 || !watched);
    ck_assert_int_eq(ss_peer_death_happened(&n), 0);
    ck_assert_int_eq(ss_peer_death_ended(&n), 0);
    if (watched)
        ck_assert_int_eq(died_within(&n, 0), 0);
    if (_i == 1)
        ss_peer_death_end(&n);
    kill(pid, SIGKILL); /* a zombie: the parent has not waited yet */
    if (watched) {
        ck_assert_int_eq(died_within(&n, 30000), 1);
        ck_assert_int_eq(ss_peer_death_happened(&n), _i == 0);
        ck_assert_int_eq(ss_peer_death_ended(&n), 1);
        ck_assert_int_eq(n.fd, -1); /* no second report */
    }
    ck_assert_int_eq(ss_peer_death_happened(&n), 0);
    waitpid(pid, NULL, 0);
    ss_peer_death_close(&n);
    ck_assert_int_eq(ss_peer_death_ended(&n), 0);
}
END_TEST

static void nap_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* Start a stopped process with the environment of rank 7 of the job. */
static pid_t start_stopped_rank(void)
{
    char *words[] = {"sleep", "60", NULL};
    char job[64], *environment[] = {"A=1", job, "PMIX_RANK=7", NULL};
    int state, ends[2];
    snprintf(job, sizeof job, "PMIX_NAMESPACE=%s", getenv("PMIX_NAMESPACE"));
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        execve("/bin/sleep", words, environment);
        _exit(1);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], job, 1), 0); /* it has become sleep */
    close(ends[0]);
    kill(pid, SIGSTOP);
    ck_assert_int_eq(waitpid(pid, &state, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(state));
    return pid;
}

START_TEST(siblings)
{
    char text[256], one[128], other[128], both[256], host[64] = "", job[32];
    snprintf(job, sizeof job, "job.%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1);
    gethostname(host, sizeof host - 1);
    pid_t pid = start_stopped_rank(), second = start_stopped_rank();
    snprintf(one, sizeof one, "; rank 7 (%.40s), which is stopped (process %ld)", host, (long)pid);
    snprintf(other, sizeof other, "; rank 7 (%.40s), which is stopped (process %ld)", host,
             (long)second);
    ss_stopped_ranks_describe(text, sizeof text);
    snprintf(both, sizeof both, "%s%s", pid < second ? one : other, pid < second ? other : one);
    ck_assert_str_eq(text, both);
    kill(second, SIGKILL);
    waitpid(second, NULL, 0);
    ss_stopped_ranks_describe(text, sizeof text);
    ck_assert_str_eq(text, one);
    for (size_t capacity = 1; capacity < 20; capacity++) {
        memset(text, '#', sizeof text);
        ss_stopped_ranks_describe(text, capacity);
        ck_assert_uint_lt(strlen(text), capacity);
        ck_assert_int_eq(text[capacity], '#');
    }
    setenv("PMIX_NAMESPACE", "job.", 1);
    ss_stopped_ranks_describe(text, sizeof text);
    ck_assert_str_eq(text, "");
    setenv("PMIX_NAMESPACE", job, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ss_stopped_ranks_describe(text, sizeof text);
    ck_assert_str_eq(text, "");
}
END_TEST

/* A timeout that is cleared or set again in time does not expire. */
START_TEST(guard_cleared)
{
    ck_assert_int_eq(ss_call_timeout_start(), SS_OK);
    ss_call_timeout_set(0.5, "not this");
    ss_call_timeout_clear();
    nap_ms(1500);
    ss_call_timeout_set(0.5, "not this");
    ss_call_timeout_set(60, "not this");
    nap_ms(1500);
}
END_TEST

/* Exits with code 1. A final timeout cannot be set again or cleared, even by another thread. */
START_TEST(guard)
{
    ck_assert_int_eq(ss_call_timeout_start(), SS_OK);
    if (_i == 0)
        ss_call_timeout_set(0.5, "the end");
    else
        ss_call_timeout_set_final(0.5, "the end");
    for (int i = 0; i < 100; i++) {
        if (_i == 1)
            ss_call_timeout_set(60, "not this");
        if (_i == 2)
            ss_call_timeout_clear();
        nap_ms(100);
    }
    ss_call_timeout_clear();
    exit(0);
}
END_TEST

/* Replace fd by a full pipe without a reader. */
static void block(int fd)
{
    int ends[2];
    char bytes[4096] = {0};
    if (pipe(ends) || fcntl(ends[1], F_SETFL, O_NONBLOCK))
        _exit(2);
    while (write(ends[1], bytes, sizeof bytes) > 0)
        ;
    if (fcntl(ends[1], F_SETFL, 0) || dup2(ends[1], fd) != fd)
        _exit(2);
}

static void *fill_stdout(void *unused)
{
    (void)unused;
    printf("what stays in the stream's buffer\n");
    fflush(stdout);
    return NULL;
}

static void *warn(void *unused)
{
    (void)unused;
    ss_warn("this has no reader");
    return NULL;
}

/* 0: standard output is blocked, 1: standard error, 2: both; one thread blocks in each. */
static void end_with_blocked_output(int blocked, int messages)
{
    pthread_t thread;
    ss_log_set_quiet(0);
    if (ss_call_timeout_start() != SS_OK)
        _exit(2);
    if (blocked == 1)
        dup2(messages, STDOUT_FILENO);
    else
        block(STDOUT_FILENO);
    if (blocked == 0)
        dup2(messages, STDERR_FILENO);
    else
        block(STDERR_FILENO);
    if (blocked != 1 && pthread_create(&thread, NULL, fill_stdout, NULL))
        _exit(2);
    if (blocked != 0 && pthread_create(&thread, NULL, warn, NULL))
        _exit(2);
    nap_ms(200);
    ss_call_timeout_set(0.5, "the end");
    for (;;)
        nap_ms(1000);
}

/* The process must end within 8 s: the timeout, the time for its message, and scheduling delays. */
START_TEST(guard_with_blocked_output)
{
    int ends[2], status;
    char text[256] = "";
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        end_with_blocked_output(_i, ends[1]);
    close(ends[1]);
    int ended = 0;
    for (int i = 0; i < 80 && !ended; i++) {
        nap_ms(100);
        ended = waitpid(pid, &status, WNOHANG) == pid;
    }
    if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    ck_assert_msg(ended, "the timeout does not end the process");
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    ck_assert_int_ge(read(ends[0], text, sizeof text - 1), 0);
    if (_i == 0)
        ck_assert_str_eq(text, "starstep: error: the end\n");
    close(ends[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm_loss");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, quiet, NULL);
    tcase_add_loop_test(tc, neighbour, 0, 6);
    tcase_add_test(tc, siblings);
    tcase_add_test(tc, guard_cleared);
    tcase_add_loop_exit_test(tc, guard, 1, 0, 3);
    if (!getenv("ARCHER")) /* the thread sanitizer's own _exit() flushes standard output */
        tcase_add_loop_test(tc, guard_with_blocked_output, 0, 3);
    tcase_set_timeout(tc, 240);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
