/* test_program.c: a program with libstarstep linked in reports no library. This test compiles in
 * program.c. */
#include "core/program.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <stdio.h>
#include <string.h>

START_TEST(linked_in)
{
    struct ss_program p;
    memset(&p, '#', sizeof p);
    ss_program_identify(&p);
    ck_assert_ptr_nonnull(strstr(p.program.path, "test_program"));
    char command[SS_PROGRAM_PATH + 32], sum[SS_PROGRAM_HASH];
    snprintf(command, sizeof command, "sha256sum '%s'", p.program.path);
    FILE *said = popen(command, "r");
    ck_assert_ptr_nonnull(said);
    ck_assert_ptr_nonnull(fgets(sum, sizeof sum, said)); /* its first 64 characters */
    pclose(said);
    ck_assert_str_eq(p.program.sha256, sum);
    ck_assert_str_eq(p.library.path, "");
    ck_assert_str_eq(p.library.sha256, "none");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program");
    TCase *t = tcase_create("program");
    tcase_add_test(t, linked_in);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
