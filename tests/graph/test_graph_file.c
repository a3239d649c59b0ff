/* test_graph_file.c: model files: round trips, one-line errors, damaged files. */
#include "core/log.h"
#include "core/rng.h"
#include "graph/graph_file.h"
#include "graph/plan.h"
#include "graphs/models.h"
#include "tests/graph/test_graphs.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void open_path(void)
{
    ss_log_set_quiet(1);
    snprintf(path, sizeof path, "test_graph_file-%d.json", (int)getpid());
}

static void close_path(void)
{
    unlink(path);
}

static void put(const char *text, size_t bytes)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, bytes, f), bytes);
    ck_assert_int_eq(fclose(f), 0);
}

static char *written(const struct ss_graph *g)
{
    char *text;
    ck_assert_msg(ss_graph_text(g, &text) == SS_OK, "%s", ss_log_last_error());
    return text;
}

static const char *const models[] = {"wideresnet", "resnet50", "vgg11_bn"};

/* Compares the settings of two layers, including defaults, which the text omits. */
static void same_settings(const struct ss_layer *a, const struct ss_layer *b)
{
    ck_assert_str_eq(a->cls->name, b->cls->name);
    for (const struct ss_layer_field *f = a->cls->fields; f && f->name; f++) {
        const size_t bytes = f->type == SS_FIELD_PAIR ? 2 * sizeof(int) : sizeof(int);
        ck_assert_msg(!memcmp((const char *)a + f->at, (const char *)b + f->at, bytes),
                      "%s %s: %s differs", a->cls->name, a->name, f->name);
    }
}

/* Writes a model, reads it and compares text, settings and parameters. Destroys g. */
static void there_and_back(struct ss_graph *g)
{
    struct ss_graph *again;
    char *text = written(g);
    put(text, strlen(text));
    ck_assert_msg(ss_graph_read(path, 0, &again) == SS_OK, "%s", ss_log_last_error());
    char *second = written(again);
    ck_assert_str_eq(text, second);
    ck_assert_int_eq(ss_graph_layers(g), ss_graph_layers(again));
    for (int i = 0; i < ss_graph_layers(g); i++)
        same_settings(ss_graph_layer(g, i), ss_graph_layer(again, i));
    ck_assert_int_eq(ss_graph_params(g), ss_graph_params(again));
    for (int i = 0; i < ss_graph_params(g); i++) {
        const struct ss_param *p = ss_graph_param(g, i), *q = ss_graph_param(again, i);
        ck_assert_str_eq(p->name, q->name);
        ck_assert_int_eq(p->init, q->init);
        ck_assert_int_eq(p->frozen, q->frozen);
        ck_assert(p->init_value == q->init_value);
        ck_assert_mem_eq(p->shape, q->shape, sizeof p->shape);
    }
    free(text);
    free(second);
    ss_graph_destroy(g);
    ss_graph_destroy(again);
}

START_TEST(round_trip)
{
    const struct ss_model_options options = {NULL, -1, 100, 3, 64, 64};
    struct ss_graph *g;
    ck_assert_int_eq(ss_model_build(models[_i], &options, &g), SS_OK);
    there_and_back(g);
}
END_TEST

/* More layer kinds, and values with several readers. */
START_TEST(round_trip_of_test_graphs)
{
    there_and_back(make_test_graph(_i));
}
END_TEST

#define HEAD "{\"format\": \"starstep-model\", \"version\": 1, "
#define IMAGES "\"input\": {\"channels\": 3, \"height\": 8, \"width\": 8}, "
#define FILE_OF(layers, output) HEAD IMAGES "\"layers\": [" layers "], \"output\": " output "}"
#define CONV                                                                                       \
    "{\"id\": \"c\", \"kind\": \"conv2d\", \"name\": \"c\", \"inputs\": [\"input\"], \"kernel\": " \
    "3, "
#define FC                                                                                         \
    "{\"id\": \"fc\", \"kind\": \"linear\", \"name\": \"fc\", \"inputs\": [\"c\"], "               \
    "\"out_features\": 10}"
#define GOOD FILE_OF(CONV "\"out_channels\": 4}, " FC, "\"fc\"")

/* Names and ids that other exporters may choose: custom parameter names, names that equal our
 * ids, quotes, and non-ASCII characters. */
