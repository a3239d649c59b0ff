/* test_schedule.c: compares the learning rates with those of PyTorch's schedulers
 * (tests/reference/schedules.txt), checks refused combinations of options, and a run resumed with
 * another global batch size. */
#include "apps/commands/option_help.h"
#include "core/log.h"
#include "tests/run_suite.h"
#include "train/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1024, STEPS = 7 };

/* Parse the words of text, which is modified and must outlive the options. */
static struct ss_train_options parse(char *text)
{
    struct ss_train_options o;
    const struct ss_option_set sets[] = {ss_train_option_set(&o, SS_TRAIN_OF_TRAIN), {0}};
    char *words[32] = {(char *)"train"}, *rest = NULL;
    int n = 1;
    for (char *w = strtok_r(text, " \n", &rest); w && n < 32; w = strtok_r(NULL, " \n", &rest))
        words[n++] = w;
    ck_assert_int_eq(ss_options_command("", sets, n, words), -1);
    return o;
}

START_TEST(as_pytorch)
{
    const char *srcdir = getenv("srcdir");
    char path[4096], *options = NULL, *rates = NULL;
    size_t capacity[2] = {0};
    int cases = 0;
    snprintf(path, sizeof path, "%s/tests/reference/schedules.txt", srcdir ? srcdir : ".");
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    for (; getline(&options, &capacity[0], f) > 0 && getline(&rates, &capacity[1], f) > 0;
         cases++) {
        struct ss_schedule s;
        char *at = options;
        const struct ss_train_course course = {.batch = BATCH,
                                               .steps_per_epoch = strtol(options, &at, 10)};
        const struct ss_train_options o = parse(at);
        ck_assert_int_eq(ss_train_schedule(&o, &course, &s), SS_OK);
        int64_t k = 0;
        char *end = rates;
        for (char *next = rates; *next && *next != '\n'; next = end, k++) {
            double expected = strtod(next, &end), lr = ss_schedule_lr(&s, k);
            ck_assert_msg(fabs(lr - expected) <= 1e-12 * fabs(expected),
                          "case %d, step %lld: %.17g instead of %.17g", cases, (long long)k, lr,
                          expected);
        }
        ck_assert_int_eq(k, s.length);
    }
    free(options);
    free(rates);
    fclose(f);
    ck_assert_int_ge(cases, 19);
}
END_TEST

static double rate_at(const char *options, struct ss_train_course course, int64_t k)
{
    char text[256];
    struct ss_schedule s;
    snprintf(text, sizeof text, "%s", options);
    const struct ss_train_options o = parse(text);
    ck_assert_int_eq(ss_train_schedule(&o, &course, &s), SS_OK);
    return ss_schedule_lr(&s, k);
}

/* After 5 of 10 epochs with a doubled batch size, half of the schedule is done, although only 35
 * steps were made. --max-steps counts the steps made. */
START_TEST(another_batch)
{
    const struct ss_train_course first = {.batch = BATCH, .steps_per_epoch = 2 * STEPS},
                                 then = {.batch = 2 * BATCH,
                                         .steps_per_epoch = STEPS,
                                         .at = 5 * STEPS,
                                         .steps = 10 * STEPS};
    const char *cosine = "--schedule cosine --epochs 10",
               *cut = "--schedule cosine --epochs 10 --max-steps 98";
    ck_assert_double_eq(rate_at(cosine, first, 10 * STEPS), rate_at(cosine, then, 5 * STEPS));
    ck_assert_double_eq(rate_at(cosine, then, 10 * STEPS), 0);
    ck_assert_double_gt(rate_at(cut, then, 9 * STEPS - 1), 0);
    ck_assert_double_eq(rate_at(cut, then, 9 * STEPS), 0);
}
END_TEST

static const struct refusal {
    const char *options, *says;
} refusals[] = {
    {"--schedule cosin", "--schedule: \"cosin\" is not constant, step, multistep, cosine, poly or "
                         "onecycle"},
    {"--schedule cosine --lr-step 3", "--schedule cosine has no --lr-step; leave it out, or give "
                                      "--schedule step"},
    {"--min-lr 0.1", "--schedule step has no --min-lr; leave it out, or give --schedule cosine"},
    {"--schedule cosine --poly-power 2", "--schedule cosine has no --poly-power"},
    {"--milestones 3", "--schedule step has no --milestones"},
    {"--schedule multistep", "--schedule multistep needs --milestones, such as 60,120"},
    {"--schedule multistep --milestones 3,x", "--milestones: \"3,x\" is not a list of 2"},
    {"--schedule multistep --milestones 0", "--milestones: 0 is out of range"},
    {"--warmup-steps 3 --warmup-epochs 0.5", "--warmup-steps 3 and --warmup-epochs 0.5 are the "
                                             "same in two units; give one of them"},
    {"--schedule onecycle --warmup-steps 3",
     "--schedule onecycle has its own warmup (--pct-start); "
     "leave --warmup-steps out"},
    {"--schedule onecycle --warmup-epochs 3", "leave --warmup-epochs out"},
    {"--lr-scale linear", "--lr-scale: \"linear\" is not none, or linear or sqrt with the batch"},
    {"--lr-scale lin:256", "--lr-scale: \"lin:256\" is not none"},
    {"--lr-scale none:256", "--lr-scale: \"none:256\" is not none"},
    {"--lr-scale sqrt:", "--lr-scale: \"sqrt:\" is not none"},
    {"--lr-scale sqrt:25x", "--lr-scale: \"sqrt:25x\" is not none"},
    {"--lr-scale linear:0", "--lr-scale: \"linear:0\" is not none"},
};

START_TEST(refused)
{
    char text[256];
    struct ss_schedule s;
    const struct ss_train_course course = {.batch = 1, .steps_per_epoch = 1};
    snprintf(text, sizeof text, "%s", refusals[_i].options);
    const struct ss_train_options o = parse(text);
    ck_assert_int_eq(ss_train_schedule(&o, &course, &s), SS_ERR_INVALID);
    ck_assert_msg(strstr(ss_log_last_error(), refusals[_i].says) != NULL,
                  "\"%s\" does not contain \"%s\"", ss_log_last_error(), refusals[_i].says);
}
END_TEST

int main(void)
{
    ss_log_set_quiet(1);
    Suite *suite = suite_create("schedule");
    TCase *tc = tcase_create("rates");
    tcase_add_test(tc, as_pytorch);
    tcase_add_test(tc, another_batch);
    tcase_add_loop_test(tc, refused, 0, sizeof refusals / sizeof *refusals);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
