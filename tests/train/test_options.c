/* test_options.c: options of other programs, with their aliases and messages; help; limits; the
 * parameters selected by --no-decay and --lr-factor; options of the optimizers. */
#include "apps/commands/option_help.h"
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

/* The names of other programs' options are not options here, and the suggested options exist. */
START_TEST(names)
{
    const struct ss_option_set sets[] = {all_rows(), {0}};
    int n = 0, named = 0;
    for (const struct ss_option_elsewhere *e = sets->elsewhere; e->name; e++, n++) {
        ck_assert_msg(!ss_option_find(sets, e->name), "%s is an option", e->name);
        for (const char *at = e->here; (at = strstr(at, "--")); at += 2, named++) {
            char name[64];
            snprintf(name, sizeof name, "%.*s",
                     (int)(2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz0123456789-")), at);
            ck_assert_msg(ss_option_find(sets, name) != NULL, "%s: no option %s", e->name, name);
        }
    }
    ck_assert_int_gt(n, 20);
    ck_assert_int_gt(named, 15);
}
END_TEST

/* Each alias and each former name belongs to exactly one option. */
START_TEST(aliases)
{
    const struct ss_option_set sets[] = {all_rows(), {0}};
    struct ss_option_row r = {.set = sets};
    int n = 0;
    while (ss_option_next(&r)) {
        char text[256], *rest = text;
        snprintf(text, sizeof text, "%s %s", r.option->aliases ? r.option->aliases : "",
                 r.option->former ? r.option->former : "");
        for (const char *name; (name = strsep(&rest, " "));)
            if (*name) {
                ck_assert_msg(ss_option_find(sets, name) == r.option, "%s", name);
                n++;
            }
    }
    ck_assert_int_gt(n, 40);
}
END_TEST

/* Options of PyTorch's examples, torchvision's references, timm, Transformers and Lightning. */
static const struct {
    const char *words[2], *name, *value;
} of_scripts[] = {
    {{"--lr", "0.1"}, "--base-lr", "0.1"},
    {{"--learning_rate=0.5", NULL}, "--base-lr", "0.5"},
    {{"--wd", "0"}, "--weight-decay", "0"},
    {{"-a", "resnet18"}, "--model", "resnet18"},
    {{"-b", "64"}, "--batch-size", "64"},
    {{"-j4", NULL}, "--workers", "4"},
    {{"--num_workers", "3"}, "--workers", "3"},
    {{"--opt", "adamw"}, "--optimizer", "adamw"},
    {{"--sched", "cosine"}, "--schedule", "cosine"},
    {{"--gradient-accumulation-steps", "8"}, "--accumulate", "8"},
    {{"--grad-accum-steps", "2"}, "--accumulate", "2"},
    {{"--model-ema-decay", "0.99"}, "--ema-decay", "0.99"},
    {{"--smoothing", "0.5"}, "--label-smoothing", "0.5"},
    {{"--dry-run", NULL}, "--check", "1"},
    {{"--config", "x.json"}, "--recipe", "x.json"},
    {{"--amp", "bfloat16"}, "--precision", "bf16"},
    {{"--precision", "16-mixed"}, "--precision", "fp16"},
    {{"--mixed_precision", "no"}, "--precision", "fp32"},
    {{"--max_epochs", "7"}, "--epochs", "7"},
    {{"--clip-grad", "5"}, "--clip-norm", "5"},
    {{"--put-off-weights", "3"}, "--defer-weight-grads", "3"},
};

START_TEST(scripts)
{
    const struct ss_option_set sets[] = {all_rows(), {0}};
    char train[] = "train", word[2][64], text[SS_OPTION_TEXT_CAPACITY];
    char *words[] = {train, word[0], word[1]};
    int n = 1;
    for (; n < 3 && of_scripts[_i].words[n - 1]; n++)
        snprintf(words[n], sizeof word[0], "%s", of_scripts[_i].words[n - 1]);
    ss_log_set_quiet(1);
    ck_assert_int_eq(ss_options_command("", sets, n, words), -1);
    ck_assert_str_eq(ss_option_text(ss_option_find(sets, of_scripts[_i].name), &values, text),
                     of_scripts[_i].value);
}
END_TEST

/* The help fits on one screen: 25 options, one line each. Defaults are never printed as -1. */
START_TEST(help)
{
    const struct ss_option_set sets[] = {all_rows(), {0}};
    char *out = NULL, *rest;
    size_t bytes = 0, lines = 0, options = 0;
    for (int all = 0; all <= 1; all++) {
        FILE *f = open_memstream(&out, &bytes);
        ck_assert_ptr_nonnull(f);
        values = ss_train_defaults();
        ss_options_print(f, sets, "train", all ? SS_HELP_ALL : SS_HELP_COMMON);
        fclose(f);
        ck_assert_ptr_null(strstr(out, "(default: -1)"));
        rest = out;
        for (const char *line; !all && (line = strsep(&rest, "\n")); lines++) {
            options += !strncmp(line, "  --", 4);
            ck_assert_msg(strlen(line) <= 100 && strncmp(line, "     ", 5) != 0, "%s", line);
        }
        free(out);
    }
    ck_assert_uint_eq(options, 25);
    ck_assert_uint_le(lines, 48);
}
END_TEST

static const struct {
    const char *word, *says;
} of_others[] = {
    {"--fp16", "train: unknown option --fp16: use --precision fp16"},
    {"--amp", "train: --amp needs a value (fp32|bf16|fp16)"},
    {"--opt_betas=0.9", "unknown option --opt_betas: use --beta1 and --beta2"},
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
    ck_assert_msg(strstr(ss_log_last_error(), of_others[_i].says) != NULL,
                  "\"%s\" does not contain \"%s\"", ss_log_last_error(), of_others[_i].says);
}
END_TEST

/* Documented defaults and limits. A new option needs no row; a changed option must be changed here,
 * too. */
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
    {"--eval-every", 1, 0, 1 << 24},
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
    {"--defer-weight-grads", 0, -1, 65536},
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

/* Parameter groups of VGG-11 with BatchNorm, which has parameters of all roles. */
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
        int bn_weight, bn_bias, bias; /* whether these parameters have weight decay */
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
            ck_assert_msg(span[i].lr == lr, "%s: factor %g", p->name, span[i].lr);
        }
        for (int k = 0; k < 4; k++)
            ck_assert_int_gt(kinds[k], 0);
    }
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