static const char strange[] = FILE_OF(
    "{\"id\": \"1\", \"kind\": \"conv2d\", \"name\": \"relu:3\", \"inputs\": [\"input\"], "
    "\"kernel\": 3, \"out_channels\": 6, \"params\": {\"weight\": \"in_proj_weight\", \"bias\": "
    "\"b\\u00e9\\ud83d\\ude80\\\"'%s\"}}, "
    "{\"id\": \"\\\\\", \"kind\": \"batchnorm2d\", \"name\": \"relu:3_\", \"inputs\": [\"1\"], "
    "\"eps\": 1e-06, \"momentum\": 1, \"frozen\": [\"bias\", \"weight\"]}, "
    "{\"id\": \"'\", \"kind\": \"relu\", \"inputs\": [\"\\\\\"]}, "
    "{\"id\": \"fc\", \"kind\": \"linear\", \"name\": \"input\", \"inputs\": [\"'\"], "
    "\"out_features\": 10, \"bias\": false, \"params\": {\"weight\": \"\\u540d\"}}",
    "\"fc\"");

static const struct {
    const char *text, *message;
} mistakes[] = {
    {"", "not JSON"},
    {"[]", "a model is an object"},
    {"{\"format\": \"onnx\"}", "field format: \"onnx\" is not \"starstep-model\""},
    {"{\"format\": \"starstep-model\", \"version\": 2}",
     "field version: 2 is not a whole number from 1 to 1"},
    {HEAD "\"layers\": [], \"output\": \"x\"}", "field input is missing"},
    {HEAD "\"input\": {\"channels\": 3, \"height\": 8}}", "field width is missing"},
    {HEAD "\"input\": {\"channels\": 0, \"height\": 8, \"width\": 8}}", "field channels: 0 is not"},
    {HEAD "\"input\": {\"channels\": 1000000, \"height\": 60000, \"width\": 60000}}", "too large"},
    {HEAD IMAGES "\"output\": \"fc\"}", "field layers is missing"},
    {HEAD IMAGES "\"layer\": [], \"output\": \"fc\"}", "unknown field layer"},
    {FILE_OF("3", "\"c\""), "field layers: 3 is not a layer"},
    {FILE_OF("{\"kind\": \"relu\"}", "\"c\""), "field id is missing"},
    {FILE_OF("{\"id\": \"c\", \"kind\": \"magic\"}", "\"c\""),
     "no kind of layer is called \"magic\""},
    {FILE_OF(CONV "\"out_channels\": 4, \"colour\": 1}", "\"c\""), "layer c: unknown field colour"},
    {FILE_OF(CONV "\"bias\": true}", "\"c\""),
     "layer c: field out_channels is missing; it must be a whole number from 1"},
    {FILE_OF(CONV "\"out_channels\": -4}", "\"c\""),
     "field out_channels: -4 is not a whole number from 1"},
    {FILE_OF(CONV "\"out_channels\": 1e3}", "\"c\""),
     "field out_channels: 1000.0 is not a whole number"},
    {FILE_OF(CONV "\"out_channels\": 4, \"stride\": [1, 2, 3]}", "\"c\""),
     "field stride: [1,2,3] is not"},
    {FILE_OF(CONV "\"out_channels\": 4, \"bias\": 1}", "\"c\""),
     "field bias: 1 is not true or false"},
    {FILE_OF(CONV "\"out_channels\": 4, \"init\": \"ones\"}", "\"c\""),
     "is not \"uniform\" or \"fan_out\""},
    {FILE_OF(CONV "\"out_channels\": 4, \"padding\": 4097}", "\"c\""),
     "field padding: 4097 is not"},
    {FILE_OF(CONV "\"out_channels\": 9, \"padding\": 4096}", "\"c\""), "too large"},
    {FILE_OF(CONV "\"out_channels\": 4, \"params\": {\"scale\": \"x\"}}", "\"c\""),
     "has no parameter \"scale\""},
    {FILE_OF(CONV "\"out_channels\": 4, \"frozen\": [\"scale\"]}", "\"c\""),
     "has no parameter \"scale\" to freeze"},
    {FILE_OF(CONV "\"out_channels\": 4, \"frozen\": \"weight\"}", "\"c\""),
     "layer c: field frozen: \"weight\" is not a list of parameters, such as [\"weight\", "
     "\"bias\"]"},
    {FILE_OF(CONV "\"out_channels\": 4, \"frozen\": [1]}", "\"c\""), "field frozen: [1] is not"},
    {FILE_OF(CONV "\"out_channels\": 4, \"frozen\": [\"a\",\"b\",\"c\",\"d\",\"e\",\"f\","
                  "\"g\",\"h\",\"i\"]}",
             "\"c\""),
     "field frozen: "},
    {FILE_OF(CONV "\"out_channels\": 4}, {\"id\": \"n\", \"kind\": \"batchnorm2d\", \"name\": "
                  "\"n\", \"inputs\": [\"c\"], \"frozen\": [\"running_mean\"]}",
             "\"n\""),
     "has no parameter \"running_mean\" to freeze"},
    {FILE_OF(CONV "\"out_channels\": 4, \"params\": {\"weight\": \"__metadata__\"}}", "\"c\""),
     "parameter name __metadata__ is reserved"},
    {FILE_OF(CONV "\"out_channels\": 4, \"params\": {\"weight\": \"a\", \"bias\": \"a\"}}",
             "\"c\""),
     "two parameters are named a"},
    {FILE_OF(CONV "\"out_channels\": 4}, " CONV "\"out_channels\": 4}", "\"c\""),
     "two layers are named c"},
    {FILE_OF("{\"id\": \"c\", \"kind\": \"relu\", \"inputs\": [\"fc\"]}, " FC, "\"fc\""),
     "reads \"fc\", which is neither the input nor a preceding layer"},
    {FILE_OF("{\"id\": \"c\", \"kind\": \"relu\", \"inputs\": [\"c\"]}", "\"c\""),
     "reads \"c\", which is neither the input"},
    {FILE_OF("{\"id\": \"c\", \"kind\": \"add\", \"inputs\": [\"input\"]}", "\"c\""),
     "reads 1 values; a add reads 2 to 2"},
    {FILE_OF("{\"id\": \"c\", \"kind\": \"relu\", \"inputs\": []}", "\"c\""),
     "field inputs: [] is not"},
    {FILE_OF("{\"id\": \"c\", \"kind\": \"batchnorm2d\", \"inputs\": [\"input\"]}", "\"c\""),
     "needs a name"},
    {FILE_OF("{\"id\": \"c\", \"kind\": \"dropout\", \"p\": 1, \"inputs\": [\"input\"]}", "\"c\""),
     "field p: 1 is not a number from 0 to 0.999"},
    {FILE_OF("{\"id\": \"c\", \"kind\": \"relu\", \"id\": \"c\"}", "\"c\""),
     "duplicate object key"},
    {FILE_OF(CONV "\"out_channels\": 4}, " FC, "\"d\""), "reads \"d\", which is neither the input"},
    {FILE_OF(CONV
             "\"out_channels\": 4}, {\"id\": \"r\", \"kind\": \"relu\", \"inputs\": [\"c\"]}, " FC,
             "\"fc\""),
     "never used"},
    {FILE_OF(CONV "\"out_channels\": 4}", "\"c\""), "the loss must read a linear layer"},
    {FILE_OF(CONV "\"out_channels\": 4}, " FC, "7"), "field output: 7 is not"},
    {FILE_OF(CONV "\"out_channels\": 4}, {\"id\": \"n\", \"kind\": \"groupnorm\", \"name\": "
                  "\"n\", \"inputs\": [\"c\"], \"groups\": 3}",
             "\"n\""),
     "4 channels are not 3 equal groups"},
    {FILE_OF(CONV "\"out_channels\": 12}, {\"id\": \"a\", \"kind\": \"attention\", \"inputs\": "
                  "[\"c\"], \"heads\": 3}",
             "\"a\""),
     "(12,6,6) is not q, k and v of 3 equal heads"},
    {FILE_OF(CONV "\"out_channels\": 4}, {\"id\": \"t\", \"kind\": \"token\", \"inputs\": [\"c\"], "
                  "\"index\": 36}",
             "\"t\""),
     "index 36 is out of range; (4,6,6) has 36 positions"},
};

