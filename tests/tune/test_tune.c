/* test_tune.c: the choice of trials and the result of a search, with simulated run times; the
 * significance test. */
#include "tests/run_suite.h"
#include "core/rng.h"
#include "apps/tune/tune.h"

#include <math.h>
#include <string.h>

/* ---- p-values ---- */

START_TEST(chances_are_those_of_tables)
{
    /* Example of scipy.stats.mannwhitneyu: ages at which diabetes was diagnosed. */
    const double men[] = {19, 22, 16, 29, 24}, women[] = {20, 11, 17, 12};
    const double low[] = {1, 2, 3, 4}, high[] = {5, 6, 7, 8}, mixed[] = {1, 6, 3, 8};
    ck_assert_double_eq_tol(ss_tune_p_value(men, 5, women, 4), 1. / 9, 1e-12);
    ck_assert_double_eq_tol(ss_tune_p_value(women, 4, men, 5), 1. / 9, 1e-12);
    /* All of one sample above all of the other: 2 of 70 orders. */
    ck_assert_double_eq_tol(ss_tune_p_value(low, 4, high, 4), 2. / 70, 1e-12);
    ck_assert_double_eq_tol(ss_tune_p_value(low, 2, high, 4), 2. / 15, 1e-12);
    ck_assert_double_eq_tol(ss_tune_p_value(low, 4, mixed, 4), 0.485714285714285, 1e-12);
    ck_assert_double_eq(ss_tune_p_value(low, 4, low, 4), 1);
    ck_assert_double_eq(ss_tune_p_value(low, 0, low, 4), 1);
}
END_TEST

/* Of all orders of two samples, at most a fraction p has a p-value of at most p. */
START_TEST(chances_are_kept)
{
    enum { A = 4, B = 5, ALL = A + B };
    int orders = 0, below[3] = {0};
    const double limit[] = {0.05, 0.2, 0.5};
    for (unsigned bits = 0; bits < 1u << ALL; bits++) {
        double a[ALL], b[ALL];
        size_t na = 0, nb = 0;
        for (int i = 0; i < ALL; i++)
            if (bits & 1u << i)
                a[na++] = i;
            else
                b[nb++] = i;
        if (na != A)
            continue;
        orders++;
        for (int i = 0; i < 3; i++)
            below[i] += ss_tune_p_value(a, na, b, nb) <= limit[i] + 1e-12;
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_le(below[i], (int)(limit[i] * orders));
        ck_assert_int_gt(below[i], 0);
    }
}
END_TEST

/* ---- trials ---- */

enum { IMAGES = 64 };

static struct ss_tune_options options;

/* As "starstep tune slots=2,3,... -- --batch-size 64" does. */
static void open_tune(struct ss_tune *t, const char *const *word, size_t words)
{
    options = (struct ss_tune_options){.dir = "none",
                                       .minutes = 1000,
                                       .seconds = 1,
                                       .rounds = 5,
                                       .ranks = 1,
                                       .nodes = 1,
                                       .seed = 7};
    *t = (struct ss_tune){
        .options = &options, .train = ss_train_defaults(), .cores = 8, .batch = IMAGES};
    ck_assert_int_eq(ss_tune_add(t, (char *const *)word, words), SS_OK);
}

/* A simulated machine: the baseline runs at 100 images/s. */
struct machine {
    double noise;        /* relative standard deviation of a run's rate */
    const char *fast[2]; /* each of these settings is 1.05 times as fast */
    const char *slow;    /* half as fast */
    const char *bad;     /* fails */
    struct ss_rng rng;
};

static void run_once(struct ss_tune *t, struct machine *m, const struct ss_tune_trial *trial)
{
    struct ss_tune_result run = {.trial = *trial, .seconds = 2};
    const char *rest = trial->label;
    const struct ss_tune_setting *s;
    run.rate = 100 * (1 + m->noise * ss_rng_normal(&m->rng));
    while ((s = ss_tune_next_setting(t, &rest))) {
        for (int i = 0; i < 2; i++)
            if (m->fast[i] && !strcmp(s->label, m->fast[i]))
                run.rate *= 1.05;
        if (m->slow && !strcmp(s->label, m->slow))
            run.rate /= 2;
        if (m->bad && !strcmp(s->label, m->bad))
            run.error = strdup("made to fail");
    }
    if (run.error)
        run.rate = 0;
    t->results = realloc(t->results, (t->nresults + 1) * sizeof *t->results);
    ck_assert_ptr_nonnull(t->results);
    t->results[t->nresults++] = run;
}

