/* test_options.c: what is said of options of other programs (struct ss_option_elsewhere); the limits of ours; which
 * parameters --no-decay and --lr-factor mean. */
#include "core/log.h"
#include "graphs/models.h"
#include "optim/parameter_groups.h"
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

/* Defaults and limits that users know. A new option has no need of a row; a changed one changes it here, too. */
static const struct {
    const char *name;
    double number, min, max;
} golden[] = {
    {"--image-size", 0, 0, 4096},
    {"--dropout", -1, -1, 0.999},
    {"--batch-size", 0, 1, 1 << 24},
    {"--per-rank-batch-size", 0, 1, 1 << 24},
    {"--accumulate", 1, 1, 65536},
    {"--mixup", 0, 0, 1000},
    {"--cutmix", 0, 0, 1000},
    {"--random-erasing", 0, 0, 1},
    {"--label-smoothing", 0, 0, 1 - 1e-7},
    {"--seed", 0, 0, 1LL << 53},
    {"--epochs", 100, 1, 1 << 24},
    {"--max-steps", 0, 0, 1LL << 40},
    {"--target-accuracy", 0.95, 0, 2},
    {"--patience", 2, 1, 1 << 24},
    {"--eval-every", 1, 1, 1 << 24},
    {"--nan-steps", 10, 1, 1 << 30},
    {"--slots", 4, 1, 64},
    {"--base-lr", 0.01, 0, 1e6},
    {"--lr-step", 0, 0, 1 << 24},
    {"--lr-gamma", 0.1, 0, 1e6},
    {"--min-lr", 0, 0, 1e6},
    {"--poly-power", 1, 0, 1000},
    {"--pct-start", 0.3, 0, 1},
    {"--div-factor", 25, 1e-9, 1e12},
    {"--final-div-factor", 10000, 1e-9, 1e12},
    {"--warmup-steps", 0, 0, 1LL << 40},
    {"--warmup-epochs", 0, 0, 1 << 24},
    {"--momentum", -1, 0, 1},
    {"--dampening", 0, 0, 1},
    {"--weight-decay", -1, 0, 1e6},
    {"--beta1", -1, 0, 1 - 1e-7},
    {"--beta2", -1, 0, 1 - 1e-7},
    {"--eps", -1, 1e-30, 1},
    {"--trust", -1, 0, 1e6},
    {"--clip-norm", 0, 0, 1e30},
    {"--ema-decay", 0, 0, 1 - 1e-10},
    {"--init-scale", 65536, 1e-30, 1e38},
    {"--scale-interval", 2000, 1, 1 << 30},
    {"--first-bucket-mb", 0, 0, 1e6},
    {"--last-bucket-mb", 0, 0, 1e6},
    {"--put-off-weights", 0, -1, 65536},
    {"--nccl-ctas", 0, 0, 64},
    {"--timeout", 60, 1, 86400},
    {"--gpu", -1, -1, 1024},
    {"--threads", 0, 0, 1024},
    {"--workers", 0, 0, 256},
    {"--checkpoint-steps", 0, 0, 1LL << 40},
    {"--keep", 0, 0, 1 << 24},
    {"--ranks", 0, 0, 1 << 20},
};

START_TEST(limits)
{
    const struct ss_option_set sets[] = {all_rows(), {0}};
    const struct ss_option *o = ss_option_find(sets, golden[_i].name);
    ck_assert_msg(o != NULL, "no %s", golden[_i].name);
    ck_assert_msg(o->number == golden[_i].number && o->min == golden[_i].min &&
                      o->max == golden[_i].max,
                  "%s: %.17g, from %.17g to %.17g", o->name, o->number, o->min, o->max);
}
END_TEST

/* Of VGG-11 with BatchNorm, which has parameters of every role. */
static void group(struct ss_optim *optim, struct ss_plan *plan, const char *words,
                  const char *factors, struct ss_span *span)
{
    ck_assert_int_eq(ss_optim_words("--no-decay", words, &optim->no_decay), SS_OK);
    optim->lr_factor = factors;
    ck_assert_int_eq(ss_optim_groups(optim, plan, span), SS_OK);
}

START_TEST(groups)
{
    static const struct {
        const char *optimizer, *words;
        int bn_weight, bn_bias,
            bias; /* whether they decay, and for the others whether they are adapted */
    } cases[] = {{"sgd", NULL, 1, 1, 1},
                 {"sgd", "bn", 0, 0, 1},
                 {"sgd", "bias", 1, 0, 0},
                 {"sgd", "bn,bias", 0, 0, 0},
                 {"lars", NULL, 0, 0, 0}};
    const struct ss_model_options model = {NULL, -1, 10, 3, 32, 32};
    const struct ss_plan_options options = {
        .batch = 4, .bucket_mb = 10, .slices = 1, .channel_block = 8};
    struct ss_span span[256];
    struct ss_graph *g;
    struct ss_plan *plan;
    ck_assert_int_eq(ss_model_build("vgg11_bn", &model, &g), SS_OK);
    ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
    ck_assert_int_le(plan->nparams, 256);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ss_optim optim;
        int kinds[4] = {0};
        ck_assert_int_eq(ss_optim_find(cases[c].optimizer, &optim), SS_OK);
        group(&optim, plan, cases[c].words, "features.0.*=0.5,classifier.6.weight=0,features.*=2",
              span);
        for (int i = 0; i < plan->nparams; i++) {
            const struct ss_param *p = ss_graph_param(plan->graph, plan->param[i].graph_param);
            const int bn = p->role == SS_PARAM_GAMMA || p->role == SS_PARAM_BETA;
            const int is_bias = strstr(p->name, ".bias") != NULL;
            const int kind = 2 * bn + is_bias;
            const int decays[] = {1, cases[c].bias, cases[c].bn_weight, cases[c].bn_bias};
            if (plan->param[i].bucket < 0)
                continue;
            kinds[kind]++;
            ck_assert_msg(span[i].decay == decays[kind], "%s %s: %s decays by %g",
                          cases[c].optimizer, cases[c].words ? cases[c].words : "", p->name,
                          span[i].decay);
            ck_assert_msg(span[i].adapt == (!optim.cls->excludes || kind == 0), "%s: adapted",
                          p->name);
            const double lr = !strncmp(p->name, "features.0.", 11)      ? 0.5
                              : !strcmp(p->name, "classifier.6.weight") ? 0
                              : !strncmp(p->name, "features.", 9)       ? 2
                                                                        : 1;
            ck_assert_msg(span[i].lr == lr, "%s: %g times the rate", p->name, span[i].lr);
        }
        for (int k = 0; k < 4; k++)
            ck_assert_int_gt(kinds[k], 0);
    }
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

int main(void)
{
    ss_log_set_quiet(1);
    Suite *suite = suite_create("options");
    TCase *tc = tcase_create("of others");
    tcase_add_test(tc, names);
    tcase_add_loop_test(tc, said, 0, sizeof of_others / sizeof *of_others);
    tcase_add_loop_test(tc, limits, 0, sizeof golden / sizeof *golden);
    tcase_add_test(tc, groups);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