START_TEST(mistake)
{
    struct ss_graph *g = NULL;
    put(mistakes[_i].text, strlen(mistakes[_i].text));
    ck_assert_int_ne(ss_graph_read(path, 0, &g), SS_OK);
    ck_assert_msg(strstr(ss_log_last_error(), mistakes[_i].message) != NULL,
                  "\"%s\" does not contain \"%s\"", ss_log_last_error(), mistakes[_i].message);
    ck_assert_msg(strstr(ss_log_last_error(), path) != NULL, "\"%s\" does not name the file",
                  ss_log_last_error());
    ck_assert_ptr_null(strchr(ss_log_last_error(), '\n'));
    ck_assert_ptr_null(g);
}
END_TEST

#define LAYER(id, kind, input, more)                                                               \
    "{\"id\": \"" id "\", \"kind\": \"" kind "\", \"inputs\": [" input "]" more "}"
#define NAMED(id, kind, input, more) LAYER(id, kind, input, ", \"name\": \"" id "\"" more)
#define CONV_OF(id, input, more)                                                                   \
    NAMED(id, "conv2d", input, ", \"out_channels\": 3, \"kernel\": 1" more)

/* Values and parameters that have a gradient, as with PyTorch's autograd; derived by hand. */
/* clang-format off */
static const char autograd[] = FILE_OF(
    CONV_OF("front", "\"input\"", ", \"frozen\": [\"weight\", \"bias\"]") ", "
    CONV_OF("a", "\"front\"", "") ", "
    CONV_OF("middle", "\"a\"", ", \"frozen\": [\"bias\", \"weight\"]") ", "
    CONV_OF("half", "\"front\"", ", \"frozen\": [\"weight\"]") ", "
    CONV_OF("b", "\"front\"", "") ", "
    LAYER("cut", "detach", "\"b\"", "") ", "
    LAYER("relu", "relu", "\"cut\"", "") ", "
    CONV_OF("c", "\"relu\"", "") ", "
    LAYER("cut2", "detach", "\"a\"", "") ", "
    LAYER("s1", "add", "\"middle\", \"half\"", "") ", "
    LAYER("s2", "add", "\"cut2\", \"relu\"", "") ", "
    LAYER("s3", "add", "\"s1\", \"c\"", "") ", "
    LAYER("s4", "add", "\"s2\", \"s3\"", "") ", "
    NAMED("fc", "linear", "\"s4\"", ", \"out_features\": 10, \"frozen\": [\"bias\"]"), "\"fc\"");