static const struct {
    const char *pattern, *said;
} factors_refused[] = {
    {"fc", "--lr-factor: \"fc\" is not PATTERN=F with a factor from 0, such as fc.*=10"},
    {"=2", "\"=2\" is not PATTERN=F"},
    {"fc=", "\"fc=\" is not PATTERN=F"},
    {"fc=2x,a=1", "\"fc=2x\" is not PATTERN=F"},
    {"*=1,fc=-1", "\"fc=-1\" is not PATTERN=F"},
    {"fc=inf", "\"fc=inf\" is not PATTERN=F"},
    {"fc=nan", "\"fc=nan\" is not PATTERN=F"},
    {"features.*=2,features.0.*=3", "--lr-factor: features.0.* fits no parameter of vgg11_bn, or "
                                    "only those of an earlier pattern; "
                                    "names are as in its checkpoints, such as classifier.6.weight"},
};

START_TEST(factors)
{
    const struct ss_model_options model = {NULL, -1, 10, 3, 32, 32};
    const struct ss_plan_options options = {
        .batch = 4, .bucket_mb = 10, .slices = 1, .channel_block = 8};
    struct ss_span span[256];
    struct ss_graph *g;
    struct ss_plan *plan;
    struct ss_optim optim;
    char longest[320];
    ck_assert_int_eq(ss_model_build("vgg11_bn", &model, &g), SS_OK);
    ck_assert_int_eq(ss_plan_lower(g, &options, &plan), SS_OK);
    ck_assert_int_eq(ss_optim_find("sgd", &optim), SS_OK);
    for (size_t i = 0; i < sizeof factors_refused / sizeof *factors_refused; i++) {
        optim.lr_factor = factors_refused[i].pattern;
        ck_assert_int_eq(ss_optim_groups(&optim, plan, span), SS_ERR_INVALID);
        ck_assert_msg(strstr(ss_log_last_error(), factors_refused[i].said) != NULL, "%s",
                      ss_log_last_error());
    }
    /* A pattern has at most 255 characters. */
    optim.lr_factor = longest;
    snprintf(longest, sizeof longest, "%*s=2", 255, "*");
    memset(longest, '*', 254);
    ck_assert_int_eq(ss_optim_groups(&optim, plan, span), SS_OK);
    ck_assert(span[0].lr == 2);
    snprintf(longest, sizeof longest, "%*s=2", 256, "*");
    ck_assert_int_eq(ss_optim_groups(&optim, plan, span), SS_ERR_INVALID);
    unsigned words;
    ck_assert_int_eq(ss_optim_words("--no-decay", "bn,weight", &words), SS_ERR_INVALID);
    ck_assert_str_eq(ss_log_last_error(), "--no-decay: \"weight\" is not bn or bias");
    ck_assert_int_eq(ss_optim_words("--no-decay", "", &words), SS_ERR_INVALID);
    ss_plan_destroy(plan);
    ss_graph_destroy(g);
}
END_TEST

