/* test_options.c: what is said of options of other programs (struct ss_option_elsewhere). */
#include "core/log.h"
#include "tests/run_suite.h"
#include "train/options.h"

#include <stdio.h>
#include <string.h>

static struct ss_train_options values;

static struct ss_option_set all_rows(void)
{
    return ss_train_option_set(&values, SS_TRAIN_OF_TRAIN);
}

/* None of these names is an option here, and every option that is named instead is one. */
START_TEST(names)
{
    const struct ss_option_set sets[] = {all_rows(), {0}};
    int n = 0, named = 0;
    for (const struct ss_option_elsewhere *e = sets->elsewhere; e->name; e++, n++) {
        ck_assert_msg(!ss_option_find(sets, e->name), "%s is an option", e->name);
        for (const char *at = e->here; (at = strstr(at, "--")); at += 2, named++) {
            char name[64];
            snprintf(name, sizeof name, "%.*s",
                     (int)(2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-")), at);
            ck_assert_msg(ss_option_find(sets, name) != NULL, "%s: no option %s", e->name, name);
        }
    }
    ck_assert_int_gt(n, 20);
    ck_assert_int_gt(named, 15);
}
END_TEST

static const struct {
    const char *word, *says;
} of_others[] = {
    {"--lr", "train: unknown option --lr: it is --base-lr here"},
    {"--lr=0.1", "it is --base-lr here"},
    {"--amp", "it is --precision bf16 here"},
    {"--num-workers", "it is --workers here"},
    {"--num_workers=4", "unknown option --num_workers: it is --workers here"},
    {"--gpus", "starstep launch -n 4 train"},
    {"--nproc_per_node=4", "starstep launch"},
    {"--lr-of-other-kinds", "unknown option --lr-of-other-kinds; see starstep train --help"},
};

START_TEST(said)
{
    const struct ss_option_set sets[] = {all_rows(), {0}};
    char train[] = "train", word[64];
    snprintf(word, sizeof word, "%s", of_others[_i].word);
    char *words[] = {train, word};
    ck_assert_int_eq(ss_options_command("", sets, 2, words), 2);
    ck_assert_msg(strstr(ss_log_last_error(), of_others[_i].says) != NULL, "\"%s\" lacks \"%s\"",
                  ss_log_last_error(), of_others[_i].says);
}
END_TEST

int main(void)
{
    ss_log_set_quiet(1);
    Suite *suite = suite_create("options");
    TCase *tc = tcase_create("of others");
    tcase_add_test(tc, names);
    tcase_add_loop_test(tc, said, 0, sizeof of_others / sizeof *of_others);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
