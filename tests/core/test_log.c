/* test_log.c: error messages of several threads simultaneously. */
#include "core/clock.h"
#include "core/log.h"
#include "tests/data_common.h"

#include "tests/assert.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { LETTERS = 1500, LOOK_S = 2 };

static atomic_int ending;

/* Fails repeatedly, with messages that repeat one letter. */
static void *fail_always(void *letter)
{
    char text[LETTERS + 1];
    memset(text, *(const char *)letter, LETTERS);
    text[LETTERS] = '\0';
    do
        ss_fail(SS_ERR_INVALID, "%s", text);
    while (!atomic_load(&ending));
    return NULL;
}

/* The last error is one thread's message, and it does not change while it is read. */
START_TEST(last_error)
{
    pthread_t thread[2];
    ss_log_set_quiet(1);
    ss_fail(SS_ERR_INVALID, "first");
    ck_assert_str_eq(ss_log_last_error(), "first");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, fail_always, i ? "b" : "a"), 0);
    const double end = ss_seconds() + LOOK_S;
    for (int i = 0; ss_seconds() < end; i++) {
        const char *text = ss_log_last_error();
        size_t n = strspn(text, "a");
        n = n ? n : strspn(text, "b");
        if (strcmp(text, "first"))
            ck_assert_msg(n == LETTERS && !text[n], "mixed messages: %s", text);
        ss_log_set_rank(i % 4, 4);
    }
    atomic_store(&ending, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    ck_assert_str_ne(ss_log_last_error(), "first"); /* other threads' errors, too */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, last_error);
    tcase_set_timeout(tc, 240);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