/* The default rule, hyperparameters and checkpoint states of each optimizer. */
START_TEST(optimizers)
{
    static const char *const expected[] = {
        "sgd 1: --momentum 0.9 --weight-decay 0.0005 --dampening 0 --nesterov 0: momentum_buffer "
        "(momentum) ema",
        "adam 5: --beta1 0.9 --beta2 0.999 --eps 1e-08 --weight-decay 0: exp_avg exp_avg_sq ema",
        "adamw 6: --beta1 0.9 --beta2 0.999 --eps 1e-08 --weight-decay 0.01: exp_avg exp_avg_sq "
        "ema",
        "lamb 7: --beta1 0.9 --beta2 0.999 --eps 1e-06 --weight-decay 0.01: exp_avg exp_avg_sq "
        "ema",
        "lars 4: --momentum 0.9 --weight-decay 0.0001 --trust 0.001: momentum_buffer ema"};
    size_t n = 0;
    for (; ss_optim_classes[n]; n++) {
        const struct ss_optim_class *c = ss_optim_classes[n];
        struct ss_optim optim;
        struct ss_update update = {0};
        char text[512];
        int used;
        ck_assert_uint_lt(n, sizeof expected / sizeof *expected);
        ck_assert_int_eq(ss_optim_find(c->name, &optim), SS_OK);
        ck_assert_int_eq(ss_optim_check(&optim), SS_OK);
        ck_assert_int_eq(ss_optim_has_norms(&optim), c->excludes != 0);
        const int states = ss_optim_rule_states(&optim);
        ck_assert_int_eq(ss_optim_states(&optim), states);
        optim.ema_decay = 0.5;
        optim.clip = 3;
        ck_assert_int_eq(ss_optim_states(&optim), states + 1);
        ss_optim_describe(&optim, &update);
        ck_assert(update.clip == 3 && update.ema_decay == 0.5);
        used = snprintf(text, sizeof text, "%s %d:", c->name, update.rule);
        for (int i = 0; c->hyper[i].option; i++) {
            used += snprintf(text + used, sizeof text - (size_t)used, " %s %g", c->hyper[i].option,
                             update.hyper[i]);
            ck_assert_int_eq(ss_optim_set(&optim, c->hyper[i].option, 0.25 + i), 1);
            ck_assert(optim.hyper[i] == 0.25 + i);
        }
        ck_assert_int_eq(ss_optim_set(&optim, "--lr", 1), 0);
        ck_assert_int_eq(ss_optim_find(c->name, &optim), SS_OK);
        used += snprintf(text + used, sizeof text - (size_t)used, ":");
        for (int k = 0; k <= states; k++) {
            const char *former = ss_optim_former_name(&optim, k);
            used += snprintf(text + used, sizeof text - (size_t)used, " %s%s%s%s",
                             ss_optim_state_name(&optim, k), former ? " (" : "",
                             former ? former : "", former ? ")" : "");
        }
        ck_assert_str_eq(text, expected[n]);
    }
    ck_assert_uint_eq(n, sizeof expected / sizeof *expected);
    struct ss_optim none;
    ck_assert_int_eq(ss_optim_find("sgdm", &none), SS_ERR_INVALID);
    ck_assert_str_eq(ss_log_last_error(),
                     "--optimizer: \"sgdm\" is not sgd, adam, adamw, lamb or lars");
}
END_TEST

