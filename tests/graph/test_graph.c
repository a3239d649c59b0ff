/* test_graph.c: the layer graph: shapes, parameters, initial values, errors. */
#include "core/log.h"
#include "graph/graph.h"
#include "tests/graph/test_graphs.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ss_graph *g;

static void open_graph(void)
{
    ss_log_set_quiet(1);
    g = ss_graph_create("test");
    ck_assert_ptr_nonnull(g);
}

static void close_graph(void)
{
    ss_graph_destroy(g);
}

static void expect_shape(ss_value v, int c, int h, int w)
{
    ck_assert_int_ge(v, 0);
    const struct ss_value_info *i = ss_graph_value(g, v);
    ck_assert_msg(i->c == c && i->h == h && i->w == w, "(%d,%d,%d) instead of (%d,%d,%d)", i->c,
                  i->h, i->w, c, h, w);
}

START_TEST(shapes)
{
    ss_value x = ss_input(g, 3, 9, 7);
    expect_shape(x, 3, 9, 7);
    expect_shape(ss_conv2d(g, x, "same", 5, 3, 1, 1, 0), 5, 9, 7);
    expect_shape(ss_conv2d(g, x, "valid", 5, 3, 1, 0, 0), 5, 7, 5);
    expect_shape(ss_conv2d(g, x, "strided", 5, 3, 2, 1, 0), 5, 5, 4);
    expect_shape(ss_conv2d(g, x, "one", 5, 1, 2, 0, 1), 5, 5, 4);
    expect_shape(ss_maxpool2d(g, x, 2, 2, 0), 3, 4, 3);
    expect_shape(ss_maxpool2d(g, x, 3, 2, 1), 3, 5, 4);
    expect_shape(ss_avgpool2d(g, x, 7, 7), 3, 1, 1);
    expect_shape(ss_relu(g, x), 3, 9, 7);
    expect_shape(ss_batchnorm2d(g, x, "bn"), 3, 9, 7);
    expect_shape(ss_groupnorm(g, x, "gn", 3), 3, 9, 7);
    expect_shape(ss_dropout(g, x, 0.5f), 3, 9, 7);
    ck_assert_int_eq(ss_dropout(g, x, 0), x);
    expect_shape(ss_add(g, x, ss_relu(g, x)), 3, 9, 7);
    expect_shape(ss_linear(g, x, "fc", 10), 10, 1, 1);
}
END_TEST

/* A 7x7 pool over 8x8 has one window. */
START_TEST(pool_of_the_guides)
{
    expect_shape(ss_avgpool2d(g, ss_input(g, 4, 8, 8), 7, 7), 4, 1, 1);
}
END_TEST

static void expect_param(int i, const char *name, enum ss_param_role role, int64_t elements)
{
    const struct ss_param *p = ss_graph_param(g, i);
    ck_assert_str_eq(p->name, name);
    ck_assert_int_eq(p->role, role);
    ck_assert_int_eq(ss_param_elements(p), elements);
    ck_assert_int_eq(p->trainable, role < SS_PARAM_TRAINED);
}