/* clang-format on */

START_TEST(gradients)
{
    /* In the order of the layers; the input is first. */
    static const char graded[] = "00111000101011"
                                 "1";
    static const char *const trained[] = {"a.weight", "a.bias", "half.bias",
                                          "c.weight", "c.bias", "fc.weight"};
    struct ss_graph *g;
    put(autograd, strlen(autograd));
    ck_assert_msg(ss_graph_read(path, 0, &g) == SS_OK, "%s", ss_log_last_error());
    for (int i = 0; i < ss_graph_layers(g) - 1; i++)
        ck_assert_msg(ss_graph_value(g, ss_graph_layer(g, i)->output)->graded == graded[i] - '0',
                      "layer %d", i);
    for (int i = 0; i < ss_graph_params(g); i++) {
        const struct ss_param *p = ss_graph_param(g, i);
        int want = 0;
        for (size_t k = 0; k < sizeof trained / sizeof *trained; k++)
            want |= !strcmp(p->name, trained[k]);
        ck_assert_msg(p->frozen == !want, "%s", p->name);
    }
    there_and_back(g);
}
END_TEST

START_TEST(no_file)
{
    struct ss_graph *g = NULL;
    ck_assert_int_eq(ss_graph_read("no/such.json", 0, &g), SS_ERR_IO);
    ck_assert_int_eq(ss_graph_read(".", 0, &g), SS_ERR_IO);
}
END_TEST

START_TEST(strange_names)
{
    struct ss_graph *g;
    put(strange, strlen(strange));
    ck_assert_msg(ss_graph_read(path, 0, &g) == SS_OK, "%s", ss_log_last_error());
    char *text = written(g);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(root != NULL, "not JSON: %s", text);
    const json_t *layers = json_object_get(root, "layers");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(layers, 2), "id")),
                     "relu:3__");
    ck_assert_str_eq(json_string_value(json_object_get(root, "output")), "linear:4");
    json_decref(root);
    free(text);
    there_and_back(g);
}
END_TEST