/* SGD has several update rules: with momentum, dampening, or Nesterov momentum. */
static const struct {
    double momentum, dampening, nesterov;
    int rule;
    const char *refused;
} kinds_of_sgd[] = {
    {0, 0, 0, SS_RULE_SGD, NULL},
    {0.9, 0, 0, SS_RULE_SGD_MOMENTUM, NULL},
    {0.9, 0.1, 0, SS_RULE_SGD_DAMPENED, NULL},
    {0.9, 0, 1, SS_RULE_SGD_NESTEROV, NULL},
    {0, 0, 1, 0, "--nesterov needs a --momentum above 0"},
    {0.9, 0.5, 1, 0, "--nesterov and --dampening 0.5 do not go together; leave one of them out"},
    {0, 0.5, 0, 0, "--dampening 0.5 needs a --momentum above 0"},
};

START_TEST(rules_of_sgd)
{
    struct ss_optim sgd;
    ck_assert_int_eq(ss_optim_find("sgd", &sgd), SS_OK);
    ss_optim_set(&sgd, "--momentum", kinds_of_sgd[_i].momentum);
    ss_optim_set(&sgd, "--dampening", kinds_of_sgd[_i].dampening);
    ss_optim_set(&sgd, "--nesterov", kinds_of_sgd[_i].nesterov);
    if (kinds_of_sgd[_i].refused) {
        ck_assert_int_eq(ss_optim_check(&sgd), SS_ERR_INVALID);
        ck_assert_str_eq(ss_log_last_error(), kinds_of_sgd[_i].refused);
        return;
    }
    ck_assert_int_eq(ss_optim_check(&sgd), SS_OK);
    ck_assert_int_eq(sgd.cls->rule(sgd.hyper), kinds_of_sgd[_i].rule);
    ck_assert_int_eq(ss_optim_rule_states(&sgd), kinds_of_sgd[_i].rule != SS_RULE_SGD);
}
END_TEST

int main(void)
{
    ss_log_set_quiet(1);
    Suite *suite = suite_create("options");
    TCase *tc = tcase_create("of others");
    tcase_add_test(tc, names);
    tcase_add_test(tc, aliases);
    tcase_add_loop_test(tc, scripts, 0, sizeof of_scripts / sizeof *of_scripts);
    tcase_add_test(tc, help);
    tcase_add_loop_test(tc, said, 0, sizeof of_others / sizeof *of_others);
    tcase_add_loop_test(tc, limits, 0, sizeof golden / sizeof *golden);
    tcase_add_test(tc, groups);
    tcase_add_test(tc, factors);
    tcase_add_test(tc, optimizers);
    tcase_add_loop_test(tc, rules_of_sgd, 0, sizeof kinds_of_sgd / sizeof *kinds_of_sgd);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