START_TEST(parameters)
{
    ss_value x = ss_input(g, 4, 6, 6);
    x = ss_conv2d(g, x, "m.conv", 8, 3, 1, 1, 1);
    x = ss_batchnorm2d(g, x, "m.bn");
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", 10));
    ck_assert_int_eq(ss_graph_finish(g), SS_OK);
    ck_assert_int_eq(ss_graph_params(g), 9);
    expect_param(0, "m.conv.weight", SS_PARAM_WEIGHT, 8 * 4 * 9);
    expect_param(1, "m.conv.bias", SS_PARAM_BIAS, 8);
    expect_param(2, "m.bn.weight", SS_PARAM_GAMMA, 8);
    expect_param(3, "m.bn.bias", SS_PARAM_BETA, 8);
    expect_param(4, "m.bn.running_mean", SS_PARAM_RUNNING_MEAN, 8);
    expect_param(5, "m.bn.running_var", SS_PARAM_RUNNING_VAR, 8);
    expect_param(6, "m.bn.num_batches_tracked", SS_PARAM_NUM_BATCHES, 1);
    expect_param(7, "fc.weight", SS_PARAM_WEIGHT, 10 * 8 * 36);
    expect_param(8, "fc.bias", SS_PARAM_BIAS, 10);
    /* PyTorch's defaults: 1/sqrt(fan in), and 1 and 0 for BatchNorm. */
    ck_assert_float_eq_tol(ss_graph_param(g, 0)->init_value, 1.0f / 6, 1e-6f);
    ck_assert_float_eq_tol(ss_graph_param(g, 8)->init_value, 1.0f / 16.9705627f, 1e-6f);
    ck_assert_float_eq(ss_graph_param(g, 2)->init_value, 1);
    ck_assert_float_eq(ss_graph_param(g, 5)->init_value, 1);
    ck_assert_int_eq(ss_graph_value(g, 0)->uses, 1);
    ck_assert_float_eq(ss_graph_layer(g, 2)->eps, 1e-5f);
    ck_assert_float_eq(ss_graph_layer(g, 2)->momentum, 0.1f);
}
END_TEST

/* Initialization settings apply to layers that are added later. */
START_TEST(initial_values)
{
    ss_value x = ss_input(g, 4, 6, 6);
    x = ss_conv2d(g, x, "default", 8, 3, 1, 1, 1);
    ss_conv_init(g, SS_CONV_INIT_FAN_OUT);
    x = ss_conv2d(g, x, "normal", 16, 3, 1, 1, 1);
    x = ss_linear(g, x, "fc1", 10);
    ss_linear_init(g, 0.25f);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc2", 5));
    ck_assert_int_eq(ss_graph_finish(g), SS_OK);
    const struct {
        const char *name;
        enum ss_init init;
        double value;
    } want[] = {
        {"default.weight", SS_INIT_UNIFORM, 1.0 / 6},
        {"default.bias", SS_INIT_UNIFORM, 1.0 / 6},
        {"normal.weight", SS_INIT_NORMAL, sqrt(2.0 / (16 * 9))},
        {"normal.bias", SS_INIT_CONSTANT, 0},
        {"fc1.weight", SS_INIT_UNIFORM, 1.0 / 24},
        {"fc1.bias", SS_INIT_UNIFORM, 1.0 / 24},
        {"fc2.weight", SS_INIT_NORMAL, 0.25},
        {"fc2.bias", SS_INIT_CONSTANT, 0},
    };
    ck_assert_int_eq(ss_graph_params(g), sizeof want / sizeof *want);
    for (int i = 0; i < ss_graph_params(g); i++) {
        const struct ss_param *p = ss_graph_param(g, i);
        ck_assert_str_eq(p->name, want[i].name);
        ck_assert_msg(p->init == want[i].init, "%s", p->name);
        ck_assert_msg(fabs((double)p->init_value - want[i].value) < 1e-6, "%s: %g", p->name,
                      (double)p->init_value);
    }
}
END_TEST

START_TEST(groupnorm)
{
    ss_value x = ss_groupnorm(g, ss_input(g, 6, 4, 4), "gn", 3);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", 10));
    ck_assert_int_eq(ss_graph_finish(g), SS_OK);
    ck_assert_int_eq(ss_graph_params(g), 4);
    expect_param(0, "gn.weight", SS_PARAM_GAMMA, 6);
    expect_param(1, "gn.bias", SS_PARAM_BETA, 6);
    ck_assert_float_eq(ss_graph_param(g, 0)->init_value, 1);
    ck_assert_float_eq(ss_graph_param(g, 1)->init_value, 0);
    ck_assert_int_eq(ss_graph_layer(g, 1)->groups, 3);
    ck_assert_float_eq(ss_graph_layer(g, 1)->eps, 1e-5f);
}
END_TEST

static const struct ss_layer *producer(ss_value v)
{
    return ss_graph_layer(g, ss_graph_value(g, v)->producer);
}

