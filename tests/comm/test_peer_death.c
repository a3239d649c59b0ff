/* test_peer_death.c: a child process acts as the next rank of the node. Its death is detected
 * immediately and reported once. A process whose id may refer to another process is not watched. */
#include "comm/peer_death.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* This process is rank 0, the first of its node; the child is rank 1. */
static struct ss_peer_death neighbour, of_child;
static struct ss_peer_death_card own, next;
static pid_t child;

static void begin(void)
{
    int ends[2];
    ss_peer_death_describe(&neighbour, 0, 1, &own);
    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        ss_peer_death_describe(&of_child, 1, 0, &next);
        if (write(ends[1], &next, sizeof next) != (ssize_t)sizeof next)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(ends[0], &next, sizeof next), sizeof next);
    close(ends[0]);
    close(ends[1]);
}

static void kill_child(void)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void end(void)
{
    kill_child();
    ss_peer_death_close(&neighbour);
}

/* 1: the kernel supports pidfd_open, so deaths must be detected. */
static int can_watch(void)
{
#ifdef SYS_pidfd_open
    const int fd = (int)syscall(SYS_pidfd_open, getpid(), 0u);
    if (fd >= 0)
        close(fd);
    return fd >= 0 && own.board >= 0;
#else
    return 0;
#endif
}

static void open_both(void)
{
    ss_peer_death_open(&neighbour, &own, &own, &next);
    ck_assert_int_eq(neighbour.rank, 1);
    ck_assert_int_eq(neighbour.pid, child);
}

START_TEST(cards)
{
    ck_assert_int_eq(own.rank, 0);
    ck_assert_int_eq(next.rank, 1);
    ck_assert_int_eq(own.pid, getpid());
    ck_assert_int_eq(next.pid, child);
    ck_assert(own.since != 0 && next.since >= own.since);
    ck_assert_str_ne(own.boot, "");
    ck_assert_str_eq(own.boot, next.boot);
    ck_assert_uint_ne(own.space_no, 0);
    ck_assert_uint_eq(own.space_no, next.space_no);
    ck_assert_uint_eq(own.space_dev, next.space_dev);
    ck_assert_int_eq(next.board, -1);
}
END_TEST

START_TEST(dies)
{
    if (!can_watch())
        return;
    open_both();
    ck_assert_int_ge(neighbour.fd, 0);
    ck_assert_int_eq(ss_peer_death_happened(&neighbour), 0);
    ck_assert_int_eq(ss_peer_death_ended(&neighbour), 0);
    kill(child, SIGKILL);
    struct pollfd dead = {.fd = neighbour.fd, .events = POLLIN};
    ck_assert_int_eq(poll(&dead, 1, 20000), 1);
    ck_assert_int_eq(ss_peer_death_happened(&neighbour), 1);
    ck_assert_int_eq(ss_peer_death_happened(&neighbour), 0);
    ck_assert_int_eq(ss_peer_death_ended(&neighbour), 1);
}
END_TEST

START_TEST(dies_after_the_end)
{
    if (!can_watch())
        return;
    open_both();
    ss_peer_death_end(&neighbour);
    ck_assert_int_eq(ss_peer_death_ended(&neighbour), 1);
    kill_child();
    ck_assert_int_eq(ss_peer_death_happened(&neighbour), 0);
}
END_TEST

static void other_boot(void)
{
    next.boot[0] ^= 1;
}

static void no_boots(void)
{
    memset(own.boot, 0, sizeof own.boot);
    memset(next.boot, 0, sizeof next.boot);
}

static void other_space(void)
{
    next.space_no++;
}

static void other_space_device(void)
{
    next.space_dev++;
}

static void itself(void)
{
    next.pid = own.pid;
}

static void another_with_its_number(void)
{
    next.since++;
}

static void unknown_beginning(void)
{
    next.since = 0;
}

static void no_board(void)
{
    close(neighbour.own_board);
    neighbour.own_board = own.board = -1;
}

static void no_such_board(void)
{
    own.board = 1000000;
}

static void (*const spoil[])(void) = {other_boot,         no_boots, other_space,
                                      other_space_device, itself,   another_with_its_number,
                                      unknown_beginning,  no_board, no_such_board};

START_TEST(not_watched)
{
    spoil[_i]();
    ss_peer_death_open(&neighbour, &own, &own, &next);
    ck_assert_int_eq(neighbour.fd, -1);
    kill_child();
    ck_assert_int_eq(ss_peer_death_happened(&neighbour), 0);
    ck_assert_int_eq(ss_peer_death_ended(&neighbour), 0);
    ss_peer_death_end(&neighbour);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("neighbour");
    TCase *t = tcase_create("neighbour");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, cards);
    tcase_add_test(t, dies);
    tcase_add_test(t, dies_after_the_end);
    tcase_add_loop_test(t, not_watched, 0, (int)(sizeof spoil / sizeof *spoil));
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