/* A path may contain any bytes, and may be truncated anywhere. */
START_TEST(strange_model_name)
{
    for (size_t n = SS_NAME_BYTES - 4; n < SS_NAME_BYTES; n++) {
        char name[SS_NAME_BYTES + 8];
        memset(name, 'a', sizeof name);
        strcpy(name + n, "\xe9/\xc3\xa9");
        struct ss_graph *g = ss_graph_create(name);
        ck_assert_ptr_nonnull(g);
        ck_assert_int_eq(ss_graph_name(g)[n < SS_NAME_BYTES - 1 ? n : 0],
                         n < SS_NAME_BYTES - 1 ? '?' : 'a');
        ss_softmax_cross_entropy(g, ss_linear(g, ss_input(g, 3, 4, 4), "fc", 5));
        ck_assert_int_eq(ss_graph_finish(g), SS_OK);
        there_and_back(g);
    }
}
END_TEST

/* Reads the file and, if that succeeds, lowers the model. Returns 1 if it was read. */
static int survives(void)
{
    const struct ss_plan_options options = {
        .batch = 4, .channel_block = 8, .slices = 1, .states = 1};
    struct ss_graph *g;
    struct ss_plan *plan;
    if (ss_graph_read(path, 0, &g) != SS_OK)
        return 0;
    if (ss_plan_lower(g, &options, &plan) == SS_OK)
        ss_plan_destroy(plan);
    ss_graph_destroy(g);
    return 1;
}

/* Removes, replaces or truncates bytes, often with significant characters. Returns the length. */
static size_t damage(struct ss_rng *rng, char *text, size_t n)
{
    static const char likely[] = "0123456789-.[]{},:\"eE truefalsnc";
    for (uint32_t k = 1 + ss_rng_below(rng, 3); k > 0; k--) {
        const size_t at = ss_rng_below(rng, (uint32_t)n);
        switch (ss_rng_below(rng, 4)) {
        case 0:
            memmove(text + at, text + at + 1, n - at - 1);
            n--;
            break;
        case 1:
            n = ss_rng_below(rng, 8) ? n : at + 1;
            break;
        case 2:
            text[at] = (char)ss_rng_below(rng, 256);
            break;
        default:
            text[at] = likely[ss_rng_below(rng, sizeof likely - 1)];
            break;
        }
    }
    return n;
}

START_TEST(damaged)
{
    const struct ss_model_options options = {"8,8,8,8", -1, 10, 3, 32, 32};
    struct ss_graph *g;
    struct ss_rng rng;
    int read = 0, refused = 0;
    if (_i) {
        put(strange, strlen(strange));
        ck_assert_int_eq(ss_graph_read(path, 0, &g), SS_OK);
    } else {
        ck_assert_int_eq(ss_model_build("wideresnet", &options, &g), SS_OK);
    }
    char *text = written(g), *bad = malloc(strlen(text));
    const size_t bytes = strlen(text);
    ss_graph_destroy(g);
    ss_rng_open(&rng, 17, SS_RNG_INIT, 0, 0);
    for (int i = 0; i < 1500; i++) {
        memcpy(bad, text, bytes);
        put(bad, damage(&rng, bad, bytes));
        if (survives())
            read++;
        else
            refused++;
    }
    ck_assert_int_gt(read, 20);
    ck_assert_int_gt(refused, 400);
    free(text);
    free(bad);
}
END_TEST

START_TEST(good)
{
    struct ss_graph *g;
    put(GOOD, strlen(GOOD));
    ck_assert_msg(ss_graph_read(path, 0, &g) == SS_OK, "%s", ss_log_last_error());
    ck_assert_int_eq(ss_graph_layers(g), 4);
    ck_assert_str_eq(ss_graph_name(g), path);
    ss_graph_destroy(g);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("graph_file");
    TCase *t = tcase_create("graph_file");
    tcase_add_checked_fixture(t, open_path, close_path);
    tcase_add_loop_test(t, round_trip, 0, sizeof models / sizeof *models);
    tcase_add_loop_test(t, round_trip_of_test_graphs, 0, TEST_GRAPHS);
    tcase_add_loop_test(t, mistake, 0, sizeof mistakes / sizeof *mistakes);
    tcase_add_test(t, gradients);
    tcase_add_test(t, no_file);
    tcase_add_test(t, good);
    tcase_add_test(t, strange_names);
    tcase_add_test(t, strange_model_name);
    tcase_add_loop_test(t, damaged, 0, 2);
    tcase_set_timeout(t, 240);
    suite_add_tcase(s, t);
    return run_suite(s);
}