/* Concatenations of more than four values use several layers, and existing concatenations are
 * reused: as in DenseNet, each layer reads the previous one and the new value. */
START_TEST(concatenations)
{
    ss_value x = ss_input(g, 3, 4, 5), v[9], joined[10];
    for (int i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        v[i] = ss_conv2d(g, x, name, i + 1, 1, 1, 0, 0);
    }
    for (int n = 2; n <= 6; n++) {
        const int before = ss_graph_layers(g);
        joined[n] = ss_concat(g, v, n);
        expect_shape(joined[n], n * (n + 1) / 2, 4, 5);
        ck_assert_int_eq(ss_graph_layers(g), before + 1);
        const struct ss_layer *l = producer(joined[n]);
        ck_assert_int_eq(l->ninputs, 2);
        ck_assert_int_eq(l->input[0], n == 2 ? v[0] : joined[n - 1]);
        ck_assert_int_eq(l->input[1], v[n - 1]);
    }
    const int before = ss_graph_layers(g);
    ss_value y = ss_concat(g, v + 1, 8); /* 4, then 1 + 3, then 1 + 1 */
    expect_shape(y, 44, 4, 5);
    ck_assert_int_eq(ss_graph_layers(g), before + 3);
    ck_assert_int_eq(producer(y)->input[1], v[8]);
    const struct ss_layer *l = producer(producer(y)->input[0]);
    ck_assert_int_eq(l->ninputs, 4);
    ck_assert_int_eq(l->input[3], v[7]);
    ck_assert_int_eq(producer(l->input[0])->input[0], v[1]);
}
END_TEST

/* Values with different layouts are repacked for an addition, and no others. */
START_TEST(repacked)
{
    ss_value x = ss_input(g, 3, 4, 4), map = ss_conv2d(g, x, "c", 3, 1, 1, 0, 0);
    const struct ss_layer *l = producer(ss_add(g, map, x));
    ck_assert_int_eq(l->input[0], map);
    ck_assert_str_eq(producer(l->input[1])->cls->name, "repack");
    ck_assert_int_eq(producer(l->input[1])->input[0], x);
    l = producer(ss_add(g, map, ss_relu(g, map)));
    ck_assert_str_eq(producer(l->input[1])->cls->name, "relu");
    l = producer(ss_mul(g, map, ss_global_avgpool2d(g, x))); /* another shape */
    ck_assert_str_eq(producer(l->input[1])->cls->name, "global_avgpool2d");
}
END_TEST

START_TEST(channels)
{
    ss_value x = ss_conv2d(g, ss_input(g, 3, 4, 5), "c", 12, 1, 1, 0, 0);
    expect_shape(ss_slice(g, x, 5, 12), 7, 4, 5);
    expect_shape(ss_shuffle(g, x, 3), 12, 4, 5);
    expect_shape(ss_flatten(g, x), 240, 1, 1);
    expect_shape(ss_mul(g, x, x), 12, 4, 5);
    for (int ndim = 1; ndim <= 3; ndim++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", ndim);
        expect_shape(ss_scale(g, x, name, ndim), 12, 4, 5);
        const struct ss_param *p = ss_graph_param(g, ndim);
        ck_assert_int_eq(p->ndim, ndim);
        ck_assert_int_eq(p->shape[0], 12);
        ck_assert(ndim < 3 || (p->shape[1] == 1 && p->shape[2] == 1));
    }
}
END_TEST