static void run_all(struct ss_tune *t, struct machine *m, uint64_t seed)
{
    struct ss_tune_trial trial;
    ss_rng_open(&m->rng, seed, SS_RNG_SYNTHETIC, 0, 0);
    while (ss_tune_next_trial(t, &trial)) {
        ck_assert_uint_lt(t->nresults, 1000);
        run_once(t, m, &trial);
    }
}

static size_t count(const struct ss_tune *t, enum ss_tune_stage stage, const char *label)
{
    size_t n = 0;
    for (size_t i = 0; i < t->nresults; i++)
        n += t->results[i].trial.stage == stage && !strcmp(t->results[i].trial.label, label);
    return n;
}

static const char *const words[] = {"slots=2,3,6,8", "STARPU_SCHED=lws,eager", "threads=3",
                                    "workers=2"};
enum { WORDS = 4, SETTINGS = 8 };

START_TEST(each_runs_once_a_round)
{
    struct ss_tune t;
    struct machine m = {.noise = 0.01, .slow = "slots=2", .bad = "slots=3"};
    open_tune(&t, words, WORDS);
    ck_assert_uint_eq(t.nsettings, SETTINGS);
    run_all(&t, &m, 1);
    ck_assert_int_eq(t.results[0].trial.stage, SS_TUNE_PROBE);
    ck_assert_uint_eq(count(&t, SS_TUNE_PROBE, SS_TUNE_BASELINE), 1);
    ck_assert_uint_eq(count(&t, SS_TUNE_SINGLE, SS_TUNE_BASELINE), 5);
    ck_assert_uint_eq(count(&t, SS_TUNE_SINGLE, SS_TUNE_REPEAT), 5);
    ck_assert_uint_eq(count(&t, SS_TUNE_SINGLE, "slots=8"), 5);
    ck_assert_uint_eq(count(&t, SS_TUNE_SINGLE, "slots=2"), 3); /* clearly slower */
    ck_assert_uint_eq(count(&t, SS_TUNE_SINGLE, "slots=3"), 1);
    for (size_t i = 2; i < t.nresults; i++) /* a round ends before the next one starts */
        ck_assert(t.results[i].trial.stage > t.results[i - 1].trial.stage ||
                  t.results[i].trial.round >= t.results[i - 1].trial.round);
    ss_tune_close(&t);
}
END_TEST

/* Orders differ between rounds and between seeds. */
START_TEST(orders_are_of_chance)
{
    char order[2][4][4096] = {{{0}}};
    for (int seed = 0; seed < 2; seed++) {
        struct ss_tune t;
        struct machine m = {.noise = 0.01};
        open_tune(&t, words, WORDS);
        options.seed = seed;
        run_all(&t, &m, 1);
        for (size_t i = 1; i < t.nresults; i++)
            if (t.results[i].trial.stage == SS_TUNE_SINGLE && t.results[i].trial.round <= 3)
                strcat(order[seed][t.results[i].trial.round], t.results[i].trial.label);
        ss_tune_close(&t);
    }
    ck_assert_str_ne(order[0][1], order[0][2]);
    ck_assert_str_ne(order[0][2], order[0][3]);
    ck_assert_str_ne(order[0][1], order[1][1]);
}
END_TEST

/* Two settings with a gain of 5 % each are found together despite 1 % noise. */
START_TEST(what_is_faster_is_found)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        char label[SS_TUNE_LABEL] = "";
        struct ss_tune t;
        struct machine m = {
            .noise = 0.01, .fast = {"slots=6", "STARPU_SCHED=lws"}, .slow = "threads=3"};
        open_tune(&t, words, WORDS);
        run_all(&t, &m, seed);
        ck_assert(ss_tune_best(&t, label));
        ck_assert_ptr_nonnull(strstr(label, "slots=6"));
        ck_assert_ptr_nonnull(strstr(label, "STARPU_SCHED=lws"));
        ck_assert_double_eq_tol(ss_tune_compare(&t, SS_TUNE_COMBINED, label).ratio, 1.1025, 0.02);
        ss_tune_close(&t);
    }
}
END_TEST

/* If no setting has an effect, at most one of 25 searches reports one. */
START_TEST(noise_is_not_taken_for_an_effect)
{
    enum { CASES = 200 };
    int found = 0, tried = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        char all[SS_TUNE_LABEL], best[SS_TUNE_LABEL];
        struct ss_tune t;
        struct machine m = {.noise = 0.05};
        open_tune(&t, words, WORDS);
        options.seed = (long)seed;
        run_all(&t, &m, seed);
        ss_tune_select(&t, all, best);
        tried += *all != '\0';
        found += ss_tune_best(&t, all);
        ss_tune_close(&t);
    }
    ck_assert_int_gt(tried, 10); /* fresh runs reject them */
    ck_assert_int_le(25 * found, CASES);
}
END_TEST

START_TEST(time_is_kept)
{
    struct ss_tune t;
    struct machine m = {.noise = 0.01, .fast = {"slots=6"}};
    open_tune(&t, words, WORDS);
    options.minutes = 2; /* 60 runs */
    run_all(&t, &m, 3);
    ck_assert_double_le(ss_tune_elapsed(&t), 120);
    ck_assert_double_ge(ss_tune_elapsed(&t), 84);
    ck_assert_uint_ge(count(&t, SS_TUNE_COMBINED, "slots=6"), 6);
    const size_t before = t.nresults;
    options.minutes = 4; /* resumes */
    options.rounds = 20;
    run_all(&t, &m, 4);
    ck_assert_uint_gt(t.nresults, before);
    ck_assert_double_le(ss_tune_elapsed(&t), 240);
    for (size_t i = 0; i < t.nresults; i++)
        for (size_t k = 0; k < i; k++)
            ck_assert(t.results[i].trial.stage != t.results[k].trial.stage ||
                      t.results[i].trial.round != t.results[k].trial.round ||
                      strcmp(t.results[i].trial.label, t.results[k].trial.label));
    ss_tune_close(&t);
}
END_TEST

/* "threads" is not combined with "ranks": it was measured with other cores per rank. */
START_TEST(ranks_decide_the_threads)
{
    const char *const two[] = {"ranks=2", "threads=3"};
    char all[SS_TUNE_LABEL], best[SS_TUNE_LABEL];
    struct ss_tune t;
    struct machine m = {.noise = 0.001, .fast = {"ranks=2", "threads=3"}};
    open_tune(&t, two, 2);
    run_all(&t, &m, 5);
    ss_tune_select(&t, all, best);
    ck_assert_str_eq(all, "ranks=2");
    ck_assert_int_eq(ss_tune_ranks(&t, all), 2);
    ss_tune_close(&t);
}
END_TEST

START_TEST(steps_follow_the_trial)
{
    struct ss_tune t;
    struct machine m = {.noise = 0};
    struct ss_tune_trial trial;
    open_tune(&t, words, WORDS);
    ck_assert_int_eq(ss_tune_steps(&t, SS_TUNE_SINGLE).measured, 8);
    ck_assert(ss_tune_next_trial(&t, &trial));
    run_once(&t, &m, &trial); /* 0.64 s per step */
    ck_assert_int_eq(ss_tune_steps(&t, SS_TUNE_SINGLE).measured, 10);
    options.seconds = 64;
    ck_assert_int_eq(ss_tune_steps(&t, SS_TUNE_SINGLE).measured, 100);
    ck_assert_int_eq(ss_tune_steps(&t, SS_TUNE_SINGLE).warmup, 10);
    ck_assert_double_gt(ss_tune_deadline(&t), 60 + 5 * 64);
    ss_tune_close(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tune");
    TCase *tc = tcase_create("tune");
    tcase_add_test(tc, chances_are_those_of_tables);
    tcase_add_test(tc, chances_are_kept);
    tcase_add_test(tc, each_runs_once_a_round);
    tcase_add_test(tc, orders_are_of_chance);
    tcase_add_test(tc, what_is_faster_is_found);
    tcase_add_test(tc, noise_is_not_taken_for_an_effect);
    tcase_add_test(tc, time_is_kept);
    tcase_add_test(tc, ranks_decide_the_threads);
    tcase_add_test(tc, steps_follow_the_trial);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