/* Errors. x is a valid input of (4,8,8). */
static void empty_slice(ss_value x)
{
    ss_slice(g, x, 2, 2);
}
static void slice_behind(ss_value x)
{
    ss_slice(g, x, 2, 5);
}
static void unequal_shuffle(ss_value x)
{
    ss_shuffle(g, x, 3);
}
static void unequal_concat(ss_value x)
{
    ss_concat(g, (const ss_value[]){x, ss_avgpool2d(g, x, 2, 2)}, 2);
}
static void concat_of_one(ss_value x)
{
    ss_concat(g, &x, 1);
}
static void unequal_mul(ss_value x)
{
    ss_mul(g, x, ss_avgpool2d(g, x, 2, 2));
}
static void twice(ss_value x)
{
    ss_conv2d(g, ss_conv2d(g, x, "c", 4, 3, 1, 1, 0), "c", 4, 3, 1, 1, 0);
}
static void twice_other_kind(ss_value x)
{
    ss_batchnorm2d(g, ss_conv2d(g, x, "c", 4, 3, 1, 1, 0), "c");
}
static void kernel_too_large(ss_value x)
{
    ss_conv2d(g, x, "c", 4, 9, 1, 0, 0);
}
static void no_name(ss_value x)
{
    ss_conv2d(g, x, NULL, 4, 3, 1, 1, 0);
}
static void foreign_script(ss_value x)
{
    ss_conv2d(g, x, "caf\xe9", 4, 3, 1, 1, 0);
}
static void uneven_window(ss_value x)
{
    struct ss_layer l = ss_layer_of(&ss_conv2d_class);
    l.outputs = 4;
    l.kernel[0] = 3;
    l.kernel[1] = 9;
    l.stride[0] = 1;
    l.stride[1] = 2;
    l.padding[0] = 1;
    l.padding[1] = 0;
    ss_graph_add(g, &l, "c", 1, &x);
}
static void pool_too_large(ss_value x)
{
    ss_avgpool2d(g, x, 9, 1);
}
static void stride_zero(ss_value x)
{
    ss_maxpool2d(g, x, 2, 0, 0);
}
static void padding_negative(ss_value x)
{
    ss_conv2d(g, x, "c", 4, 3, 1, -1, 0);
}
static void no_channels(ss_value x)
{
    ss_conv2d(g, x, "c", 0, 3, 1, 1, 1);
}
static void no_outputs(ss_value x)
{
    ss_linear(g, x, "fc", 0);
}
static void unequal_add(ss_value x)
{
    ss_add(g, x, ss_conv2d(g, x, "c", 5, 3, 1, 1, 0));
}
static void dropout_of_all(ss_value x)
{
    ss_dropout(g, x, 1);
}
static void dropout_nan(ss_value x)
{
    ss_dropout(g, x, (float)atof("nan"));
}
static void foreign_value(ss_value x)
{
    ss_relu(g, x + 100);
}
static void negative_value(ss_value x)
{
    (void)x;
    ss_add(g, 0, -3);
}
static void unequal_groups(ss_value x)
{
    ss_groupnorm(g, x, "gn", 3);
}
static void no_groups(ss_value x)
{
    ss_groupnorm(g, x, "gn", 0);
}
static void loss_of_no_linear(ss_value x)
{
    ss_softmax_cross_entropy(g, ss_relu(g, x));
}
static void long_name(ss_value x)
{
    char name[2 * SS_NAME_BYTES];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    ss_conv2d(g, x, name, 4, 3, 1, 1, 0);
}

static void empty_input(ss_value x)
{
    (void)x;
    ss_input(g, 4, 0, 8);
}
static void conv_groups(ss_value x)
{
    ss_grouped_conv2d(g, x, "c", 6, 3, 1, 1, 4, 0);
}
static void conv_no_groups(ss_value x)
{
    ss_grouped_conv2d(g, x, "c", 4, 3, 1, 1, 0, 0);
}
static void pool_padding(ss_value x)
{
    ss_maxpool2d(g, x, 3, 2, 2);
}
static void nameless(ss_value x)
{
    ss_conv2d(g, x, "", 4, 3, 1, 1, 0);
}
static void control_character(ss_value x)
{
    ss_conv2d(g, x, "c\n", 4, 3, 1, 1, 0);
}
static void too_large_output(ss_value x)
{
    ss_conv2d(g, x, "c", 1 << 26, 1, 1, 0, 0);
}
static void too_many_values(ss_value x)
{
    ss_linear(g, x, "fc", 1 << 24);
}
static void too_many_layers(ss_value x)
{
    for (int i = 0; i < 4096; i++)
        x = ss_relu(g, x);
}
static void too_many_params(ss_value x)
{
    for (int i = 0; i < 4000; i++) {
        char name[32];
        snprintf(name, sizeof name, "bn%d", i);
        x = ss_batchnorm2d(g, x, name);
    }
}

static const struct {
    void (*make)(ss_value x);
    enum ss_status status;
    const char *message;
} mistakes[] = {
    {empty_slice, SS_ERR_SHAPE, "takes channels 2 to 2 of (4,8,8); there are 0 to 4"},
    {slice_behind, SS_ERR_SHAPE, "takes channels 2 to 5 of (4,8,8)"},
    {unequal_shuffle, SS_ERR_SHAPE, "4 channels are not 3 equal groups"},
    {unequal_concat, SS_ERR_SHAPE, "concatenates channels of (4,8,8) and (4,4,4)"},
    {concat_of_one, SS_ERR_INVALID, "reads 1 values; a concat reads 2 to 4"},
    {unequal_mul, SS_ERR_SHAPE, "multiplies (4,8,8) by (4,4,4)"},
    {twice, SS_ERR_INVALID, "model test: two layers are named c"},
    {twice_other_kind, SS_ERR_INVALID, "two layers are named c"},
    {kernel_too_large, SS_ERR_SHAPE,
     "kernel 9x9, stride 1x1, padding 0x0, 4 channels do not fit input (4,8,8)"},
    {uneven_window, SS_ERR_SHAPE,
     "kernel 3x9, stride 1x2, padding 1x0, 4 channels do not fit input (4,8,8)"},
    {pool_too_large, SS_ERR_SHAPE, "kernel 9"},
    {stride_zero, SS_ERR_SHAPE, "stride 0"},
    {padding_negative, SS_ERR_SHAPE, "padding -1"},
    {no_channels, SS_ERR_SHAPE, "0 channels"},
    {no_outputs, SS_ERR_SHAPE, "layer fc has 0 outputs"},
    {unequal_groups, SS_ERR_SHAPE, "layer gn: 4 channels are not 3 equal groups"},
    {no_groups, SS_ERR_SHAPE, "not 0 equal groups"},
    {unequal_add, SS_ERR_SHAPE, "adds (4,8,8) and (5,8,8)"},
    {dropout_of_all, SS_ERR_INVALID, "dropout 1 is not in [0, 1)"},
    {dropout_nan, SS_ERR_INVALID, "dropout nan"},
    {foreign_value, SS_ERR_INVALID, "reads a value that does not belong to this graph"},
    {negative_value, SS_ERR_INVALID, "reads a value that does not belong to this graph"},
    {loss_of_no_linear, SS_ERR_UNSUPPORTED, "the loss must read a linear layer"},
    {long_name, SS_ERR_INVALID, "is too long"},
    {no_name, SS_ERR_INVALID, "has parameters and therefore needs a name"},
    {foreign_script, SS_ERR_INVALID, "layer 1 (conv2d) has a name that is not UTF-8"},
    {empty_input, SS_ERR_SHAPE, "an input of (4,0,8) is empty"},
    {conv_groups, SS_ERR_SHAPE, "layer c: 4 groups; they must divide its 4 inputs and 6 outputs"},
    {conv_no_groups, SS_ERR_SHAPE, "layer c: 0 groups"},
    {pool_padding, SS_ERR_SHAPE, "layer 1 (maxpool2d): padding 2 is more than half the kernel, 3"},
    {nameless, SS_ERR_INVALID, "has parameters and therefore needs a name"},
    {control_character, SS_ERR_INVALID, "a parameter's name has a control character"},
    {too_large_output, SS_ERR_SHAPE, "an output of (67108864,8,8) is too large"},
    {too_many_values, SS_ERR_SHAPE, "parameter fc.weight has more than 2147483647 values"},
    {too_many_layers, SS_ERR_INVALID, "more than 4096 layers"},
    {too_many_params, SS_ERR_INVALID, "more than 8192 parameters"},
};

/* The first error is retained; later calls have no effect and report nothing. */
START_TEST(mistake)
{
    mistakes[_i].make(ss_input(g, 4, 8, 8));
    ck_assert_msg(strstr(ss_log_last_error(), mistakes[_i].message) != NULL,
                  "\"%s\" does not contain \"%s\"", ss_log_last_error(), mistakes[_i].message);
    char first[2048];
    snprintf(first, sizeof first, "%s", ss_log_last_error());
    ck_assert_ptr_null(strchr(first, '\n'));
    int layers = ss_graph_layers(g), params = ss_graph_params(g);
    ck_assert_int_lt(ss_input(g, 3, 8, 8), 0);
    ck_assert_int_lt(ss_conv2d(g, -1, "later", 4, 3, 1, 1, 1), 0);
    ck_assert_int_lt(ss_batchnorm2d(g, 0, "later"), 0);
    ck_assert_int_lt(ss_relu(g, 12345), 0);
    ck_assert_int_lt(ss_dropout(g, -1, 0), 0);
    ck_assert_int_lt(ss_dropout(g, -1, 3), 0);
    ck_assert_int_lt(ss_add(g, -1, -1), 0);
    ck_assert_int_lt(ss_maxpool2d(g, 0, 0, 0, 0), 0);
    ck_assert_int_lt(ss_avgpool2d(g, -1, 2, 2), 0);
    ck_assert_int_lt(ss_linear(g, -1, "fc", -1), 0);
    ss_softmax_cross_entropy(g, -1);
    ck_assert_int_eq(ss_graph_layers(g), layers);
    ck_assert_int_eq(ss_graph_params(g), params);
    ck_assert_int_eq(ss_graph_finish(g), mistakes[_i].status);
    ck_assert_int_eq(ss_graph_finish(g), mistakes[_i].status);
    ck_assert_str_eq(ss_log_last_error(), first);
}
END_TEST

START_TEST(incomplete)
{
    ck_assert_int_eq(ss_graph_finish(g), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "one input and end with one loss"));
    ss_graph_destroy(g);

    g = ss_graph_create("test");
    ss_linear(g, ss_input(g, 3, 8, 8), "fc", 5);
    ck_assert_int_eq(ss_graph_finish(g), SS_ERR_INVALID); /* no loss */
    ss_graph_destroy(g);

    g = ss_graph_create("test");
    ss_value x = ss_input(g, 3, 8, 8);
    ss_input(g, 3, 8, 8);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", 5));
    ck_assert_int_eq(ss_graph_finish(g), SS_ERR_INVALID); /* two inputs */
    ss_graph_destroy(g);

    g = ss_graph_create("test");
    x = ss_input(g, 3, 8, 8);
    ss_relu(g, x);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", 5));
    ck_assert_int_eq(ss_graph_finish(g), SS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ss_log_last_error(), "output of layer 1 is never used"));
}
END_TEST

START_TEST(hand_made)
{
    struct ss_graph *made = make_test_graph(_i);
    ck_assert_msg(made != NULL, "%s: %s", test_graphs[_i].name, ss_log_last_error());
    ss_graph_destroy(made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph");
    TCase *t = tcase_create("graph");
    tcase_add_checked_fixture(t, open_graph, close_graph);
    tcase_add_test(t, shapes);
    tcase_add_test(t, pool_of_the_guides);
    tcase_add_test(t, parameters);
    tcase_add_test(t, groupnorm);
    tcase_add_test(t, initial_values);
    tcase_add_test(t, concatenations);
    tcase_add_test(t, repacked);
    tcase_add_test(t, channels);
    tcase_add_loop_test(t, mistake, 0, sizeof mistakes / sizeof *mistakes);
    tcase_add_test(t, incomplete);
    tcase_add_loop_test(t, hand_made, 0, TEST_GRAPHS);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
